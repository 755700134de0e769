//! Quantities: how many units of something.

pub use crate::exact::{NUMBER_DIGITS_MAX, Overflow, WrongNumber};

use crate::exact::{self, Exact};
use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::openapi::{RefOr, Schema};

/// Digits before the point.
pub const DIGITS_MAX: u32 = 12;
/// Digits after the point.
pub const DECIMALS_MAX: u32 = 6;

/// A signed number of units; `numeric(18,6)` in the database.
pub type Quantity = Exact<DIGITS_MAX, DECIMALS_MAX>;

/// A quantity above 0: what every movement moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct Positive(Quantity);

impl Positive {
    pub fn new(quantity: Quantity) -> Result<Self, WrongNumber> {
        // GUARD(positive): a movement of 0 has no ledger line, one below 0 undoes without being asked.
        if quantity > Quantity::ZERO { Ok(Self(quantity)) } else { Err(WrongNumber::NotPositive) }
    }

    pub const fn get(self) -> Quantity {
        self.0
    }
}

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Quantity::deserialize(deserializer).and_then(|q| Self::new(q).map_err(de::Error::custom))
    }
}

impl utoipa::PartialSchema for Positive {
    fn schema() -> RefOr<Schema> {
        exact::schema(DIGITS_MAX, DECIMALS_MAX, "", "6")
    }
}
impl utoipa::ToSchema for Positive {}
