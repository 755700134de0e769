//! Money: amounts and the currency that says what they are worth.
//!
//! Invariant: an amount of money has at most the decimals of its currency (ISO 4217): 2 for EUR, 0
//! for JPY.

use crate::exact::Exact;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, schema::Type};

/// A signed number of units of a currency; `numeric(19,4)` in the database.
pub type Amount = Exact<15, 4>;

/// A currency of ISO 4217 that people trade in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(iso_currency::Currency);

/// The text is no code of ISO 4217.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongCurrency;

impl fmt::Display for WrongCurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a currency's code of ISO 4217, three capital letters like EUR")
    }
}

impl std::error::Error for WrongCurrency {}

impl Currency {
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// Digits after the point its amounts have. Those without a minor unit (gold, test codes) are no
    /// currency for us.
    pub fn decimals(self) -> u32 {
        self.0.exponent().map_or(0, u32::from)
    }
}

impl FromStr for Currency {
    type Err = WrongCurrency;
    fn from_str(text: &str) -> Result<Self, WrongCurrency> {
        let currency = iso_currency::Currency::from_code(text).filter(|of| of.exponent().is_some());
        currency.map(Self).ok_or(WrongCurrency)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Currency {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[A-Z]{3}$")).examples(["EUR"]).into()
    }
}
impl utoipa::ToSchema for Currency {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_currencies_of_iso_4217_with_a_minor_unit() {
        for (code, decimals) in
            [("EUR", Some(2)), ("JPY", Some(0)), ("KWD", Some(3)), ("CLF", Some(4)), ("USD", Some(2))]
                .into_iter()
                .chain(["eur", "EU", "EURO", "XYZ", "XAU", "XXX", "", "ＥＵＲ"].map(|wrong| (wrong, None)))
        {
            assert_eq!(code.parse::<Currency>().ok().map(Currency::decimals), decimals, "{code:?}");
        }
    }
}
