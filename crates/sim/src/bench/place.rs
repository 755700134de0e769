//! The throw-away database: an embedded PostgreSQL of the bench's own in a temporary folder.
//!
//! Its settings are the product's (fsync and synchronous commits on); it is removed at the end.

use super::baseline::ONE_CALL;
use engine::postgres::{
    self,
    embedded::{Embedded, Options},
};
use std::{fs, fs::Permissions, os::unix::fs::PermissionsExt};
use tempfile::TempDir;
use tokio_postgres::{Client, Config, NoTls};

const DATABASE: &str = "bench";
const SERVER_ROLE: &str = "tallyhold_server";

pub struct Place {
    folder: TempDir,
    embedded: Embedded,
}

impl Place {
    pub async fn make() -> Result<Self, String> {
        // As root the server runs as another user, who must reach the folder.
        let open = Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().prefix("tallyhold-bench-").permissions(open).tempdir();
        let folder = folder.map_err(|error| format!("no temporary folder could be made: {error}"))?;
        let options = Options { data: folder.path().join("data"), ..Options::default() };
        let embedded = Embedded::start(options).await.map_err(|error| error.to_string())?;
        let place = Self { folder, embedded };
        match place.prepare().await {
            Ok(()) => Ok(place),
            Err(error) => {
                place.remove().await?;
                Err(error)
            }
        }
    }

    async fn prepare(&self) -> Result<(), String> {
        let root = self.embedded.config("postgres", "postgres");
        postgres::ensure_database(&root, DATABASE).await.map_err(|error| error.to_string())?;
        let admin = self.embedded.config("postgres", DATABASE);
        postgres::migrate(&admin, domain::MIGRATIONS).await.map_err(|error| error.to_string())?;
        let admin = self.admin().await?;
        // The product never updates an answer; who claims a key first has to.
        admin
            .batch_execute("GRANT UPDATE (body, at) ON answer TO tallyhold_server")
            .await
            .map_err(|error| said(&error))?;
        admin.batch_execute(ONE_CALL).await.map_err(|error| said(&error))?;
        let row = admin.query_one("SELECT current_setting('fsync'), current_setting('synchronous_commit')", &[]).await;
        let row = row.map_err(|error| said(&error))?;
        match (row.get(0), row.get(1)) {
            ("on", "on") => Ok(()),
            other => Err(format!("fsync and synchronous_commit are {other:?}: nothing measured here would be durable")),
        }
    }

    /// As the product serves: bound by row-level security.
    pub fn server(&self) -> Config {
        self.embedded.config(SERVER_ROLE, DATABASE)
    }

    /// The same for a program's `DATABASE_URL`.
    pub fn server_url(&self) -> String {
        self.embedded.url(SERVER_ROLE, DATABASE)
    }

    /// A superuser's connection that loads in bulk: what it inserts is consistent by itself, so
    /// foreign keys are not checked row by row.
    pub async fn admin(&self) -> Result<Client, String> {
        let connected = self.embedded.config("postgres", DATABASE).connect(NoTls).await;
        let (client, connection) = connected.map_err(|error| said(&error))?;
        tokio::spawn(connection);
        client.batch_execute("SET session_replication_role = replica").await.map_err(|error| said(&error))?;
        Ok(client)
    }

    /// Stops the server and removes all it wrote.
    pub async fn remove(self) -> Result<(), String> {
        // As root the data may lie elsewhere than asked.
        let data = self.embedded.data().to_path_buf();
        self.embedded.stop().await.map_err(|error| error.to_string())?;
        fs::remove_dir_all(&data).map_err(|error| format!("{} could not be removed: {error}", data.display()))?;
        self.folder.close().map_err(|error| error.to_string())
    }
}

/// A database error with the server's own words.
pub fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| format!("{}: {}", db.code().code(), db.message()))
}
