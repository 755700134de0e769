//! What to do about each line of Online Retail files, decided before anything is booked.
//!
//! Owns the keys of the import and the rule for each kind of line. Never books, never reads a
//! file or the database.
//! Invariant: what is planned for a file follows from that file alone. So files one by one
//! or all at once, in any order, again or after a kill, give the same keys with the same
//! operations. It has a price: a cancellation finds only sales of its own file, and one of an
//! earlier day's sale is an adjustment; were it a return, its key would mean a return in one
//! run and an adjustment in another. (Names of SKUs are the exception: see `Sku`.)
//! Invariant: an opening stock covers all that its file takes away, so no order of steps
//! within a SKU runs short, whatever comes back in between.
//!
//! A file renamed after its import gets new opening keys: its stock would be received twice
//! while its lines are found booked, so such an opening is to be refused. A file corrected after its import keeps its keys with
//! other contents: to be refused when booked, never booked over.

mod codes;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use rust_decimal::Decimal;

use codes::{Kind, kind};

use super::parse::{Line, NotUtf8, Record, RetailFile, Totals};

/// An item to create where its code is not known yet. The name is the first description on a
/// line with a price (`?`, `damages`, `amazon` stand on lines without), else the first, else
/// the code. It depends on which files are given: a SKU that exists keeps its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sku {
    pub code: String,
    pub name: String,
}

/// What the file's sales and write-offs of a SKU take in total.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    pub key: String,
    pub file: usize,
    pub sku: usize,
    pub quantity: Decimal,
}

/// One line to book.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its place in `Plan::steps`.
    pub index: usize,
    /// `online-retail|INVOICE|CODE|n`: the n-th line of the invoice with this code.
    pub key: String,
    pub file: usize,
    pub sku: usize,
    pub line: Line,
    pub operation: Operation,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Allocate and ship the quantity of the line.
    Sale,
    /// Take back what these sales shipped, newest first. The quantities sum up to the line's.
    Return { of: Vec<Part> },
    /// Signed: more than zero comes in, less goes out.
    Adjust { quantity: Decimal, cause: Cause, reason: String },
}

/// So much of an earlier step, which is a sale of the same SKU, file and customer.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub step: usize,
    pub quantity: Decimal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Comes back, but the file sold none to this customer, or has had all of it back.
    SaleUnknown,
    /// Comes back, but more than what the file sold to this customer and has not had back.
    SaleTooSmall,
    /// Comes back from nobody in particular.
    CustomerUnknown,
    /// A negative line that is no cancellation and has no customer: damaged, lost, counted.
    Correction,
}

impl Cause {
    pub fn text(self) -> &'static str {
        match self {
            Cause::SaleUnknown => "cancellation, no sale known",
            Cause::SaleTooSmall => "cancellation of more than the known sales",
            Cause::CustomerUnknown => "cancellation without customer",
            Cause::Correction => "stock correction",
        }
    }
}

/// A line that nothing is booked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Unbooked {
    pub file: usize,
    pub number: u64,
    pub totals: Totals,
    pub why: Why,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    NotGoods { code: String, what: &'static str },
    Refused { reason: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct FileRead {
    pub name: String,
    pub totals: Totals,
    pub not_utf8: Option<NotUtf8>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub files: Vec<FileRead>,
    pub skus: Vec<Sku>,
    /// To be received before the first step.
    pub openings: Vec<Opening>,
    /// In file order.
    pub steps: Vec<Step>,
    pub unbooked: Vec<Unbooked>,
}

impl Plan {
    /// The steps of each SKU in file order. Queues may run at the same time; within one, a
    /// return must find its sale booked.
    pub fn queues(&self) -> Vec<Vec<usize>> {
        let mut queues = vec![Vec::new(); self.skus.len()];
        for step in &self.steps {
            queues[step.sku].push(step.index);
        }
        queues
    }
}

/// Why these files cannot be planned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    NameTwice { stem: String },
    ContentTwice { first: String, second: String },
    InvoiceInTwoFiles { invoice: String, first: (String, u64), second: (String, u64) },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NameTwice { stem } => {
                write!(f, "two files are named {stem:?}: give each file once")
            }
            PlanError::ContentTwice { first, second } => {
                write!(f, "{first} and {second} have the same lines: give one of them")
            }
            PlanError::InvoiceInTwoFiles { invoice, first, second } => write!(
                f,
                "invoice {invoice} stands in {} (line {}) and in {} (line {}): the lines of an \
                 invoice are counted within one file, put them together",
                first.0, first.1, second.0, second.1
            ),
        }
    }
}

impl std::error::Error for PlanError {}

/// Plans all lines of the files.
///
/// The n in a line's key counts lines of the same invoice and code, readable or not. That
/// equals the count over all files because an invoice stands in one file only; files given
/// together are checked for it, files given one after the other cannot be.
pub fn plan(files: Vec<RetailFile>) -> Result<Plan, PlanError> {
    check_apart(&files)?;
    let mut planner = Planner::default();
    for (file, RetailFile { name, stem, records, totals, not_utf8 }) in files.into_iter().enumerate() {
        planner.plan.files.push(FileRead { name, totals, not_utf8 });
        planner.file(file, &stem, records);
    }
    Ok(planner.finish())
}

fn check_apart(files: &[RetailFile]) -> Result<(), PlanError> {
    let mut invoices: HashMap<&str, (usize, u64)> = HashMap::new();
    for (at, file) in files.iter().enumerate() {
        if files[..at].iter().any(|earlier| earlier.stem == file.stem) {
            return Err(PlanError::NameTwice { stem: file.stem.clone() });
        }
        for record in &file.records {
            let Some(invoice) = record.invoice() else {
                continue;
            };
            let (first, number) = *invoices.entry(invoice).or_insert((at, record.number()));
            if first == at {
                continue;
            }
            let earlier = &files[first];
            return Err(if earlier.records == file.records {
                PlanError::ContentTwice { first: earlier.name.clone(), second: file.name.clone() }
            } else {
                PlanError::InvoiceInTwoFiles {
                    invoice: invoice.to_owned(),
                    first: (earlier.name.clone(), number),
                    second: (file.name.clone(), record.number()),
                }
            });
        }
    }
    Ok(())
}

/// The sales of a SKU to a customer that have not come back, newest last.
#[derive(Default)]
struct OpenSales {
    total: Decimal,
    sales: Vec<Part>,
}

impl OpenSales {
    fn add(&mut self, step: usize, quantity: Decimal) {
        self.total += quantity;
        self.sales.push(Part { step, quantity });
    }

    /// All of `wanted` or nothing: a line is a return or an adjustment, not a bit of each.
    /// A sale leaves the stack when it is used up, so all returns together cost as much as
    /// there are sales.
    fn take(&mut self, wanted: Decimal) -> Option<Vec<Part>> {
        if wanted > self.total {
            return None;
        }
        self.total -= wanted;
        let mut missing = wanted;
        let mut of = Vec::new();
        while missing > Decimal::ZERO {
            let sale = self.sales.last_mut()?;
            let quantity = sale.quantity.min(missing);
            of.push(Part { step: sale.step, quantity });
            missing -= quantity;
            sale.quantity -= quantity;
            if sale.quantity.is_zero() {
                self.sales.pop();
            }
        }
        Some(of)
    }
}

/// What is known of one file so far. Not carried to the next: see the invariant on top.
#[derive(Default)]
struct FileState {
    open: HashMap<(String, usize), OpenSales>,
    taken: BTreeMap<usize, Decimal>,
}

#[derive(Clone, Default)]
struct NameSeen {
    priced: Option<String>,
    any: Option<String>,
}

#[derive(Default)]
struct Planner {
    plan: Plan,
    sku_by_code: HashMap<String, usize>,
    names: Vec<NameSeen>,
}

impl Planner {
    fn file(&mut self, file: usize, stem: &str, records: Vec<Record>) {
        let mut state = FileState::default();
        let occurrences = occurrences(&records);
        for (record, occurrence) in records.into_iter().zip(occurrences) {
            match record {
                Record::Line(line) => self.line(file, line, occurrence, &mut state),
                Record::Flawed(flawed) => self.plan.unbooked.push(Unbooked {
                    file,
                    number: flawed.number,
                    totals: flawed.totals,
                    why: Why::Refused { reason: flawed.reason },
                }),
            }
        }
        for (sku, quantity) in state.taken {
            let key = format!("online-retail|opening|{stem}|{}", self.plan.skus[sku].code);
            self.plan.openings.push(Opening { key, file, sku, quantity });
        }
    }

    fn line(&mut self, file: usize, line: Line, occurrence: u64, state: &mut FileState) {
        if let Some(why) = unbookable(&line) {
            let (number, totals) = (line.number, line.totals());
            self.plan.unbooked.push(Unbooked { file, number, totals, why });
            return;
        }
        let sku = self.sku(&line);
        let index = self.plan.steps.len();
        let operation = operation(&line, index, sku, &mut state.open);
        let out = match &operation {
            Operation::Sale => line.quantity,
            Operation::Adjust { quantity, .. } if quantity.is_sign_negative() => -*quantity,
            Operation::Return { .. } | Operation::Adjust { .. } => Decimal::ZERO,
        };
        if !out.is_zero() {
            *state.taken.entry(sku).or_insert(Decimal::ZERO) += out;
        }
        let key = format!("online-retail|{}|{}|{occurrence}", line.invoice, line.code);
        self.plan.steps.push(Step { index, key, file, sku, line, operation });
    }

    fn sku(&mut self, line: &Line) -> usize {
        let sku = if let Some(&sku) = self.sku_by_code.get(&line.code) {
            sku
        } else {
            let sku = self.plan.skus.len();
            let (code, name) = (line.code.clone(), String::new());
            self.plan.skus.push(Sku { code, name });
            self.names.push(NameSeen::default());
            self.sku_by_code.insert(line.code.clone(), sku);
            sku
        };
        if !line.description.is_empty() {
            let seen = &mut self.names[sku];
            seen.any.get_or_insert_with(|| line.description.clone());
            if !line.unit_price.is_zero() {
                seen.priced.get_or_insert_with(|| line.description.clone());
            }
        }
        sku
    }

    fn finish(mut self) -> Plan {
        for (sku, NameSeen { priced, any }) in self.plan.skus.iter_mut().zip(self.names) {
            sku.name = priced.or(any).unwrap_or_else(|| sku.code.clone());
        }
        self.plan
    }
}

/// For each record the how-manieth it is of its invoice and code, counted from 1.
fn occurrences(records: &[Record]) -> Vec<u64> {
    let mut counts: HashMap<(&str, &str), u64> = HashMap::new();
    records
        .iter()
        .map(|record| match (record.invoice(), record.code()) {
            (Some(invoice), Some(code)) => {
                let count = counts.entry((invoice, code)).or_insert(0);
                *count += 1;
                *count
            }
            // A record without either is refused and needs no key.
            _ => 0,
        })
        .collect()
}

fn is_cancellation(line: &Line) -> bool {
    line.invoice.starts_with('C')
}

fn unbookable(line: &Line) -> Option<Why> {
    let refused = |reason: String| Some(Why::Refused { reason });
    match kind(&line.code) {
        Kind::NotGoods(what) => {
            return Some(Why::NotGoods { code: line.code.clone(), what });
        }
        Kind::Unknown => {
            return refused(format!("stock code {:?} has no form of goods and is not listed as no goods", line.code));
        }
        Kind::Goods => {}
    }
    if line.quantity.is_zero() {
        refused("quantity is zero: nothing moves".to_owned())
    } else if !line.quantity.is_integer() {
        refused(format!("quantity {} is no whole number of pieces", line.quantity))
    } else if is_cancellation(line) && line.quantity > Decimal::ZERO {
        refused(format!("cancellation {} with a quantity above zero", line.invoice))
    } else if line.unit_price < Decimal::ZERO {
        refused(format!("goods at a price below zero ({})", line.unit_price))
    } else {
        None
    }
}

/// A quantity above zero is a sale, whatever its price. Below zero, a line on a cancellation
/// or of a known customer brings goods back; any other takes stock away.
fn operation(line: &Line, index: usize, sku: usize, open: &mut HashMap<(String, usize), OpenSales>) -> Operation {
    if line.quantity > Decimal::ZERO {
        if let Some(customer) = &line.customer {
            open.entry((customer.clone(), sku)).or_default().add(index, line.quantity);
        }
        return Operation::Sale;
    }
    let back = -line.quantity;
    let adjust = |quantity, cause: Cause| {
        let said = match line.description.as_str() {
            "" => "no reason given",
            said => said,
        };
        let reason = match cause {
            Cause::Correction => said.to_owned(),
            _ => format!("{}: {}", cause.text(), line.invoice),
        };
        Operation::Adjust { quantity, cause, reason }
    };
    let Some(customer) = &line.customer else {
        return if is_cancellation(line) {
            adjust(back, Cause::CustomerUnknown)
        } else {
            adjust(line.quantity, Cause::Correction)
        };
    };
    match open.get_mut(&(customer.clone(), sku)) {
        None => adjust(back, Cause::SaleUnknown),
        Some(sales) if sales.total.is_zero() => adjust(back, Cause::SaleUnknown),
        Some(sales) => match sales.take(back) {
            Some(of) => Operation::Return { of },
            None => adjust(back, Cause::SaleTooSmall),
        },
    }
}
