//! Statements about roles, users and how many there are.

use crate::tenancy::model::{Handed, Headcount, Role, User};
use engine::{
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Table},
};
use jiff::Timestamp;
use kernel::id::{RoleId, UserId};
use uuid::Uuid;

fn column<T: Table, V>(changes: &[&Change<'_, T>], f: impl Fn(&T::Row) -> V) -> Vec<V> {
    changes.iter().map(|change| f(change.after)).collect()
}

pub struct Users;

const TENANT_USER_LOAD: Sql = Sql::new(
    "tenant_user_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.user_id, t.email, t.email_folded, t.name, t.role_id, t.state, t.password_hash, t.token_hash,
        t.token_expires_at, t.epoch, t.version, t.created_at
    FROM (SELECT unnest($2::uuid[]) AS user_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM tenant_user AS r
        WHERE r.tenant_id = $1
            AND r.user_id = k.user_id
        OFFSET 0) AS t",
);

const TENANT_USER_INSERT: Sql = Sql::new(
    "tenant_user_insert",
    &[
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
    ],
    "
    INSERT INTO tenant_user (tenant_id, user_id, email, email_folded, name, role_id, state, password_hash, token_hash,
        token_expires_at, epoch, version, created_at)
    SELECT $1, k.*
    FROM (
        SELECT unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[]) AS email_folded, unnest($5::text[]),
            unnest($6::uuid[]), unnest($7::text[]), unnest($8::text[]), unnest($9::bytea[]),
            unnest($10::timestamptz[]), unnest($11::int8[]), unnest($12::int8[]), unnest($13::timestamptz[])) AS k
    ORDER BY k.email_folded",
);

const TENANT_USER_UPDATE: Sql = Sql::new(
    "tenant_user_update",
    &[
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
    "
    WITH stored AS (
        UPDATE tenant_user AS t
        SET name = k.name,
            role_id = k.role_id,
            state = k.state,
            password_hash = k.password_hash,
            token_hash = k.token_hash,
            token_expires_at = k.token_expires_at,
            epoch = k.epoch,
            version = k.version
        FROM (
            SELECT unnest($2::uuid[]) AS user_id, unnest($3::text[]) AS name, unnest($4::uuid[]) AS role_id,
                unnest($5::text[]) AS state, unnest($6::text[]) AS password_hash, unnest($7::bytea[]) AS token_hash,
                unnest($8::timestamptz[]) AS token_expires_at, unnest($9::int8[]) AS epoch,
                unnest($10::int8[]) AS version) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM tenant_user AS r
            WHERE r.tenant_id = $1
                AND r.user_id = k.user_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

impl Table for Users {
    type Key = UserId;
    type Row = User;
    const NAME: &'static str = "tenant_user";
    const LOAD: Sql = TENANT_USER_LOAD;

    fn keys(keys: &[UserId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (UserId, User) {
        (row.get::<_, Uuid>("user_id").into(), read_user(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        let token_hash = |user: &User| user.token.as_ref().map(|token| token.hash.to_vec());
        let token_expires_at = |user: &User| user.token.as_ref().map(|token| token.expires_at);
        let mut writes = Vec::new();
        if !new.is_empty() {
            writes.push(Write {
                sql: TENANT_USER_INSERT,
                params: vec![
                    param(new.iter().map(|change| change.key.uuid()).collect::<Vec<_>>()),
                    param(column(&new, |user| user.email.clone())),
                    param(column(&new, |user| user.email_folded.clone())),
                    param(column(&new, |user| user.name.clone())),
                    param(column(&new, |user| user.role.uuid())),
                    param(column(&new, |user| user.state().as_str())),
                    param(column(&new, |user| user.password_hash.clone())),
                    param(column(&new, token_hash)),
                    param(column(&new, token_expires_at)),
                    param(column(&new, |user| user.epoch)),
                    param(column(&new, |user| user.version)),
                    param(column(&new, |user| user.created_at)),
                ],
            });
        }
        if !changed.is_empty() {
            writes.push(Write {
                sql: TENANT_USER_UPDATE,
                params: vec![
                    param(changed.iter().map(|change| change.key.uuid()).collect::<Vec<_>>()),
                    param(column(&changed, |user| user.name.clone())),
                    param(column(&changed, |user| user.role.uuid())),
                    param(column(&changed, |user| user.state().as_str())),
                    param(column(&changed, |user| user.password_hash.clone())),
                    param(column(&changed, token_hash)),
                    param(column(&changed, token_expires_at)),
                    param(column(&changed, |user| user.epoch)),
                    param(column(&changed, |user| user.version)),
                ],
            });
        }
        writes
    }
    fn statements() -> Vec<Sql> {
        vec![TENANT_USER_INSERT, TENANT_USER_UPDATE]
    }
}

pub(in crate::tenancy) fn read_user(row: &Row) -> User {
    let hash: Option<Vec<u8>> = row.get("token_hash");
    let expires_at: Option<Timestamp> = row.get("token_expires_at");
    let handed = |(hash, expires_at): (Vec<u8>, Timestamp)| Handed {
        hash: hash.try_into().expect("tenant_user_token_hash_sha256"),
        expires_at,
    };
    User {
        email: row.get("email"),
        email_folded: row.get("email_folded"),
        name: row.get("name"),
        role: row.get::<_, Uuid>("role_id").into(),
        disabled: row.get::<_, &str>("state") == "disabled",
        password_hash: row.get("password_hash"),
        token: hash.zip(expires_at).map(handed),
        epoch: row.get("epoch"),
        version: row.get("version"),
        created_at: row.get("created_at"),
    }
}

/// Addresses in use: read to tell a taken one from a free one, never stored.
pub struct UserEmails;

const USER_EMAIL_LOAD: Sql = Sql::new(
    "user_email_load",
    &[Type::TEXT_ARRAY],
    "
    SELECT t.email_folded, t.user_id
    FROM (SELECT unnest($2::text[]) AS email_folded) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM tenant_user AS r
        WHERE r.tenant_id = $1
            AND r.email_folded = k.email_folded
        OFFSET 0) AS t",
);

impl Table for UserEmails {
    type Key = String;
    type Row = UserId;
    const NAME: &'static str = "user_email";
    const LOCKED: bool = false;
    const LOAD: Sql = USER_EMAIL_LOAD;

    fn keys(keys: &[String]) -> Vec<Param> {
        vec![param(keys.to_vec())]
    }
    fn read(row: &Row) -> (String, UserId) {
        (row.get("email_folded"), row.get::<_, Uuid>("user_id").into())
    }
    /// The user's own row carries the address; the slot only lets later commands of the batch see it.
    fn store(_: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        Vec::new()
    }
    fn statements() -> Vec<Sql> {
        Vec::new()
    }
}

pub struct Roles;

const ROLE_LOAD: Sql = Sql::new(
    "role_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.role_id, t.name, t.name_folded, t.permissions, t.users_enabled, t.users_active, t.version, t.created_at
    FROM (SELECT unnest($2::uuid[]) AS role_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM role AS r
        WHERE r.tenant_id = $1
            AND r.role_id = k.role_id
        OFFSET 0) AS t",
);

const ROLE_INSERT: Sql = Sql::new(
    "role_insert",
    &[Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT_ARRAY, Type::INT4, Type::INT4, Type::INT8, Type::TIMESTAMPTZ],
    "
    INSERT INTO role (tenant_id, role_id, name, name_folded, permissions, users_enabled, users_active, version,
        created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
);

const ROLE_UPDATE: Sql = Sql::new(
    "role_update",
    &[Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT_ARRAY, Type::INT4, Type::INT4, Type::INT8],
    "
    WITH stored AS (
        UPDATE role AS t
        SET name = $3,
            name_folded = $4,
            permissions = $5,
            users_enabled = $6,
            users_active = $7,
            version = $8
        WHERE t.tenant_id = $1
            AND t.role_id = $2
        RETURNING 1)
    SELECT rows_expected(count(*), 1)
    FROM stored",
);

impl Table for Roles {
    type Key = RoleId;
    type Row = Role;
    const NAME: &'static str = "role";
    const LOAD: Sql = ROLE_LOAD;

    fn keys(keys: &[RoleId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (RoleId, Role) {
        (row.get::<_, Uuid>("role_id").into(), read_role(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        // Roles are few and changed by hand, one or two at a time: an array of arrays would not pay.
        let store = |change: &Change<'_, Self>| {
            let role = change.after;
            let mut params = vec![
                param(change.key.uuid()),
                param(role.name.clone()),
                param(role.name_folded.clone()),
                param(role.permissions.clone()),
                param(role.users_enabled),
                param(role.users_active),
                param(role.version),
            ];
            match change.before {
                Some(_) => Write { sql: ROLE_UPDATE, params },
                None => {
                    params.push(param(role.created_at));
                    Write { sql: ROLE_INSERT, params }
                }
            }
        };
        // By name, so that two batches that bring the same names wait for each other in one order.
        let mut changes: Vec<_> = changes.iter().collect();
        changes.sort_by(|a, b| a.after.name_folded.cmp(&b.after.name_folded));
        changes.into_iter().map(store).collect()
    }
    fn statements() -> Vec<Sql> {
        vec![ROLE_INSERT, ROLE_UPDATE]
    }
}

pub(in crate::tenancy) fn read_role(row: &Row) -> Role {
    Role {
        name: row.get("name"),
        name_folded: row.get("name_folded"),
        permissions: row.get("permissions"),
        users_enabled: row.get("users_enabled"),
        users_active: row.get("users_active"),
        version: row.get("version"),
        created_at: row.get("created_at"),
    }
}

/// Names of roles in use: read to tell a taken one from a free one, never stored.
pub struct RoleNames;

const ROLE_NAME_LOAD: Sql = Sql::new(
    "role_name_load",
    &[Type::TEXT_ARRAY],
    "
    SELECT t.name_folded, t.role_id
    FROM (SELECT unnest($2::text[]) AS name_folded) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM role AS r
        WHERE r.tenant_id = $1
            AND r.name_folded = k.name_folded
        OFFSET 0) AS t",
);

impl Table for RoleNames {
    type Key = String;
    type Row = RoleId;
    const NAME: &'static str = "role_name";
    const LOCKED: bool = false;
    const LOAD: Sql = ROLE_NAME_LOAD;

    fn keys(keys: &[String]) -> Vec<Param> {
        vec![param(keys.to_vec())]
    }
    fn read(row: &Row) -> (String, RoleId) {
        (row.get("name_folded"), row.get::<_, Uuid>("role_id").into())
    }
    /// See [`UserEmails`].
    fn store(_: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        Vec::new()
    }
    fn statements() -> Vec<Sql> {
        Vec::new()
    }
}

/// One row a tenant.
pub struct Headcounts;

const HEADCOUNT_LOAD: Sql = Sql::new(
    "headcount_load",
    &[],
    "
    SELECT t.users_enabled, t.managers_enabled, t.managers_active
    FROM headcount AS t
    WHERE t.tenant_id = $1",
);

const HEADCOUNT_INSERT: Sql = Sql::new(
    "headcount_insert",
    &[Type::INT4, Type::INT4, Type::INT4],
    "
    INSERT INTO headcount (tenant_id, users_enabled, managers_enabled, managers_active)
    VALUES ($1, $2, $3, $4)",
);

const HEADCOUNT_UPDATE: Sql = Sql::new(
    "headcount_update",
    &[Type::INT4, Type::INT4, Type::INT4],
    "
    WITH stored AS (
        UPDATE headcount AS t
        SET users_enabled = $2,
            managers_enabled = $3,
            managers_active = $4
        WHERE t.tenant_id = $1
        RETURNING 1)
    SELECT rows_expected(count(*), 1)
    FROM stored",
);

impl Table for Headcounts {
    type Key = ();
    type Row = Headcount;
    const NAME: &'static str = "headcount";
    const LOAD: Sql = HEADCOUNT_LOAD;

    fn keys(_: &[()]) -> Vec<Param> {
        Vec::new()
    }
    fn read(row: &Row) -> ((), Headcount) {
        let headcount = Headcount {
            users_enabled: row.get("users_enabled"),
            managers_enabled: row.get("managers_enabled"),
            managers_active: row.get("managers_active"),
        };
        ((), headcount)
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let store = |change: &Change<'_, Self>| Write {
            sql: if change.before.is_some() { HEADCOUNT_UPDATE } else { HEADCOUNT_INSERT },
            params: vec![
                param(change.after.users_enabled),
                param(change.after.managers_enabled),
                param(change.after.managers_active),
            ],
        };
        changes.iter().map(store).collect()
    }
    fn statements() -> Vec<Sql> {
        vec![HEADCOUNT_INSERT, HEADCOUNT_UPDATE]
    }
}

/// Users of a tenant, by id.
pub const TENANT_USER_LIST: Sql = Sql::new(
    "tenant_user_list",
    &[Type::UUID, Type::INT8],
    "
    SELECT t.user_id, t.email, t.name, t.role_id, t.state, t.token_expires_at, t.version, t.created_at
    FROM tenant_user AS t
    WHERE t.tenant_id = $1
        AND t.user_id > $2
    ORDER BY t.user_id
    LIMIT $3",
);

pub const TENANT_USER_FIND: Sql = Sql::new(
    "tenant_user_find",
    &[Type::UUID],
    "
    SELECT t.user_id, t.email, t.name, t.role_id, t.state, t.token_expires_at, t.version, t.created_at
    FROM tenant_user AS t
    WHERE t.tenant_id = $1
        AND t.user_id = $2",
);

/// What a token is held against, before a password is hashed for it.
pub const TENANT_USER_TOKEN: Sql = Sql::new(
    "tenant_user_token",
    &[Type::UUID],
    "
    SELECT t.name, t.token_hash, t.token_expires_at > clock_timestamp() AS lasts
    FROM tenant_user AS t
    WHERE t.tenant_id = $1
        AND t.user_id = $2",
);

/// Roles of a tenant, by id.
pub const ROLE_LIST: Sql = Sql::new(
    "role_list",
    &[Type::UUID, Type::INT8],
    "
    SELECT t.role_id, t.name, t.permissions, t.users_enabled, t.version, t.created_at
    FROM role AS t
    WHERE t.tenant_id = $1
        AND t.role_id > $2
    ORDER BY t.role_id
    LIMIT $3",
);

pub const ROLE_FIND: Sql = Sql::new(
    "role_find",
    &[Type::UUID],
    "
    SELECT t.role_id, t.name, t.permissions, t.users_enabled, t.version, t.created_at
    FROM role AS t
    WHERE t.tenant_id = $1
        AND t.role_id = $2",
);

pub const ROLE_BY_NAME: Sql = Sql::new(
    "role_by_name",
    &[Type::TEXT],
    "
    SELECT t.role_id
    FROM role AS t
    WHERE t.tenant_id = $1
        AND t.name_folded = $2",
);

/// The queries above, for the test that prepares every statement.
pub const QUERIES: &[Sql] =
    &[TENANT_USER_LIST, TENANT_USER_FIND, TENANT_USER_TOKEN, ROLE_LIST, ROLE_FIND, ROLE_BY_NAME];
