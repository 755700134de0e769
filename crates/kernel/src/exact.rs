//! Exact decimals with a bound, never floats: what quantities and amounts are made of.
//!
//! Invariant: at most `DIGITS` digits before and `DECIMALS` after the point, in memory as in the
//! column type `numeric(DIGITS + DECIMALS, DECIMALS)`.
//! Never offers `+` or `-`: a sum that leaves the bound is a case its caller must handle.

use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, str::FromStr};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, RefOr, Schema, schema::Type};

/// Digits a JSON *number* may have. The fingerprint of a request reads numbers as IEEE doubles
/// (RFC 8785), which tell 15 digits apart: with more, two different bodies could look the same.
pub const NUMBER_DIGITS_MAX: usize = 15;

/// A signed decimal of at most `DIGITS` digits before and `DECIMALS` after the point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Exact<const DIGITS: u32, const DECIMALS: u32>(Decimal);

/// A sum left the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sum has too many digits before the point")
    }
}

impl std::error::Error for Overflow {}

impl<const DIGITS: u32, const DECIMALS: u32> Exact<DIGITS, DECIMALS> {
    pub const ZERO: Self = Self(Decimal::ZERO);
    pub const ONE: Self = Self(Decimal::ONE);

    /// Errors when the value does not fit the bound.
    pub fn new(value: Decimal) -> Result<Self, Overflow> {
        let value = value.normalize();
        let limit = Decimal::from_i128_with_scale(10i128.pow(DIGITS), 0);
        if value.abs() >= limit || value.scale() > DECIMALS {
            return Err(Overflow);
        }
        Ok(Self(value))
    }

    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        self.0.checked_add(other.0).ok_or(Overflow).and_then(Self::new)
    }

    pub fn minus(self, other: Self) -> Result<Self, Overflow> {
        self.0.checked_sub(other.0).ok_or(Overflow).and_then(Self::new)
    }

    #[must_use]
    pub fn negated(self) -> Self {
        Self(-self.0)
    }

    pub const fn decimal(self) -> Decimal {
        self.0
    }

    /// Digits after the point that matter: 1.50 has one.
    pub fn decimals(self) -> u32 {
        self.0.normalize().scale()
    }

    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    pub fn is_negative(self) -> bool {
        self.0.is_sign_negative() && !self.0.is_zero()
    }
}

impl<const DIGITS: u32, const DECIMALS: u32> From<u32> for Exact<DIGITS, DECIMALS> {
    fn from(value: u32) -> Self {
        Self(Decimal::from(value))
    }
}

impl<const DIGITS: u32, const DECIMALS: u32> fmt::Display for Exact<DIGITS, DECIMALS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.normalize(), f)
    }
}

impl<const DIGITS: u32, const DECIMALS: u32> fmt::Debug for Exact<DIGITS, DECIMALS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no such number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongNumber {
    Form,
    Digits { most: u32 },
    Decimals { most: u32 },
    NumberDigits,
    NotPositive,
}

impl fmt::Display for WrongNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("must be plain digits with at most one point, like \"12.5\""),
            Self::Digits { most } => write!(f, "has at most {most} digits before the point"),
            Self::Decimals { most } => write!(f, "has at most {most} digits after the point"),
            Self::NumberDigits => write!(
                f,
                "more than {NUMBER_DIGITS_MAX} digits must be sent as a string: \
                 a JSON number cannot carry it exactly"
            ),
            Self::NotPositive => f.write_str("must be greater than 0"),
        }
    }
}

impl std::error::Error for WrongNumber {}

impl<const DIGITS: u32, const DECIMALS: u32> FromStr for Exact<DIGITS, DECIMALS> {
    type Err = WrongNumber;

    /// Takes ASCII digits with an optional minus and an optional point, nothing else: no spaces,
    /// no exponent, no other script's digits.
    fn from_str(text: &str) -> Result<Self, WrongNumber> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !plain(whole) || !fraction.is_none_or(plain) {
            return Err(WrongNumber::Form);
        }
        if whole.trim_start_matches('0').len() > DIGITS as usize || whole.len() > 64 {
            return Err(WrongNumber::Digits { most: DIGITS });
        }
        if fraction.is_some_and(|f| f.len() > DECIMALS as usize) {
            return Err(WrongNumber::Decimals { most: DECIMALS });
        }
        let value = Decimal::from_str_exact(text).map_err(|_| WrongNumber::Form)?;
        Self::new(value).map_err(|Overflow| WrongNumber::Digits { most: DIGITS })
    }
}

impl<const DIGITS: u32, const DECIMALS: u32> Serialize for Exact<DIGITS, DECIMALS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const DIGITS: u32, const DECIMALS: u32> Deserialize<'de> for Exact<DIGITS, DECIMALS> {
    /// A string, or a JSON number read from its own digits: through a float, 0.1 + 0.2 would come
    /// in as something else.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let token = raw.get();
        let value = if token.starts_with('"') {
            let text: Cow<str> = serde_json::from_str(token).map_err(de::Error::custom)?;
            text.parse()
        } else if token.starts_with('-') || token.starts_with(|c: char| c.is_ascii_digit()) {
            let significant = token.bytes().filter(u8::is_ascii_digit).count();
            if significant > NUMBER_DIGITS_MAX && !token.contains(['e', 'E']) {
                Err(WrongNumber::NumberDigits)
            } else {
                token.parse()
            }
        } else {
            Err(WrongNumber::Form)
        };
        value.map_err(de::Error::custom)
    }
}

/// A string or a number in the description of the API.
pub(crate) fn schema(digits: u32, decimals: u32, sign: &str, example: &str) -> RefOr<Schema> {
    let pattern = format!("^{sign}[0-9]{{1,{digits}}}(\\.[0-9]{{1,{decimals}}})?$");
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)))
        .item(ObjectBuilder::new().schema_type(Type::Number))
        .description(Some(format!(
            "Exact decimal, at most {digits} digits before and {decimals} after the point. Answers spell it as \
             a string; requests may use a string, or a number of at most 15 digits without an exponent.",
        )))
        .examples([example])
        .into()
}

impl<const DIGITS: u32, const DECIMALS: u32> utoipa::PartialSchema for Exact<DIGITS, DECIMALS> {
    fn schema() -> RefOr<Schema> {
        schema(DIGITS, DECIMALS, "-?", "-2.5")
    }
}
impl<const DIGITS: u32, const DECIMALS: u32> utoipa::ToSchema for Exact<DIGITS, DECIMALS> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("Exact{DIGITS}And{DECIMALS}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{Positive, Quantity};
    use proptest::prelude::*;

    #[test]
    fn only_plain_digits_are_taken() {
        for (text, expected) in [
            ("6", Ok("6")),
            ("0", Ok("0")),
            ("-6", Ok("-6")),
            ("007", Ok("7")),
            ("33.60", Ok("33.6")),
            ("0.000001", Ok("0.000001")),
            ("999999999999.999999", Ok("999999999999.999999")),
            ("1000000000000", Err(WrongNumber::Digits { most: 12 })),
            ("0.0000001", Err(WrongNumber::Decimals { most: 6 })),
            ("1.0000000", Err(WrongNumber::Decimals { most: 6 })),
            ("", Err(WrongNumber::Form)),
            ("-", Err(WrongNumber::Form)),
            (".5", Err(WrongNumber::Form)),
            ("5.", Err(WrongNumber::Form)),
            ("+5", Err(WrongNumber::Form)),
            (" 5 ", Err(WrongNumber::Form)),
            ("5 000", Err(WrongNumber::Form)),
            ("5,5", Err(WrongNumber::Form)),
            ("1e3", Err(WrongNumber::Form)),
            ("1e400", Err(WrongNumber::Form)),
            ("NaN", Err(WrongNumber::Form)),
            ("Infinity", Err(WrongNumber::Form)),
            ("0x10", Err(WrongNumber::Form)),
            ("٣", Err(WrongNumber::Form)),
            ("5\u{0}", Err(WrongNumber::Form)),
            ("1_000", Err(WrongNumber::Form)),
        ] {
            let parsed = text.parse::<Quantity>().map(|q| q.to_string());
            assert_eq!(parsed, expected.map(String::from), "{text:?}");
        }
    }

    #[test]
    fn json_takes_strings_and_exact_numbers_only() {
        for (json, expected) in [
            ("\"6\"", Some("6")),
            ("6", Some("6")),
            ("0.1", Some("0.1")),
            ("100000000.000001", Some("100000000.000001")),
            ("1000000000.0000001", None),
            ("12345678901.123456", None),
            ("\"12345678901.123456\"", Some("12345678901.123456")),
            ("1e2", None),
            ("1e400", None),
            ("true", None),
            ("null", None),
            ("[6]", None),
            ("{}", None),
        ] {
            let parsed = serde_json::from_str::<Quantity>(json).ok().map(|q| q.to_string());
            assert_eq!(parsed.as_deref(), expected, "{json}");
        }
        for json in ["0", "-1", "\"0.000000\"", "\"-0\""] {
            assert!(serde_json::from_str::<Positive>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn case_104_decimals_do_not_drift() {
        let q = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(q("3140").minus(q("3106.40")), Ok(q("33.60")));
        assert_eq!(q("0.1").plus(q("0.2")), Ok(q("0.3")));
    }

    #[test]
    fn sums_beyond_the_bound_are_refused() {
        let most: Quantity = "999999999999.999999".parse().unwrap();
        assert_eq!(most.plus("0.000001".parse().unwrap()), Err(Overflow));
        assert_eq!(most.negated().minus("0.000001".parse().unwrap()), Err(Overflow));
    }

    proptest! {
        #[test]
        fn text_and_value_agree(units in -999_999_999_999_999_999i64..=999_999_999_999_999_999) {
            let quantity = Quantity::new(Decimal::new(units, 6)).unwrap();
            prop_assert_eq!(quantity.to_string().parse::<Quantity>(), Ok(quantity));
        }

        #[test]
        fn plus_then_minus_is_where_it_began(a in -10i64.pow(17)..10i64.pow(17), b in -10i64.pow(17)..10i64.pow(17)) {
            let (a, b) = (Quantity::new(Decimal::new(a, 6)).unwrap(), Quantity::new(Decimal::new(b, 6)).unwrap());
            prop_assert_eq!(a.plus(b).unwrap().minus(b), Ok(a));
        }
    }
}
