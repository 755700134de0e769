//! `tallyhold verify`.

use super::with_engine;
use crate::store::{Place, Store};
use clap::Args;
use domain::{tenancy, verify};
use std::process::ExitCode;

/// Checks every invariant on the live data, each tenant in one snapshot: positions against their
/// ledger, promises against positions, events against changes in both directions, sequences
/// without holes, stored answers. Changes nothing. Exit status 0: nothing found; 1: something is
/// off, or it could not be checked.
#[derive(Debug, Args)]
pub struct Verify {
    /// Only this tenant.
    #[arg(long, value_name = "SLUG")]
    tenant: Option<String>,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub async fn run(self, place: Place) -> ExitCode {
        with_engine(Store::existing(&place).await, async |engine| {
            let only = match &self.tenant {
                None => None,
                Some(slug) => {
                    let found = tenancy::read::tenant_by_slug(engine, slug).await.map_err(|error| error.to_string())?;
                    Some(found.ok_or_else(|| format!("there is no tenant {slug:?}"))?)
                }
            };
            let report = verify::verify(engine, only).await.map_err(|error| error.to_string())?;
            if self.json {
                println!("{}", serde_json::to_string(&report).map_err(|error| error.to_string())?);
            } else {
                for finding in &report.findings {
                    println!(
                        "{}: {} {}: expected {}, found {}  [{}]",
                        finding.tenant, finding.table, finding.key, finding.expected, finding.found, finding.check
                    );
                }
                let off = report.findings.len();
                let verdict = if off == 0 { "nothing is off".to_owned() } else { format!("{off} rows are off") };
                println!("{} checks over {} tenants: {verdict}", report.checks, report.tenants);
            }
            Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
        .await
    }
}
