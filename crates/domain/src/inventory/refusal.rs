//! Every way stock says no. Each names the line it speaks of.

use super::{LINES_MAX, model::PositionKey};
use crate::Cx;
use engine::Reject;
use jiff::Timestamp;
use kernel::{
    id::{PromiseId, SkuId, WarehouseId},
    problem::Class,
    quantity::{DIGITS_MAX, Quantity},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// A position that cannot give what a call wants of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Short {
    pub sku_id: SkuId,
    pub warehouse_id: WarehouseId,
    /// Over all lines of the call.
    pub wanted: Quantity,
    pub available: Quantity,
}

#[derive(Debug)]
pub enum Refusal {
    SkuMissing { line: usize, sku: SkuId },
    WarehouseMissing { line: usize, warehouse: WarehouseId },
    PromiseMissing { line: usize, promise: PromiseId },
    DecimalsTooMany { line: usize, quantity: Quantity, decimals: u8 },
    Overflow { line: usize },
    SourceTaken { line: usize, source: String, kind: &'static str, record: String, at: Timestamp },
    AtsInsufficient { shorts: Vec<Short> },
    OnHandInsufficient { line: usize, promise: Option<PromiseId>, wanted: Quantity, on_hand: Quantity },
    PromiseNotOpen { line: usize, promise: PromiseId, wanted: Option<Quantity>, open: Quantity },
    ReturnExceedsShipped { line: usize, promise: PromiseId, wanted: Quantity, returnable: Quantity },
    StockPromised { line: usize, wanted: Quantity, available: Quantity },
}

impl Refusal {
    /// The field of the request it speaks of, and the message for it.
    fn field(&self) -> Option<(String, String)> {
        let (line, field, message) = match self {
            Self::SkuMissing { line, sku } => (line, "sku_id", format!("there is no SKU {sku}")),
            Self::WarehouseMissing { line, warehouse } => {
                (line, "warehouse_id", format!("there is no warehouse {warehouse}"))
            }
            Self::PromiseMissing { line, promise } => (line, "promise_id", format!("there is no promise {promise}")),
            Self::DecimalsTooMany { line, quantity, decimals } => {
                (line, "quantity", format!("{quantity} has more than the {decimals} decimals of this SKU"))
            }
            Self::Overflow { line } => {
                (line, "quantity", format!("the stock would have more than {DIGITS_MAX} digits before the point"))
            }
            Self::SourceTaken { line, source, kind, record, at } => {
                (line, "source", format!("{source:?} was booked by {kind} {record} at {at}"))
            }
            Self::AtsInsufficient { .. } => return None,
            Self::OnHandInsufficient { line, wanted, on_hand, .. } => {
                (line, "quantity", format!("{wanted} wanted, {on_hand} on hand"))
            }
            Self::PromiseNotOpen { line, wanted: Some(wanted), open, .. } => {
                (line, "quantity", format!("{wanted} wanted, {open} still open"))
            }
            Self::PromiseNotOpen { line, promise, .. } => {
                (line, "promise_id", format!("nothing of {promise} is open any more"))
            }
            Self::ReturnExceedsShipped { line, wanted, returnable, .. } => {
                (line, "quantity", format!("{wanted} wanted, {returnable} can be returned"))
            }
            Self::StockPromised { line, wanted, available } => (
                line,
                "quantity",
                format!("{wanted} to be taken away, {available} on hand and not promised; release promises first"),
            ),
        };
        Some((format!("lines[{line}].{field}"), message))
    }
}

impl Reject for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::SkuMissing { .. } => "sku_missing",
            Self::WarehouseMissing { .. } => "warehouse_missing",
            Self::PromiseMissing { .. } => "promise_missing",
            Self::DecimalsTooMany { .. } => "quantity_decimals_exceeded",
            Self::Overflow { .. } => "quantity_overflow",
            Self::SourceTaken { .. } => "source_taken",
            Self::AtsInsufficient { .. } => "insufficient_ats",
            Self::OnHandInsufficient { .. } => "insufficient_on_hand",
            Self::PromiseNotOpen { .. } => "promise_not_open",
            Self::ReturnExceedsShipped { .. } => "return_exceeds_shipped",
            Self::StockPromised { .. } => "stock_promised",
        }
    }

    fn class(&self) -> Class {
        match self {
            Self::SkuMissing { .. } | Self::WarehouseMissing { .. } | Self::PromiseMissing { .. } => Class::Missing,
            Self::DecimalsTooMany { .. } | Self::Overflow { .. } => Class::Invalid,
            Self::SourceTaken { .. } => Class::Conflict,
            Self::AtsInsufficient { .. }
            | Self::OnHandInsufficient { .. }
            | Self::PromiseNotOpen { .. }
            | Self::ReturnExceedsShipped { .. }
            | Self::StockPromised { .. } => Class::Refused,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::AtsInsufficient { shorts } => {
                let each = |short: &Short| {
                    let Short { sku_id, warehouse_id, wanted, available } = short;
                    format!("{wanted} of {sku_id} wanted from {warehouse_id}, {available} available")
                };
                shorts.iter().map(each).collect::<Vec<_>>().join("; ")
            }
            other => other.field().map(|(field, message)| format!("{field}: {message}")).unwrap_or_default(),
        }
    }

    fn more(&self) -> Map<String, Value> {
        let mut more = Map::new();
        match self {
            Self::AtsInsufficient { shorts } => {
                more.insert("shorts".into(), json!(shorts));
            }
            Self::SourceTaken { record, .. } => {
                more.insert("existing_id".into(), json!(record));
            }
            Self::ReturnExceedsShipped { promise, returnable, .. } => {
                more.insert("promise_id".into(), json!(promise));
                more.insert("returnable".into(), json!(returnable));
            }
            Self::PromiseNotOpen { promise, open, .. } => {
                more.insert("promise_id".into(), json!(promise));
                more.insert("open".into(), json!(open));
            }
            Self::OnHandInsufficient { promise, on_hand, .. } => {
                if let Some(promise) = promise {
                    more.insert("promise_id".into(), json!(promise));
                }
                more.insert("on_hand".into(), json!(on_hand));
            }
            Self::StockPromised { available, .. } => {
                more.insert("available".into(), json!(available));
            }
            _ => {}
        }
        if let Some((field, message)) = self.field() {
            more.insert("errors".into(), json!([{"field": field, "message": message}]));
        }
        more
    }
}

/// What can be said of a call's lines without looking at data: how many there are, and that no
/// source stands twice. The error names the field and says what is wrong with it.
pub fn check_lines<'a>(count: usize, sources: impl Iterator<Item = Option<&'a str>>) -> Result<(), (String, String)> {
    if !(1..=LINES_MAX).contains(&count) {
        return Err(("lines".into(), format!("a call has 1 to {LINES_MAX} lines, not {count}")));
    }
    let mut seen = std::collections::HashMap::new();
    for (line, source) in sources.enumerate() {
        if let Some(source) = source
            && let Some(first) = seen.insert(source, line)
        {
            return Err((format!("lines[{line}].source"), format!("{source:?} stands in lines[{first}] already")));
        }
    }
    Ok(())
}

/// GUARD(natural_source): refuses a business event that was booked before.
pub fn check_source(cx: &Cx<'_>, line: usize, source: Option<&str>) -> Result<(), Refusal> {
    let Some(source) = source else { return Ok(()) };
    match cx.set.stock_source.get(&source.to_owned()) {
        None => Ok(()),
        Some(booked) => Err(Refusal::SourceTaken {
            line,
            source: source.to_owned(),
            kind: booked.kind,
            record: booked.record_id.clone(),
            at: booked.at,
        }),
    }
}

/// As [`check_line`], of a line whose position was to be made.
pub fn check_ensured(cx: &Cx<'_>, line: usize, key: PositionKey, quantity: Quantity) -> Result<(), Refusal> {
    check_line(cx, line, key, quantity)?;
    // Where SKU and warehouse are there and the position is not, they came after we looked for them.
    cx.set.position.get(&key).map(drop).ok_or(Refusal::SkuMissing { line, sku: key.sku })
}

/// Refuses an unknown SKU or warehouse, and more decimals than the SKU has.
pub fn check_line(cx: &Cx<'_>, line: usize, key: PositionKey, quantity: Quantity) -> Result<(), Refusal> {
    let PositionKey { sku, warehouse } = key;
    let decimals = match cx.set.position.get(&key) {
        Some(position) => position.decimals,
        None => {
            let decimals = cx.set.sku.get(&sku).ok_or(Refusal::SkuMissing { line, sku })?.decimals;
            cx.set.warehouse.get(&warehouse).ok_or(Refusal::WarehouseMissing { line, warehouse })?;
            decimals
        }
    };
    if quantity.decimals() > u32::from(decimals) {
        return Err(Refusal::DecimalsTooMany { line, quantity, decimals });
    }
    Ok(())
}
