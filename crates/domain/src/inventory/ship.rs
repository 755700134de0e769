//! Promised units leave the warehouse.

use super::{
    Moved, MovedLine, Refusal, WRITE,
    model::{Movement, MovementKind, book, want_promises},
    refusal::{check_line, check_source},
    rules::{self, ShipStopped, Stopped},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, command::Permission};
use kernel::{id::PromiseId, quantity::Positive, text::Source};
use serde::Deserialize;
use utoipa::ToSchema;

/// Open units of one promise.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShipLine {
    pub promise_id: PromiseId,
    /// All that is open when not said.
    pub quantity: Option<Positive>,
    /// The business event this is; when given, it is never booked twice.
    pub source: Option<Source>,
}

/// All lines are shipped, or none.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ship {
    #[schema(min_items = 1, max_items = 200)]
    pub lines: Vec<ShipLine>,
}

impl Command<WorkingSet> for Ship {
    const NAME: &'static str = "inventory.ship";
    const NEEDS: Permission = WRITE;
    type Done = Moved;
    type Reject = Refusal;

    fn weight(&self) -> usize {
        2 * self.lines.len()
    }

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        want_promises(self.lines.iter().map(|line| (line.promise_id, line.source.as_deref())), set, wants)
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<Moved, Refusal> {
        let mut lines = Vec::with_capacity(self.lines.len());
        for (line, of) in self.lines.iter().enumerate() {
            let (promise_id, wanted) = (of.promise_id, of.quantity.map(Positive::get));
            let promise = cx.set.promise.get(&promise_id);
            let key = promise.ok_or(Refusal::PromiseMissing { line, promise: promise_id })?.position();
            check_line(cx, line, key, wanted.unwrap_or_default())?;
            check_source(cx, line, of.source.as_deref())?;
            let position = cx.set.position.get(&key).expect("a promise has its position");
            let promise = cx.set.promise.edit(&promise_id).expect("looked at above");
            let open = promise.open();
            let change = rules::ship(position, promise, wanted).map_err(|stopped| match stopped {
                ShipStopped::Promise(Stopped::TooLittle(little)) => {
                    Refusal::PromiseNotOpen { line, promise: promise_id, wanted, open: little.available }
                }
                ShipStopped::Promise(Stopped::Overflow) => Refusal::Overflow { line },
                ShipStopped::OnHand(on_hand) => {
                    let wanted = wanted.unwrap_or(open);
                    Refusal::OnHandInsufficient { line, promise: Some(promise_id), wanted, on_hand }
                }
            })?;
            let quantity = change.on_hand.negated();
            let movement = Movement {
                line,
                key,
                kind: MovementKind::Ship,
                change,
                quantity,
                promise: Some(promise_id),
                source: of.source.as_deref(),
                reason: None,
            };
            let (position_id, ats_after) = book(cx, &movement)?;
            lines.push(MovedLine { promise_id: Some(promise_id), position_id, quantity, ats_after });
        }
        Ok(Moved { lines })
    }
}
