//! Pages of lists: keyset, never an offset.
//!
//! Invariant: a page is bounded (`LIMIT_MAX`); `next` names the last row shown, so rows that
//! come or go meanwhile neither repeat nor hide another.

use serde::{Deserialize, Serialize};

pub const LIMIT_DEFAULT: u32 = 50;
pub const LIMIT_MAX: u32 = 200;

/// How many rows the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(u32);

impl Default for Limit {
    fn default() -> Self {
        Self(LIMIT_DEFAULT)
    }
}

impl Limit {
    pub fn new(rows: u32) -> Option<Self> {
        (1..=LIMIT_MAX).contains(&rows).then_some(Self(rows))
    }

    /// One more than is shown: whether it comes tells whether there is a next page.
    pub fn probe(self) -> i64 {
        i64::from(self.0) + 1
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let rows = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        rows.and_then(Self::new)
            .ok_or_else(|| serde::de::Error::custom(format!("must be a whole number from 1 to {LIMIT_MAX}")))
    }
}

/// One page of `T`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Pass it as `after` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// From the rows of a query that asked for [`Limit::probe`] of them.
    pub fn of(mut rows: Vec<T>, limit: Limit, cursor: impl Fn(&T) -> String) -> Self {
        let more = rows.len() > limit.0 as usize;
        rows.truncate(limit.0 as usize);
        let next = if more { rows.last().map(cursor) } else { None };
        Self { items: rows, next }
    }
}
