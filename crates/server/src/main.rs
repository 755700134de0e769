//! The program. Everything it can do is a verb of [`server::cli`].

use clap::Parser;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A batch is thousands of small allocations, made in one thread and freed in another.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    server::cli::run(server::cli::Cli::parse())
}
