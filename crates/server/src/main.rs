//! The program. Everything it can do is a verb of [`server::cli`].

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    server::cli::run(server::cli::Cli::parse())
}
