//! What is sold (SKUs) and where it lies (warehouses).
//!
//! Owns `sku`, `warehouse`.
//! Invariant: a code names one SKU of a tenant, compared as people compare (`sku_code_unique`,
//! `kernel::text::fold`); the same for warehouses.
//! Never knows how many there are: that is inventory.

mod create_sku;
mod create_warehouse;
pub mod model;
pub mod read;
pub mod sql;

pub use create_sku::{CreateSku, SkuCreated};
pub use create_warehouse::{CreateWarehouse, WarehouseCreated};

use engine::{Reject, command::Permission};
use kernel::problem::Class;
use serde_json::{Map, Value, json};

pub const READ: Permission = Permission("catalog.read");
pub const WRITE: Permission = Permission("catalog.write");

/// Another record has that code, as it is spelled there.
#[derive(Debug)]
pub struct CodeTaken {
    pub what: &'static str,
    pub code: String,
    pub existing: String,
}

impl Reject for CodeTaken {
    fn code(&self) -> &'static str {
        match self.what {
            "SKU" => "sku_code_taken",
            _ => "warehouse_code_taken",
        }
    }
    fn class(&self) -> Class {
        Class::Conflict
    }
    fn detail(&self) -> String {
        format!("code: {} {} has the code {:?} already", self.what, self.existing, self.code)
    }
    fn more(&self) -> Map<String, Value> {
        Map::from_iter([("existing_id".into(), json!(self.existing))])
    }
}
