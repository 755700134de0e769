//! Versions of the documents that people edit: what each one held after every change, who made it,
//! from where.
//!
//! Owns `document_version`, append-only. A version is written in the commit of its change, under the
//! lock of the document's own row, whose counter is its number: so a document's versions are 1 to its
//! current one, without a hole.

use crate::{
    command::Head,
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Table},
};
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

/// What a document held from `at` on, and who made it so.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Which kind of document: the name of its aggregate.
    pub document: String,
    pub data: Value,
    pub actor: String,
    pub actor_name: String,
    pub remote: Option<String>,
    pub correlation: String,
    pub at: Timestamp,
}

impl Version {
    pub fn new(document: &str, data: Value, head: &Head, at: Timestamp) -> Self {
        Self {
            document: document.to_owned(),
            data,
            actor: head.actor.id.clone(),
            actor_name: head.actor.name.clone(),
            remote: head.remote.clone(),
            correlation: head.correlation.clone(),
            at,
        }
    }

    pub fn read(row: &Row) -> Self {
        Self {
            document: row.get("document"),
            data: row.get("data"),
            actor: row.get("actor"),
            actor_name: row.get("actor_name"),
            remote: row.get("remote"),
            correlation: row.get("correlation_id"),
            at: row.get("at"),
        }
    }
}

/// By document and number.
pub struct Versions;

const VERSION_LOAD: Sql = Sql::new(
    "document_version_load",
    &[Type::UUID_ARRAY, Type::INT8_ARRAY],
    "
    SELECT t.document_id, t.version, t.document, t.data, t.actor, t.actor_name, t.remote, t.correlation_id, t.at
    FROM (SELECT unnest($2::uuid[]) AS document_id, unnest($3::int8[]) AS version) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM document_version AS r
        WHERE r.tenant_id = $1
            AND r.document_id = k.document_id
            AND r.version = k.version
        OFFSET 0) AS t",
);

const VERSION_STORE: Sql = Sql::new(
    "document_version_store",
    &[
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
    ],
    "
    INSERT INTO document_version (tenant_id, document_id, version, document, data, actor, actor_name, remote,
        correlation_id, at)
    SELECT $1, unnest($2::uuid[]), unnest($3::int8[]), unnest($4::text[]), unnest($5::text[])::json, unnest($6::text[]),
        unnest($7::text[]), unnest($8::text[]), unnest($9::text[]), unnest($10::timestamptz[])",
);

impl Table for Versions {
    type Key = (Uuid, i64);
    type Row = Version;
    const NAME: &'static str = "document_version";
    const LOCKED: bool = false;
    const LOAD: Sql = VERSION_LOAD;

    fn keys(keys: &[(Uuid, i64)]) -> Vec<Param> {
        let (documents, versions): (Vec<_>, Vec<_>) = keys.iter().copied().unzip();
        vec![param(documents), param(versions)]
    }
    fn read(row: &Row) -> ((Uuid, i64), Version) {
        ((row.get("document_id"), row.get("version")), Version::read(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let text = |f: fn(&Version) -> String| param(changes.iter().map(|c| f(c.after)).collect::<Vec<_>>());
        vec![Write {
            sql: VERSION_STORE,
            params: vec![
                param(changes.iter().map(|c| c.key.0).collect::<Vec<_>>()),
                param(changes.iter().map(|c| c.key.1).collect::<Vec<_>>()),
                text(|version| version.document.clone()),
                text(|version| version.data.to_string()),
                text(|version| version.actor.clone()),
                text(|version| version.actor_name.clone()),
                param(changes.iter().map(|c| c.after.remote.clone()).collect::<Vec<_>>()),
                text(|version| version.correlation.clone()),
                param(changes.iter().map(|c| c.after.at).collect::<Vec<_>>()),
            ],
        }]
    }
    fn statements() -> Vec<Sql> {
        vec![VERSION_STORE]
    }
}
