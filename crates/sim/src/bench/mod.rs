//! `bench`: Tallyhold side by side with the ways others allocate, in one run on one machine.
//!
//! What counts is the ratio: several alternating rounds, the median of their ratios. Every round
//! begins on stock received anew and is checked against its tables; the last round of each method
//! also by every invariant of [`domain::verify`], the others' as well as ours.
//! Never touches anybody's data: it makes its own PostgreSQL and removes it.

mod baseline;
mod http;
mod measure;
mod memory;
mod place;
mod report;
mod stock;
mod suite;
mod way;

pub use suite::IDS;
pub use way::Encoder;

use baseline::{POOL, POOL_HOT, Take};
use domain::Engine;
use http::Served;
use measure::{Figures, median, middle};
use place::Place;
use report::Line;
use std::sync::Arc;
use stock::{Shape, Stock};
use suite::{CASES, Case, Method, Of};
use tokio_postgres::Client;
use way::Way;

/// What to measure, and how long.
#[derive(Debug, Clone)]
pub struct Plan {
    pub ids: Vec<String>,
    pub seconds: f64,
    pub rounds: usize,
    /// Requests that the server's memory is watched over.
    pub memory_requests: u64,
    pub json: bool,
}

/// What the bench needs of the program it measures.
pub struct Doors {
    /// The API's encoder of an allocation's answer.
    pub encode: Encoder,
    /// The API over an engine.
    pub router: fn(Arc<Engine>) -> axum::Router,
    /// The program's own server over a database's URL, on a free port of 127.0.0.1.
    pub serve: fn(&str) -> tokio::process::Command,
}

/// Runs the plan. Errors when a database or a server fails, and when any data is off.
pub async fn bench(plan: &Plan, doors: &Doors) -> Result<(), String> {
    eprintln!("making a database of its own in a temporary folder");
    let place = Place::make().await?;
    let result = tokio::select! {
        result = measure_all(plan, doors, &place) => result,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    place.remove().await?;
    result
}

async fn measure_all(plan: &Plan, doors: &Doors, place: &Place) -> Result<(), String> {
    let bench = Bench::start(plan, doors, place).await?;
    for case in CASES.iter().filter(|case| plan.ids.iter().any(|id| id == case.id)) {
        bench.case(case).await?;
    }
    if plan.ids.iter().any(|id| id == "P5") {
        bench.memory().await?;
    }
    bench.engine.shutdown().await;
    Ok(())
}

struct Bench<'a> {
    plan: &'a Plan,
    doors: &'a Doors,
    place: &'a Place,
    admin: Client,
    engine: Arc<Engine>,
    wide: deadpool_postgres::Pool,
    hot: deadpool_postgres::Pool,
}

impl<'a> Bench<'a> {
    async fn start(plan: &'a Plan, doors: &'a Doors, place: &'a Place) -> Result<Self, String> {
        let config = engine::Config::new(place.server(), b"a bench has no secret worth keeping".to_vec());
        let engine = Arc::new(Engine::start(config).await.map_err(|error| error.to_string())?);
        let (wide, hot) = (baseline::pool(&place.server(), POOL), baseline::pool(&place.server(), POOL_HOT));
        Ok(Self { plan, doors, place, admin: place.admin().await?, engine, wide, hot })
    }

    /// Rounds of all methods in turn, then their lines.
    async fn case(&self, case: &Case) -> Result<(), String> {
        eprintln!("{}  {}, {} callers: loading", case.id, case.workload, case.callers);
        let stock = Arc::new(Stock::make(&self.admin, case.shape).await?);
        let mut figures: Vec<Vec<Figures>> = case.methods.iter().map(|_| Vec::new()).collect();
        for turn in 1..=self.plan.rounds {
            for (method, figures) in case.methods.iter().zip(&mut figures) {
                eprint!("{}  round {turn} of {}: {:<24}", case.id, self.plan.rounds, method.name());
                let figure = self.round(case, *method, &stock, turn == self.plan.rounds).await?;
                eprintln!("{:>9.0} /s", figure.per_second);
                figures.push(figure);
            }
        }
        self.print(case, &figures);
        Ok(())
    }

    async fn round(&self, case: &Case, method: Method, stock: &Arc<Stock>, last: bool) -> Result<Figures, String> {
        stock.fill(&self.admin).await?;
        let served = match method {
            Method::OursHttp => Some(Served::start((self.doors.router)(self.engine.clone())).await?),
            Method::LockWriteHttp => Some(Served::start(http::lock_write(self.wide.clone())).await?),
            Method::Trivial => Some(Served::start(http::trivial()).await?),
            _ => None,
        };
        let way = match (method, &served) {
            (Method::Ours, _) => Way::engine(self.engine.clone(), self.doors.encode),
            (Method::LockWrite, _) => Way::Statements { pool: self.wide.clone(), take: Take::LockWrite },
            (Method::Conditional, _) => Way::Statements { pool: self.wide.clone(), take: Take::Conditional },
            (Method::OneCall, _) => Way::OneCall { pool: self.wide.clone() },
            (Method::OneCallPoolHot, _) => Way::OneCall { pool: self.hot.clone() },
            (_, Some(served)) => Way::Http { address: served.address, token: stock.token.clone() },
            (_, None) => return Err(format!("{} has no server", method.name())),
        };
        let round = measure::round(&way, stock, case.callers, self.plan.seconds).await;
        if let Some(served) = served {
            served.stop().await;
        }
        let round = round.map_err(|error| format!("{}: a request failed: {error}", method.name()))?;
        if method != Method::Trivial {
            let off = |error| format!("{} {}: {error}", case.id, method.name());
            stock.check(&self.admin, round.succeeded).await.map_err(off)?;
            if last {
                self.verify().await.map_err(off)?;
            }
        }
        Ok(round.figures)
    }

    /// Every invariant, over what one round left.
    async fn verify(&self) -> Result<(), String> {
        let report = domain::verify::verify(&self.engine, None).await.map_err(|error| error.to_string())?;
        match report.findings.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} rows are off; the first: {first:?}", report.findings.len())),
        }
    }

    fn print(&self, case: &Case, figures: &[Vec<Figures>]) {
        let ours = &figures[0];
        for (index, method) in case.methods.iter().enumerate() {
            let mut ratios = Vec::new();
            for ratio in case.ratios.iter().filter(|_| index == 0) {
                let Some(over) = case.methods.iter().position(|method| *method == ratio.over) else { continue };
                let of = |figures: &Figures| match ratio.of {
                    Of::PerSecond => figures.per_second,
                    Of::P50 => figures.p50_ms,
                };
                // Round by round: the two ran one after the other, on the machine as it was then.
                let each = ours.iter().zip(&figures[over]).map(|(ours, other)| of(ours) / of(other));
                ratios.push((*ratio, median(each)));
            }
            let line = Line {
                id: case.id,
                workload: case.workload,
                callers: case.callers,
                method: method.name(),
                figures: middle(&figures[index]),
                ratios,
            };
            if self.plan.json {
                println!("{}", line.json());
            } else {
                if index == 0 {
                    println!("{}", line.heading());
                }
                println!("{}", line.text());
            }
        }
    }

    async fn memory(&self) -> Result<(), String> {
        let requests = self.plan.memory_requests;
        eprintln!("P5  memory of the serving process: {requests} requests");
        let shape = Shape { tenants: 1, skus_each: 100, skew: 0.0 };
        let stock = Arc::new(Stock::make(&self.admin, shape).await?);
        stock.fill(&self.admin).await?;
        let memory = memory::measure(self.place, self.doors, &stock, requests).await?;
        stock.check(&self.admin, requests).await?;
        println!("{}", if self.plan.json { memory.json() } else { memory.text() });
        Ok(())
    }
}
