//! Books what was planned: opening stock, sales, returns, adjustments.
//!
//! Owns the comparison of a line with what was booked under its key before. Never books a key
//! twice, and never over another content: a corrected file is refused line by line.
//! Invariant: a line's key is the source of its first movement, so one look-up per line tells all:
//! whether a sale is shipped stands on the promise its key made.
//! Invariant: within a SKU, a line begins when the one before it has its outcome.

use super::{
    plan::{Opening, Operation, Part, Plan, Step},
    report::{Outcome, Prepared},
    send::{Sender, Sent, Stopped},
};
use domain::inventory::{Adjust, Allocate, LINES_MAX, Receive, Return, Ship, read::Booked};
use futures::{StreamExt, TryStreamExt, stream};
use kernel::{
    id::{PromiseId, SkuId, WarehouseId},
    quantity::Quantity,
};
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Sources asked for in one query.
const SOURCES_ASKED_MAX: usize = 1_000;
/// Such queries at once.
const QUERIES_MAX: usize = 4;

/// Everything that booking needs to know.
pub struct Desk<'a> {
    pub sender: Sender<'a>,
    pub plan: &'a Plan,
    pub warehouse: WarehouseId,
    /// For each SKU of the plan its id, or why it has none.
    pub skus: Vec<Result<SkuId, String>>,
    /// What earlier runs booked.
    known: HashMap<String, Booked>,
    /// Files and SKUs of which a line that takes stock away is among it.
    begun: HashSet<(usize, usize)>,
}

/// What became of a movement that stands for itself, or of a line.
enum Booking {
    Done,
    Before,
    Refused(String),
}

impl Booking {
    fn of(fresh: bool) -> Self {
        if fresh { Self::Done } else { Self::Before }
    }
}

/// A sale as the returns of it need to know it.
struct Sold {
    promise: Option<PromiseId>,
    refused: bool,
}

/// A file and a SKU whose opening stock is not there.
pub type Unopened = HashSet<(usize, usize)>;

impl<'a> Desk<'a> {
    /// Looks up what was booked before, set by set.
    pub async fn open(
        sender: Sender<'a>,
        plan: &'a Plan,
        warehouse: WarehouseId,
        skus: Vec<Result<SkuId, String>>,
    ) -> Result<Self, Stopped> {
        let openings = plan.openings.iter().map(|opening| opening.key.clone());
        let steps = plan.steps.iter().flat_map(sources);
        let sources: Vec<String> = openings.chain(steps).collect();
        let known = stream::iter(sources.chunks(SOURCES_ASKED_MAX))
            .map(|sources| sender.booked(sources.to_vec()))
            .buffer_unordered(QUERIES_MAX)
            .try_fold(HashMap::with_capacity(sources.len()), async |mut known, booked| {
                known.extend(booked);
                Ok(known)
            })
            .await?;
        let begun = plan.steps.iter().filter(|step| takes(step) && known.contains_key(&step.key));
        let begun = begun.map(|step| (step.file, step.sku)).collect();
        Ok(Self { sender, plan, warehouse, skus, known, begun })
    }

    /// Receives the stock that a file begins with.
    ///
    /// It goes before the lines that take from it. Where such a line is booked and this is not, the
    /// line came in with a file of another name, whose opening stock it has: received under the new
    /// name, it would be there twice.
    pub async fn opening(&self, opening: &Opening) -> Result<Prepared, Stopped> {
        let booking = match &self.skus[opening.sku] {
            Err(why) => Booking::Refused(format!("its SKU could not be made: {why}")),
            Ok(_)
                if self.begun.contains(&(opening.file, opening.sku))
                && !self.known.contains_key(&opening.key)
                // Another process may have booked both between our two looks.
                && self.sender.booked(vec![opening.key.clone()]).await?.is_empty() =>
            {
                Booking::Refused(RENAMED.to_owned())
            }
            Ok(sku) => {
                let intent = self.line(*sku, opening.quantity, &opening.key);
                self.book_once::<Receive>("receive", &opening.key, *sku, opening.quantity, intent).await?
            }
        };
        Ok(match booking {
            Booking::Done => Prepared::Done,
            Booking::Before => Prepared::Before,
            Booking::Refused(why) => Prepared::Refused(why),
        })
    }

    /// Books the lines of one SKU in their order; `booked` hears of every one.
    pub async fn queue(
        &self,
        steps: &[usize],
        unopened: &Unopened,
        booked: impl Fn(&Step, Outcome),
    ) -> Result<(), Stopped> {
        let mut sales: HashMap<usize, Sold> = HashMap::new();
        for index in steps {
            let step = &self.plan.steps[*index];
            let opened = !unopened.contains(&(step.file, step.sku));
            let booking = match (&self.skus[step.sku], &step.operation) {
                (Err(why), _) => Booking::Refused(format!("its SKU could not be made: {why}")),
                (Ok(sku), Operation::Sale) => {
                    let (booking, promise) = self.sale(step, *sku, opened).await?;
                    sales.insert(*index, Sold { promise, refused: matches!(booking, Booking::Refused(_)) });
                    booking
                }
                (Ok(sku), Operation::Return { of }) => self.take_back(step, of, *sku, &sales).await?,
                (Ok(sku), Operation::Adjust { quantity, reason, .. }) => {
                    if takes(step) && !opened && !self.known.contains_key(&step.key) {
                        Booking::Refused(NOT_OPENED.to_owned())
                    } else {
                        let mut intent = self.line(*sku, *quantity, &step.key);
                        intent["lines"][0]["reason"] = json!(reason);
                        self.book_once::<Adjust>("adjust", &step.key, *sku, *quantity, intent).await?
                    }
                }
            };
            let class = step.operation.class();
            booked(
                step,
                match booking {
                    Booking::Done => Outcome::Done(class),
                    Booking::Before => Outcome::Before(class),
                    Booking::Refused(why) => Outcome::Refused(why),
                },
            );
        }
        Ok(())
    }

    /// Allocates and ships. Where an earlier run was killed between the two, it goes on from there.
    async fn sale(&self, step: &Step, sku: SkuId, opened: bool) -> Result<(Booking, Option<PromiseId>), Stopped> {
        let quantity = step.line.quantity;
        let mut fresh = false;
        let found = match self.known.get(&step.key) {
            Some(found) => found.clone(),
            None if !opened => return Ok((Booking::Refused(NOT_OPENED.to_owned()), None)),
            None => match self.sender.send::<Allocate>(&step.key, &self.line(sku, quantity, &step.key)).await? {
                Sent::Done { body, fresh: by_us } => {
                    fresh = by_us;
                    promised(&body, sku, self.warehouse, quantity)
                }
                Sent::Taken { detail } => self.look_again(&step.key, &detail).await?,
                Sent::Refused(why) => return Ok((Booking::Refused(why), None)),
            },
        };
        if let Some(why) = self.differs(&found, "allocate", sku, quantity) {
            return Ok((Booking::Refused(why), found.promise));
        }
        if found.shipped.decimal() >= quantity {
            return Ok((Booking::of(fresh), found.promise));
        }
        let source = format!("{}|ship", step.key);
        let intent = json!({"lines": [{"promise_id": found.promise, "source": source}]});
        let booking = match self.sender.send::<Ship>(&source, &intent).await? {
            Sent::Done { fresh: by_us, .. } => Booking::of(fresh || by_us),
            // Shipped by another process that runs at once.
            Sent::Taken { detail } => match self.look_again(&step.key, &detail).await?.shipped {
                shipped if shipped.decimal() >= quantity => Booking::of(fresh),
                _ => Booking::Refused(detail),
            },
            Sent::Refused(why) => Booking::Refused(why),
        };
        Ok((booking, found.promise))
    }

    async fn take_back(
        &self,
        step: &Step,
        of: &[Part],
        sku: SkuId,
        sales: &HashMap<usize, Sold>,
    ) -> Result<Booking, Stopped> {
        let mut found: Vec<Option<Booked>> = sources(step).iter().map(|key| self.known.get(key).cloned()).collect();
        if found.iter().all(Option::is_none) {
            if of.len() > LINES_MAX {
                return Ok(Booking::Refused(format!(
                    "it takes back {} sales, at most {LINES_MAX} go at once",
                    of.len()
                )));
            }
            let mut lines = Vec::with_capacity(of.len());
            for (part, source) in of.iter().zip(sources(step)) {
                let Some(Sold { promise: Some(promise), refused: false }) = sales.get(&part.step) else {
                    let sale = &self.plan.steps[part.step];
                    return Ok(Booking::Refused(format!("the sale it takes back, {}, was refused", sale.key)));
                };
                let quantity = part.quantity.normalize().to_string();
                lines.push(json!({"promise_id": promise, "quantity": quantity, "source": source}));
            }
            match self.sender.send::<Return>(&step.key, &json!({"lines": lines})).await? {
                Sent::Done { fresh, .. } => return Ok(Booking::of(fresh)),
                Sent::Refused(why) => return Ok(Booking::Refused(why)),
                Sent::Taken { detail } => {
                    let again = self.sender.booked(sources(step)).await?;
                    found = sources(step).iter().map(|key| again.get(key).cloned()).collect();
                    if found.iter().all(Option::is_none) {
                        return Err(vanished(&step.key, &detail));
                    }
                }
            }
        }
        Ok(self.compare_return(step, of, sku, sales, &found))
    }

    /// `found` holds what stands under each of the line's sources, and under the next one.
    fn compare_return(
        &self,
        step: &Step,
        of: &[Part],
        sku: SkuId,
        sales: &HashMap<usize, Sold>,
        found: &[Option<Booked>],
    ) -> Booking {
        let booked: Vec<&Booked> = found.iter().flatten().collect();
        if let Some(why) = booked.iter().find_map(|booked| self.differs_in_kind(booked, "return", sku)) {
            return Booking::Refused(why);
        }
        // Where the ledger of the month is gone, only the sales can be compared.
        let part_of = |part: &Part, found: &Option<Booked>| {
            found.as_ref().is_some_and(|found| {
                found.promise == sales.get(&part.step).and_then(|sold| sold.promise)
                    && found.quantity.is_none_or(|quantity| quantity.decimal() == part.quantity)
            })
        };
        if booked.len() == of.len() && of.iter().zip(found).all(|(part, found)| part_of(part, found)) {
            return Booking::Before;
        }
        let sum: Decimal = booked.iter().filter_map(|booked| booked.quantity).map(Quantity::decimal).sum();
        let said = -step.line.quantity;
        Booking::Refused(if sum == said {
            "booked before as a return of other sales than the file has".to_owned()
        } else {
            quantities_differ(sum, said)
        })
    }

    /// Books a movement of one line that is done with one command.
    async fn book_once<C>(
        &self,
        kind: &str,
        key: &str,
        sku: SkuId,
        quantity: Decimal,
        intent: Value,
    ) -> Result<Booking, Stopped>
    where
        C: engine::Command<domain::WorkingSet, Done = domain::inventory::Moved> + serde::de::DeserializeOwned + Clone,
    {
        let found = match self.known.get(key) {
            Some(found) => found.clone(),
            None => match self.sender.send::<C>(key, &intent).await? {
                Sent::Done { fresh, .. } => return Ok(Booking::of(fresh)),
                Sent::Refused(why) => return Ok(Booking::Refused(why)),
                Sent::Taken { detail } => self.look_again(key, &detail).await?,
            },
        };
        Ok(self.differs(&found, kind, sku, quantity).map_or(Booking::Before, Booking::Refused))
    }

    /// Reads what somebody booked under a key meanwhile.
    async fn look_again(&self, key: &str, detail: &str) -> Result<Booked, Stopped> {
        let found = self.sender.booked(vec![key.to_owned()]).await?.remove(key);
        found.ok_or_else(|| vanished(key, detail))
    }

    /// A call of one line.
    fn line(&self, sku: SkuId, quantity: Decimal, source: &str) -> Value {
        let quantity = quantity.normalize().to_string();
        json!({"lines": [{
            "sku_id": sku, "warehouse_id": self.warehouse, "quantity": quantity, "source": source,
        }]})
    }

    /// In what a line differs from what was booked under its key.
    fn differs(&self, found: &Booked, kind: &str, sku: SkuId, said: Decimal) -> Option<String> {
        if let Some(why) = self.differs_in_kind(found, kind, sku) {
            return Some(why);
        }
        // Where the ledger of the month is gone, there is nothing to compare with.
        let booked = found.quantity?.decimal();
        (booked != said).then(|| quantities_differ(booked, said))
    }

    fn differs_in_kind(&self, found: &Booked, kind: &str, sku: SkuId) -> Option<String> {
        if found.kind != kind {
            let was = found.quantity.map(|quantity| format!(" of {quantity}")).unwrap_or_default();
            return Some(format!("booked before as {}{was}, the file makes it {kind}", found.kind));
        }
        if found.sku != sku {
            return Some(format!("booked before for another SKU, {}", found.sku));
        }
        (found.warehouse != self.warehouse).then(|| format!("booked before in another warehouse, {}", found.warehouse))
    }
}

const RENAMED: &str =
    "lines of it are booked already, with the opening stock of another file; was the file renamed after its import?";
const NOT_OPENED: &str = "the opening stock that its file needs was refused, so it would take that of others";

fn quantities_differ(booked: Decimal, said: Decimal) -> String {
    format!("booked before with quantity {}, the file says {}", booked.normalize(), said.normalize())
}

fn vanished(key: &str, detail: &str) -> Stopped {
    Stopped { at: key.to_owned(), why: format!("{detail}; but nothing is found there") }
}

fn takes(step: &Step) -> bool {
    match &step.operation {
        Operation::Sale => true,
        Operation::Return { .. } => false,
        Operation::Adjust { quantity, .. } => quantity.is_sign_negative(),
    }
}

/// The sources under which a line may stand. A return has one for each sale it takes back, and is
/// looked for under one more: a return of more sales would look the same up to there.
fn sources(step: &Step) -> Vec<String> {
    let more = match &step.operation {
        Operation::Return { of } => of.len(),
        Operation::Sale | Operation::Adjust { .. } => 0,
    };
    let rest = (0..more).map(|n| format!("{}|return|{}", step.key, n + 2));
    std::iter::once(step.key.clone()).chain(rest).collect()
}

/// What an allocation made, from its answer.
fn promised(body: &[u8], sku: SkuId, warehouse: WarehouseId, quantity: Decimal) -> Booked {
    #[derive(Deserialize)]
    struct Line {
        promise_id: PromiseId,
    }
    #[derive(Deserialize)]
    struct Promised {
        lines: [Line; 1],
    }
    let Promised { lines: [Line { promise_id }] } = serde_json::from_slice(body).expect("the answer of an allocation");
    Booked {
        kind: "allocate".to_owned(),
        promise: Some(promise_id),
        sku,
        warehouse,
        quantity: Quantity::new(quantity).ok(),
        shipped: Quantity::ZERO,
    }
}
