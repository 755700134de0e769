//! Statements that write down what was seen of calls.

use engine::sql::{Sql, Type};

/// Ages instead of instants: the clock is the database's.
pub const REFUSAL_STORE: Sql = Sql::new(
    "refusal_store",
    &[
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::FLOAT8_ARRAY,
        Type::FLOAT8_ARRAY,
    ],
    "
    INSERT INTO refusal (tenant_id, refusal_id, actor, method, route, code, count, first_at, last_at)
    SELECT $1, k.refusal_id, k.actor, k.method, k.route, k.code, k.count,
        statement_timestamp() - make_interval(secs => k.first_s), statement_timestamp() - make_interval(secs => k.last_s)
    FROM (
        SELECT unnest($2::uuid[]) AS refusal_id, unnest($3::text[]) AS actor, unnest($4::text[]) AS method,
            unnest($5::text[]) AS route, unnest($6::text[]) AS code, unnest($7::int8[]) AS count,
            unnest($8::float8[]) AS first_s, unnest($9::float8[]) AS last_s) AS k",
);

/// At most once a minute for each key, over all replicas. A key that is just being changed is left
/// for the next time.
pub const API_KEY_USED: Sql = Sql::new(
    "api_key_used",
    &[Type::UUID_ARRAY],
    "
    UPDATE api_key AS t
    SET last_used_at = statement_timestamp()
    FROM (SELECT unnest($2::uuid[]) AS api_key_id) AS k
    CROSS JOIN LATERAL (
        SELECT r.ctid
        FROM api_key AS r
        WHERE r.tenant_id = $1
            AND r.api_key_id = k.api_key_id
            AND (r.last_used_at IS NULL OR r.last_used_at <= statement_timestamp() - interval '1 minute')
        OFFSET 0
        FOR NO KEY UPDATE SKIP LOCKED) AS found
    WHERE t.tenant_id = $1
        AND t.ctid = found.ctid",
);

/// What was refused, the latest last.
pub const REFUSAL_LIST: Sql = Sql::new(
    "refusal_list",
    &[Type::UUID, Type::INT8],
    "
    SELECT t.refusal_id, t.actor, t.method, t.route, t.code, t.count, t.first_at, t.last_at
    FROM refusal AS t
    WHERE t.tenant_id = $1
        AND t.refusal_id > $2
    ORDER BY t.refusal_id
    LIMIT $3",
);

/// The statements above, for the test that prepares every statement.
pub const QUERIES: &[Sql] = &[REFUSAL_STORE, API_KEY_USED, REFUSAL_LIST];
