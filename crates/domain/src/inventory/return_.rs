//! Shipped units come back: on hand again, at most what was shipped over all returns.

use super::{
    Moved, MovedLine, Refusal, WRITE,
    model::{Movement, MovementKind, book, want_promises},
    refusal::{check_line, check_source},
    rules::{self, Stopped},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, command::Permission};
use kernel::{
    id::PromiseId,
    quantity::Positive,
    text::{Reason, Source},
};
use serde::Deserialize;
use utoipa::ToSchema;

/// Shipped units of one promise.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReturnLine {
    pub promise_id: PromiseId,
    pub quantity: Positive,
    pub reason: Option<Reason>,
    /// The business event this is; when given, it is never booked twice.
    pub source: Option<Source>,
}

/// All lines are taken back, or none.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Return {
    #[schema(min_items = 1, max_items = 200)]
    pub lines: Vec<ReturnLine>,
}

impl Command<WorkingSet> for Return {
    const NAME: &'static str = "inventory.return";
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
            let (promise_id, quantity) = (of.promise_id, of.quantity.get());
            let promise = cx.set.promise.get(&promise_id);
            let key = promise.ok_or(Refusal::PromiseMissing { line, promise: promise_id })?.position();
            check_line(cx, line, key, quantity)?;
            check_source(cx, line, of.source.as_deref())?;
            let promise = cx.set.promise.edit(&promise_id).expect("looked at above");
            let change = rules::take_back(promise, quantity).map_err(|stopped| match stopped {
                Stopped::TooLittle(little) => Refusal::ReturnExceedsShipped {
                    line,
                    promise: promise_id,
                    wanted: quantity,
                    returnable: little.available,
                },
                Stopped::Overflow => Refusal::Overflow { line },
            })?;
            let movement = Movement {
                line,
                key,
                kind: MovementKind::Return,
                change,
                quantity,
                promise: Some(promise_id),
                source: of.source.as_deref(),
                reason: of.reason.as_deref(),
            };
            let (position_id, ats_after) = book(cx, &movement)?;
            lines.push(MovedLine { promise_id: Some(promise_id), position_id, quantity, ats_after });
        }
        Ok(Moved { lines })
    }
}
