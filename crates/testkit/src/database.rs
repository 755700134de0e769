//! A database per test, cloned from a migrated template.
//!
//! Owns the databases `template_<schema>` and `test_<id>` on the shared server.

use crate::postgres::{Shared, shared};
use engine::postgres::{ConnectConfig, ensure_database, migrate};
use std::hash::{DefaultHasher, Hash, Hasher};
use tokio_postgres::{Client, NoTls};

/// A migrated, empty database of its own. Dropped with the value.
pub struct Database {
    server: Shared,
    pub name: String,
}

async fn connect(config: &ConnectConfig) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("the test server takes connections");
    tokio::spawn(connection);
    client
}

/// Makes the template of this schema once; processes that come at the same time wait.
async fn template(server: Shared) -> String {
    let mut hasher = DefaultHasher::new();
    domain::MIGRATIONS.hash(&mut hasher);
    let name = format!("template_{:016x}", hasher.finish());
    let mut client = connect(&server.config("postgres", "postgres")).await;
    // Two processes would migrate it at once, and clone it half done.
    let lock = client.transaction().await.expect("a transaction begins");
    lock.execute("SELECT pg_advisory_xact_lock(7234699)", &[]).await.expect("the lock is granted");
    let ready = lock
        .query_opt("SELECT FROM pg_database WHERE datname = $1 AND datistemplate", &[&name])
        .await
        .expect("the catalog is readable");
    if ready.is_none() {
        let admin = server.config("postgres", "postgres");
        ensure_database(&admin, &name).await.expect("the template can be created");
        migrate(&server.config("postgres", &name), domain::MIGRATIONS).await.expect("the template can be migrated");
        let mark = connect(&admin).await;
        let sql = format!("ALTER DATABASE \"{name}\" IS_TEMPLATE true");
        mark.batch_execute(&sql).await.expect("the template can be marked");
    }
    lock.commit().await.expect("the lock is let go");
    name
}

impl Database {
    pub async fn new() -> Self {
        let server = shared().await;
        let template = template(server).await;
        let name = format!("test_{}", uuid::Uuid::now_v7().simple());
        let admin = connect(&server.config("postgres", "postgres")).await;
        let sql = format!("CREATE DATABASE \"{name}\" TEMPLATE \"{template}\" STRATEGY file_copy");
        admin.batch_execute(&sql).await.expect("a database can be cloned");
        Self { server, name }
    }

    /// Without a schema.
    pub async fn empty() -> Self {
        let server = shared().await;
        let name = format!("test_{}", uuid::Uuid::now_v7().simple());
        let admin = connect(&server.config("postgres", "postgres")).await;
        admin.batch_execute(&format!("CREATE DATABASE \"{name}\"")).await.expect("a database can be made");
        Self { server, name }
    }

    /// As the program connects: bound by row-level security.
    pub fn server(&self) -> ConnectConfig {
        self.server.config("tallyhold_server", &self.name)
    }

    /// For `DATABASE_URL` of a program under test.
    pub fn server_url(&self) -> String {
        self.server.url("tallyhold_server", &self.name)
    }

    pub fn admin(&self) -> ConnectConfig {
        self.server.config("postgres", &self.name)
    }

    pub fn admin_url(&self) -> String {
        self.server.url("postgres", &self.name)
    }

    /// A raw connection as the server's role, for what a test stages beside the program.
    pub async fn raw(&self) -> Client {
        connect(&self.server()).await
    }

    /// A raw connection as superuser.
    pub async fn raw_admin(&self) -> Client {
        connect(&self.admin()).await
    }

    /// A raw connection as superuser to another database of the server.
    pub async fn raw_outside(&self) -> Client {
        connect(&self.server.config("postgres", "postgres")).await
    }

    /// Waits until some backend of this database waits for a lock inside a statement whose text
    /// holds `text`, as the server itself tells.
    pub async fn wait_for_lock_wait(&self, text: &str) {
        self.wait_for_lock_waits(text, 1).await;
    }

    /// As [`Database::wait_for_lock_wait`], until so many do.
    pub async fn wait_for_lock_waits(&self, text: &str, backends: usize) {
        let waits = "SELECT FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock' AND position($1 in query) > 0";
        let admin = self.raw_admin().await;
        while admin.query(waits, &[&text]).await.expect("the activity is readable").len() < backends {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until `call` waits for a lock inside such a statement, or is over: without its guard
    /// it does not wait.
    pub async fn wait_for_lock_wait_or_end<T>(&self, text: &str, call: &tokio::task::JoinHandle<T>) {
        tokio::select! {
            () = self.wait_for_lock_wait(text) => {}
            () = async { while !call.is_finished() { tokio::task::yield_now().await } } => {}
        }
    }

    /// Waits until some backend waits for what the backend `holder` holds.
    pub async fn wait_for_lock_of(&self, holder: i32) {
        let waits = "SELECT FROM pg_stat_activity
                     WHERE datname = current_database() AND $1 = ANY (pg_blocking_pids(pid))";
        let admin = self.raw_admin().await;
        while admin.query(waits, &[&holder]).await.expect("the activity is readable").is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// The backends at rest inside a transaction, such as those whose batch stands at a gate.
    pub async fn open_transactions(&self) -> Vec<i32> {
        let open = "SELECT pid FROM pg_stat_activity
                    WHERE datname = current_database() AND state = 'idle in transaction'";
        let rows = self.raw_admin().await.query(open, &[]).await.expect("the activity is readable");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (admin, name) = (self.server.config("postgres", "postgres"), self.name.clone());
        // A thread of its own: the test's runtime may be gone already.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                let sql = format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)");
                let _ = connect(&admin).await.batch_execute(&sql).await;
            });
        });
        let _ = dropped.join();
    }
}
