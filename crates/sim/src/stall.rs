//! Stops a batch inside its last round trip, in any build, without a hook in the program.
//!
//! An answer's key is unique. Somebody else's uncommitted row with the same key makes the batch
//! that stores it wait for the end of that transaction: by then all its other changes are made, and
//! its COMMIT lies in the server's socket.
//! Never for a database anybody wants to keep: it walks through the tenants' wall as superuser.

use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Config, Error, NoTls};
use uuid::Uuid;

const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// Holds one key of one tenant until it is released, dropped, or the database goes down.
pub struct Stall {
    holder: Client,
    holder_pid: i32,
    /// Looks from outside the holder's transaction: inside, what others do is read only once.
    watcher: Client,
    tenant: Uuid,
    key: String,
}

async fn connect(database: &Config) -> Result<Client, Error> {
    let (client, connection) = database.connect(NoTls).await?;
    // Its end shows in `Client::is_closed`.
    tokio::spawn(connection);
    Ok(client)
}

impl Stall {
    /// From here on, whoever stores an answer under `key` waits. `database` is the superuser's.
    ///
    /// # Errors
    /// When the database cannot be reached, or the key has its answer already.
    pub async fn hold(database: &Config, tenant: Uuid, key: &str) -> Result<Self, Error> {
        let (holder, watcher) = (connect(database).await?, connect(database).await?);
        holder.batch_execute("BEGIN").await?;
        let row = holder
            .query_one(
                "INSERT INTO answer (tenant_id, key, fingerprint, command, status, content_type, sealed, body, at)
                 VALUES ($1, $2, decode(repeat('00', 32), 'hex'), 'stall', 200, 'application/json', false, '', now())
                 RETURNING pg_backend_pid()",
                &[&tenant, &key],
            )
            .await?;
        Ok(Self { holder, holder_pid: row.get(0), watcher, tenant, key: key.into() })
    }

    /// Whether a batch waits for our row, looked at until it does or the time is over.
    pub async fn blocks(&self, limit: Duration) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (
                       SELECT FROM pg_stat_activity AS a
                       WHERE a.wait_event_type = 'Lock'
                           AND a.query LIKE '/* answer_store */%'
                           AND $1 = ANY(pg_blocking_pids(a.pid)))";
        self.look(limit, sql, &[&self.holder_pid]).await
    }

    /// Lets the batch go on, as if we had never been there.
    pub async fn release(&self) -> Result<(), Error> {
        self.holder.batch_execute("ROLLBACK").await
    }

    /// Whether the answer is committed, looked at until it is or the time is over.
    pub async fn stored(&self, limit: Duration) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT FROM answer AS a WHERE a.tenant_id = $1 AND a.key = $2)";
        self.look(limit, sql, &[&self.tenant, &self.key]).await
    }

    async fn look(
        &self,
        limit: Duration,
        sql: &str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<bool, Error> {
        let deadline = Instant::now() + limit;
        let statement = self.watcher.prepare(sql).await?;
        loop {
            let found = self.watcher.query_one(&statement, params).await?.get(0);
            if found || Instant::now() > deadline {
                return Ok(found);
            }
            sleep(LOOK_PAUSE).await;
        }
    }

    /// Holds on until the database went down, and with it our row and whoever waits for it. Where
    /// it stays up, it is released after `limit`.
    pub async fn outlast(self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.holder.is_closed() && Instant::now() < deadline {
            sleep(LOOK_PAUSE).await;
        }
        // Fails only where there is no transaction left to end.
        let _ = self.release().await;
    }
}
