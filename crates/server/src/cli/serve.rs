//! `tallyhold serve`.

use super::{admin, fail};
use crate::{
    api::App,
    serve::{Serving, serve},
    store::Place,
};
use clap::Args;
use std::{io::Write, net::SocketAddr, process::ExitCode};

const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// Serves the API and the page to try it, until Ctrl-C or SIGTERM: requests that run are answered
/// first.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen. Without it: 127.0.0.1:8080, or the next free port.
    #[arg(long, env = "TALLYHOLD_LISTEN", value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Make the demonstration tenant first, and tell how to use it.
    #[arg(long)]
    demo_tenant: bool,
}

impl Serve {
    pub async fn run(self, place: Place) -> ExitCode {
        let asked: SocketAddr = DEFAULT_ADDRESS.parse().expect("a plain address");
        let serving = Serving { place, address: self.listen.unwrap_or(asked), move_on: self.listen.is_none() };
        let ready = async |address: SocketAddr, app: &App, store: &str| {
            let moved = match self.listen.is_none() && address != asked {
                true => format!("Port {} is taken, so this is port {}.\n", asked.port(), address.port()),
                false => String::new(),
            };
            let first_steps = match self.demo_tenant {
                true => admin::seed(&app.engine).await.map(|seeded| seeded.first_steps(Some(address))),
                false => Ok(String::new()),
            };
            let first_steps = first_steps.unwrap_or_else(|error| {
                eprintln!("tallyhold: the demonstration tenant could not be made: {error}");
                String::new()
            });
            let program = std::env::args().next().unwrap_or_else(|| "tallyhold".into());
            // Whoever started us may not listen any more; that is no reason not to serve.
            let _ = write!(
                std::io::stdout(),
                "{moved}Tallyhold serves http://{address}  (data: {store})\n  \
                 try the API     http://{address}/docs\n  \
                 see the demo    {program} demo\n{first_steps}Stop with Ctrl-C.\n"
            );
        };
        match serve(serving, ready).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        }
    }
}
