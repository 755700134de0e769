//! Gives promised units back: they may be sold again.

use super::{
    Moved, MovedLine, Refusal, WRITE,
    model::{Movement, MovementKind, book, want_promises},
    refusal::{check_line, check_source},
    rules::{self, Stopped},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, command::Permission};
use kernel::{id::PromiseId, quantity::Positive, text::Source};
use serde::Deserialize;
use utoipa::ToSchema;

/// Open units of one promise.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLine {
    pub promise_id: PromiseId,
    /// All that is open when not said.
    pub quantity: Option<Positive>,
    /// The business event this is; when given, it is never booked twice.
    pub source: Option<Source>,
}

/// All lines are released, or none.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    #[schema(min_items = 1, max_items = 200)]
    pub lines: Vec<ReleaseLine>,
}

impl Command<WorkingSet> for Release {
    const NAME: &'static str = "inventory.release";
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
            let promise = cx.set.promise.edit(&promise_id).expect("looked at above");
            let change = rules::release(promise, wanted).map_err(|stopped| match stopped {
                Stopped::TooLittle(little) => {
                    Refusal::PromiseNotOpen { line, promise: promise_id, wanted, open: little.available }
                }
                Stopped::Overflow => Refusal::Overflow { line },
            })?;
            let quantity = change.allocated.negated();
            let movement = Movement {
                line,
                key,
                kind: MovementKind::Release,
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
