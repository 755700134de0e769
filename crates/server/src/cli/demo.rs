//! `tallyhold demo`: the story that this program exists for, told by the program against itself.
//!
//! `stage` owns the throw-away folder and the child that serves from it, `caller` the people and
//! their HTTP, `tell` what is printed; `scenes`, `crash` and `ending` are the story.
//! Invariant: every sentence about what happened was checked; the first that does not hold ends
//! the story, with exit status 1.

mod caller;
mod crash;
mod ending;
mod scenes;
mod stage;
mod tell;

use self::{
    caller::{Caller, Click},
    stage::Stage,
    tell::{Tell, line},
};
use super::{StopSignals, fail};
use clap::Args;
use kernel::{id::TenantId, quantity::Quantity};
use serde::Deserialize;
use serde_json::json;
use std::{net::SocketAddr, process::ExitCode, sync::Arc};
use thiserror::Error;

/// Show, in under a minute, what happens when everything happens at once
///
/// This program starts itself on a throw-away folder and talks to itself over HTTP, like a
/// stranger. Its story has seven scenes:
///
///   1  The drop: six Kestrel Overshirts.
///   2  The same instant: Austin and Tokyo commit all six. One gets them, the other is told so.
///   3  The same click twice.
///   4  The reply lost after the commit, and the retry.
///   5  The key used again with another body.
///   6  The program killed in mid-commit, before and after the commit, and started again.
///   7  Who got what: positions, ledger, events, and `tallyhold verify`.
///
/// Each is a time line, and everything it says is checked. It touches neither --data nor
/// --database-url, and leaves nothing behind. Exit status 0: all of it held; 1: something is off.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Demo {}

/// Why the story ended early.
#[derive(Debug, Error)]
enum Trouble {
    /// Something is not as it must be.
    #[error("OFF: {0}")]
    Off(String),
    /// It could not be told.
    #[error("OFF: the story cannot go on: {0}")]
    Stuck(String),
    #[error("interrupted")]
    Interrupted(ExitCode),
}

impl Demo {
    pub async fn run(self) -> ExitCode {
        let signals = match StopSignals::new() {
            Ok(signals) => signals,
            Err(error) => return fail(&error),
        };
        let mut stage = match Stage::open() {
            Ok(stage) => stage,
            Err(trouble) => return fail(&trouble),
        };
        let mut tell = Tell::new();
        let told = tokio::select! {
            // First: what a dying child makes of the story is no finding.
            biased;
            code = signals.told() => Err(Trouble::Interrupted(code)),
            told = story(&mut stage, &mut tell) => told,
        };
        let log = stage.log();
        let cleared = stage.clear().await;
        match told.and_then(|summary| cleared.map(|()| summary)) {
            Ok(summary) => {
                line("");
                line(&summary);
                let (held, seconds) = (tell.held, tell.seconds());
                line(&format!(
                    "{held} checks held, through 3 lost replies, 2 of them by kill -9, in {seconds:.1} s. Nothing is left behind."
                ));
                ExitCode::SUCCESS
            }
            Err(Trouble::Interrupted(code)) => code,
            Err(trouble) => {
                tell.off(&trouble.to_string());
                if !log.is_empty() {
                    eprintln!("tallyhold: what the program logged last:");
                    for line in log {
                        eprintln!("  {line}");
                    }
                }
                ExitCode::FAILURE
            }
        }
    }
}

/// All scenes; what it comes to, in one line.
async fn story(stage: &mut Stage, tell: &mut Tell) -> Result<String, Trouble> {
    line("Tallyhold against itself: a throw-away folder, a program of its own, plain HTTP.");
    line("→ sent   ← came back   · happened   ok checked;   times count from the scene's start");
    let mut play = scenes::opening(stage, tell).await?;
    let (indigo, sand) = scenes::drop(&mut play).await?;
    let winner = scenes::same_instant(&mut play, &indigo).await?;
    scenes::double_click(&mut play, &sand).await?;
    let known = scenes::reply_lost(&mut play, &sand).await?;
    scenes::key_reused(&mut play, &sand, known).await?;
    crash::killed(&mut play, &sand).await?;
    ending::balance(&mut play, &indigo, &sand, winner).await
}

/// What the scenes share.
struct Play<'a> {
    stage: &'a mut Stage,
    tell: &'a mut Tell,
    tenant: TenantId,
    austin: Caller,
    tokyo: Caller,
    warehouse: Caller,
}

/// A SKU in a warehouse.
struct Item {
    name: &'static str,
    sku: String,
    warehouse: String,
    position: String,
}

/// A stock position as the API shows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Level {
    on_hand: Quantity,
    allocated: Quantity,
    ats: Quantity,
    sequence: i64,
}

impl Level {
    fn plain(&self) -> String {
        format!("on hand {}, allocated {}, available to sell {}", self.on_hand, self.allocated, self.ats)
    }

    /// The one after `units` more were promised, in one step.
    fn promised(&self, units: u32) -> Self {
        let units = Quantity::from(units);
        let moved = |from: Quantity, by: Quantity| from.plus(by).expect("a story of small numbers");
        Self {
            on_hand: self.on_hand,
            allocated: moved(self.allocated, units),
            ats: moved(self.ats, units.negated()),
            sequence: self.sequence + 1,
        }
    }
}

impl Play<'_> {
    fn address(&self) -> SocketAddr {
        self.stage.address()
    }

    async fn level(&self, item: &Item) -> Result<Level, Trouble> {
        self.warehouse.get(self.address(), &format!("/v1/stock-positions/{}", item.position)).await
    }

    /// Commits units to a buyer; the key is the business event, so a retry carries it again.
    fn commit(caller: &Caller, item: &Item, units: u32, key: &str) -> Click {
        let line = json!({
            "sku_id": item.sku, "warehouse_id": item.warehouse, "quantity": units.to_string(), "source": key,
        });
        let body = json!({"lines": [line]});
        Click { caller: caller.clone(), path: "/v1/stock/allocate", key: key.into(), body }
    }
}

/// The bearer of all desks.
type Bearer = Arc<str>;
