//! A correction of what is on hand, up or down, with its reason.

use super::{
    Moved, MovedLine, Refusal, WRITE,
    model::{Movement, MovementKind, PositionKey, book, want_position},
    refusal::{check_ensured, check_source},
    rules::{self, Stopped},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Queue, command::Permission, table::Want};
use kernel::{
    id::{SkuId, WarehouseId},
    quantity::Quantity,
    text::{Reason, Source},
};
use serde::{Deserialize, Deserializer, de};
use utoipa::ToSchema;

/// The difference to what is on hand of one SKU in one warehouse.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustLine {
    pub sku_id: SkuId,
    pub warehouse_id: WarehouseId,
    /// Not 0; below 0 takes away, at most what is on hand and not promised.
    #[serde(deserialize_with = "not_zero")]
    pub quantity: Quantity,
    pub reason: Reason,
    /// The business event this is; when given, it is never booked twice.
    pub source: Option<Source>,
}

fn not_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    let quantity = Quantity::deserialize(deserializer)?;
    if quantity.is_zero() { Err(de::Error::custom("an adjustment must not be 0")) } else { Ok(quantity) }
}

impl AdjustLine {
    const fn key(&self) -> PositionKey {
        PositionKey { sku: self.sku_id, warehouse: self.warehouse_id }
    }
}

/// All lines are booked, or none.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Adjust {
    #[schema(min_items = 1, max_items = 200)]
    pub lines: Vec<AdjustLine>,
}

impl Command<WorkingSet> for Adjust {
    const NAME: &'static str = "inventory.adjust";
    const NEEDS: Permission = WRITE;
    const CRITICAL: bool = true;
    type Done = Moved;
    type Reject = Refusal;

    fn lane(&self) -> Queue {
        super::model::queue(self.lines.iter().map(|line| (line.sku_id, line.warehouse_id)))
    }

    fn weight(&self) -> usize {
        self.lines.len()
    }

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        for line in &self.lines {
            want_position(line.key(), Want::ensure, set, wants);
            if let Some(source) = &line.source {
                wants.stock_source.read(source.to_string());
            }
        }
        Next::Locked
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<Moved, Refusal> {
        let mut lines = Vec::with_capacity(self.lines.len());
        for (line, of) in self.lines.iter().enumerate() {
            check_ensured(cx, line, of.key(), of.quantity)?;
            check_source(cx, line, of.source.as_deref())?;
            let key = of.key();
            let position = cx.set.position.get(&key).expect("check_ensured found it");
            let (wanted, on_hand) = (of.quantity.negated(), position.counters.on_hand);
            let change = rules::adjust(position, of.quantity).map_err(|stopped| match stopped {
                Stopped::TooLittle(_) if wanted > on_hand => {
                    Refusal::OnHandInsufficient { line, promise: None, wanted, on_hand }
                }
                Stopped::TooLittle(little) => Refusal::StockPromised { line, wanted, available: little.available },
                Stopped::Overflow => Refusal::Overflow { line },
            })?;
            let movement = Movement {
                line,
                key,
                kind: MovementKind::Adjust,
                change,
                quantity: of.quantity,
                promise: None,
                source: of.source.as_deref(),
                reason: Some(&of.reason),
            };
            let (position_id, ats_after) = book(cx, &movement)?;
            lines.push(MovedLine { promise_id: None, position_id, quantity: of.quantity, ats_after });
        }
        Ok(Moved { lines })
    }
}
