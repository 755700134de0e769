//! Who waits with whom: a lane is the queue of one executor with its own connection.
//!
//! The calls that wait while one batch commits form the next; an idle lane starts a batch of one
//! at once. No timer and no minimum.
//! Invariant: within a tenant, calls run in arrival order; between tenants, in turn.
//! Invariant: a lane is bounded (`waiting_max`), and an executor that dies is replaced; whoever
//! waited for its batch hears of it, never silence.

use crate::{
    batch::{self, Waiting},
    error::Fault,
    run::Core,
    table::TableSet,
};
use kernel::id::TenantId;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::Notify;

pub(crate) struct Lane<S> {
    queue: Mutex<Queue<S>>,
    wake: Notify,
}

struct Queue<S> {
    by_tenant: HashMap<TenantId, VecDeque<Waiting<S>>>,
    /// Tenants with waiting calls, the next one first.
    turn: VecDeque<TenantId>,
    waiting: usize,
    closed: bool,
}

/// What an executor finds when it is free.
enum Found<S> {
    Batch(Vec<Waiting<S>>),
    Nothing,
    Closed,
}

impl<S: TableSet> Lane<S> {
    pub fn new() -> Self {
        let queue = Queue { by_tenant: HashMap::new(), turn: VecDeque::new(), waiting: 0, closed: false };
        Self { queue: Mutex::new(queue), wake: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a call, or gives it back with the reason why not.
    pub fn push(&self, waiting: Waiting<S>, waiting_max: usize) -> Result<(), Box<(Waiting<S>, Fault)>> {
        {
            let mut queue = self.queue();
            if queue.closed {
                return Err(Box::new((waiting, Fault::Stopping)));
            }
            if queue.waiting >= waiting_max {
                return Err(Box::new((waiting, Fault::Overloaded)));
            }
            queue.waiting += 1;
            let tenant = waiting.call.head().tenant;
            let calls = queue.by_tenant.entry(tenant).or_default();
            calls.push_back(waiting);
            if calls.len() == 1 {
                queue.turn.push_back(tenant);
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    pub fn waiting(&self) -> usize {
        self.queue().waiting
    }

    /// No call comes in any more; the executor ends when the queue is empty.
    pub fn close(&self) {
        self.queue().closed = true;
        self.wake.notify_one();
    }

    fn take(&self, calls_max: usize, rows_max: usize) -> Found<S> {
        let mut queue = self.queue();
        let Some(tenant) = queue.turn.pop_front() else {
            return if queue.closed { Found::Closed } else { Found::Nothing };
        };
        let calls = queue.by_tenant.get_mut(&tenant).expect("a tenant in turn has waiting calls");
        let mut batch: Vec<Waiting<S>> = Vec::new();
        let mut rows = 0;
        while let Some(next) = calls.front() {
            rows += next.call.weight();
            // SERIALIZABLE protects only among its own, so the two kinds do not share a batch.
            let fits = batch.is_empty()
                || (batch.len() < calls_max
                    && rows <= rows_max
                    && next.call.serializable() == batch[0].call.serializable());
            if !fits {
                break;
            }
            batch.extend(calls.pop_front());
        }
        if calls.is_empty() {
            queue.by_tenant.remove(&tenant);
        } else {
            queue.turn.push_back(tenant);
        }
        queue.waiting -= batch.len();
        Found::Batch(batch)
    }

    /// Runs batches until the lane is closed and empty.
    pub async fn execute(self: Arc<Self>, core: Arc<Core>) {
        loop {
            match self.take(core.config.batch_calls_max, core.config.batch_rows_max) {
                Found::Nothing => self.wake.notified().await,
                Found::Closed => return,
                Found::Batch(batch) => {
                    let now = Instant::now();
                    let (live, late): (Vec<_>, Vec<_>) = batch.into_iter().partition(|w| w.deadline > now);
                    for waiting in late {
                        waiting.answer(Err(Fault::Deadline));
                    }
                    if live.is_empty() {
                        continue;
                    }
                    // GUARD(supervision): a task of its own, so that a panic ends the batch (its
                    // callers hear that their sender is gone) and not the executor.
                    let core = core.clone();
                    let ran = tokio::spawn(async move { batch::run(&core, live).await }).await;
                    if let Err(error) = ran {
                        metrics::counter!("tallyhold_batch_panics_total").increment(1);
                        tracing::error!(%error, "a batch died; its transaction is rolled back");
                    }
                }
            }
        }
    }
}
