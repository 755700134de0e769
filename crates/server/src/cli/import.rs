//! `tallyhold import`.

use super::{
    StopSignals, fail,
    online_retail::{
        book::{Desk, Unopened},
        parse::{RetailFile, parse},
        plan::{Plan, plan},
        prepare,
        report::{Prepared, Report, Tally},
        send::{GOES_ON, Sender, Stopped},
    },
    with_engine,
};
use crate::store::{Place, Store};
use clap::{Args, Subcommand};
use domain::{Engine, tenancy::model::Slug};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use kernel::text::Code;
use serde::Serialize;
use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

/// Imports the files of a data set. Every line is booked once, however often it is imported.
#[derive(Debug, Args)]
pub struct Import {
    #[command(subcommand)]
    verb: ImportVerb,
}

#[derive(Debug, Subcommand)]
enum ImportVerb {
    OnlineRetail(OnlineRetail),
}

impl Import {
    pub async fn run(self, place: Place) -> ExitCode {
        match self.verb {
            ImportVerb::OnlineRetail(verb) => verb.run(place).await,
        }
    }
}

/// Import days of the "Online Retail" data set: its invoices become stock movements.
///
/// Each file is read and planned whole before anything is booked. Then:
///
///  1. Tenant, warehouse and SKUs are made where they are missing. Codes are compared as people do:
///     85123a is 85123A.
///  2. For each file and SKU the opening stock is received: what the file takes away in total.
///  3. The lines are booked by many callers at once, those of one SKU in file order. A sale is
///     allocated and shipped. A negative line is a return of what the file sold to that customer,
///     else an adjustment with its reason. Postage, fees, discounts and manual lines are reported,
///     not booked.
///
/// Every line has the name of its business event, as in `online-retail|536365|85123A|1` (invoice,
/// code, occurrence), and is booked once under it, for good. So after an error, a kill or a power
/// cut run the same command again: it goes on where it stopped, and a run over files that are
/// imported already changes nothing. A line that was corrected after its import is refused and
/// shown, with both quantities. Do not rename a file after its import: its name is part of the key
/// of its opening stock, which is refused under another name.
///
/// The report accounts for every line, and its lines, units and value add up to those of the files.
/// Fields that are not UTF-8 are read as Windows-1252, and the report tells of which files.
///
/// Exit status 0: the report balances, and nothing was refused but lines that the files themselves
/// make unbookable (no number, unknown code, quantity zero). 1: something else was refused, the
/// import stopped half-way, or it could not begin. 130 or 143: SIGINT or SIGTERM stopped it, and it
/// told how far it was.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tallyhold import online-retail 2010-12-01.csv 2010-12-02.csv")]
#[command(verbatim_doc_comment)]
pub struct OnlineRetail {
    /// CSV files with the columns InvoiceNo, StockCode, Description, Quantity, InvoiceDate,
    /// UnitPrice, CustomerID, Country.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The tenant to import into; made when missing.
    #[arg(long, value_name = "SLUG", default_value = "online-retail")]
    tenant: Slug,
    /// The warehouse that sells the goods; made when missing.
    #[arg(long, value_name = "CODE", default_value = "MAIN")]
    warehouse: Code,
    /// Calls under way at once.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    callers: u16,
    /// One JSON object instead of text, and no progress bar.
    #[arg(long)]
    json: bool,
}

/// The report with where it was booked and how long it took.
#[derive(Serialize)]
struct Summary<'a> {
    tenant: &'a str,
    warehouse: &'a str,
    #[serde(flatten)]
    report: &'a Report,
    seconds: f64,
    lines_per_second: f64,
}

impl OnlineRetail {
    async fn run(self, place: Place) -> ExitCode {
        let files: Result<Vec<RetailFile>, String> = self.files.iter().map(|path| read(path)).collect();
        let plan = match files.and_then(|files| plan(files).map_err(|error| error.to_string())) {
            Ok(plan) => plan,
            Err(error) => return fail(&error),
        };
        with_engine(Store::shared(&place).await, async |engine| {
            let signals = StopSignals::new().map_err(|error| error.to_string())?;
            let began = Instant::now();
            let tally = RefCell::new(Tally::of(&plan));
            tokio::select! {
                biased;
                code = signals.told() => {
                    let progress = tally.borrow().progress();
                    eprintln!(
                        "tallyhold: the import was stopped after {progress}; what was under way may be done, too.\n\
                         {GOES_ON}"
                    );
                    return Ok(code);
                }
                booked = self.book(engine, &plan, &tally) => booked?,
            }
            let report = tally.into_inner().finish();
            let seconds = began.elapsed().as_secs_f64();
            let lines_per_second = report.total.read.lines as f64 / seconds;
            if self.json {
                let (tenant, warehouse) = (self.tenant.as_str(), &*self.warehouse);
                let summary = Summary { tenant, warehouse, report: &report, seconds, lines_per_second };
                println!("{}", serde_json::to_string(&summary).map_err(|error| error.to_string())?);
            } else {
                print!("{report}");
                println!("{} lines in {seconds:.1} s, {lines_per_second:.0} lines/s", report.total.read.lines);
            }
            Ok(if report.complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
        .await
    }

    async fn book(&self, engine: &Engine, plan: &Plan, tally: &RefCell<Tally>) -> Result<(), String> {
        let callers = usize::from(self.callers);
        let stopped = |stopped: Stopped| stopped.to_string();
        let tenant = prepare::tenant(engine, &self.tenant).await?;
        let sender = Sender { engine, tenant };
        let warehouse = prepare::warehouse(&sender, &self.warehouse).await?;

        let bar = self.bar("SKUs", plan.skus.len());
        let skus = prepare::skus(&sender, &plan.skus, callers, |sku, outcome| {
            tally.borrow_mut().record_sku(&sku.code, outcome);
            bar.inc(1);
        });
        let skus = skus.await.map_err(stopped)?;
        bar.finish_and_clear();

        let desk = Desk::open(sender, plan, warehouse, skus).await.map_err(stopped)?;
        let bar = self.bar("opening stock", plan.openings.len());
        let unopened = RefCell::new(Unopened::new());
        stream::iter(&plan.openings)
            .map(Ok)
            .try_for_each_concurrent(callers, async |opening| {
                let outcome = desk.opening(opening).await?;
                if matches!(outcome, Prepared::Refused(_)) {
                    unopened.borrow_mut().insert((opening.file, opening.sku));
                }
                tally.borrow_mut().record_opening(&opening.key, outcome);
                bar.inc(1);
                Ok(())
            })
            .await
            .map_err(stopped)?;
        bar.finish_and_clear();

        let bar = self.bar("lines", plan.steps.len());
        let mut queues = plan.queues();
        // The longest first: begun last, it would be the only one under way at the end.
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.len()));
        let unopened = unopened.into_inner();
        stream::iter(&queues)
            .map(Ok)
            .try_for_each_concurrent(callers, async |queue| {
                let booked = |step: &_, outcome| {
                    tally.borrow_mut().record(step, outcome);
                    bar.inc(1);
                };
                desk.queue(queue, &unopened, booked).await
            })
            .await
            .map_err(stopped)?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Shown where standard error is a terminal.
    fn bar(&self, what: &'static str, length: usize) -> ProgressBar {
        let target = if self.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let style = ProgressStyle::with_template(
            "{prefix:>13} [{bar:30}] {human_pos} of {human_len}, {per_sec}, {eta} remaining",
        );
        // Cleared also where it is dropped half-way, or what is said then would stand behind it.
        let bar = ProgressBar::with_draw_target(Some(length as u64), target).with_finish(ProgressFinish::AndClear);
        bar.set_style(style.expect("a template of known keys").progress_chars("=> "));
        bar.with_prefix(what)
    }
}

fn read(path: &Path) -> Result<RetailFile, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&path.to_string_lossy(), &bytes).map_err(|error| error.to_string())
}
