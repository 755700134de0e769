//! Event rows: what others may learn of a change, written in its own transaction.
//!
//! Owns `event`, append-only. An event exists if and only if its change committed.
//! Invariant: within its aggregate, `sequence` is the counter of the aggregate's own row, which
//! the command holds for change; so sequences follow commit order and have no hole.

use crate::sql::{Sql, Type, Write, param};
use jiff::Timestamp;
use kernel::id::EventId;
use uuid::Uuid;

/// One event, attributes after CloudEvents 1.0.
#[derive(Debug, Clone)]
pub struct Event {
    pub id: EventId,
    /// Past tense, `inventory.stock_allocated`.
    pub kind: &'static str,
    pub aggregate: &'static str,
    pub aggregate_id: Uuid,
    pub sequence: i64,
    /// The version of `data`'s schema.
    pub schema_version: i16,
    /// JSON text.
    pub data: String,
}

const EVENT_STORE: Sql = Sql::new(
    "event_store",
    &[
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ,
    ],
    "
    INSERT INTO event (tenant_id, event_id, kind, aggregate, aggregate_id, sequence, schema_version, data, correlation_id, at)
    SELECT $1, unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[]), unnest($5::uuid[]), unnest($6::int8[]),
        unnest($7::int2[]), unnest($8::text[])::json, unnest($9::text[]), $10",
);

pub(crate) const STATEMENTS: [Sql; 1] = [EVENT_STORE];

pub(crate) fn store(mut events: Vec<(Event, String)>, at: Timestamp) -> Write {
    events.sort_by_key(|(event, _)| (event.aggregate_id, event.sequence));
    let each = |f: fn(&Event) -> Uuid| events.iter().map(|(event, _)| f(event)).collect::<Vec<_>>();
    Write {
        sql: EVENT_STORE,
        params: vec![
            param(each(|event| event.id.uuid())),
            param(events.iter().map(|(event, _)| event.kind).collect::<Vec<_>>()),
            param(events.iter().map(|(event, _)| event.aggregate).collect::<Vec<_>>()),
            param(each(|event| event.aggregate_id)),
            param(events.iter().map(|(event, _)| event.sequence).collect::<Vec<_>>()),
            param(events.iter().map(|(event, _)| event.schema_version).collect::<Vec<_>>()),
            param(events.iter().map(|(event, _)| event.data.clone()).collect::<Vec<_>>()),
            param(events.into_iter().map(|(_, correlation)| correlation).collect::<Vec<_>>()),
            param(at),
        ],
    }
}
