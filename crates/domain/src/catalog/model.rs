//! Rows of the catalog slice.

use jiff::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Sku {
    pub code: String,
    pub code_folded: String,
    pub name: String,
    pub unit: String,
    /// Digits after the point a quantity of it may have.
    pub decimals: u8,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Warehouse {
    pub code: String,
    pub code_folded: String,
    pub name: String,
    pub created_at: Timestamp,
}
