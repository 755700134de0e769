//! Online Retail files: the bytes of one CSV file become typed lines.
//!
//! Owns what a line is and what makes it unreadable. Never decides what a line means
//! (`plan`), never opens a file, never gives up on a file because of one line.
//! Invariant: every record of the file is one `Record`, in file order.
//! Invariant: `RetailFile::totals` is summed here, before any line is judged, so that the
//! report has something to be checked against.

mod records;
#[cfg(test)]
mod tests;
mod totals;

use std::fmt;

use jiff::civil::DateTime;
use rust_decimal::Decimal;
use serde::Serialize;

use records::{Raw, Records};
use totals::{DECIMALS_MAX, INTEGER_DIGITS_MAX, VALUE_DIGITS_MAX};
pub use totals::{Exact, Totals};

pub const HEADER: [&str; 8] =
    ["InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country"];
const CODE_CHARS_MAX: usize = 64;
const INVOICE_CHARS_MAX: usize = 32;
const CUSTOMER_CHARS_MAX: usize = 32;
const TEXT_CHARS_MAX: usize = 200;
const STEM_CHARS_MAX: usize = 100;

/// One readable line. Invoice and code are trimmed and upper case: 85123a is 85123A.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Line of the file where the record begins; the header is line 1.
    pub number: u64,
    pub invoice: String,
    pub code: String,
    pub description: String,
    pub quantity: Decimal,
    pub at: DateTime,
    pub unit_price: Decimal,
    pub customer: Option<String>,
    pub country: String,
}

impl Line {
    pub fn totals(&self) -> Totals {
        Totals { lines: 1, units: Exact::of(self.quantity), value: Exact::product(self.quantity, self.unit_price) }
    }
}

/// A line that cannot be read, with all of it that could: the report counts its units and
/// value where they are readable, and the occurrence it takes keeps the keys of its
/// neighbours when somebody mends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Flawed {
    pub number: u64,
    pub invoice: Option<String>,
    pub code: Option<String>,
    pub totals: Totals,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Line(Line),
    Flawed(Flawed),
}

impl Record {
    pub fn number(&self) -> u64 {
        match self {
            Record::Line(line) => line.number,
            Record::Flawed(flawed) => flawed.number,
        }
    }

    pub fn invoice(&self) -> Option<&str> {
        match self {
            Record::Line(line) => Some(&line.invoice),
            Record::Flawed(flawed) => flawed.invoice.as_deref(),
        }
    }

    pub fn code(&self) -> Option<&str> {
        match self {
            Record::Line(line) => Some(&line.code),
            Record::Flawed(flawed) => flawed.code.as_deref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RetailFile {
    pub name: String,
    /// The name without folder and extension: part of the key of each opening stock.
    pub stem: String,
    pub records: Vec<Record>,
    pub totals: Totals,
    pub not_utf8: Option<NotUtf8>,
}

/// Fields of a file that were read as Windows-1252. A guess, so it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NotUtf8 {
    pub fields: u64,
    /// Where the record with the first of them begins.
    pub first_line: u64,
}

/// Why nothing of a file can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    NameUnusable { name: String },
    HeaderWrong { name: String, found: String },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::NameUnusable { name } => write!(
                f,
                "{name:?}: the name of the file becomes part of keys and needs 1 to \
                 {STEM_CHARS_MAX} ASCII characters without '|' before its extension; rename it"
            ),
            FileError::HeaderWrong { name, found } => {
                write!(f, "{name}: the first line must be the header {:?}, but it is {found:?}", HEADER.join(","))
            }
        }
    }
}

impl std::error::Error for FileError {}

/// Reads one file. `name` may be a path: only its last part counts.
pub fn parse(name: &str, bytes: &[u8]) -> Result<RetailFile, FileError> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = match name.rsplit_once('.') {
        Some((stem, _)) => stem,
        None => name,
    };
    let stem_chars = stem.chars().count();
    let visible = stem.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'|');
    if stem_chars == 0 || stem_chars > STEM_CHARS_MAX || !visible {
        return Err(FileError::NameUnusable { name: name.to_owned() });
    }

    let mut raw = Records::of(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    match raw.next() {
        Some(Raw { fields: Ok(fields), .. }) if is_header(&fields) => {}
        first => {
            let found = match first {
                Some(Raw { fields: Ok(fields), .. }) => fields.join(","),
                Some(Raw { fields: Err(reason), .. }) => reason,
                None => String::new(),
            };
            return Err(FileError::HeaderWrong { name: name.to_owned(), found: text(&found) });
        }
    }

    let mut records = Vec::new();
    let mut totals = Totals::default();
    let mut foreign: Option<NotUtf8> = None;
    for Raw { number, fields, not_utf8 } in raw {
        if not_utf8 > 0 {
            foreign.get_or_insert(NotUtf8 { fields: 0, first_line: number }).fields += not_utf8;
        }
        let (record, counted) = record(number, fields);
        totals = totals.plus(counted);
        records.push(record);
    }
    Ok(RetailFile { name: name.to_owned(), stem: stem.to_owned(), records, totals, not_utf8: foreign })
}

fn is_header(fields: &[String]) -> bool {
    fields.len() == HEADER.len() && fields.iter().zip(HEADER).all(|(found, wanted)| found.trim() == wanted)
}

fn record(number: u64, fields: Result<Vec<String>, String>) -> (Record, Totals) {
    let mut flawed = Flawed {
        number,
        invoice: None,
        code: None,
        totals: Totals { lines: 1, ..Totals::default() },
        reason: String::new(),
    };
    let record = match fields.and_then(|fields| line(number, &fields, &mut flawed)) {
        Ok(line) => Record::Line(line),
        Err(reason) => {
            flawed.reason = reason;
            return (Record::Flawed(flawed.clone()), flawed.totals);
        }
    };
    (record, flawed.totals)
}

/// Reads every field before the first flaw is reported, so that `flawed` knows all it can.
fn line(number: u64, fields: &[String], flawed: &mut Flawed) -> Result<Line, String> {
    let [invoice, code, description, quantity, at, price, customer, country] = fields else {
        return Err(format!("{} columns instead of {}", fields.len(), HEADER.len()));
    };
    let invoice = invoice_number(invoice);
    let code = stock_code(code);
    let quantity = decimal("quantity", quantity);
    let price = decimal("unit price", price);
    flawed.invoice = invoice.clone().ok();
    flawed.code = code.clone().ok();
    let mut value_fits = true;
    if let Ok(quantity) = quantity {
        flawed.totals.units = Exact::of(quantity);
        if let Ok(price) = price {
            let value = Exact::product(quantity, price);
            value_fits = value.fits();
            if value_fits {
                flawed.totals.value = value;
            }
        }
    }
    let line = Line {
        number,
        invoice: invoice?,
        code: code?,
        description: text(description),
        quantity: quantity?,
        at: date_time(at)?,
        unit_price: price?,
        customer: customer_number(customer)?,
        country: text(country),
    };
    if !value_fits {
        return Err(format!("quantity times price has more than {VALUE_DIGITS_MAX} digits"));
    }
    Ok(line)
}

/// Letters and digits only: the number stands between bars in the key of a line.
fn invoice_number(field: &str) -> Result<String, String> {
    let invoice = field.trim();
    if invoice.is_empty() {
        return Err("no invoice number".to_owned());
    }
    if invoice.len() > INVOICE_CHARS_MAX || !invoice.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(format!("invoice number {:?} is not 1 to {INVOICE_CHARS_MAX} letters and digits", text(invoice)));
    }
    Ok(invoice.to_ascii_uppercase())
}

fn stock_code(field: &str) -> Result<String, String> {
    let code = field.trim().to_uppercase();
    if code.is_empty() {
        return Err("no stock code".to_owned());
    }
    let chars = code.chars().count();
    if chars > CODE_CHARS_MAX {
        return Err(format!("stock code of {chars} characters, {CODE_CHARS_MAX} at most"));
    }
    Ok(code)
}

/// An exact decimal. Stricter than `Decimal`, which also takes `1_000`.
fn decimal(what: &str, field: &str) -> Result<Decimal, String> {
    let field = field.trim();
    let unsigned = field.strip_prefix(['-', '+']).unwrap_or(field);
    let (whole, part) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(format!("{what} {:?} is not a number", text(field)));
    }
    if whole.trim_start_matches('0').len() > INTEGER_DIGITS_MAX as usize
        || part.trim_end_matches('0').len() > DECIMALS_MAX as usize
    {
        return Err(format!(
            "{what} {:?} has more than {INTEGER_DIGITS_MAX} digits before or {DECIMALS_MAX} \
             after the point",
            text(field)
        ));
    }
    let plain = format!("{}.{}", whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let number = Decimal::from_str_exact(&format!("0{plain}0"))
        .map_err(|error| format!("{what} {:?} is not a number: {error}", text(field)))?
        .normalize();
    Ok(if field.starts_with('-') { -number } else { number })
}

/// `2010-12-01 08:26:00`, or `12/1/2010 8:26` (month first) as the year's CSV export has it.
fn date_time(field: &str) -> Result<DateTime, String> {
    let field = field.trim();
    let read = if field.contains('/') { DateTime::strptime("%m/%d/%Y %H:%M", field) } else { field.parse() };
    read.map_err(|_| format!("invoice date {:?} is not like 2010-12-01 08:26:00", text(field)))
}

/// The files write customers as floating numbers: `17850.0` is customer 17850.
fn customer_number(field: &str) -> Result<Option<String>, String> {
    let customer = field.trim();
    let customer = customer.strip_suffix(".0").unwrap_or(customer);
    if customer.len() > CUSTOMER_CHARS_MAX || !customer.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(format!("customer {:?} is not at most {CUSTOMER_CHARS_MAX} letters and digits", text(customer)));
    }
    Ok((!customer.is_empty()).then(|| customer.to_owned()))
}

/// Trimmed, bounded, and without control characters: the database refuses a NUL in a text, and
/// a line break in a name breaks every list it is printed in.
fn text(field: &str) -> String {
    let plain: String = field.trim().chars().take(TEXT_CHARS_MAX).collect();
    plain.replace(|c: char| c.is_control(), " ").trim().to_owned()
}
