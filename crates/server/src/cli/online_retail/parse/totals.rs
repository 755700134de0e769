//! Exact sums: lines, units and value.
//!
//! Owns the arithmetic without rounding. Never parses: the numbers it takes are bounded by
//! `INTEGER_DIGITS_MAX` and `DECIMALS_MAX`, which the reader of a field enforces.

use std::fmt;

use rust_decimal::Decimal;
use serde::{Serialize, Serializer};

pub const INTEGER_DIGITS_MAX: u32 = 12;
pub const DECIMALS_MAX: u32 = 6;
pub const VALUE_DIGITS_MAX: u32 = 18;

/// A sum without rounding, in millionths of a millionth. `Decimal` would round in silence
/// once a product or a sum needs more than its 28 digits. The bounds on a line leave room
/// for a hundred million lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exact(i128);

impl Exact {
    const DECIMALS: u32 = 2 * DECIMALS_MAX;

    pub fn of(number: Decimal) -> Exact {
        Exact(millionths(number) * 10_i128.pow(DECIMALS_MAX))
    }

    pub fn product(quantity: Decimal, price: Decimal) -> Exact {
        Exact(millionths(quantity) * millionths(price))
    }

    /// Whether a value keeps the bound that leaves room for the sums.
    pub fn fits(self) -> bool {
        self.0.unsigned_abs() < 10_u128.pow(VALUE_DIGITS_MAX + Exact::DECIMALS)
    }

    #[must_use]
    pub fn plus(self, other: Exact) -> Exact {
        Exact(self.0.saturating_add(other.0))
    }
}

/// The number must have been read by `decimal`, which bounds its digits on both sides.
fn millionths(number: Decimal) -> i128 {
    let number = number.normalize();
    number.mantissa() * 10_i128.pow(DECIMALS_MAX.saturating_sub(number.scale()))
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(Exact::DECIMALS);
        let (whole, part) = (self.0.unsigned_abs() / one, self.0.unsigned_abs() % one);
        let text = format!("{whole}.{part:012}");
        f.pad_integral(self.0 >= 0, "", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Lines, their units and their value (quantity times price, in the file's currency).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub lines: u64,
    pub units: Exact,
    pub value: Exact,
}

impl Totals {
    #[must_use]
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            lines: self.lines + other.lines,
            units: self.units.plus(other.units),
            value: self.value.plus(other.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_round() {
        let price = Decimal::new(999_999_999_999, 6);
        let value = Exact::product(Decimal::new(999_999_999_999_999_999, 6), price);
        assert_eq!(value.to_string(), "999999999998999999.000000000001");
        assert!(value.fits() && !Exact::product(Decimal::from(1_000_000_000_000_u64), price + price).fits());
        let third = Exact::product(Decimal::new(1, 3), Decimal::from(-3));
        assert_eq!(format!("{third:>8}|{}", third.plus(third)), "  -0.003|-0.006");
    }
}
