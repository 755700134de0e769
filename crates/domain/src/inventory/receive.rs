//! Units that arrived: they are on hand from now on.

use super::{
    Moved, MovedLine, Refusal, WRITE,
    model::{Movement, MovementKind, PositionKey, book, want_position},
    refusal::{check_ensured, check_source},
    rules,
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Queue, command::Permission, table::Want};
use kernel::{
    id::{SkuId, WarehouseId},
    quantity::Positive,
    text::Source,
};
use serde::Deserialize;
use utoipa::ToSchema;

/// Units of one SKU that arrived at one warehouse.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiveLine {
    pub sku_id: SkuId,
    pub warehouse_id: WarehouseId,
    pub quantity: Positive,
    /// The business event this is; when given, it is never booked twice.
    pub source: Option<Source>,
}

impl ReceiveLine {
    const fn key(&self) -> PositionKey {
        PositionKey { sku: self.sku_id, warehouse: self.warehouse_id }
    }
}

/// All lines are booked, or none.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    #[schema(min_items = 1, max_items = 200)]
    pub lines: Vec<ReceiveLine>,
}

impl Command<WorkingSet> for Receive {
    const NAME: &'static str = "inventory.receive";
    const NEEDS: Permission = WRITE;
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
            let quantity = of.quantity.get();
            check_ensured(cx, line, of.key(), quantity)?;
            check_source(cx, line, of.source.as_deref())?;
            let movement = Movement {
                line,
                key: of.key(),
                kind: MovementKind::Receive,
                change: rules::receive(quantity),
                quantity,
                promise: None,
                source: of.source.as_deref(),
                reason: None,
            };
            let (position_id, ats_after) = book(cx, &movement)?;
            lines.push(MovedLine { promise_id: None, position_id, quantity, ats_after });
        }
        Ok(Moved { lines })
    }
}
