//! Pure types that every other crate speaks: no async, no I/O, no clock.
//!
//! Owns the spelling of ids, the arithmetic of quantities, the form of texts and pages, and
//! the classes a refusal can have. Never knows a table, a route or a status code.

pub mod date;
pub mod id;
pub mod page;
pub mod problem;
pub mod quantity;
pub mod text;
