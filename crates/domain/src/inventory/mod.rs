//! Stock: how many units of a SKU a warehouse holds, and what is promised of them.
//!
//! Owns `stock_position`, `stock_ledger`, `promise`, `stock_source`. Emits `inventory.*`.
//! Invariant: a position is the sum of its ledger (`verify`, `model::book`).
//! Invariant: promised <= sellable (`stock_position_no_oversell`, `rules::promise`).
//! Invariant: a position's allocated is what its promises have open (`verify`).
//! Invariant: each ledger line has its event, of the same sequence (`model::book`, `verify`).
//! Invariant: a source is booked once, for good (`stock_source_pkey`).
//! Never reads an order: orders ask us.

mod adjust;
mod allocate;
pub mod model;
mod precheck;
pub mod read;
mod receive;
mod refusal;
mod release;
mod return_;
pub mod rules;
mod ship;
pub mod sql;

pub use adjust::{Adjust, AdjustLine};
pub use allocate::{Allocate, AllocateLine, Priority};
pub use model::{Moved, MovedLine, Promised, PromisedLine};
pub use precheck::precheck;
pub use receive::{Receive, ReceiveLine};
pub use refusal::{Refusal, Short, check_lines};
pub use release::{Release, ReleaseLine};
pub use return_::{Return, ReturnLine};
pub use ship::{Ship, ShipLine};

use engine::command::Permission;

pub const READ: Permission = Permission("inventory.read");
pub const WRITE: Permission = Permission("inventory.write");

/// Lines one call may carry.
pub const LINES_MAX: usize = 200;
