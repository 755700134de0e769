//! What pages and API show of stock.

use super::{
    model::{Counters, Promise},
    sql,
};
use crate::Engine;
use engine::{
    error::StepError,
    sql::{Row, param},
};
use jiff::{Timestamp, civil::Date};
use kernel::{
    id::{EventId, PositionId, PromiseId, SkuId, TenantId, WarehouseId},
    page::{Limit, Page},
    quantity::Quantity,
};
use serde::Serialize;
use std::collections::HashMap;
use utoipa::ToSchema;
use uuid::Uuid;

/// How many units of a SKU a warehouse holds, and what is promised of them.
#[derive(Debug, Serialize, ToSchema)]
pub struct PositionView {
    pub position_id: PositionId,
    pub sku_id: SkuId,
    pub warehouse_id: WarehouseId,
    pub on_hand: Quantity,
    pub on_order: Quantity,
    pub allocated: Quantity,
    pub reserved: Quantity,
    pub overcommit_limit: Quantity,
    /// Available to sell: on hand + on order − allocated − reserved.
    pub ats: Quantity,
    /// Ledger lines and events so far.
    pub sequence: i64,
}

/// One line of a position's ledger: the signed change of each counter.
#[derive(Debug, Serialize, ToSchema)]
pub struct LedgerView {
    pub sequence: i64,
    /// receive, adjust, allocate, release, ship or return.
    pub kind: String,
    pub on_hand: Quantity,
    pub on_order: Quantity,
    pub allocated: Quantity,
    pub reserved: Quantity,
    pub promise_id: Option<PromiseId>,
    pub source: Option<String>,
    pub reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// One event of a position; `sequence` is that of its ledger line.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventView {
    pub event_id: EventId,
    pub kind: String,
    pub sequence: i64,
    pub schema_version: i16,
    #[schema(value_type = Object)]
    pub data: Box<serde_json::value::RawValue>,
    pub correlation_id: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// Units promised to somebody.
#[derive(Debug, Serialize, ToSchema)]
pub struct PromiseView {
    pub promise_id: PromiseId,
    pub sku_id: SkuId,
    pub warehouse_id: WarehouseId,
    /// `open` while something is neither shipped nor released, then `closed`.
    pub state: &'static str,
    pub quantity: Quantity,
    pub open: Quantity,
    pub shipped: Quantity,
    pub released: Quantity,
    pub returned: Quantity,
    pub source: Option<String>,
    pub priority: i16,
    #[schema(value_type = Option<String>, format = Date)]
    pub promised_for: Option<Date>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

fn position_view(row: &Row) -> PositionView {
    let position = sql::read_position(row);
    let Counters { on_hand, on_order, allocated, reserved } = position.counters;
    PositionView {
        position_id: position.id,
        sku_id: row.get::<_, Uuid>("sku_id").into(),
        warehouse_id: row.get::<_, Uuid>("warehouse_id").into(),
        on_hand,
        on_order,
        allocated,
        reserved,
        overcommit_limit: position.overcommit_limit,
        ats: position.available(),
        sequence: position.sequence,
    }
}

fn promise_view(row: &Row) -> PromiseView {
    let promise = sql::read_promise(row);
    let open = promise.open();
    let Promise { sku, warehouse, quantity, shipped, released, returned, .. } = promise;
    PromiseView {
        promise_id: row.get::<_, Uuid>("promise_id").into(),
        sku_id: sku,
        warehouse_id: warehouse,
        state: if open.is_zero() { "closed" } else { "open" },
        quantity,
        open,
        shipped,
        released,
        returned,
        source: promise.source,
        priority: promise.priority,
        promised_for: promise.promised_for,
        created_at: promise.created_at,
    }
}

/// Which positions a list is of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Of {
    pub sku: Option<SkuId>,
    pub warehouse: Option<WarehouseId>,
}

pub async fn positions(
    engine: &Engine,
    tenant: TenantId,
    of: Of,
    after: Option<PositionId>,
    limit: Limit,
) -> Result<Page<PositionView>, StepError> {
    let params = vec![
        param(after.map_or(Uuid::nil(), |id| id.uuid())),
        param(of.sku.map(|id| id.uuid())),
        param(of.warehouse.map(|id| id.uuid())),
        param(limit.probe()),
    ];
    let rows = engine.read(tenant, vec![(sql::POSITION_LIST, params)]).await?;
    Ok(Page::of(rows[0].iter().map(position_view).collect(), limit, |one| one.position_id.to_string()))
}

pub async fn position(engine: &Engine, tenant: TenantId, id: PositionId) -> Result<Option<PositionView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::POSITION_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(position_view))
}

/// The ledger of a position in its order; `None` where there is no such position.
pub async fn ledger(
    engine: &Engine,
    tenant: TenantId,
    id: PositionId,
    after: i64,
    limit: Limit,
) -> Result<Option<Page<LedgerView>>, StepError> {
    let list = vec![param(id.uuid()), param(after), param(limit.probe())];
    let steps = vec![(sql::POSITION_FIND, vec![param(id.uuid())]), (sql::LEDGER_LIST, list)];
    let rows = engine.read(tenant, steps).await?;
    let view = |row: &Row| {
        let Counters { on_hand, on_order, allocated, reserved } = sql::read_counters(row);
        LedgerView {
            sequence: row.get("sequence"),
            kind: row.get("kind"),
            on_hand,
            on_order,
            allocated,
            reserved,
            promise_id: row.get::<_, Option<Uuid>>("promise_id").map(Into::into),
            source: row.get("source"),
            reason: row.get("reason"),
            at: row.get("at"),
        }
    };
    let page = || Page::of(rows[1].iter().map(view).collect(), limit, |line| line.sequence.to_string());
    Ok(rows[0].first().map(|_| page()))
}

/// The events of a position in its order; `None` where there is no such position.
pub async fn events(
    engine: &Engine,
    tenant: TenantId,
    id: PositionId,
    after: i64,
    limit: Limit,
) -> Result<Option<Page<EventView>>, StepError> {
    let list = vec![param(id.uuid()), param(after), param(limit.probe())];
    let steps = vec![(sql::POSITION_FIND, vec![param(id.uuid())]), (sql::EVENT_LIST, list)];
    let rows = engine.read(tenant, steps).await?;
    let view = |row: &Row| EventView {
        event_id: row.get::<_, Uuid>("event_id").into(),
        kind: row.get("kind"),
        sequence: row.get("sequence"),
        schema_version: row.get("schema_version"),
        data: serde_json::value::RawValue::from_string(row.get("data")).expect("a json column holds JSON"),
        correlation_id: row.get("correlation_id"),
        at: row.get("at"),
    };
    let page = || Page::of(rows[1].iter().map(view).collect(), limit, |event| event.sequence.to_string());
    Ok(rows[0].first().map(|_| page()))
}

/// Promises by id; `state` is `open` or `closed`.
pub async fn promises(
    engine: &Engine,
    tenant: TenantId,
    of: Of,
    state: Option<&'static str>,
    after: Option<PromiseId>,
    limit: Limit,
) -> Result<Page<PromiseView>, StepError> {
    let params = vec![
        param(after.map_or(Uuid::nil(), |id| id.uuid())),
        param(of.sku.map(|id| id.uuid())),
        param(of.warehouse.map(|id| id.uuid())),
        param(state),
        param(limit.probe()),
    ];
    let rows = engine.read(tenant, vec![(sql::PROMISE_LIST, params)]).await?;
    Ok(Page::of(rows[0].iter().map(promise_view).collect(), limit, |one| one.promise_id.to_string()))
}

pub async fn promise(engine: &Engine, tenant: TenantId, id: PromiseId) -> Result<Option<PromiseView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::PROMISE_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(promise_view))
}

/// What was booked under a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booked {
    /// receive, adjust, allocate, release, ship or return.
    pub kind: String,
    /// The promise it made or moved.
    pub promise: Option<PromiseId>,
    pub sku: SkuId,
    pub warehouse: WarehouseId,
    /// The units it spoke of, below 0 where an adjustment took away. None where its ledger line is
    /// gone with its month.
    pub quantity: Option<Quantity>,
    /// What was shipped of the promise up to now, returned or not.
    pub shipped: Quantity,
}

/// What was booked under each of these sources, as far as anything was.
pub async fn booked(
    engine: &Engine,
    tenant: TenantId,
    sources: Vec<String>,
) -> Result<HashMap<String, Booked>, StepError> {
    let rows = engine.read(tenant, vec![(sql::SOURCE_LIST, vec![param(sources)])]).await?;
    let view = |row: &Row| Booked {
        kind: row.get("kind"),
        promise: row.get::<_, Option<Uuid>>("promise_id").map(Into::into),
        sku: row.get::<_, Uuid>("sku_id").into(),
        warehouse: row.get::<_, Uuid>("warehouse_id").into(),
        quantity: sql::quantity_if_any(row, "quantity"),
        shipped: sql::quantity(row, "shipped"),
    };
    Ok(rows[0].iter().map(|row| (row.get("source"), view(row))).collect())
}
