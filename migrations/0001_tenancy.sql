-- Tenants and the wall between them.
--
-- Every table with a tenant_id is put behind tenant_wall(): row-level security, forced, from a
-- setting with transaction scope. A query that forgets its tenant filter then finds only its own
-- tenant's rows, and without a tenant it finds none.

CREATE FUNCTION tenant_wall(wall regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', wall);
    -- GUARD(forced_wall): without FORCE the owner of the table walks through.
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', wall);
    -- GUARD(tenant_wall): a query that forgets its tenant finds nothing of others.
    -- The setting stands in a sub-select so that it is read once a statement, not once a row.
    EXECUTE format(
        'CREATE POLICY tenant ON %s TO tallyhold_server
             USING (tenant_id = (SELECT nullif(current_setting(''tallyhold.tenant_id'', true), '''')::uuid))',
        wall);
    -- To the planner a tenant may own all rows of a table. Its guess from a table of one row, that each
    -- row has its own tenant, made an index by tenant alone look as good as one by the whole key.
    EXECUTE format('ALTER TABLE %s ALTER COLUMN tenant_id SET (n_distinct = 1)', wall);
END
$$;
REVOKE EXECUTE ON FUNCTION tenant_wall FROM PUBLIC;

-- GUARD(rows_expected): a set-based UPDATE whose rows are not all there must fail inside its transaction: COMMIT travels
-- in the same round trip, and a short count read afterwards would be read too late.
CREATE FUNCTION rows_expected(stored bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF stored <> expected THEN
        RAISE EXCEPTION 'stored % rows of %', stored, expected USING ERRCODE = 'data_exception';
    END IF;
END
$$;

-- The only table outside the wall: a login knows a slug before it knows a tenant.
CREATE TABLE tenant_slug (
    slug text PRIMARY KEY,
    tenant_id uuid NOT NULL UNIQUE,
    CONSTRAINT tenant_slug_form CHECK (slug ~ '^[a-z0-9](-?[a-z0-9])*$' AND length(slug) <= 40)
);
GRANT SELECT, INSERT ON tenant_slug TO tallyhold_server;

CREATE TABLE tenant (
    tenant_id uuid PRIMARY KEY REFERENCES tenant_slug (tenant_id),
    name text NOT NULL,
    created_at timestamptz NOT NULL
);
SELECT tenant_wall('tenant');
GRANT SELECT, INSERT ON tenant TO tallyhold_server;

-- How many people a tenant has, so that its last manager can be told without looking at everybody:
-- whoever would lose one locks this row first. Enabled are the invited and the active.
CREATE TABLE headcount (
    tenant_id uuid PRIMARY KEY REFERENCES tenant (tenant_id),
    users_enabled integer NOT NULL,
    managers_enabled integer NOT NULL,
    managers_active integer NOT NULL,
    CONSTRAINT headcount_in_order CHECK (0 <= managers_active AND managers_active <= managers_enabled
        AND managers_enabled <= users_enabled),
    -- The last guard: a tenant with people has somebody who can let others in.
    CONSTRAINT headcount_manager_kept CHECK (managers_enabled >= 1 OR users_enabled = 0)
);
SELECT tenant_wall('headcount');
GRANT SELECT, INSERT, UPDATE (users_enabled, managers_enabled, managers_active) ON headcount TO tallyhold_server;

-- What people may do. The two counts are of the users who have it.
CREATE TABLE role (
    tenant_id uuid NOT NULL REFERENCES tenant (tenant_id),
    role_id uuid NOT NULL,
    name text NOT NULL,
    name_folded text NOT NULL,
    permissions text[] NOT NULL,
    users_enabled integer NOT NULL,
    users_active integer NOT NULL,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, role_id),
    CONSTRAINT role_name_unique UNIQUE (tenant_id, name_folded),
    CONSTRAINT role_users_in_order CHECK (0 <= users_active AND users_active <= users_enabled),
    CONSTRAINT role_version_from_1 CHECK (version >= 1)
);
SELECT tenant_wall('role');
GRANT SELECT, INSERT, UPDATE (name, name_folded, permissions, users_enabled, users_active, version)
    ON role TO tallyhold_server;

CREATE TABLE tenant_user (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    email text NOT NULL,
    email_folded text NOT NULL,
    name text NOT NULL,
    role_id uuid NOT NULL,
    state text NOT NULL,
    -- Argon2, in the PHC string form.
    password_hash text,
    -- What was handed out to set a password with: one at a time, by its hash.
    token_hash bytea,
    token_expires_at timestamptz,
    -- Counts up when everything handed out before must end: a session of an older epoch opens nothing.
    epoch bigint NOT NULL,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id),
    -- GUARD(email_arbiter): without it two invitations at once make two users of one address.
    CONSTRAINT tenant_user_email_unique UNIQUE (tenant_id, email_folded),
    CONSTRAINT tenant_user_role_fkey FOREIGN KEY (tenant_id, role_id) REFERENCES role (tenant_id, role_id),
    CONSTRAINT tenant_user_state_true CHECK (
        CASE state
            WHEN 'invited' THEN password_hash IS NULL
            WHEN 'active' THEN password_hash IS NOT NULL
            ELSE state = 'disabled'
        END),
    CONSTRAINT tenant_user_token_whole CHECK ((token_hash IS NULL) = (token_expires_at IS NULL)),
    CONSTRAINT tenant_user_token_hash_sha256 CHECK (length(token_hash) = 32),
    CONSTRAINT tenant_user_token_enabled CHECK (token_hash IS NULL OR state <> 'disabled'),
    CONSTRAINT tenant_user_version_from_1 CHECK (version >= 1)
);
SELECT tenant_wall('tenant_user');
GRANT SELECT, INSERT,
    UPDATE (name, role_id, state, password_hash, token_hash, token_expires_at, epoch, version)
    ON tenant_user TO tallyhold_server;

-- One login. It opens something while it lasts, is not ended, and has its user's epoch.
CREATE TABLE session (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    user_id uuid NOT NULL,
    epoch bigint NOT NULL,
    -- A refresh token has two halves: the first stays for the life of the session, the second is good
    -- once. So an old one that comes again is told from one that was made up.
    family_hash bytea NOT NULL,
    refresh_hash bytea NOT NULL,
    cookie_hash bytea,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT session_user_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES tenant_user (tenant_id, user_id),
    CONSTRAINT session_hashes_sha256 CHECK (
        length(family_hash) = 32 AND length(refresh_hash) = 32 AND length(cookie_hash) = 32)
);
SELECT tenant_wall('session');
GRANT SELECT, INSERT, UPDATE (refresh_hash, ended_at) ON session TO tallyhold_server;

-- Only the hash of a key's secret is kept.
CREATE TABLE api_key (
    tenant_id uuid NOT NULL REFERENCES tenant (tenant_id),
    api_key_id uuid NOT NULL,
    name text NOT NULL,
    secret_hash bytea NOT NULL,
    permissions text[] NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    -- To within two minutes: noted beside the requests, and not by each of them.
    last_used_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, api_key_id),
    CONSTRAINT api_key_secret_hash_sha256 CHECK (length(secret_hash) = 32)
);
SELECT tenant_wall('api_key');
GRANT SELECT, INSERT, UPDATE (last_used_at, revoked_at) ON api_key TO tallyhold_server;

-- What those who are known were refused, summed up by the minute. Append-only by privilege.
CREATE TABLE refusal (
    tenant_id uuid NOT NULL,
    refusal_id uuid NOT NULL,
    actor text NOT NULL,
    method text NOT NULL,
    -- As the description of the API spells it: /v1/skus/{sku_id}.
    route text NOT NULL,
    code text NOT NULL,
    count bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, refusal_id, last_at),
    CONSTRAINT refusal_count_from_1 CHECK (count >= 1),
    CONSTRAINT refusal_in_order CHECK (first_at <= last_at)
) PARTITION BY RANGE (last_at);
SELECT tenant_wall('refusal');
GRANT SELECT, INSERT ON refusal TO tallyhold_server;
