//! The slices of Tallyhold, each a folder: what it owns, its pure rules, its commands, its SQL.
//!
//! Owns the working set (and with it the lock order), the registry of commands and the list of
//! migrations. Never begins or commits anything, and never knows a status code.
//!
//! A lower slice never calls up: tenancy ← catalog, parties ← inventory.

pub mod catalog;
pub mod document;
pub mod edit_lock;
pub mod inventory;
mod migrations;
mod natural_key;
pub mod parties;
pub mod registry;
pub mod tenancy;
pub mod verify;
pub mod working_set;

pub use migrations::{MIGRATIONS, SCHEMA_VERSION};
pub use working_set::{Wants, WorkingSet};

/// The engine over our tables.
pub type Engine = engine::Engine<WorkingSet>;
/// What a decision of ours is made with.
pub type Cx<'a> = engine::Cx<'a, WorkingSet>;
