//! What people and programs read of the figures.

use super::{
    measure::Figures,
    suite::{Of, Ratio},
};
use serde_json::{Map, Value, json};

/// One method of one workload.
pub struct Line {
    pub id: &'static str,
    pub workload: &'static str,
    pub callers: usize,
    pub method: &'static str,
    pub figures: Figures,
    pub ratios: Vec<(Ratio, f64)>,
}

fn rounded(value: f64, decimals: i32) -> Value {
    let unit = 10f64.powi(decimals);
    json!((value * unit).round() / unit)
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
    /// One object: `ratio_b1` and `ratio_b3` are always there, null where not measured.
    pub fn json(&self) -> String {
        let Figures { per_second, p50_ms, p99_ms } = self.figures;
        let mut object = Map::new();
        object.insert("id".into(), self.id.into());
        object.insert("workload".into(), self.workload.into());
        object.insert("callers".into(), self.callers.into());
        object.insert("method".into(), self.method.into());
        object.insert("per_second".into(), rounded(per_second, 0));
        object.insert("p50_ms".into(), rounded(p50_ms, 3));
        object.insert("p99_ms".into(), rounded(p99_ms, 3));
        object.insert("ratio_b1".into(), Value::Null);
        object.insert("ratio_b3".into(), Value::Null);
        for (ratio, value) in &self.ratios {
            object.insert(ratio.name.into(), rounded(*value, 3));
        }
        Value::from(object).to_string()
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
            text += &format!(
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
