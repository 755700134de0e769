//! Rows of the inventory slice, and the one way a position changes.

use super::{
    refusal::Refusal,
    sql::{Positions, Promises},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{
    Next, Queue,
    event::Event,
    table::{Look, Want},
};
use jiff::{Timestamp, civil::Date};
use kernel::{
    id::{PositionId, PromiseId, SkuId, WarehouseId},
    quantity::{Overflow, Quantity},
};
use serde::Serialize;
use utoipa::ToSchema;

/// The natural key of a position, in lock order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PositionKey {
    pub sku: SkuId,
    pub warehouse: WarehouseId,
}

/// The four counters of a position, or a signed change of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub on_hand: Quantity,
    pub on_order: Quantity,
    pub allocated: Quantity,
    pub reserved: Quantity,
}

impl Counters {
    pub fn plus(&self, change: &Self) -> Result<Self, Overflow> {
        Ok(Self {
            on_hand: self.on_hand.plus(change.on_hand)?,
            on_order: self.on_order.plus(change.on_order)?,
            allocated: self.allocated.plus(change.allocated)?,
            reserved: self.reserved.plus(change.reserved)?,
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    pub id: PositionId,
    /// Of its SKU.
    pub decimals: u8,
    pub counters: Counters,
    pub overcommit_limit: Quantity,
    /// Ledger lines and events so far.
    pub sequence: i64,
}

impl Position {
    /// What may be sold: on hand + on order − allocated − reserved.
    ///
    /// # Panics
    /// Never: `Position::apply` keeps the sums within a quantity's bound.
    pub fn available(&self) -> Quantity {
        let Counters { on_hand, on_order, allocated, reserved } = self.counters;
        let sum = on_hand.plus(on_order).and_then(|sum| sum.minus(allocated)).and_then(|sum| sum.minus(reserved));
        sum.expect("Position::apply bounds the sums")
    }

    /// What may be promised: what may be sold, and what may be overcommitted.
    pub fn promisable(&self) -> Quantity {
        self.available().plus(self.overcommit_limit).expect("Position::apply bounds the sums")
    }

    fn apply(&mut self, change: &Counters) -> Result<(), Overflow> {
        let counters = self.counters.plus(change)?;
        counters.on_hand.plus(counters.on_order)?.plus(self.overcommit_limit)?;
        self.counters = counters;
        self.sequence += 1;
        Ok(())
    }
}

/// Units promised to somebody: open until shipped or released.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise {
    pub sku: SkuId,
    pub warehouse: WarehouseId,
    pub quantity: Quantity,
    pub shipped: Quantity,
    pub released: Quantity,
    pub returned: Quantity,
    pub source: Option<String>,
    pub priority: i16,
    pub promised_for: Option<Date>,
    pub created_at: Timestamp,
}

impl Promise {
    /// Neither shipped nor released yet.
    ///
    /// # Panics
    /// Never: the parts are at most the whole (`promise_within`, `rules`).
    pub fn open(&self) -> Quantity {
        let open = self.quantity.minus(self.shipped).and_then(|rest| rest.minus(self.released));
        open.expect("parts of a quantity are within its bound")
    }

    pub fn is_open(&self) -> bool {
        !self.open().is_zero()
    }

    pub const fn position(&self) -> PositionKey {
        PositionKey { sku: self.sku, warehouse: self.warehouse }
    }
}

/// A business event that was booked.
#[derive(Debug, Clone, PartialEq)]
pub struct StockSource {
    pub kind: &'static str,
    pub record_id: String,
    pub at: Timestamp,
}

/// Why a position moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovementKind {
    Receive,
    Adjust,
    Allocate,
    Release,
    Ship,
    Return,
}

impl MovementKind {
    /// As the ledger spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Adjust => "adjust",
            Self::Allocate => "allocate",
            Self::Release => "release",
            Self::Ship => "ship",
            Self::Return => "return",
        }
    }

    const fn event(self) -> &'static str {
        match self {
            Self::Receive => "inventory.stock_received",
            Self::Adjust => "inventory.stock_adjusted",
            Self::Allocate => "inventory.stock_allocated",
            Self::Release => "inventory.stock_released",
            Self::Ship => "inventory.stock_shipped",
            Self::Return => "inventory.stock_returned",
        }
    }
}

/// One change of one position, on its way into position, ledger, events and sources.
pub struct Movement<'a> {
    /// The line of the call, for what is said of it.
    pub line: usize,
    pub key: PositionKey,
    pub kind: MovementKind,
    pub change: Counters,
    /// The units the line speaks of.
    pub quantity: Quantity,
    pub promise: Option<PromiseId>,
    pub source: Option<&'a str>,
    pub reason: Option<&'a str>,
}

/// One signed change, with its source and time: the position is the sum of these.
#[derive(Debug)]
pub struct LedgerLine {
    pub position: PositionId,
    pub sequence: i64,
    pub kind: MovementKind,
    pub change: Counters,
    pub promise: Option<PromiseId>,
    pub source: Option<String>,
    pub reason: Option<String>,
}

/// The body of every `inventory.stock_*` event, schema version 1.
#[derive(Serialize)]
struct StockMoved<'a> {
    position_id: PositionId,
    sku_id: SkuId,
    warehouse_id: WarehouseId,
    quantity: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    promise_id: Option<PromiseId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    on_hand: Quantity,
    on_order: Quantity,
    allocated: Quantity,
    reserved: Quantity,
    ats_after: Quantity,
}

/// Books a movement: position, ledger line, event and source together, so that none can be
/// without the others. Returns the position's id and what may be sold afterwards.
pub fn book(cx: &mut Cx<'_>, movement: &Movement<'_>) -> Result<(PositionId, Quantity), Refusal> {
    let Movement { line, key, kind, change, quantity, promise, source, reason } = *movement;
    let position = cx.set.position.edit(&key).expect("the caller found the position");
    position.apply(&change).map_err(|Overflow| Refusal::Overflow { line })?;
    let (id, sequence, counters, ats_after) = (position.id, position.sequence, position.counters, position.available());
    cx.set.stock_ledger.push(LedgerLine {
        position: id,
        sequence,
        kind,
        change,
        promise,
        source: source.map(str::to_owned),
        reason: reason.map(str::to_owned),
    });
    let data = StockMoved {
        position_id: id,
        sku_id: key.sku,
        warehouse_id: key.warehouse,
        quantity,
        promise_id: promise,
        source,
        reason,
        on_hand: counters.on_hand,
        on_order: counters.on_order,
        allocated: counters.allocated,
        reserved: counters.reserved,
        ats_after,
    };
    let data = serde_json::to_string(&data).expect("plain texts and numbers are JSON");
    let event = Event {
        id: cx.id(),
        kind: kind.event(),
        aggregate: "stock_position",
        aggregate_id: id.uuid(),
        sequence,
        schema_version: 1,
        data,
    };
    cx.event(event);
    if let Some(source) = source {
        let record_id = promise.map_or_else(|| id.to_string(), |promise| promise.to_string());
        cx.set.stock_source.insert(source.to_owned(), StockSource { kind: kind.name(), record_id, at: cx.at });
    }
    Ok((id, ats_after))
}

/// What became of one line of receive, adjust, release, ship or return.
#[derive(Debug, Serialize, ToSchema)]
pub struct MovedLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise_id: Option<PromiseId>,
    pub position_id: PositionId,
    pub quantity: Quantity,
    /// What may be sold of the position after this line.
    pub ats_after: Quantity,
}

/// The answer of receive, adjust, release, ship and return: a line for each line sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct Moved {
    pub lines: Vec<MovedLine>,
}

/// A promise that was given.
#[derive(Debug, Serialize, ToSchema)]
pub struct PromisedLine {
    pub promise_id: PromiseId,
    pub position_id: PositionId,
    pub sku_id: SkuId,
    pub warehouse_id: WarehouseId,
    pub quantity: Quantity,
    /// What may be sold of the position after this line.
    pub ats_after: Quantity,
}

/// The answer of allocate: a promise for each line sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct Promised {
    pub lines: Vec<PromisedLine>,
}

/// A call whose lines all name one position queues with that position's other calls.
pub fn queue(mut lines: impl Iterator<Item = (SkuId, WarehouseId)>) -> Queue {
    let Some(first) = lines.next() else { return Queue::Tenant };
    if lines.all(|line| line == first) {
        let mix = first.0.uuid().as_u128() ^ first.1.uuid().as_u128().rotate_left(64);
        // Both halves: the upper ones of two ids minted together are alike.
        Queue::Row((mix ^ (mix >> 64)) as u64)
    } else {
        Queue::Tenant
    }
}

/// Wants a position, by `mode`. Where there is none, SKU and warehouse tell which of them is missing.
pub fn want_position(
    key: PositionKey,
    mode: fn(&mut Want<Positions>, PositionKey),
    set: &WorkingSet,
    wants: &mut Wants,
) {
    match set.position.look(&key) {
        Look::Unasked => mode(&mut wants.position, key),
        Look::Missing => {
            wants.sku.read(key.sku);
            wants.warehouse.read(key.warehouse);
        }
        Look::Row(_) => {}
    }
}

/// Wants the promises a call names, and, once those are loaded, what hangs on them. `lines` are
/// the promise and the source of each line.
pub fn want_promises<'a>(
    lines: impl Iterator<Item = (PromiseId, Option<&'a str>)>,
    set: &WorkingSet,
    wants: &mut Wants,
) -> Next {
    let mut next = Next::Complete;
    for (promise, source) in lines {
        if let Some(source) = source {
            wants.stock_source.read(source.to_owned());
        }
        match set.promise.look(&promise) {
            Look::Unasked => {
                wants.promise.change(promise);
                next = Next::after::<Promises>();
            }
            Look::Missing => {}
            Look::Row(row) => wants.position.change(row.position()),
        }
    }
    next
}
