//! The test server: one PostgreSQL that all test processes of a checkout share.
//!
//! Owns its data folder (one per user, checkout and PostgreSQL version, in the temp folder) and
//! `target/test-postgres-<uid>-<version>.pid`. The first test process starts it, the others
//! join; it outlives them all, so that the next run need not wait. `bin/test` ends it.
//!
//! Never for data anybody wants to keep: it does not survive a crash of the machine.

use std::{env, fs, path::Path, time::Duration};

use engine::postgres::embedded::{Cluster, EmbeddedError, Lifetime, Options, binaries, path_key};
use rustix::process::geteuid;
use tokio::{
    sync::OnceCell,
    task,
    time::{self, Instant},
};

const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Fast, because nothing has to outlive the machine. Commits stay synchronous: their order and
/// their waiting are what the tests are about.
const SETTINGS: [(&str, &str); 6] = [
    // It looks into one database after the other, and here they are many and short-lived.
    ("autovacuum_naptime", "1min"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "on"),
    ("max_connections", "400"),
    ("cluster_name", "tallyhold-test"),
];

/// The shared server.
#[derive(Clone, Copy)]
pub struct Shared {
    cluster: &'static Cluster,
}

impl Shared {
    /// The superuser is `postgres`.
    pub fn config(&self, user: &str, dbname: &str) -> tokio_postgres::Config {
        self.cluster.config(user, dbname)
    }

    /// For programs under test: `DATABASE_URL`.
    pub fn url(&self, user: &str, dbname: &str) -> String {
        self.cluster.url(user, dbname)
    }
}

/// Joins the shared server, or starts it.
///
/// # Panics
/// When it cannot be started: no test can say anything then.
pub async fn shared() -> Shared {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let cluster = CLUSTER
        .get_or_init(|| async { join_or_start().await.unwrap_or_else(|error| panic!("the test server: {error}")) })
        .await;
    Shared { cluster }
}

async fn join_or_start() -> Result<Cluster, EmbeddedError> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let name = format!("{}-{}", geteuid().as_raw(), binaries()?.major);
    let data = env::temp_dir().join(format!("tallyhold-test-{name}-{}", path_key(&checkout)));
    let settings = SETTINGS.map(|(name, value)| (name.into(), value.into())).into();
    let cluster = Cluster::open(Options { data, tcp_port: None, settings })?;
    if !cluster.answers().await {
        // One starts, the others wait here and then find it answering. The kernel lets go of
        // the lock of a process that is killed meanwhile.
        let file = cluster.lock_file()?;
        let lock = task::spawn_blocking(move || file.lock().map(|()| file));
        let _lock = lock.await.expect("locking does not panic").expect("the folder can be locked");
        start_unless_alive(&cluster).await?;
    }
    note_pid(&cluster, &checkout.join(format!("target/test-postgres-{name}.pid")));
    Ok(cluster)
}

async fn start_unless_alive(cluster: &Cluster) -> Result<(), EmbeddedError> {
    // It may be recovering from a killed backend, or be on its way down. Other tests use it:
    // only one that stays silent is replaced.
    if answers_while(cluster, || cluster.running().is_some()).await {
        return Ok(());
    }
    cluster.prepare().await?;
    let deadline = Instant::now() + ANSWER_LIMIT;
    loop {
        let log_from = cluster.log_length();
        let mut server = cluster
            .postmaster(Lifetime::Detached)
            .and_then(|mut command| command.spawn())
            .unwrap_or_else(|error| panic!("the test server cannot be spawned: {error}"));
        if answers_while(cluster, || matches!(server.try_wait(), Ok(None))).await {
            return Ok(());
        }
        let tail = cluster.log_tail(log_from);
        if !Cluster::waits_for_backends(&tail) || Instant::now() > deadline {
            return Err(EmbeddedError::Died { log: cluster.log(), tail });
        }
    }
}

async fn answers_while(cluster: &Cluster, mut alive: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + ANSWER_LIMIT;
    while alive() && Instant::now() < deadline {
        if cluster.answers().await {
            return true;
        }
        time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// For `bin/test`. Also when joining: `cargo clean` may have removed it.
fn note_pid(cluster: &Cluster, path: &Path) {
    let Some(pid) = cluster.running().map(|pid| pid.as_raw_pid().to_string()) else {
        return;
    };
    if fs::read_to_string(path).is_ok_and(|noted| noted == pid) {
        return;
    }
    // Without it the server merely lives on.
    let _ = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, pid));
}
