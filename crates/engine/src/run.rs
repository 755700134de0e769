//! The engine as its callers see it: submit a command, read rows, shut down.

use crate::{
    answer::{Answer, InFlight, Seal},
    batch::Waiting,
    command::{Call, Command, Encode, Head, Queue},
    error::{Fault, StepError},
    lane::Lane,
    postgres::{self, ConnectError},
    sql::{Param, Row, Sql},
    table::TableSet,
    tx::{Begin, Step, Timeouts, Tx},
};
use deadpool_postgres::Pool;
use jiff::Timestamp;
use kernel::id::TenantId;
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// Every bound of the engine.
#[derive(Debug, Clone)]
pub struct Config {
    pub database: tokio_postgres::Config,
    /// Executors, each with a connection of its own.
    pub lanes: usize,
    /// How many of them one tenant's calls are spread over while there are no others'; else it
    /// has its share of them, and one at least.
    pub lanes_per_tenant: usize,
    pub batch_calls_max: usize,
    pub batch_rows_max: usize,
    /// Calls waiting in one lane; beyond it callers are told to come back.
    pub waiting_max: usize,
    /// How long a caller waits.
    pub deadline: Duration,
    pub timeouts: Timeouts,
    /// Named statements; off behind a transaction pooler that does not know them.
    pub named: bool,
    pub read_connections: usize,
    /// Seals answers that carry a secret.
    pub secret: Vec<u8>,
}

/// A lane mostly waits, for the disk and for the server: this many keep a core busy when each
/// tenant has little to do.
const LANES_PER_CORE: usize = 4;

impl Config {
    pub fn new(database: tokio_postgres::Config, secret: Vec<u8>) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            database,
            lanes: cores * LANES_PER_CORE,
            lanes_per_tenant: cores,
            batch_calls_max: 256,
            batch_rows_max: 2_000,
            waiting_max: 8_192,
            deadline: Duration::from_secs(15),
            timeouts: Timeouts::default(),
            named: true,
            read_connections: 8,
            secret,
        }
    }
}

/// An answer, and when it was first given if this is a replay.
#[derive(Debug, Clone)]
pub struct Answered {
    pub answer: Answer,
    pub replayed: Option<Timestamp>,
}

pub(crate) struct Core {
    pub config: Config,
    /// One connection per lane.
    pub pool: Pool,
    pub reads: Pool,
    pub seal: Seal,
}

pub struct Engine<S: TableSet> {
    core: Arc<Core>,
    lanes: Vec<Arc<Lane<S>>>,
    aside: Arc<Lane<S>>,
    in_flight: InFlight,
    spread: RandomState,
    executors: TaskTracker,
}

impl<S: TableSet> Engine<S> {
    /// Connects, refuses a role that the walls between tenants would not hold, and starts the
    /// executors.
    pub async fn start(config: Config) -> Result<Self, ConnectError> {
        // One more than lanes: the executor of the calls that stand aside.
        let pool = postgres::pool(&config.database, config.lanes + 1);
        let reads = postgres::pool(&config.database, config.read_connections);
        postgres::refuse_strong_role(&reads).await?;
        let seal = Seal::new(&config.secret);
        let core = Arc::new(Core { config, pool, reads, seal });
        let lanes: Vec<_> = (0..core.config.lanes.max(1)).map(|_| Arc::new(Lane::new())).collect();
        let aside = Arc::new(Lane::new());
        let executors = TaskTracker::new();
        for lane in lanes.iter().chain([&aside]) {
            let (lane, core) = (lane.clone(), core.clone());
            executors.spawn(async move {
                // An executor does not panic; should it, the lane gets another.
                while tokio::spawn(lane.clone().execute(core.clone())).await.is_err() {
                    tracing::error!("an executor died and is replaced");
                }
            });
        }
        executors.close();
        Ok(Self { core, lanes, aside, in_flight: InFlight::default(), spread: RandomState::new(), executors })
    }

    fn lane(&self, tenant: TenantId, queue: Queue) -> &Lane<S> {
        match queue {
            Queue::Aside => &self.aside,
            Queue::Tenant | Queue::Row(_) => {
                // A tenant alone spreads its rows, to keep every core busy. One among many shares
                // one lane: its batches would only get smaller, and theirs wait for it.
                let first = self.spread.hash_one(tenant) as usize;
                let spread = self.in_flight.share(tenant, self.core.config.lanes_per_tenant).max(1);
                let next = self.spread.hash_one(queue) as usize % spread;
                &self.lanes[first.wrapping_add(next) % self.lanes.len()]
            }
        }
    }

    /// Whether a call of this queue would have to wait for more than the next batch.
    pub fn is_crowded(&self, tenant: TenantId, queue: Queue) -> bool {
        self.lane(tenant, queue).waiting() >= self.core.config.batch_calls_max
    }

    /// Runs the command once for its key, or replays what the key got before.
    ///
    /// The caller may hang up at any time: the call runs in the executor's task.
    pub async fn submit<C: Command<S>>(
        &self,
        mut head: Head,
        command: C,
        encode: Encode<C::Done, C::Reject>,
    ) -> Result<Answered, Fault> {
        // GUARD(sealed_for_one): whoever sent the same request under the same key would be told the secret.
        if C::SEALED {
            head.fingerprint = head.fingerprint.of_actor(&head.actor.id);
        }
        let running = self.in_flight.enter(head.tenant, &head.key).inspect_err(|_| {
            metrics::counter!("tallyhold_key_conflicts_total").increment(1);
        })?;
        let lane = self.lane(head.tenant, command.lane());
        let (reply, answer) = oneshot::channel();
        let since = Instant::now();
        let deadline = since + self.core.config.deadline;
        let correlation = head.correlation.clone();
        let call = Box::new(Call::new(head, command, encode));
        let waiting = Waiting { call, reply, running, deadline, since };
        if let Err(refused) = lane.push(waiting, self.core.config.waiting_max) {
            let (waiting, fault) = *refused;
            waiting.answer(Err(fault.clone()));
            return Err(fault);
        }
        match tokio::time::timeout_at(deadline.into(), answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                tracing::error!(correlation, "the batch of this call died before it answered");
                Err(Fault::Bug("the batch died before it answered".into()))
            }
            Err(_) => Err(Fault::Deadline),
        }
    }

    /// Reads in one snapshot and one round trip, bound to the tenant by row-level security too.
    pub async fn read(&self, tenant: TenantId, steps: Vec<(Sql, Vec<Param>)>) -> Result<Vec<Vec<Row>>, StepError> {
        let Config { timeouts, named, .. } = self.core.config;
        let mut tx = Tx::begin(&self.core.reads, tenant, Begin::Snapshot, timeouts, named).await?;
        tx.commit(steps.into_iter().map(|(sql, params)| Step::new(sql, params)).collect()).await
    }

    /// Writes down what was seen of calls, beside what they changed: it is nobody's command, has no answer
    /// and no audit line.
    pub async fn note(&self, tenant: TenantId, steps: Vec<(Sql, Vec<Param>)>) -> Result<(), StepError> {
        let Config { timeouts, named, .. } = self.core.config;
        let mut tx = Tx::begin(&self.core.reads, tenant, Begin::Write, timeouts, named).await?;
        tx.commit(steps.into_iter().map(|(sql, params)| Step::new(sql, params)).collect()).await.map(drop)
    }

    /// As [`Engine::read`], for queries over whole tables: planned freely, and with time to run.
    pub async fn audit_read(
        &self,
        tenant: TenantId,
        steps: Vec<(Sql, Vec<Param>)>,
    ) -> Result<Vec<Vec<Row>>, StepError> {
        let timeouts = Timeouts { statement_ms: 3_600_000, ..self.core.config.timeouts };
        let mut tx = Tx::begin(&self.core.reads, tenant, Begin::Audit, timeouts, false).await?;
        tx.commit(steps.into_iter().map(|(sql, params)| Step::new(sql, params)).collect()).await
    }

    /// Creates the partitions of this month and the next ones where they are missing.
    pub async fn ensure_partitions(&self) -> Result<(), ConnectError> {
        postgres::ensure_partitions(&self.core.reads).await
    }

    /// Whether the database answers and is migrated to `version` or beyond.
    pub async fn ready(&self, version: i32) -> Result<(), ConnectError> {
        postgres::check_version(&self.core.reads, version).await
    }

    /// Calls waiting per lane, for the metrics; the last lane is the one aside.
    pub fn waiting(&self) -> Vec<usize> {
        self.lanes.iter().chain([&self.aside]).map(|lane| lane.waiting()).collect()
    }

    pub fn pools(&self) -> [(&'static str, deadpool_postgres::Status); 2] {
        [("lanes", self.core.pool.status()), ("reads", self.core.reads.status())]
    }

    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// Takes no more calls, answers all that wait, and ends.
    pub async fn shutdown(&self) {
        self.lanes.iter().chain([&self.aside]).for_each(|lane| lane.close());
        self.executors.wait().await;
    }
}

/// Every statement the engine itself and the set can send, spelled as sent, for the test that
/// prepares them all.
pub fn statements<S: TableSet>() -> Vec<(Sql, String)> {
    let own = [
        &crate::tx::STATEMENTS[..],
        &crate::answer::STATEMENTS,
        &crate::event::STATEMENTS,
        &crate::audit::STATEMENTS,
        &crate::number::STATEMENTS,
        &crate::deadlock::STATEMENTS,
    ];
    let own = own.into_iter().flatten().map(|sql| (*sql, sql.spelled("")));
    own.chain(S::statements()).collect()
}
