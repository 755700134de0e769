//! The doors: translation only. HTTP and the command line turn requests into commands, and
//! answers into bytes.
//!
//! Owns routes, status codes, credentials at the door, configuration and the program's life.
//! Never holds a rule or a statement.

pub mod api;
pub mod auth;
pub mod cli;
pub mod notes;
pub mod serve;
pub mod store;
