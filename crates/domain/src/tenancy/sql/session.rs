//! Statements about sessions.

use crate::tenancy::model::Session;
use engine::{
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Table},
};
use jiff::Timestamp;
use kernel::id::SessionId;
use uuid::Uuid;

pub struct Sessions;

const SESSION_LOAD: Sql = Sql::new(
    "session_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.session_id, t.user_id, t.epoch, t.family_hash, t.refresh_hash, t.cookie_hash, t.created_at, t.expires_at,
        t.ended_at
    FROM (SELECT unnest($2::uuid[]) AS session_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM session AS r
        WHERE r.tenant_id = $1
            AND r.session_id = k.session_id
        OFFSET 0) AS t",
);

const SESSION_INSERT: Sql = Sql::new(
    "session_insert",
    &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
    ],
    "
    INSERT INTO session (tenant_id, session_id, user_id, epoch, family_hash, refresh_hash, cookie_hash, created_at,
        expires_at)
    SELECT $1, unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::int8[]), unnest($5::bytea[]), unnest($6::bytea[]),
        unnest($7::bytea[]), unnest($8::timestamptz[]), unnest($9::timestamptz[])",
);

const SESSION_UPDATE: Sql = Sql::new(
    "session_update",
    &[Type::UUID_ARRAY, Type::BYTEA_ARRAY, Type::TIMESTAMPTZ_ARRAY],
    "
    WITH stored AS (
        UPDATE session AS t
        SET refresh_hash = k.refresh_hash,
            ended_at = k.ended_at
        FROM (
            SELECT unnest($2::uuid[]) AS session_id, unnest($3::bytea[]) AS refresh_hash,
                unnest($4::timestamptz[]) AS ended_at) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM session AS r
            WHERE r.tenant_id = $1
                AND r.session_id = k.session_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

impl Table for Sessions {
    type Key = SessionId;
    type Row = Session;
    const NAME: &'static str = "session";
    const LOAD: Sql = SESSION_LOAD;

    fn keys(keys: &[SessionId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (SessionId, Session) {
        let session = Session {
            user: row.get::<_, Uuid>("user_id").into(),
            epoch: row.get("epoch"),
            family_hash: hash(row, "family_hash").expect("session_hashes_sha256"),
            refresh_hash: hash(row, "refresh_hash").expect("session_hashes_sha256"),
            cookie_hash: hash(row, "cookie_hash"),
            created_at: row.get("created_at"),
            expires_at: row.get("expires_at"),
            ended_at: row.get("ended_at"),
        };
        (row.get::<_, Uuid>("session_id").into(), session)
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        let ids = |of: &[&Change<'_, Self>]| param(of.iter().map(|change| change.key.uuid()).collect::<Vec<_>>());
        let times = |of: &[&Change<'_, Self>], at: fn(&Session) -> Timestamp| {
            param(of.iter().map(|change| at(change.after)).collect::<Vec<_>>())
        };
        let hashes = |of: &[&Change<'_, Self>], hash: fn(&Session) -> Option<[u8; 32]>| {
            let hash = |change: &&Change<'_, Self>| hash(change.after).map(|hash| hash.to_vec());
            param(of.iter().map(hash).collect::<Vec<_>>())
        };
        let mut writes = Vec::new();
        if !new.is_empty() {
            writes.push(Write {
                sql: SESSION_INSERT,
                params: vec![
                    ids(&new),
                    param(new.iter().map(|change| change.after.user.uuid()).collect::<Vec<_>>()),
                    param(new.iter().map(|change| change.after.epoch).collect::<Vec<_>>()),
                    hashes(&new, |session| Some(session.family_hash)),
                    hashes(&new, |session| Some(session.refresh_hash)),
                    hashes(&new, |session| session.cookie_hash),
                    times(&new, |session| session.created_at),
                    times(&new, |session| session.expires_at),
                ],
            });
        }
        if !changed.is_empty() {
            writes.push(Write {
                sql: SESSION_UPDATE,
                params: vec![
                    ids(&changed),
                    hashes(&changed, |session| Some(session.refresh_hash)),
                    param(changed.iter().map(|change| change.after.ended_at).collect::<Vec<_>>()),
                ],
            });
        }
        writes
    }
    fn statements() -> Vec<Sql> {
        vec![SESSION_INSERT, SESSION_UPDATE]
    }
}

pub(in crate::tenancy) fn hash(row: &Row, column: &str) -> Option<[u8; 32]> {
    let hash: Option<Vec<u8>> = row.get(column);
    hash.and_then(|hash| hash.try_into().ok())
}

/// What a session opens: whose it is, what they may do now, and whether it still opens anything.
pub const SESSION_FIND: Sql = Sql::new(
    "session_find",
    &[Type::UUID],
    "
    SELECT t.user_id, t.family_hash, t.cookie_hash, t.expires_at, u.name, r.permissions,
        t.ended_at IS NULL AND t.epoch = u.epoch AND u.state = 'active' AS good
    FROM session AS t
    JOIN tenant_user AS u
        ON u.tenant_id = t.tenant_id
        AND u.user_id = t.user_id
    JOIN role AS r
        ON r.tenant_id = u.tenant_id
        AND r.role_id = u.role_id
    WHERE t.tenant_id = $1
        AND t.session_id = $2",
);

/// What a login is held against.
pub const LOGIN_FIND: Sql = Sql::new(
    "login_find",
    &[Type::TEXT],
    "
    SELECT t.user_id, t.name, t.password_hash
    FROM tenant_user AS t
    WHERE t.tenant_id = $1
        AND t.email_folded = $2
        AND t.state = 'active'",
);

/// The queries above, for the test that prepares every statement.
pub const QUERIES: &[Sql] = &[SESSION_FIND, LOGIN_FIND];
