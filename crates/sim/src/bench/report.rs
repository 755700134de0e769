//! What people and programs read of the figures.

use super::{
    measure::Figures,
    suite::{Of, Ratio},
};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;

/// One method of one workload.
pub struct Line {
    pub id: &'static str,
    pub workload: &'static str,
    pub callers: usize,
    pub method: &'static str,
    pub figures: Figures,
    pub ratios: Vec<(Ratio, f64)>,
}

#[derive(Serialize)]
struct Object {
    id: &'static str,
    workload: &'static str,
    callers: usize,
    method: &'static str,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    ratio_b1: Option<f64>,
    ratio_b3: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_b3_pool_2: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_trivial: Option<f64>,
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let unit = 10f64.powi(decimals);
    (value * unit).round() / unit
}

fn verdict(ratio: &Ratio, value: f64) -> &'static str {
    let within = |bound: f64| match ratio.of {
        Of::PerSecond => value >= bound,
        Of::P50 => value <= bound,
    };
    match (within(ratio.goal), within(ratio.floor)) {
        (true, _) => "goal reached",
        (false, true) => "above floor",
        (false, false) => "BELOW FLOOR",
    }
}

impl Line {
    /// One object; `ratio_b1` and `ratio_b3` are always there, null where not measured.
    pub fn json(&self) -> String {
        let Figures { per_second, p50_ms, p99_ms } = self.figures;
        let ratio = |name| {
            let found = self.ratios.iter().find(|(ratio, _)| ratio.name == name);
            found.map(|(_, value)| rounded(*value, 3))
        };
        let object = Object {
            id: self.id,
            workload: self.workload,
            callers: self.callers,
            method: self.method,
            per_second: rounded(per_second, 0),
            p50_ms: rounded(p50_ms, 3),
            p99_ms: rounded(p99_ms, 3),
            ratio_b1: ratio("ratio_b1"),
            ratio_b3: ratio("ratio_b3"),
            ratio_b3_pool_2: ratio("ratio_b3_pool_2"),
            ratio_trivial: ratio("ratio_trivial"),
        };
        serde_json::to_string(&object).expect("texts and numbers are JSON")
    }

    /// A row of the table, and one for each ratio below it.
    pub fn text(&self) -> String {
        let Figures { per_second, p50_ms, p99_ms } = self.figures;
        let mut text =
            format!("    {:<24} {per_second:>9.0} /s   p50 {p50_ms:>8.2} ms   p99 {p99_ms:>8.2} ms", self.method);
        for (ratio, value) in &self.ratios {
            let how = match ratio.of {
                Of::PerSecond => "rate",
                Of::P50 => "p50",
            };
            let _ = write!(
                text,
                "\n        {how} / {:<22} {value:>6.2}   goal {:<5} floor {:<5} {}",
                ratio.over.name(),
                ratio.goal,
                ratio.floor,
                verdict(ratio, *value)
            );
        }
        text
    }

    pub fn heading(&self) -> String {
        format!("{}  {}, {} caller{}", self.id, self.workload, self.callers, if self.callers == 1 { "" } else { "s" })
    }
}

/// P5's memory: the server's resident size after few and after many requests.
pub struct Memory {
    pub few: u64,
    pub few_kib: u64,
    pub many: u64,
    pub many_kib: u64,
}

const MEMORY_GOAL: f64 = 1.1;
const MEMORY_FLOOR: f64 = 1.3;

impl Memory {
    fn ratio(&self) -> f64 {
        self.many_kib as f64 / self.few_kib as f64
    }

    pub fn json(&self) -> String {
        json!({
            "id": "P5",
            "workload": "memory of the serving process",
            "requests": [self.few, self.many],
            "resident_kib": [self.few_kib, self.many_kib],
            "ratio": rounded(self.ratio(), 3),
        })
        .to_string()
    }

    pub fn text(&self) -> String {
        let ratio = self.ratio();
        let verdict = match ratio {
            r if r <= MEMORY_GOAL => "goal reached",
            r if r <= MEMORY_FLOOR => "above floor",
            _ => "BELOW FLOOR",
        };
        format!(
            "P5  memory of the serving process\n    {} KiB after {} requests, {} KiB after {}\n        \
             ratio {ratio:.2}   goal {MEMORY_GOAL} floor {MEMORY_FLOOR} {verdict}",
            self.few_kib, self.few, self.many_kib, self.many
        )
    }
}
