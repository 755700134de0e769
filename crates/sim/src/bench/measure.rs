//! One round: callers ask as fast as they are answered, for a while.

use super::{stock::Stock, way::Way};
use hdrhistogram::Histogram;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// What a round showed.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// A round's figures, and how many allocations it made in all, warm-up included.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    pub figures: Figures,
    pub succeeded: u64,
}

/// Keys are never used twice by one process.
static KEYS: AtomicU64 = AtomicU64::new(0);

pub fn fresh_key() -> String {
    format!("bench|order-{}", KEYS.fetch_add(1, Ordering::Relaxed))
}

fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, 60_000_000, 2).expect("the bounds are in order")
}

/// The first part of a round counts for nothing: connections open, plans are made.
fn warm_up(seconds: f64) -> Duration {
    Duration::from_secs_f64((seconds / 4.0).min(0.5))
}

/// The first request that fails ends the round with its error.
pub async fn round(way: &Way, stock: &Arc<Stock>, callers: usize, seconds: f64) -> Result<Round, String> {
    let mut ready = Vec::with_capacity(callers);
    for _ in 0..callers {
        ready.push(way.caller().await?);
    }
    let from = Instant::now() + warm_up(seconds);
    let to = from + Duration::from_secs_f64(seconds);
    let mut tasks = JoinSet::new();
    for mut caller in ready {
        let stock = stock.clone();
        tasks.spawn(async move {
            let mut random = fastrand::Rng::new();
            let mut latencies = histogram();
            let mut succeeded = 0u64;
            loop {
                let asked = Instant::now();
                if asked >= to {
                    return Ok::<_, String>((latencies, succeeded));
                }
                caller.allocate(stock.pick(&mut random), &fresh_key()).await?;
                succeeded += 1;
                let answered = Instant::now();
                if answered >= from && answered < to {
                    latencies.saturating_record((answered - asked).as_micros() as u64);
                }
            }
        });
    }
    let (mut all, mut succeeded) = (histogram(), 0);
    while let Some(ended) = tasks.join_next().await {
        let (latencies, more) = ended.map_err(|error| error.to_string())??;
        all.add(latencies).map_err(|error| error.to_string())?;
        succeeded += more;
    }
    let ms = |quantile| all.value_at_quantile(quantile) as f64 / 1000.0;
    let figures = Figures { per_second: all.len() as f64 / seconds, p50_ms: ms(0.5), p99_ms: ms(0.99) };
    Ok(Round { figures, succeeded })
}

/// The middle one; of an even number the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        many if many % 2 == 1 => values[many / 2],
        many => f64::midpoint(values[many / 2 - 1], values[many / 2]),
    }
}

/// Each figure's median over rounds.
pub fn middle(rounds: &[Figures]) -> Figures {
    let of = |f: fn(&Figures) -> f64| median(rounds.iter().map(f));
    Figures { per_second: of(|r| r.per_second), p50_ms: of(|r| r.p50_ms), p99_ms: of(|r| r.p99_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        for (values, expected) in [(vec![3.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0], 2.5), (vec![7.0], 7.0)] {
            assert!((median(values.clone()) - expected).abs() < 1e-9, "{values:?}");
        }
    }
}
