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

-- Only the hash of a key's secret is kept.
CREATE TABLE api_key (
    tenant_id uuid NOT NULL REFERENCES tenant (tenant_id),
    api_key_id uuid NOT NULL,
    name text NOT NULL,
    secret_hash bytea NOT NULL,
    permissions text[] NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, api_key_id),
    CONSTRAINT api_key_secret_hash_sha256 CHECK (length(secret_hash) = 32)
);
SELECT tenant_wall('api_key');
GRANT SELECT, INSERT, UPDATE (revoked_at) ON api_key TO tallyhold_server;
