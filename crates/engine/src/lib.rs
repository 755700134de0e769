//! How anything is done safely on PostgreSQL: every change is a command, run in a
//! group-committed batch, its answer stored in the same commit.
//!
//! Owns transactions, locks, batches, stored answers, events, audit, versions of documents and locks
//! on them, number ranges and the connection to the server. Knows no business word: what a row means is
//! its slice's affair.
//!
//! Read in this order: [`command`] (what a caller writes), [`table`] (the rows it may name),
//! [`lane`] (who waits with whom), [`batch`] (the transaction, step by step), [`tx`].

pub mod answer;
pub mod audit;
pub mod batch;
pub mod command;
pub mod deadlock;
pub mod edit_lock;
pub mod error;
pub mod event;
pub mod gate;
pub mod history;
pub mod lane;
pub mod number;
pub mod postgres;
pub mod sql;
pub mod table;
pub mod tx;

mod run;

pub use command::{Actor, Call, Command, Cx, Encode, Head, Next, Queue, Reject};
pub use error::Fault;
pub use run::{Answered, Config, Engine, statements};
