//! Units that arrived: they are on hand from now on.

use super::{
    Moved, MovedLine, Refusal, WRITE,
    model::{Movement, MovementKind, PositionKey, book},
    refusal::{check_line, check_source},
    rules,
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Queue, command::Permission};
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

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        for line in &self.lines {
            wants.sku.read(line.sku_id);
            wants.warehouse.read(line.warehouse_id);
            wants.position.ensure(PositionKey { sku: line.sku_id, warehouse: line.warehouse_id });
            if let Some(source) = &line.source {
                wants.stock_source.read(source.to_string());
            }
        }
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<Moved, Refusal> {
        let mut lines = Vec::with_capacity(self.lines.len());
        for (line, of) in self.lines.iter().enumerate() {
            let quantity = of.quantity.get();
            check_line(cx, line, of.sku_id, of.warehouse_id, quantity)?;
            check_source(cx, line, of.source.as_deref())?;
            let movement = Movement {
                line,
                key: PositionKey { sku: of.sku_id, warehouse: of.warehouse_id },
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
