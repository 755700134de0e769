//! Load and proof: the baselines and measurements of `tallyhold bench`.

pub mod stall;
