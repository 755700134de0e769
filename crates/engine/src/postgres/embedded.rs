//! The embedded PostgreSQL: a private server that starts and stops with the program.
//!
//! Owns the postmaster it started: one supervising thread spawns it, waits for its end and
//! restarts it. `place` chooses the folder, `cluster` owns what is in it, `binaries` finds the
//! programs.
//! Invariant: one program per folder (`Cluster::lock`, held until the postmaster is gone).
//! Invariant: a signal only ever reaches our own, not yet reaped child (`Supervisor::run`).
//! Never deletes data, never upgrades it, never listens beyond loopback.

mod binaries;
mod cluster;
mod place;

pub use binaries::{Binaries, binaries};
pub use cluster::{Cluster, Lifetime};
pub use place::{holds_cluster, path_key};

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{sync::watch, time};

/// How long a server may take until it answers: crash recovery replays its log first.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// A fast shutdown writes a checkpoint; after this long it becomes an immediate one.
const FAST_LIMIT: Duration = Duration::from_secs(30);
/// The server itself kills children that ignore an immediate shutdown after 5 s.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(15);
/// Backends of a killed postmaster end by themselves; a busy one needs a moment.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(60);
const RESTARTS_MAX: usize = 5;
const RESTARTS_WINDOW: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Holds `cluster/` (PostgreSQL's own folder), `lock` and `server.log`; made when missing.
    pub data: PathBuf,
    /// Listen on 127.0.0.1 too. There a password is asked (scram-sha-256); give roles one first.
    pub tcp_port: Option<u16>,
    /// Server settings; they win over the defaults.
    pub settings: Vec<(String, String)>,
}

/// A running server. Dropping it asks for a fast shutdown without waiting; prefer `stop`.
pub struct Embedded {
    cluster: Arc<Cluster>,
    wishes: Arc<Wishes>,
    state: watch::Receiver<State>,
    supervisor: Thread,
}

/// What the program tells the supervisor.
#[derive(Default)]
struct Wishes {
    /// It has answered once: from now on a death is restarted, not reported as a failed start.
    served: AtomicBool,
    stop: AtomicBool,
}

/// What the supervisor tells the program.
#[derive(Clone)]
struct State {
    /// Of the running or, between two, of the last postmaster.
    pid: u32,
    phase: Phase,
}

#[derive(Clone)]
enum Phase {
    Running(Pid),
    Down,
    Stopped,
    /// Given up: the tail of the server's log, or why it could not be spawned.
    Failed(String),
}

impl Embedded {
    /// Starts the server of a folder, creating the folder's cluster on first use, and returns
    /// when it answers. An orphan left by a killed program is shut down first.
    pub async fn start(options: Options) -> Result<Self, EmbeddedError> {
        let cluster = Arc::new(Cluster::open(options)?);
        let lock = cluster.lock()?;
        cluster.prepare().await?;

        let wishes = Arc::new(Wishes::default());
        let (publish, state) = watch::channel(State { pid: 0, phase: Phase::Down });
        let supervisor = Supervisor { cluster: cluster.clone(), wishes: wishes.clone(), publish };
        let handle = thread::Builder::new()
            .name("postgres".into())
            .spawn(move || supervisor.run(lock))
            .map_err(|source| EmbeddedError::io("start a thread for", cluster.data(), source))?;
        let embedded = Self { cluster, wishes, state, supervisor: handle.thread().clone() };

        match embedded.ready().await {
            Ok(()) => {
                embedded.wishes.served.store(true, Ordering::Release);
                Ok(embedded)
            }
            Err(error) => {
                // Its own failure would only hide the first, which says more.
                let _ = embedded.stop().await;
                Err(error)
            }
        }
    }

    /// Unix socket configuration for `user` and `dbname`; the superuser is `postgres`.
    pub fn config(&self, user: &str, dbname: &str) -> tokio_postgres::Config {
        self.cluster.config(user, dbname)
    }

    /// The same as a libpq URL, for psql and tokio_postgres alike.
    pub fn url(&self, user: &str, dbname: &str) -> String {
        self.cluster.url(user, dbname)
    }

    /// The folder really used: as root it may differ from the one asked for.
    pub fn data(&self) -> &Path {
        self.cluster.data()
    }

    /// Of the postmaster; while it is being restarted, of the one that died.
    pub fn pid(&self) -> u32 {
        self.state.borrow().pid
    }

    /// Returns when the server answers, also after a restart. Fails when it was given up or
    /// takes longer than a minute.
    pub async fn ready(&self) -> Result<(), EmbeddedError> {
        let mut state = self.state.clone();
        let deadline = Instant::now() + READY_LIMIT;
        let mut pause = Duration::from_millis(10);
        loop {
            if let Phase::Failed(tail) = &state.borrow_and_update().phase {
                return Err(self.died(tail));
            }
            if self.cluster.answers().await {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(EmbeddedError::Slow {
                    seconds: READY_LIMIT.as_secs(),
                    tail: self.cluster.log_tail(0),
                    log: self.cluster.log(),
                });
            }
            tokio::select! {
                _ = state.changed() => {}
                () = time::sleep(pause) => {}
            }
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    /// Returns once the server has died more often than it is restarted (5 times a minute).
    /// The program should then end with this error.
    pub async fn failed(&self) -> EmbeddedError {
        let mut state = self.state.clone();
        match state.wait_for(|s| matches!(s.phase, Phase::Failed(_) | Phase::Stopped)).await {
            Ok(state) => match &state.phase {
                Phase::Failed(tail) => self.died(tail),
                _ => self.died("it was stopped"),
            },
            Err(_) => self.died("its supervising thread ended"),
        }
    }

    /// Fast shutdown: open transactions are rolled back, a checkpoint is written. Becomes an
    /// immediate one (recovery at the next start) after 30 s.
    pub async fn stop(self) -> Result<(), EmbeddedError> {
        for (signal, limit) in [(Signal::INT, FAST_LIMIT), (Signal::QUIT, IMMEDIATE_LIMIT)] {
            if time::timeout(limit, self.stopped(signal)).await.is_ok() {
                return Ok(());
            }
            tracing::warn!(pid = self.pid(), ?signal, "embedded PostgreSQL is slow to stop");
        }
        Err(EmbeddedError::Unstoppable { pid: self.pid(), folder: self.data().into() })
    }

    async fn stopped(&self, signal: Signal) {
        let mut state = self.state.clone();
        loop {
            // Looked at before asking: a postmaster published later shows up in `changed`.
            let phase = state.borrow_and_update().phase.clone();
            if matches!(phase, Phase::Stopped | Phase::Failed(_)) {
                return;
            }
            self.ask_to_stop(signal);
            if state.changed().await.is_err() {
                return;
            }
        }
    }

    fn ask_to_stop(&self, signal: Signal) {
        self.wishes.stop.store(true, Ordering::Release);
        self.supervisor.unpark();
        // The borrow holds off `Down`, and with it the reaping: the number is still our child's.
        if let Phase::Running(pid) = self.state.borrow().phase {
            let _ = kill_process(pid, signal);
        }
    }

    fn died(&self, tail: &str) -> EmbeddedError {
        EmbeddedError::Died { log: self.cluster.log(), tail: tail.into() }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.ask_to_stop(Signal::INT);
    }
}

struct Supervisor {
    cluster: Arc<Cluster>,
    wishes: Arc<Wishes>,
    publish: watch::Sender<State>,
}

impl Supervisor {
    /// A thread of its own, because the server's death signal is tied to the thread that
    /// spawned it: a pool's thread may end long before the program.
    #[expect(clippy::needless_pass_by_value, reason = "the lock is held until the postmaster is gone")]
    fn run(self, lock: File) {
        let mut restarts: Vec<Instant> = Vec::new();
        let mut leftover_since: Option<Instant> = None;
        let end = loop {
            if self.wishes.stop.load(Ordering::Acquire) {
                break Phase::Stopped;
            }
            let spawned = self
                .cluster
                .postmaster(Lifetime::EndsWithThread)
                .and_then(|mut command| Ok((self.cluster.log_length(), command.spawn()?)));
            let (log_from, mut child) = match spawned {
                Ok(spawned) => spawned,
                Err(error) => break Phase::Failed(error.to_string()),
            };
            let pid = Pid::from_child(&child);
            self.publish.send_replace(State { pid: child.id(), phase: Phase::Running(pid) });
            if self.wishes.stop.load(Ordering::Acquire) {
                // Asked between our look and the spawn, when there was nobody to signal.
                let _ = kill_process(pid, Signal::INT);
            }
            // NOWAIT keeps the number taken until `Down` is published: reaped first, it could
            // be another process's by the time a stop is signalled.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
            self.publish.send_modify(|state| state.phase = Phase::Down);
            let status = child.wait();

            if self.wishes.stop.load(Ordering::Acquire) {
                break Phase::Stopped;
            }
            let tail = self.cluster.log_tail(log_from);
            let now = Instant::now();
            if Cluster::waits_for_backends(&tail) && now - *leftover_since.get_or_insert(now) < LEFTOVER_LIMIT {
                thread::park_timeout(Duration::from_millis(100));
                continue;
            }
            leftover_since = None;
            restarts.retain(|at| now - *at < RESTARTS_WINDOW);
            if restarts.len() >= RESTARTS_MAX || !self.wishes.served.load(Ordering::Acquire) {
                break Phase::Failed(tail);
            }
            tracing::error!(pid = child.id(), ?status, "embedded PostgreSQL died, restarting it");
            thread::park_timeout(Duration::from_millis(100 << restarts.len()));
            restarts.push(now);
        };
        self.cluster.leave();
        // Before the news, or a start that follows it would still find the folder taken. Not by
        // closing: a child another thread is just spawning has a copy until it executes.
        let _ = lock.unlock();
        self.publish.send_modify(|state| state.phase = end);
    }
}

/// Why the embedded server cannot be used; each message names the way out.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error(
        "no PostgreSQL server found: run bin/setup, install your system's PostgreSQL server \
         package, or set TALLYHOLD_PG_BIN to the folder that holds `postgres` and `initdb`"
    )]
    NoBinaries,
    #[error(
        "TALLYHOLD_PG_BIN is {}, but {cause}; set it to the folder that holds `postgres` and \
         `initdb`, or unset it", bin.display()
    )]
    BadBinaries { bin: PathBuf, cause: String },
    #[error(
        "{} is in use by the running program with pid {holder}: never two programs on one \
         folder; stop that one or choose another folder (--data)", folder.display()
    )]
    Held { folder: PathBuf, holder: String },
    #[error(
        "{} was written by PostgreSQL {version}, which cannot be read by what was found here: \
         {found}. Set TALLYHOLD_PG_BIN to the bin folder of PostgreSQL {version}; or dump it \
         with that version's pg_dumpall and restore it into a new folder", folder.display()
    )]
    OtherVersion { folder: PathBuf, version: String, found: String },
    #[error(
        "{} is not a folder of ours: {cause}; choose another folder (--data) or move it away",
        folder.display()
    )]
    Foreign { folder: PathBuf, cause: &'static str },
    #[error(
        "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody` \
         to run it as: create one (useradd --system postgres) or run as an ordinary user"
    )]
    NoAccount,
    #[error(
        "PostgreSQL must not run as root, and user {user} cannot reach {}: let others pass \
         through its parent folders (chmod o+x) or choose another folder (--data)",
        folder.display()
    )]
    Unreachable { folder: PathBuf, user: String },
    #[error(
        "the socket folder {} belongs to somebody else (uid {owner}): remove it, or set TMPDIR \
         to a folder of your own", folder.display()
    )]
    Sockets { folder: PathBuf, owner: u32 },
    #[error("initdb could not create {}: {output}", folder.display())]
    Initdb { folder: PathBuf, output: String },
    #[error(
        "a PostgreSQL server (pid {pid}) that an earlier program left behind on {} does not \
         stop: end it by `kill -9 {pid}` and start again", folder.display()
    )]
    Orphan { pid: i32, folder: PathBuf },
    #[error(
        "the embedded PostgreSQL died; its log {} says why, and ends with:\n{tail}",
        log.display()
    )]
    Died { log: PathBuf, tail: String },
    #[error(
        "the embedded PostgreSQL does not answer after {seconds} s; if its log {} shows a \
         recovery at work, start again to give it more time. It ends with:\n{tail}",
        log.display()
    )]
    Slow { seconds: u64, log: PathBuf, tail: String },
    #[error(
        "the embedded PostgreSQL (pid {pid}) on {} does not stop: end it by `kill -9 {pid}`; \
         the next start recovers what was committed", folder.display()
    )]
    Unstoppable { pid: u32, folder: PathBuf },
    #[error(
        "cannot {what} {}: {source}; check its owner, its permissions and the free space, or \
         choose another folder (--data)", path.display()
    )]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

impl EmbeddedError {
    fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.into(), source }
    }
}
