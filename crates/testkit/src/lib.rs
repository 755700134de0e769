//! What tests are written with: a real PostgreSQL, a database per test, the real program over
//! HTTP, and a sweep of every invariant when a test ends.
//!
//! Never mocks a thing that can be started.

pub mod app;
pub mod database;
pub mod postgres;
pub mod proxy;

pub use app::{App, Reply};
pub use database::Database;
