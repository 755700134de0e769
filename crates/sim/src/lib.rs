//! Tallyhold under load: workloads, the ways others do the same work, and their measuring; and
//! what the demonstration stages in the database.
//!
//! Runs only on databases it made itself, never on anybody's data.

pub mod bench;
pub mod stall;
