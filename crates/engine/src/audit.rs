//! Who did what, from where, with which outcome: one row per command that was answered for good.
//!
//! Owns `audit`, append-only. A replay runs nothing and so leaves no row.

use crate::{
    command::Head,
    sql::{Sql, Type, Write, param},
};
use jiff::Timestamp;

const AUDIT_STORE: Sql = Sql::new(
    "audit_store",
    &[
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ,
    ],
    "
    INSERT INTO audit (tenant_id, call_id, actor, command, outcome, key, correlation_id, remote, at)
    SELECT $1, unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]), unnest($6::text[]),
        unnest($7::text[]), unnest($8::text[]), $9",
);

pub(crate) const STATEMENTS: [Sql; 1] = [AUDIT_STORE];

/// One row: the call, the command's name, and `done` or the code of the refusal.
pub(crate) struct Entry<'a> {
    pub head: &'a Head,
    pub command: &'static str,
    pub outcome: &'static str,
}

pub(crate) fn store(mut entries: Vec<Entry<'_>>, at: Timestamp) -> Write {
    entries.sort_unstable_by_key(|entry| entry.head.call);
    let each = |f: fn(&Head) -> String| entries.iter().map(|entry| f(entry.head)).collect::<Vec<_>>();
    Write {
        sql: AUDIT_STORE,
        params: vec![
            param(entries.iter().map(|entry| entry.head.call.uuid()).collect::<Vec<_>>()),
            param(each(|head| head.actor.id.clone())),
            param(entries.iter().map(|entry| entry.command).collect::<Vec<_>>()),
            param(entries.iter().map(|entry| entry.outcome).collect::<Vec<_>>()),
            param(each(|head| head.key.as_str().to_owned())),
            param(each(|head| head.correlation.clone())),
            param(entries.iter().map(|entry| entry.head.remote.clone()).collect::<Vec<_>>()),
            param(at),
        ],
    }
}
