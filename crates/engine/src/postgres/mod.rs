//! The connection to the server: pools, roles, migrations, the embedded server.
//!
//! Invariant: we serve only through a role that row-level security binds
//! (`refuse_strong_role`).

pub mod embedded;
mod migrate;

pub use migrate::{Migration, ensure_database, migrate};
pub use tokio_postgres::{Config as ConnectConfig, config::Host};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use std::time::Duration;
use thiserror::Error;
use tokio_postgres::NoTls;

#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("cannot reach the database: {0}")]
    Unreachable(String),
    #[error("the migration failed: {0}")]
    Migration(String),
    #[error(
        "the database role `{role}` {why}: row-level security would not hold between tenants. \
         Serve as `tallyhold_server` (see docs/operating/database.md)"
    )]
    StrongRole { role: String, why: &'static str },
    #[error("the database is at migration {found}, this program needs {needed}: run `tallyhold migrate`")]
    NotMigrated { found: i32, needed: i32 },
}

impl ConnectError {
    fn unreachable(error: impl std::fmt::Display) -> Self {
        Self::Unreachable(error.to_string())
    }
}

pub fn pool(config: &tokio_postgres::Config, connections: usize) -> Pool {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let mut config = config.clone();
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    config.application_name("tallyhold");
    Pool::builder(Manager::from_config(config, NoTls, recycling))
        .max_size(connections)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(Duration::from_secs(5)))
        .create_timeout(Some(Duration::from_secs(10)))
        .build()
        .expect("a pool with a runtime can always be built")
}

/// GUARD(strong_role): a superuser, a role with BYPASSRLS or the owner of the tables walks
/// through row-level security as if it were not there.
pub(crate) async fn refuse_strong_role(pool: &Pool) -> Result<(), ConnectError> {
    let conn = pool.get().await.map_err(ConnectError::unreachable)?;
    let row = conn
        .query_one(
            "SELECT r.rolname::text, r.rolsuper, r.rolbypassrls,
                 EXISTS (SELECT FROM pg_class AS c
                         WHERE c.relowner = r.oid AND c.relnamespace = 'public'::regnamespace) AS owns,
                 pg_has_role(r.oid, o.oid, 'MEMBER') IS TRUE AS is_owner
             FROM pg_roles AS r
             LEFT JOIN pg_roles AS o ON o.rolname = 'tallyhold_owner'
             WHERE r.rolname = current_user",
            &[],
        )
        .await
        .map_err(ConnectError::unreachable)?;
    let why = if row.get("rolsuper") {
        "is a superuser"
    } else if row.get("rolbypassrls") {
        "has BYPASSRLS"
    } else if row.get("owns") {
        "owns tables"
    } else if row.get("is_owner") {
        "is a member of tallyhold_owner"
    } else {
        return Ok(());
    };
    Err(ConnectError::StrongRole { role: row.get(0), why })
}

pub(crate) async fn check_version(pool: &Pool, needed: i32) -> Result<(), ConnectError> {
    let conn = pool.get().await.map_err(ConnectError::unreachable)?;
    let found = conn.query_one("SELECT coalesce(max(version), 0) FROM migration", &[]).await;
    let found: i32 = match found {
        Ok(row) => row.get(0),
        Err(error) if error.as_db_error().is_some() => 0,
        Err(error) => return Err(ConnectError::unreachable(error)),
    };
    if found < needed { Err(ConnectError::NotMigrated { found, needed }) } else { Ok(()) }
}

/// A row that falls in a month without partition would be refused; the months ahead are made now.
pub(crate) async fn ensure_partitions(pool: &Pool) -> Result<(), ConnectError> {
    let conn = pool.get().await.map_err(ConnectError::unreachable)?;
    conn.execute("SELECT partition_ensure()", &[]).await.map_err(ConnectError::unreachable)?;
    Ok(())
}
