//! The Online Retail data set: from the bytes of its files to booked lines and their account.
//!
//! Owns reading, planning, booking and the report of `tallyhold import online-retail`. `parse`,
//! `plan` and `report` are pure; `prepare`, `book` and `send` go through the engine.

pub mod book;
pub mod parse;
pub mod plan;
pub mod prepare;
pub mod report;
pub mod send;
