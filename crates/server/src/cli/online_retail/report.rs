//! The account of an import: what became of every line.
//!
//! Owns the sums by outcome and their check against the sums of the files. Never decides an
//! outcome: the plan knows what is not booked, the caller tells the rest.
//! Invariant: read = booked + returned + adjusted + not goods + refused, in lines, units and
//! value, for each file; a difference is named in `differences`.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::{
    parse::{NotUtf8, Totals},
    plan::{Cause, FileRead, Operation, Plan, Step, Why},
};

const REFUSED_PRINTED_MAX: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Booked,
    Returned,
    Adjusted,
}

impl Operation {
    /// What a step becomes when all goes as planned.
    pub fn class(&self) -> Class {
        match self {
            Operation::Sale => Class::Booked,
            Operation::Return { .. } => Class::Returned,
            Operation::Adjust { .. } => Class::Adjusted,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(Class),
    /// Found done by an earlier run; nothing changed.
    Before(Class),
    Refused(String),
}

/// The account while steps come in, in any order.
#[derive(Clone, Debug)]
pub struct Tally {
    files: Vec<Account>,
    recorded: Vec<bool>,
    differences: Vec<String>,
    skus: Preparation,
    openings: Preparation,
    not_goods: BTreeMap<(String, &'static str), Totals>,
    adjusted: BTreeMap<Cause, Totals>,
    refused: Vec<(usize, Refused)>,
}

impl Tally {
    /// Begins with the lines that the plan does not book.
    pub fn of(plan: &Plan) -> Tally {
        let account = |file: &FileRead| Account { not_utf8: file.not_utf8, ..Account::of(&file.name, file.totals) };
        let files = plan.files.iter().map(account).collect();
        let mut tally = Tally {
            files,
            recorded: vec![false; plan.steps.len()],
            differences: Vec::new(),
            skus: Preparation { planned: plan.skus.len() as u64, ..Preparation::default() },
            openings: Preparation { planned: plan.openings.len() as u64, ..Preparation::default() },
            not_goods: BTreeMap::new(),
            adjusted: BTreeMap::new(),
            refused: Vec::new(),
        };
        for line in &plan.unbooked {
            let account = &mut tally.files[line.file];
            match &line.why {
                Why::NotGoods { code, what } => {
                    account.not_goods = account.not_goods.plus(line.totals);
                    add(&mut tally.not_goods, (code.clone(), *what), line.totals);
                }
                Why::Refused { reason } => {
                    tally.refuse(line.file, line.number, None, line.totals, reason);
                }
            }
        }
        tally
    }

    /// Records what became of a step. A second outcome for a step is a difference.
    pub fn record(&mut self, step: &Step, outcome: Outcome) {
        if std::mem::replace(&mut self.recorded[step.index], true) {
            self.differences.push(format!("{} has two outcomes", step.key));
            return;
        }
        let totals = step.line.totals();
        let account = &mut self.files[step.file];
        let class = match outcome {
            Outcome::Refused(reason) => {
                self.refuse(step.file, step.line.number, Some(&step.key), totals, &reason);
                return;
            }
            Outcome::Before(class) => {
                account.before = account.before.plus(totals);
                class
            }
            Outcome::Done(class) => class,
        };
        let sum = match class {
            Class::Booked => &mut account.booked,
            Class::Returned => &mut account.returned,
            Class::Adjusted => &mut account.adjusted,
        };
        *sum = sum.plus(totals);
        if let (Class::Adjusted, Operation::Adjust { cause, .. }) = (class, &step.operation) {
            add(&mut self.adjusted, *cause, totals);
        }
    }

    pub fn record_sku(&mut self, code: &str, outcome: Prepared) {
        self.skus.record(code, outcome);
    }

    pub fn record_opening(&mut self, key: &str, outcome: Prepared) {
        self.openings.record(key, outcome);
    }

    /// How far an import is that ends before its last line.
    pub fn progress(&self) -> String {
        let (skus, openings) = (&self.skus, &self.openings);
        format!(
            "{} of {} SKUs, {} of {} opening stocks and {} of {} lines to book",
            skus.known(),
            skus.planned,
            openings.known(),
            openings.planned,
            self.recorded.iter().filter(|recorded| **recorded).count(),
            self.recorded.len()
        )
    }

    /// Closes the account. What is missing or too much stands in `differences`.
    pub fn finish(mut self) -> Report {
        let missing = self.recorded.iter().filter(|recorded| !**recorded).count();
        if missing > 0 {
            self.differences.push(format!("{missing} lines have no outcome"));
        }
        let mut total = Account::of("total", Totals::default());
        for file in &self.files {
            total = total.plus(file);
            let accounted = file.accounted();
            if accounted != file.read {
                self.differences.push(format!(
                    "{}: read {}, accounted for {}",
                    file.name,
                    in_words(file.read),
                    in_words(accounted)
                ));
            }
        }
        // Outcomes come from many callers at once; a report is the same whoever was first.
        self.refused.sort_by_key(|(file, refused)| (*file, refused.line));
        Report {
            balanced: self.differences.is_empty(),
            total,
            files: self.files,
            skus: self.skus,
            openings: self.openings,
            not_goods: (self.not_goods.into_iter())
                .map(|((code, what), totals)| NotGoods { code, what, totals })
                .collect(),
            adjusted: (self.adjusted.into_iter())
                .map(|(cause, totals)| Adjusted { cause: cause.text(), totals })
                .collect(),
            refused: self.refused.into_iter().map(|(_, refused)| refused).collect(),
            differences: self.differences,
        }
    }

    fn refuse(&mut self, file: usize, line: u64, key: Option<&str>, totals: Totals, why: &str) {
        let account = &mut self.files[file];
        account.refused = account.refused.plus(totals);
        let refused =
            Refused { file: account.name.clone(), line, key: key.map(str::to_owned), totals, reason: why.to_owned() };
        self.refused.push((file, refused));
    }
}

fn add<K: Ord>(sums: &mut BTreeMap<K, Totals>, key: K, totals: Totals) {
    let sum = sums.entry(key).or_default();
    *sum = sum.plus(totals);
}

/// Outcome of what goes before the lines: SKUs and opening stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    Done,
    Before,
    Refused(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preparation {
    pub planned: u64,
    pub done: u64,
    pub before: u64,
    pub refused: Vec<PreparationRefused>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreparationRefused {
    pub key: String,
    pub reason: String,
}

impl Preparation {
    /// Those with an outcome.
    fn known(&self) -> u64 {
        self.done + self.before + self.refused.len() as u64
    }

    fn record(&mut self, key: &str, outcome: Prepared) {
        match outcome {
            Prepared::Done => self.done += 1,
            Prepared::Before => self.before += 1,
            Prepared::Refused(reason) => {
                self.refused.push(PreparationRefused { key: key.to_owned(), reason });
            }
        }
    }
}

/// The lines of a file by what became of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    pub name: String,
    pub read: Totals,
    pub booked: Totals,
    pub returned: Totals,
    pub adjusted: Totals,
    pub not_goods: Totals,
    pub refused: Totals,
    /// Of booked, returned and adjusted: done by an earlier run.
    pub before: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_utf8: Option<NotUtf8>,
}

impl Account {
    fn of(name: &str, read: Totals) -> Account {
        Account {
            name: name.to_owned(),
            read,
            booked: Totals::default(),
            returned: Totals::default(),
            adjusted: Totals::default(),
            not_goods: Totals::default(),
            refused: Totals::default(),
            before: Totals::default(),
            not_utf8: None,
        }
    }

    pub fn accounted(&self) -> Totals {
        [self.booked, self.returned, self.adjusted, self.not_goods, self.refused]
            .into_iter()
            .fold(Totals::default(), Totals::plus)
    }

    fn plus(self, other: &Account) -> Account {
        Account {
            name: self.name,
            read: self.read.plus(other.read),
            booked: self.booked.plus(other.booked),
            returned: self.returned.plus(other.returned),
            adjusted: self.adjusted.plus(other.adjusted),
            not_goods: self.not_goods.plus(other.not_goods),
            refused: self.refused.plus(other.refused),
            before: self.before.plus(other.before),
            not_utf8: self.not_utf8,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotGoods {
    pub code: String,
    pub what: &'static str,
    #[serde(flatten)]
    pub totals: Totals,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Adjusted {
    pub cause: &'static str,
    #[serde(flatten)]
    pub totals: Totals,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub file: String,
    pub line: u64,
    pub key: Option<String>,
    #[serde(flatten)]
    pub totals: Totals,
    pub reason: String,
}

/// The finished account. `Display` is for people, `Serialize` for `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub balanced: bool,
    pub differences: Vec<String>,
    pub total: Account,
    pub files: Vec<Account>,
    pub skus: Preparation,
    pub openings: Preparation,
    pub not_goods: Vec<NotGoods>,
    pub adjusted: Vec<Adjusted>,
    pub refused: Vec<Refused>,
}

impl Report {
    /// Balanced, and nothing was refused but what the files themselves make unbookable: those
    /// lines have no key.
    pub fn complete(&self) -> bool {
        self.balanced
            && self.refused.iter().all(|refused| refused.key.is_none())
            && self.skus.refused.is_empty()
            && self.openings.refused.is_empty()
    }
}

fn in_words(totals: Totals) -> String {
    format!("{} lines, {} units, value {}", totals.lines, totals.units, totals.value)
}

/// The widths of the columns that the tables of a report share: those of the widest entries.
struct Columns {
    what: usize,
    lines: usize,
    units: usize,
    value: usize,
}

impl Columns {
    const HEADS: [&str; 3] = ["lines", "units", "value"];

    fn of<'a>(rows: impl IntoIterator<Item = &'a (String, Totals)>) -> Columns {
        let [lines, units, value] = Columns::HEADS.map(str::len);
        let mut widest = Columns { what: 0, lines, units, value };
        for (what, totals) in rows {
            widest.what = widest.what.max(what.chars().count());
            widest.lines = widest.lines.max(totals.lines.to_string().len());
            widest.units = widest.units.max(totals.units.to_string().len());
            widest.value = widest.value.max(totals.value.to_string().len());
        }
        widest
    }

    fn heads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [lines, units, value] = Columns::HEADS;
        self.write(f, "", &lines, &units, &value)
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, (what, totals): &(String, Totals)) -> fmt::Result {
        self.write(f, what, &totals.lines, &totals.units, &totals.value)
    }

    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        lines: &dyn fmt::Display,
        units: &dyn fmt::Display,
        value: &dyn fmt::Display,
    ) -> fmt::Result {
        writeln!(
            f,
            "  {what:<0$}  {lines:>1$}  {units:>2$}  {value:>3$}",
            self.what, self.lines, self.units, self.value
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Account { name, not_utf8, .. } in &self.files {
            if let Some(NotUtf8 { fields, first_line }) = not_utf8 {
                writeln!(
                    f,
                    "{name}: {fields} fields are not UTF-8 and were read as Windows-1252, the first on line \
                     {first_line}"
                )?;
            }
        }
        for (what, preparation) in [("SKUs", &self.skus), ("opening stock", &self.openings)] {
            let Preparation { planned, done, before, refused } = preparation;
            let refusals = refused.len();
            writeln!(f, "{what}: {planned} planned, {done} done, {before} there before, {refusals} refused")?;
            for PreparationRefused { key, reason } in refused.iter().take(REFUSED_PRINTED_MAX) {
                writeln!(f, "  {key}: {reason}")?;
            }
        }
        let total = &self.total;
        let total = [
            ("read", total.read),
            ("booked", total.booked),
            ("returned", total.returned),
            ("adjusted", total.adjusted),
            ("not goods", total.not_goods),
            ("refused", total.refused),
            ("(of these by an earlier run)", total.before),
        ]
        .map(|(what, totals)| (what.to_owned(), totals));
        let several = if self.files.len() > 1 { &self.files[..] } else { &[] };
        let files: Vec<_> = several.iter().map(|file| (file.name.clone(), file.read)).collect();
        let adjusted: Vec<_> = self.adjusted.iter().map(|sum| (sum.cause.to_owned(), sum.totals)).collect();
        let not_goods: Vec<_> =
            self.not_goods.iter().map(|sum| (format!("{} ({})", sum.code, sum.what), sum.totals)).collect();
        let columns = Columns::of([&total[..], &files, &adjusted, &not_goods].into_iter().flatten());

        writeln!(f)?;
        columns.heads(f)?;
        total.iter().try_for_each(|row| columns.row(f, row))?;
        if !files.is_empty() {
            writeln!(f, "\nfiles")?;
        }
        for (row, file) in files.iter().zip(several) {
            columns.row(f, row)?;
            writeln!(
                f,
                "    {} booked, {} returned, {} adjusted, {} not goods, {} refused",
                file.booked.lines, file.returned.lines, file.adjusted.lines, file.not_goods.lines, file.refused.lines
            )?;
        }
        for (what, rows) in [("adjusted", adjusted), ("not goods", not_goods)] {
            if !rows.is_empty() {
                writeln!(f, "\n{what}")?;
            }
            rows.iter().try_for_each(|row| columns.row(f, row))?;
        }
        if !self.refused.is_empty() {
            writeln!(f, "\nrefused")?;
        }
        for Refused { file, line, key, reason, .. } in self.refused.iter().take(REFUSED_PRINTED_MAX) {
            match key {
                Some(key) => writeln!(f, "  {file}:{line}: {reason} [{key}]")?,
                None => writeln!(f, "  {file}:{line}: {reason}")?,
            }
        }
        if self.refused.len() > REFUSED_PRINTED_MAX {
            let more = self.refused.len() - REFUSED_PRINTED_MAX;
            writeln!(f, "  and {more} more, all of them with --json")?;
        }
        if self.balanced {
            return writeln!(f, "\nBalanced: lines, units and value add up to what was read.");
        }
        writeln!(f, "\nNOT BALANCED")?;
        self.differences.iter().try_for_each(|difference| writeln!(f, "  {difference}"))
    }
}
