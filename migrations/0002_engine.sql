-- What the engine keeps of every command: its answer, its events, its audit line.

-- One row per idempotency key, written complete in the commit of its effect. The second writer of
-- a key fails and finds the first one's answer.
CREATE TABLE answer (
    tenant_id uuid NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    command text NOT NULL,
    status smallint NOT NULL,
    content_type text NOT NULL,
    etag text,
    location text,
    -- Encrypted with the server's secret, because it carries one.
    sealed boolean NOT NULL,
    body bytea NOT NULL,
    at timestamptz NOT NULL,
    -- GUARD(answer_arbiter): without it two replicas run one request twice.
    PRIMARY KEY (tenant_id, key),
    CONSTRAINT answer_key_length CHECK (length(key) BETWEEN 1 AND 255),
    CONSTRAINT answer_fingerprint_sha256 CHECK (length(fingerprint) = 32),
    -- What may change by itself is never stored: see kernel::problem::Class.
    CONSTRAINT answer_status_final CHECK (status BETWEEN 200 AND 299 OR status = 422)
);
SELECT tenant_wall('answer');
GRANT SELECT, INSERT ON answer TO tallyhold_server;

-- Append-only by privilege. The key holds `at` because the table is partitioned by it; that
-- (aggregate, sequence) is unique over months is held by the aggregate's own counter and verified.
CREATE TABLE event (
    tenant_id uuid NOT NULL,
    event_id uuid NOT NULL,
    kind text NOT NULL,
    aggregate text NOT NULL,
    aggregate_id uuid NOT NULL,
    sequence bigint NOT NULL,
    schema_version smallint NOT NULL,
    data json NOT NULL,
    correlation_id text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, aggregate_id, sequence, at),
    CONSTRAINT event_sequence_from_1 CHECK (sequence >= 1)
) PARTITION BY RANGE (at);
SELECT tenant_wall('event');
GRANT SELECT, INSERT ON event TO tallyhold_server;

CREATE TABLE audit (
    tenant_id uuid NOT NULL,
    call_id uuid NOT NULL,
    actor text NOT NULL,
    command text NOT NULL,
    -- `done`, or the code of the refusal.
    outcome text NOT NULL,
    key text NOT NULL,
    correlation_id text NOT NULL,
    remote text,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, call_id, at)
) PARTITION BY RANGE (at);
SELECT tenant_wall('audit');
GRANT SELECT, INSERT ON audit TO tallyhold_server;

-- What a document that people edit held after each change, and who made it. Append-only by privilege.
CREATE TABLE document_version (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    version bigint NOT NULL,
    -- The kind of document: its aggregate's name.
    document text NOT NULL,
    data json NOT NULL,
    actor text NOT NULL,
    actor_name text NOT NULL,
    remote text,
    correlation_id text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, document_id, version),
    CONSTRAINT document_version_from_1 CHECK (version >= 1)
);
SELECT tenant_wall('document_version');
GRANT SELECT, INSERT ON document_version TO tallyhold_server;

-- Who is editing what: for each document the locks on its parts, as `engine::edit_lock` writes them.
CREATE TABLE edit_lock (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    locks json NOT NULL,
    PRIMARY KEY (tenant_id, document_id),
    CONSTRAINT edit_lock_is_list CHECK (json_typeof(locks) = 'array')
);
SELECT tenant_wall('edit_lock');
GRANT SELECT, INSERT, UPDATE (locks) ON edit_lock TO tallyhold_server;

-- Locks that an administrator took away, and why. Append-only by privilege.
CREATE TABLE edit_lock_broken (
    tenant_id uuid NOT NULL,
    token uuid NOT NULL,
    document_id uuid NOT NULL,
    part text NOT NULL,
    owner text NOT NULL,
    owner_name text NOT NULL,
    since timestamptz NOT NULL,
    broken_by text NOT NULL,
    broken_by_name text NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, token)
);
SELECT tenant_wall('edit_lock_broken');
GRANT SELECT, INSERT ON edit_lock_broken TO tallyhold_server;

-- Gapless document numbers. `last` is the number given last.
CREATE TABLE number_range (
    tenant_id uuid NOT NULL,
    object text NOT NULL,
    fiscal_year integer NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (tenant_id, object, fiscal_year),
    CONSTRAINT number_range_from_1 CHECK (last >= 1)
);
SELECT tenant_wall('number_range');
GRANT SELECT, INSERT, UPDATE (last) ON number_range TO tallyhold_server;

-- Which two statements met. A deadlock is expected now and then; a pattern of them is a flaw.
CREATE TABLE deadlock (
    tenant_id uuid NOT NULL,
    deadlock_id uuid NOT NULL,
    statement text NOT NULL,
    other_statement text NOT NULL,
    detail text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, deadlock_id)
);
SELECT tenant_wall('deadlock');
GRANT SELECT, INSERT ON deadlock TO tallyhold_server;

-- Creates the partitions of this month and the next ones, for every partitioned table. SECURITY
-- DEFINER: the server owns nothing and must not; it may only ask for the months ahead.
CREATE FUNCTION partition_ensure() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
    parent record;
    month timestamp;
    name text;
    made integer := 0;
BEGIN
    FOR parent IN
        SELECT c.oid, c.relname
        FROM pg_class AS c
        WHERE c.relkind = 'p' AND c.relnamespace = 'public'::regnamespace
        ORDER BY c.relname
    LOOP
        FOR ahead IN 0..2 LOOP
            month := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(months => ahead);
            name := parent.relname || to_char(month, '_YYYY_MM');
            -- Looked up first: creating a partition locks its parent against every insert.
            CONTINUE WHEN to_regclass(format('public.%I', name)) IS NOT NULL;
            -- GUARD(partition_lock): two servers start at once; the second waits and finds it done.
            PERFORM pg_advisory_xact_lock(7234625);
            -- Asked of the table: to_regclass would answer from what this connection looked up before.
            CONTINUE WHEN EXISTS (
                SELECT FROM pg_class AS c
                WHERE c.relname = name AND c.relnamespace = 'public'::regnamespace);
            EXECUTE format(
                'CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (%L) TO (%L)',
                name, parent.relname, month::text || '+00', (month + interval '1 month')::text || '+00');
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
REVOKE EXECUTE ON FUNCTION partition_ensure FROM PUBLIC;
GRANT EXECUTE ON FUNCTION partition_ensure TO tallyhold_server;
