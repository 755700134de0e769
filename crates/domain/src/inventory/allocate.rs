//! Promises units to somebody: check and commit in one step, all lines or none.

use super::{
    Promised, PromisedLine, Refusal, Short, WRITE,
    model::{Movement, MovementKind, PositionKey, Promise, book, want_position},
    refusal::{check_line, check_source},
    rules::{self, Stopped},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Queue, command::Permission, table::Want};
use kernel::{
    date::Date,
    id::{SkuId, WarehouseId},
    quantity::{Positive, Quantity},
    text::Source,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Units of one SKU from one warehouse.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocateLine {
    pub sku_id: SkuId,
    pub warehouse_id: WarehouseId,
    pub quantity: Positive,
    /// The business event this is; when given, it is never booked twice.
    pub source: Option<Source>,
    /// Who is served first when there is too little; higher is more urgent.
    #[serde(default)]
    #[schema(minimum = -100, maximum = 100)]
    pub priority: Priority,
    /// The day it is promised for.
    pub promised_for: Option<Date>,
}

/// −100 to 100, 0 when not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Priority(pub i16);

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i16::deserialize(deserializer)?;
        if !(-100..=100).contains(&value) {
            return Err(serde::de::Error::custom("must be a whole number from -100 to 100"));
        }
        Ok(Self(value))
    }
}

impl utoipa::PartialSchema for Priority {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Integer)
            .minimum(Some(-100))
            .maximum(Some(100))
            .into()
    }
}
impl utoipa::ToSchema for Priority {}

/// All lines are promised, or none. Lines of one position are summed before they are checked.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Allocate {
    #[schema(min_items = 1, max_items = 200)]
    pub lines: Vec<AllocateLine>,
    /// What the pre-check saw to be short, without a lock: see [`super::precheck`].
    #[serde(skip)]
    #[schema(ignore)]
    pub seen_short: Vec<Short>,
}

impl AllocateLine {
    pub(super) const fn key(&self) -> PositionKey {
        PositionKey { sku: self.sku_id, warehouse: self.warehouse_id }
    }
}

impl Command<WorkingSet> for Allocate {
    const NAME: &'static str = "inventory.allocate";
    const NEEDS: Permission = WRITE;
    type Done = Promised;
    type Reject = Refusal;

    fn lane(&self) -> Queue {
        if !self.seen_short.is_empty() {
            return Queue::Aside;
        }
        super::model::queue(self.lines.iter().map(|line| (line.sku_id, line.warehouse_id)))
    }

    fn weight(&self) -> usize {
        2 * self.lines.len()
    }

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        if !self.seen_short.is_empty() {
            return Next::Complete;
        }
        for line in &self.lines {
            want_position(line.key(), Want::change, set, wants);
            if let Some(source) = &line.source {
                wants.stock_source.read(source.to_string());
            }
        }
        Next::Locked
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<Promised, Refusal> {
        if !self.seen_short.is_empty() {
            return Err(Refusal::AtsInsufficient { shorts: self.seen_short.clone() });
        }
        let mut sums: BTreeMap<PositionKey, Quantity> = BTreeMap::new();
        for (line, of) in self.lines.iter().enumerate() {
            check_line(cx, line, of.key(), of.quantity.get())?;
            check_source(cx, line, of.source.as_deref())?;
            let sum = sums.entry(of.key()).or_default();
            *sum = sum.plus(of.quantity.get()).map_err(|_| Refusal::Overflow { line })?;
        }
        let shorts: Vec<_> = sums.iter().filter_map(|(key, wanted)| short(cx, *key, *wanted)).collect();
        if !shorts.is_empty() {
            return Err(Refusal::AtsInsufficient { shorts });
        }
        let mut lines = Vec::with_capacity(self.lines.len());
        for (line, of) in self.lines.iter().enumerate() {
            lines.push(promise(cx, line, of)?);
        }
        Ok(Promised { lines })
    }
}

/// A position nobody ever received into has nothing to promise.
fn short(cx: &Cx<'_>, key: PositionKey, wanted: Quantity) -> Option<Short> {
    let available = match cx.set.position.get(&key).map(|position| rules::promise(position, wanted)) {
        Some(Ok(_)) => return None,
        Some(Err(Stopped::TooLittle(little))) => little.available,
        Some(Err(Stopped::Overflow)) | None => Quantity::ZERO,
    };
    Some(Short { sku_id: key.sku, warehouse_id: key.warehouse, wanted, available })
}

fn promise(cx: &mut Cx<'_>, line: usize, of: &AllocateLine) -> Result<PromisedLine, Refusal> {
    let (key, quantity) = (of.key(), of.quantity.get());
    let position = cx.set.position.get(&key).expect("a missing position is short");
    // The sums were checked; each line is checked again over what the former ones left.
    let change = rules::promise(position, quantity)
        .map_err(|_| Refusal::AtsInsufficient { shorts: short(cx, key, quantity).into_iter().collect() })?;
    let promise_id = cx.id();
    cx.set.promise.insert(
        promise_id,
        Promise {
            sku: key.sku,
            warehouse: key.warehouse,
            quantity,
            shipped: Quantity::ZERO,
            released: Quantity::ZERO,
            returned: Quantity::ZERO,
            source: of.source.as_deref().map(str::to_owned),
            priority: of.priority.0,
            promised_for: of.promised_for.map(Date::get),
            created_at: cx.at,
        },
    );
    let movement = Movement {
        line,
        key,
        kind: MovementKind::Allocate,
        change,
        quantity,
        promise: Some(promise_id),
        source: of.source.as_deref(),
        reason: None,
    };
    let (position_id, ats_after) = book(cx, &movement)?;
    let (sku_id, warehouse_id) = (key.sku, key.warehouse);
    Ok(PromisedLine { promise_id, position_id, sku_id, warehouse_id, quantity, ats_after })
}
