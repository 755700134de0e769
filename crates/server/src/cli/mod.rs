//! The command line: every verb of the program, each in a file of its own.

pub mod admin;
mod bench;
mod demo;
mod import;
pub mod online_retail;
pub mod operator;
mod people;
mod serve;
mod verify;

use crate::store::{Place, Store, StoreError};
use clap::{Args, Parser, Subcommand};
use std::{fmt::Display, io, path::PathBuf, process::ExitCode};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The system of record for a company's stock: what is there, and what of it is promised.
///
/// Without --database-url it runs a private PostgreSQL of its own in the folder --data. Start
/// with `tallyhold serve`, or see `tallyhold demo`.
#[derive(Debug, Parser)]
#[command(name = "tallyhold", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Clone, Args)]
struct Global {
    /// The folder of the embedded PostgreSQL.
    #[arg(long, global = true, env = "TALLYHOLD_DATA", default_value = "tallyhold-data", value_name = "FOLDER")]
    data: PathBuf,
    /// A PostgreSQL server instead of the embedded one: its URL, for the role `tallyhold_server`
    /// (for `migrate`: an administrator's).
    #[arg(long, global = true, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Seals stored answers that carry a secret, and signs access tokens; at least 32 characters. The embedded server
    /// keeps one in its folder.
    #[arg(long, global = true, env = "TALLYHOLD_SECRET", hide_env_values = true, value_name = "SECRET")]
    secret: Option<String>,
    /// Send statements without names: for PgBouncer before 1.21 in transaction mode.
    #[arg(long, global = true, env = "TALLYHOLD_UNNAMED_STATEMENTS")]
    unnamed_statements: bool,
    /// Log lines as JSON. How much is logged: `RUST_LOG`, as in RUST_LOG=info.
    #[arg(long, global = true)]
    log_json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve the API and the page to try it.
    Serve(serve::Serve),
    /// Bring a database to the schema of this program.
    Migrate,
    // Described by its own type, at length.
    Demo(demo::Demo),
    /// Make a demonstration tenant with stock, once.
    Seed(admin::Seed),
    /// Check every invariant on the live data; exit status 1 when something is off.
    Verify(verify::Verify),
    /// Import the files of a data set.
    Import(import::Import),
    /// Measure this program beside other ways to do the same, on a throw-away database.
    Bench(bench::Bench),
    /// Make and list tenants.
    Tenant(admin::TenantCommand),
    /// Make, list and revoke API keys.
    Key(admin::KeyCommand),
    /// Make and list roles.
    Role(people::RoleCommand),
    /// Invite and list users.
    User(people::UserCommand),
}

impl Global {
    fn place(&self) -> Place {
        Place {
            data: self.data.clone(),
            database_url: self.database_url.clone(),
            secret: self.secret.clone(),
            unnamed: self.unnamed_statements,
        }
    }
}

/// Prints an error as people read it, and fails.
fn fail(error: &dyn Display) -> ExitCode {
    eprintln!("tallyhold: {error}");
    ExitCode::FAILURE
}

/// Runs the verb.
pub fn run(cli: Cli) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if cli.global.log_json {
        log.json().init();
    } else {
        log.init();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let place = cli.global.place();
    runtime.block_on(async {
        match cli.verb {
            Verb::Serve(verb) => verb.run(place).await,
            Verb::Migrate => admin::migrate(place).await,
            Verb::Demo(verb) => verb.run().await,
            Verb::Seed(verb) => verb.run(place).await,
            Verb::Verify(verb) => verb.run(place).await,
            Verb::Import(verb) => verb.run(place).await,
            Verb::Bench(verb) => verb.run().await,
            Verb::Tenant(verb) => verb.run(place).await,
            Verb::Key(verb) => verb.run(place).await,
            Verb::Role(verb) => verb.run(place).await,
            Verb::User(verb) => verb.run(place).await,
        }
    })
}

/// SIGINT and SIGTERM, which from now on are told instead of ending the program.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Ends with the exit status of a program ended by the signal, as shells count it.
    async fn told(mut self) -> ExitCode {
        tokio::select! {
            _ = self.interrupt.recv() => ExitCode::from(130),
            _ = self.terminate.recv() => ExitCode::from(143),
        }
    }
}

/// Runs `work` over the engine of the opened place, and closes it again whatever came out.
async fn with_engine(
    opened: Result<Store, StoreError>,
    work: impl AsyncFnOnce(&domain::Engine) -> Result<ExitCode, String>,
) -> ExitCode {
    let store = match opened {
        Ok(store) => store,
        Err(error) => return fail(&error),
    };
    let result = match crate::serve::start_engine(&store).await {
        Ok(engine) => {
            let result = work(&engine).await;
            engine.shutdown().await;
            result
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = store.close().await {
        return fail(&error);
    }
    result.unwrap_or_else(|error| fail(&error))
}
