//! `tallyhold bench`.

use super::fail;
use crate::{
    api::{self, App, encode},
    serve::install_metrics,
};
use clap::Args;
use domain::Engine;
use sim::bench::{Doors, IDS, Plan};
use std::{env, process::ExitCode, sync::Arc};
use tokio::process::Command;

/// Measures this program beside the ways others allocate stock, on a PostgreSQL of its own that it
/// makes in a temporary folder and removes; your data is not touched. What counts are the ratios
/// of one run; on a busy machine they are noise. Exit status 1 when any row is off.
#[derive(Debug, Args)]
pub struct Bench {
    /// Only these measurements, as in P1,P2.
    #[arg(long, value_delimiter = ',', value_name = "IDS", value_parser = clap::builder::PossibleValuesParser::new(IDS))]
    only: Vec<String>,
    /// Seconds a round is measured.
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Rounds of each method; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Requests that P5 watches the server's memory over.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    memory_requests: u64,
    /// One JSON object a line instead of text.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=600.0).contains(&value) { Ok(value) } else { Err("from 0.1 to 600".to_owned()) }
}

fn router(engine: Arc<Engine>) -> axum::Router {
    api::router(Arc::new(App::new(engine)))
}

/// This program's `serve`, as a process of its own.
fn serve(database_url: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap_or_else(|_| "tallyhold".into()));
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", database_url).env("TALLYHOLD_SECRET", "a bench has no secret worth keeping");
    command
}

impl Bench {
    pub async fn run(self) -> ExitCode {
        // As when serving: measuring without them would flatter.
        install_metrics();
        let all = || IDS.iter().map(|&id| id.to_owned()).collect();
        let plan = Plan {
            ids: if self.only.is_empty() { all() } else { self.only },
            seconds: self.seconds,
            rounds: self.rounds.into(),
            memory_requests: self.memory_requests,
            json: self.json,
        };
        match sim::bench::bench(&plan, &Doors { encode: encode::ok, router, serve }).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        }
    }
}
