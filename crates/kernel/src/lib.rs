//! Pure types that every other crate speaks: no async, no I/O, no clock.
//!
//! Owns the spelling of ids, the arithmetic of quantities and amounts, the form of texts, dates and
//! pages, and the classes a refusal can have. Never knows a table, a route or a status code.

pub mod date;
pub mod exact;
pub mod id;
pub mod money;
pub mod page;
pub mod problem;
pub mod quantity;
pub mod text;
