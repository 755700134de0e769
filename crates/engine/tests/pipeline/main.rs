//! The engine over a toy domain: counters, guarded by a CHECK, and documents with numbers.

mod batches;
mod numbers;
mod overlay;
mod race;
mod toy;
