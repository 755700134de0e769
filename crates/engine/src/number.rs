//! Human document numbers without gaps, taken as late as a transaction can.
//!
//! Owns `number_range`. A command leaves an open slot; after all tables are stored, one statement
//! moves every range the batch needs, in key order, and fills the slots. The range row is thus
//! locked only for the very end, and a rolled-back batch gives its numbers back.
//! Never computes a number from the documents (`MAX + 1` races).

use crate::sql::{Sql, Type, Write, param};
use std::collections::BTreeMap;

/// Which row of numbers: a kind of document in a fiscal year.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    pub object: &'static str,
    pub fiscal_year: i32,
}

/// A number that a command will get, told apart from all others of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberSlot(usize);

/// The open slots of a batch, and their numbers once taken.
#[derive(Debug, Default)]
pub struct Numbers {
    asked: Vec<Range>,
    kept: usize,
    given: Vec<i64>,
}

/// Moves the ranges, which come sorted, and are locked in that order.
///
/// GUARD(number_conflict): the first document of a year finds no row, and two transactions that
/// both find none must not both begin at 1.
const NUMBER_TAKE: Sql = Sql::new(
    "number_take",
    &[Type::TEXT_ARRAY, Type::INT4_ARRAY, Type::INT8_ARRAY],
    "
    INSERT INTO number_range AS t (tenant_id, object, fiscal_year, last)
    SELECT $1, unnest($2::text[]), unnest($3::int4[]), unnest($4::int8[])
    ON CONFLICT (tenant_id, object, fiscal_year)
        DO UPDATE SET last = t.last + excluded.last
    RETURNING t.object, t.fiscal_year, t.last",
);

impl Numbers {
    pub(crate) fn ask(&mut self, range: Range) -> NumberSlot {
        self.asked.push(range);
        NumberSlot(self.asked.len() - 1)
    }

    pub(crate) fn keep(&mut self) {
        self.kept = self.asked.len();
    }

    pub(crate) fn discard(&mut self) {
        self.asked.truncate(self.kept);
    }

    pub(crate) fn write(&self) -> Option<Write> {
        if self.asked.is_empty() {
            return None;
        }
        let mut amounts: BTreeMap<&Range, i64> = BTreeMap::new();
        for range in &self.asked {
            *amounts.entry(range).or_default() += 1;
        }
        let objects: Vec<_> = amounts.keys().map(|range| range.object).collect();
        let years: Vec<_> = amounts.keys().map(|range| range.fiscal_year).collect();
        let counts: Vec<_> = amounts.values().copied().collect();
        Some(Write { sql: NUMBER_TAKE, params: vec![param(objects), param(years), param(counts)] })
    }

    pub(crate) fn fill(&mut self, rows: &[crate::sql::Row]) {
        let mut last: BTreeMap<(String, i32), i64> =
            rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
        self.given = vec![0; self.asked.len()];
        // From the back: the last slot of a range gets the range's last number.
        for (slot, range) in self.asked.iter().enumerate().rev() {
            let next = last.get_mut(&(range.object.to_owned(), range.fiscal_year));
            let next = next.expect("number_take returns a row for every range it was given");
            self.given[slot] = *next;
            *next -= 1;
        }
    }

    /// The number a slot got.
    ///
    /// # Panics
    /// Before the ranges returned, which is before anything that carries numbers is made.
    pub fn get(&self, slot: NumberSlot) -> i64 {
        self.given[slot.0]
    }
}

pub(crate) const STATEMENTS: [Sql; 1] = [NUMBER_TAKE];
