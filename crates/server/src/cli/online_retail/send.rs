//! One command of an import, sent until it has an answer.
//!
//! Owns the retry of faults and the keys of a second try at what was refused. Never decides what
//! is sent, and never sends under a key what a source does not guard: the source is what makes a
//! business event happen once, however often and under which key it is sent.

use crate::{api::encode, cli::operator};
use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use domain::{
    Engine, WorkingSet, catalog,
    inventory::{self, read::Booked},
};
use engine::{Answered, Command, Fault, error::StepError};
use kernel::id::{SkuId, TenantId};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{cell::Cell, collections::HashMap, fmt, time::Duration};

/// Tries after the first, over about half a minute: a database that restarts is back by then.
const RETRIES_MAX: usize = 10;
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// Keys tried for one business event: one more for each time it was refused within a day.
const KEYS_MAX: usize = 20;

/// What is true of every import that ends before its last line.
pub const GOES_ON: &str = "What was booked stays booked, once. Run the same command again, and it goes on from there.";

/// Why an import ends before its last line.
#[derive(Debug)]
pub struct Stopped {
    pub at: String,
    pub why: String,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, why } = self;
        write!(f, "the import stopped at {at}: {why}\n{GOES_ON}")
    }
}

/// What became of a command.
pub enum Sent {
    /// It is done. `fresh`: by us, not by an earlier run or another process.
    Done {
        body: Bytes,
        fresh: bool,
    },
    /// Its code or source is taken: somebody did it meanwhile, so look again.
    Taken {
        detail: String,
    },
    Refused(String),
}

/// The way of an import to the engine.
#[derive(Clone, Copy)]
pub struct Sender<'a> {
    pub engine: &'a Engine,
    pub tenant: TenantId,
}

impl Sender<'_> {
    /// Sends the command that `intent` spells, under the key of its business event.
    ///
    /// A stored refusal would be replayed for as long as its key is kept, though the reason may be
    /// gone since; and a key that was refused with other contents takes no new ones. Both are sent
    /// again under a key that carries the generation. It is derived, not random: processes that do
    /// the same at once still meet at the same keys.
    pub async fn send<C>(&self, key: &str, intent: &impl Serialize) -> Result<Sent, Stopped>
    where
        C: Command<WorkingSet> + DeserializeOwned + Clone,
        C::Done: Serialize,
    {
        let spelled =
            serde_json::to_value(intent).and_then(|intent| Ok((serde_json::from_value(intent.clone())?, intent)));
        let (command, intent): (C, Value) = match spelled {
            Ok(spelled) => spelled,
            Err(error) => return Ok(Sent::Refused(error.to_string())),
        };
        let mut generation = key.to_owned();
        for _ in 0..KEYS_MAX {
            let tries = Cell::new(0_u32);
            let answered = (|| {
                tries.set(tries.get() + 1);
                let (engine, tenant) = (self.engine, self.tenant);
                operator::submit_or_replay(engine, tenant, &generation, &intent, command.clone(), encode::ok)
            })
            .retry(backoff())
            .when(passes)
            .await;
            let Answered { answer, replayed } = match answered {
                Ok(answered) => answered,
                Err(Fault::KeyReused { sent, .. }) => {
                    generation = format!("{generation}|as|{}", &sent[..16]);
                    continue;
                }
                Err(Fault::Bug(why)) => return Ok(Sent::Refused(Fault::Bug(why).to_string())),
                Err(fault) => return Err(Stopped { at: key.to_owned(), why: fault.to_string() }),
            };
            // An answer that was lost on its way comes back as a replay, and was ours all the same.
            let replayed = replayed.filter(|_| tries.get() == 1);
            if answer.status < 300 {
                return Ok(Sent::Done { body: answer.body, fresh: replayed.is_none() });
            }
            if let Some(at) = replayed {
                generation = format!("{generation}|after|{at}");
                continue;
            }
            let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let detail = said["detail"].as_str().unwrap_or("refused without a reason");
            let detail = detail.strip_prefix("lines[0].").unwrap_or(detail).to_owned();
            return Ok(match answer.status {
                409 => Sent::Taken { detail },
                _ => Sent::Refused(detail),
            });
        }
        Ok(Sent::Refused(format!(
            "refused {KEYS_MAX} times under its key; try again tomorrow, when the answers are gone"
        )))
    }

    /// What was booked under these sources.
    pub async fn booked(&self, sources: Vec<String>) -> Result<HashMap<String, Booked>, Stopped> {
        read("what was booked before", || inventory::read::booked(self.engine, self.tenant, sources.clone())).await
    }

    /// The SKUs there are of these codes.
    pub async fn skus(&self, codes: &[&str]) -> Result<HashMap<String, SkuId>, Stopped> {
        read("the SKUs there are", || catalog::read::skus_of(self.engine, self.tenant, codes)).await
    }
}

fn backoff() -> ExponentialBuilder {
    // Jitter, or callers that were refused together come back together.
    ExponentialBuilder::default()
        .with_min_delay(RETRY_FIRST)
        .with_max_delay(RETRY_LAST)
        .with_max_times(RETRIES_MAX)
        .with_jitter()
}

/// The faults that are over some time, all of the class 503.
fn passes(fault: &Fault) -> bool {
    match fault {
        Fault::InFlight | Fault::Overloaded | Fault::Deadline | Fault::RowHeld | Fault::Unavailable(_) => true,
        Fault::KeyReused { .. } | Fault::Stopping | Fault::Bug(_) => false,
    }
}

/// Reads, again where the database could not answer.
pub async fn read<T, F: Future<Output = Result<T, StepError>>>(
    what: &str,
    read: impl FnMut() -> F,
) -> Result<T, Stopped> {
    // What the database says no to, it says no to again; silence and the classes of a database in
    // trouble (connection, rollback, resources, locks, shutdown, system) pass.
    let passes = |error: &StepError| {
        error.db().is_none_or(|db| matches!(&db.code().code()[..2], "08" | "40" | "53" | "55" | "57" | "58"))
    };
    let read = read.retry(backoff()).when(passes).await;
    read.map_err(|error| Stopped { at: what.to_owned(), why: error.to_string() })
}
