//! Business dates: a plain day in the company's time zone, no instant.
//!
//! Invariant: one spelling, `2026-12-01`. A time or a zone is refused, since what is cut off could
//! move the day; so is a year that only a slip of the finger writes.

use jiff::civil;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{borrow::Cow, fmt, str::FromStr};
use utoipa::openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, schema::Type};

/// Years a business date may lie in.
pub const YEARS: std::ops::RangeInclusive<i16> = 1900..=2999;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Date(civil::Date);

/// It is no business date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongDate;

impl fmt::Display for WrongDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be a day like 2026-12-01, of the years {} to {}", YEARS.start(), YEARS.end())
    }
}

impl std::error::Error for WrongDate {}

impl Date {
    pub const fn get(self) -> civil::Date {
        self.0
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Date {
    type Err = WrongDate;
    fn from_str(text: &str) -> Result<Self, WrongDate> {
        let plain = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        let date: civil::Date = plain.then(|| text.parse().ok()).flatten().ok_or(WrongDate)?;
        if YEARS.contains(&date.year()) { Ok(Self(date)) } else { Err(WrongDate) }
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Date {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)))
            .pattern(Some("^(19|2[0-9])[0-9]{2}-[0-9]{2}-[0-9]{2}$"))
            .examples(["2026-12-01"])
            .into()
    }
}
impl utoipa::ToSchema for Date {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_day_of_our_times_is_a_date() {
        for good in ["1900-01-01", "2026-12-01", "2028-02-29", "2999-12-31"] {
            assert_eq!(good.parse::<Date>().map(|date| date.to_string()).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "20261201",
            "2026-12-1",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-12-01T23:59:59+05:00[Asia/Tashkent]",
            "2026-12-01T00:00",
            " 2026-12-01",
            "2026-12-01 ",
            "+002026-12-01",
            "-004713-01-01",
            "-271-01-01",
            "1899-12-31",
            "3000-01-01",
            "9999-12-31",
            "0000-01-01",
            "２０26-12-01",
            "2026/12/01",
            "01-12-2026",
        ] {
            assert_eq!(bad.parse::<Date>(), Err(WrongDate), "{bad:?}");
        }
    }
}
