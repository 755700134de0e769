//! Whom the company deals with: customers and their groups.
//!
//! Owns `customer`, `customer_group`.
//! Invariant: a name is one customer's, compared as people compare (`customer_name_unique`), and so is
//! a tax id, whatever its spaces and points (`customer_tax_id_unique`); the same for groups' names.
//! Invariant: every save names the version it began from (`document`).
//! Never knows what they ordered.

mod change_customer;
mod create_customer;
mod group;
pub mod model;
pub mod read;
mod refusal;
pub mod sql;

pub use change_customer::{ChangeCustomer, CustomerPatch};
pub use create_customer::CreateCustomer;
pub use group::{ChangeCustomerGroup, CreateCustomerGroup, CustomerGroupPatch};
pub use model::{CustomerFields, CustomerGroupFields, CustomerGroupView, CustomerView};
pub use refusal::Refusal;

use crate::document::Kind;
use engine::command::Permission;

pub const READ: Permission = Permission("parties.read");
pub const WRITE: Permission = Permission("parties.write");

pub const CUSTOMER: Kind =
    Kind { name: "customer", created: "parties.customer_created", changed: "parties.customer_changed" };
pub const CUSTOMER_GROUP: Kind = Kind {
    name: "customer_group",
    created: "parties.customer_group_created",
    changed: "parties.customer_group_changed",
};
