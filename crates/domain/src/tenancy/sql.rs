//! Every statement of the tenancy slice: here tenants and API keys, beside it who uses them.

pub mod note;
pub mod people;
pub mod session;

pub use people::{Headcounts, RoleNames, Roles, UserEmails, Users};
pub use session::Sessions;

use super::model::{ApiKey, Slug, Tenant};
use engine::{
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Table},
};
use kernel::id::{ApiKeyId, TenantId};
use uuid::Uuid;

pub struct TenantSlugs;

const TENANT_SLUG_LOAD: Sql = Sql::new(
    "tenant_slug_load",
    &[Type::TEXT_ARRAY],
    "
    SELECT t.slug, t.tenant_id
    FROM tenant_slug AS t
    WHERE $1::uuid IS NOT NULL
        AND t.slug = ANY($2)
    ORDER BY t.slug",
);

const TENANT_SLUG_STORE: Sql = Sql::new(
    "tenant_slug_store",
    &[Type::TEXT_ARRAY],
    "
    INSERT INTO tenant_slug (slug, tenant_id)
    SELECT unnest($2::text[]), $1",
);

impl Table for TenantSlugs {
    type Key = Slug;
    type Row = TenantId;
    const NAME: &'static str = "tenant_slug";
    const LOCKED: bool = false;
    const LOAD: Sql = TENANT_SLUG_LOAD;

    fn keys(keys: &[Slug]) -> Vec<Param> {
        vec![param(keys.iter().map(Slug::to_string).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (Slug, TenantId) {
        let slug: String = row.get("slug");
        (slug.parse().expect("tenant_slug_form"), row.get::<_, Uuid>("tenant_id").into())
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let slugs: Vec<_> = changes.iter().map(|change| change.key.to_string()).collect();
        vec![Write { sql: TENANT_SLUG_STORE, params: vec![param(slugs)] }]
    }
    fn statements() -> Vec<Sql> {
        vec![TENANT_SLUG_STORE]
    }
}

pub struct Tenants;

const TENANT_LOAD: Sql = Sql::new(
    "tenant_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.tenant_id, t.name, t.created_at
    FROM tenant AS t
    WHERE t.tenant_id = $1
        AND t.tenant_id = ANY($2)
    ORDER BY t.tenant_id",
);

const TENANT_STORE: Sql = Sql::new(
    "tenant_store",
    &[Type::TEXT, Type::TIMESTAMPTZ],
    "
    INSERT INTO tenant (tenant_id, name, created_at)
    VALUES ($1, $2, $3)",
);

impl Table for Tenants {
    type Key = TenantId;
    type Row = Tenant;
    const NAME: &'static str = "tenant";
    const LOCKED: bool = false;
    const LOAD: Sql = TENANT_LOAD;

    fn keys(keys: &[TenantId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (TenantId, Tenant) {
        let name: String = row.get("name");
        let name = name.parse().expect("a stored name was checked");
        (row.get::<_, Uuid>("tenant_id").into(), Tenant { name, created_at: row.get("created_at") })
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        // The wall allows one tenant a transaction: its own.
        let store = |change: &Change<'_, Self>| Write {
            sql: TENANT_STORE,
            params: vec![param(change.after.name.to_string()), param(change.after.created_at)],
        };
        changes.iter().map(store).collect()
    }
    fn statements() -> Vec<Sql> {
        vec![TENANT_STORE]
    }
}

pub struct ApiKeys;

const API_KEY_LOAD: Sql = Sql::new(
    "api_key_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.api_key_id, t.name, t.secret_hash, t.permissions, t.created_at, t.expires_at, t.last_used_at,
        t.revoked_at
    FROM api_key AS t
    WHERE t.tenant_id = $1
        AND t.api_key_id = ANY($2)
    ORDER BY t.api_key_id",
);

const API_KEY_INSERT: Sql = Sql::new(
    "api_key_insert",
    &[Type::UUID, Type::TEXT, Type::BYTEA, Type::TEXT_ARRAY, Type::TIMESTAMPTZ, Type::TIMESTAMPTZ],
    "
    INSERT INTO api_key (tenant_id, api_key_id, name, secret_hash, permissions, created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)",
);

const API_KEY_REVOKE: Sql = Sql::new(
    "api_key_revoke",
    &[Type::UUID_ARRAY, Type::TIMESTAMPTZ_ARRAY],
    "
    WITH stored AS (
        UPDATE api_key AS t
        SET revoked_at = k.revoked_at
        FROM (SELECT unnest($2::uuid[]) AS api_key_id, unnest($3::timestamptz[]) AS revoked_at) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM api_key AS r
            WHERE r.tenant_id = $1
                AND r.api_key_id = k.api_key_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

impl Table for ApiKeys {
    type Key = ApiKeyId;
    type Row = ApiKey;
    const NAME: &'static str = "api_key";
    const LOAD: Sql = API_KEY_LOAD;

    fn keys(keys: &[ApiKeyId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (ApiKeyId, ApiKey) {
        (row.get::<_, Uuid>("api_key_id").into(), read_api_key(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let (new, revoked): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        // Keys are made one at a time, by hand: an array of arrays would not pay.
        let mut writes: Vec<_> = new
            .into_iter()
            .map(|change| Write {
                sql: API_KEY_INSERT,
                params: vec![
                    param(change.key.uuid()),
                    param(change.after.name.clone()),
                    param(change.after.secret_hash.to_vec()),
                    param(change.after.permissions.clone()),
                    param(change.after.created_at),
                    param(change.after.expires_at),
                ],
            })
            .collect();
        if !revoked.is_empty() {
            writes.push(Write {
                sql: API_KEY_REVOKE,
                params: vec![
                    param(revoked.iter().map(|change| change.key.uuid()).collect::<Vec<_>>()),
                    param(revoked.iter().map(|change| change.after.revoked_at).collect::<Vec<_>>()),
                ],
            });
        }
        writes
    }
    fn statements() -> Vec<Sql> {
        vec![API_KEY_INSERT, API_KEY_REVOKE]
    }
}

pub(super) fn read_api_key(row: &Row) -> ApiKey {
    let hash: Vec<u8> = row.get("secret_hash");
    ApiKey {
        name: row.get("name"),
        secret_hash: hash.try_into().expect("api_key_secret_hash_sha256"),
        permissions: row.get("permissions"),
        created_at: row.get("created_at"),
        expires_at: row.get("expires_at"),
        last_used_at: row.get("last_used_at"),
        revoked_at: row.get("revoked_at"),
    }
}

/// Keys of a tenant, by id.
pub const API_KEY_LIST: Sql = Sql::new(
    "api_key_list",
    &[Type::UUID, Type::INT8],
    "
    SELECT t.api_key_id, t.name, t.secret_hash, t.permissions, t.created_at, t.expires_at, t.last_used_at,
        t.revoked_at
    FROM api_key AS t
    WHERE t.tenant_id = $1
        AND t.api_key_id > $2
    ORDER BY t.api_key_id
    LIMIT $3",
);

/// What a credential opens, and the tenant it opens it in.
pub const API_KEY_FIND: Sql = Sql::new(
    "api_key_find",
    &[Type::UUID],
    "
    SELECT t.api_key_id, t.name, t.secret_hash, t.permissions, t.created_at, t.expires_at, t.last_used_at,
        t.revoked_at
    FROM api_key AS t
    WHERE t.tenant_id = $1
        AND t.api_key_id = $2",
);

pub const TENANT_FIND: Sql = Sql::new(
    "tenant_find",
    &[],
    "
    SELECT t.tenant_id, s.slug, t.name, t.created_at
    FROM tenant AS t
    JOIN tenant_slug AS s ON s.tenant_id = t.tenant_id
    WHERE t.tenant_id = $1",
);

/// All tenants; the tenant parameter is not asked, for nobody's wall is involved.
pub const TENANT_SLUG_LIST: Sql = Sql::new(
    "tenant_slug_list",
    &[],
    "
    SELECT t.slug, t.tenant_id
    FROM tenant_slug AS t
    WHERE $1::uuid IS NOT NULL
    ORDER BY t.slug",
);

pub const TENANT_SLUG_FIND: Sql = Sql::new(
    "tenant_slug_find",
    &[Type::TEXT],
    "
    SELECT t.tenant_id
    FROM tenant_slug AS t
    WHERE $1::uuid IS NOT NULL
        AND t.slug = $2",
);

/// Who did what, the latest last.
pub const AUDIT_LIST: Sql = Sql::new(
    "audit_list",
    &[Type::UUID, Type::INT8],
    "
    SELECT t.call_id, t.actor, t.command, t.outcome, t.key, t.correlation_id, t.remote, t.at
    FROM audit AS t
    WHERE t.tenant_id = $1
        AND t.call_id > $2
    ORDER BY t.call_id
    LIMIT $3",
);

pub const DEADLOCK_LIST: Sql = Sql::new(
    "deadlock_list",
    &[Type::UUID, Type::INT8],
    "
    SELECT t.deadlock_id, t.statement, t.other_statement, t.detail, t.at
    FROM deadlock AS t
    WHERE t.tenant_id = $1
        AND t.deadlock_id > $2
    ORDER BY t.deadlock_id
    LIMIT $3",
);

/// The queries above, for the test that prepares every statement.
pub const QUERIES: &[Sql] =
    &[API_KEY_LIST, API_KEY_FIND, TENANT_FIND, TENANT_SLUG_LIST, TENANT_SLUG_FIND, AUDIT_LIST, DEADLOCK_LIST];
