//! Brings a database to the schema of this program.
//!
//! Owns the roles and the order of migrations. Run by an administrator's login; everything it
//! creates belongs to `tallyhold_owner`, which nobody logs in as.
//! Invariant: two programs that migrate at once do it one after the other: refinery takes no
//! lock of its own, so a second, direct connection holds an advisory one in an open transaction.

use super::ConnectError;
use refinery::Runner;
use tokio_postgres::{Client, NoTls};

/// `V1__tenancy` and its SQL.
pub type Migration = (&'static str, &'static str);

/// Roles belong to the whole server, so another database may have made them already.
///
/// GUARD(roles_once): or be making them at this instant, which the look at `pg_roles` does not see
/// and no advisory lock excludes, since those are local to a database.
const ROLES: &str = "
    DO $$
    DECLARE
        role text;
        login text;
    BEGIN
        FOR role, login IN
            VALUES ('tallyhold_owner', 'NOLOGIN'), ('tallyhold_server', 'LOGIN'), ('tallyhold_dispatch', 'LOGIN')
        LOOP
            CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role);
            BEGIN
                EXECUTE format('CREATE ROLE %I %s', role, login);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END LOOP;
        -- From 16 on, whoever creates a role is its member without the right to act as it.
        IF NOT pg_has_role(current_user, 'tallyhold_owner',
            CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
            EXECUTE format('GRANT tallyhold_owner TO %I', current_user);
        END IF;
        GRANT USAGE, CREATE ON SCHEMA public TO tallyhold_owner;
        GRANT USAGE ON SCHEMA public TO tallyhold_server, tallyhold_dispatch;
    END
    $$";

async fn connect(config: &tokio_postgres::Config) -> Result<Client, ConnectError> {
    let (client, connection) = config.connect(NoTls).await.map_err(ConnectError::unreachable)?;
    tokio::spawn(connection);
    Ok(client)
}

/// Applies what is missing. Returns the names of the migrations applied now.
pub async fn migrate(admin: &tokio_postgres::Config, migrations: &[Migration]) -> Result<Vec<String>, ConnectError> {
    let failed = |error: &dyn std::fmt::Display| ConnectError::Migration(error.to_string());
    let text = |error: tokio_postgres::Error| {
        let shown = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
        ConnectError::Migration(shown)
    };
    let mut holder = connect(admin).await?;
    let lock = holder.transaction().await.map_err(text)?;
    // GUARD(migration_lock): until the transaction ends, which is after the last migration.
    lock.execute("SELECT pg_advisory_xact_lock(7234624)", &[]).await.map_err(text)?;

    let mut client = connect(admin).await?;
    client.batch_execute(ROLES).await.map_err(text)?;
    // A direct connection that ends here: session settings leak nowhere.
    client.batch_execute("SET lock_timeout = '5s'; SET ROLE tallyhold_owner").await.map_err(text)?;
    let list: Result<Vec<_>, _> =
        migrations.iter().map(|(name, sql)| refinery::Migration::unapplied(name, sql)).collect();
    let mut runner = Runner::new(&list.map_err(|error| failed(&error))?);
    runner.set_migration_table_name("migration");
    let report = runner.run_async(&mut client).await.map_err(|error| failed(&describe(&error)))?;
    client.batch_execute("GRANT SELECT ON migration TO tallyhold_server").await.map_err(text)?;
    lock.commit().await.map_err(text)?;
    Ok(report.applied_migrations().iter().map(ToString::to_string).collect())
}

/// Refinery's errors with the server's own words, which stand in their sources.
fn describe(error: &refinery::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Creates a database of this name where there is none.
pub async fn ensure_database(admin: &tokio_postgres::Config, name: &str) -> Result<(), ConnectError> {
    let client = connect(admin).await?;
    let found = client.query_opt("SELECT FROM pg_database WHERE datname = $1", &[&name]).await;
    if found.map_err(ConnectError::unreachable)?.is_none() {
        let create = format!("CREATE DATABASE {}", quoted(name));
        client.batch_execute(&create).await.map_err(ConnectError::unreachable)?;
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
