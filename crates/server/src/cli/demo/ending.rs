//! The end: who got what, and whether the books say so too.

use super::{Item, Level, Play, Trouble, tell::more};
use kernel::quantity::Quantity;
use serde::Deserialize;

/// One page holds the whole story.
const ROWS: u32 = 200;

#[derive(Deserialize)]
struct Rows<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct LedgerLine {
    sequence: i64,
    kind: String,
    on_hand: Quantity,
    allocated: Quantity,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    sequence: i64,
    kind: String,
}

#[derive(Deserialize)]
struct Promise {
    state: String,
    quantity: Quantity,
    source: Option<String>,
}

/// Position, ledger, events and promises of both items, then `verify`. Returns the summary.
pub(super) async fn balance(play: &mut Play<'_>, indigo: &Item, sand: &Item, winner: &str) -> Result<String, Trouble> {
    play.tell.scene(7, "The end: who got what, told by the program and checked by the books");
    books(play, indigo, 6, 1).await?;
    books(play, sand, 24, 4).await?;

    let (fine, printed) = play.stage.run(&["verify"]).await?;
    play.tell.note("verify", &printed);
    play.tell.check(fine, "`tallyhold verify`, beside the running program, finds every invariant kept", || {
        printed.clone()
    })?;
    let loser = if winner == "Austin" { "Tokyo" } else { "Austin" };
    Ok(format!("Six shirts, six promised: {winner} has them, {loser} was told 0 available. Nothing was taken twice."))
}

/// All `units` are promised, in `orders` orders, and ledger and events tell it without a hole.
async fn books(play: &mut Play<'_>, item: &Item, units: u32, orders: usize) -> Result<(), Trouble> {
    let address = play.address();
    let of = format!("/v1/stock-positions/{}", item.position);
    let level: Level = play.level(item).await?;
    play.tell.note("stock", &format!("{}: {}", item.name, level.plain()));
    let all = Quantity::from(units);
    let right = Level { on_hand: all, allocated: all, ats: Quantity::ZERO, sequence: level.sequence };
    play.tell.check(level == right, &format!("{units} of {units} promised, none twice"), || level.plain())?;

    let ledger: Rows<LedgerLine> = play.warehouse.get(address, &format!("{of}/ledger?limit={ROWS}")).await?;
    play.tell.note("ledger", "every change, in order:");
    for line in &ledger.items {
        let (counter, change) =
            if line.on_hand.is_zero() { ("allocated", line.allocated) } else { ("on hand", line.on_hand) };
        let source = line.source.as_deref().unwrap_or_default();
        more(&format!("{}  {:<9} {counter:<9} {change:>+4}  {source}", line.sequence, line.kind));
    }
    let sum = |of: fn(&LedgerLine) -> Quantity| {
        ledger.items.iter().try_fold(Quantity::ZERO, |sum, line| sum.plus(of(line))).unwrap_or_default()
    };
    let sums = (sum(|line| line.on_hand), sum(|line| line.allocated));
    let whole =
        sums == (level.on_hand, level.allocated) && unbroken(ledger.items.iter().map(|line| line.sequence), &level);
    play.tell.check(whole, "the position is the sum of its ledger, without a hole", || {
        format!("on hand {} and allocated {} in {} lines", sums.0, sums.1, ledger.items.len())
    })?;

    let events: Rows<Event> = play.warehouse.get(address, &format!("{of}/events?limit={ROWS}")).await?;
    let kinds = kinds(&events.items);
    play.tell.note("events", &kinds);
    let whole = unbroken(events.items.iter().map(|event| event.sequence), &level);
    play.tell.check(whole, "one event for each change, in order, without a hole", || kinds)?;

    let path = format!("/v1/promises?sku_id={}&warehouse_id={}&limit={ROWS}", item.sku, item.warehouse);
    let promises: Rows<Promise> = play.warehouse.get(address, &path).await?;
    let each: Vec<_> = promises
        .items
        .iter()
        .map(|one| format!("{} for {}", one.quantity, one.source.as_deref().unwrap_or("?")))
        .collect();
    play.tell.note("promises", "every one, with the order it was given to:");
    for one in &each {
        more(one);
    }
    let six = |one: &Promise| one.state == "open" && one.quantity == Quantity::from(6);
    let right = promises.items.len() == orders && promises.items.iter().all(six);
    let what = if orders == 1 {
        "one promise of six".to_owned()
    } else {
        format!("{orders} promises of six each, one an order")
    };
    play.tell.check(right, &what, || each.join(", "))
}

/// `inventory.stock_received 1, inventory.stock_allocated 2 3`
fn kinds(events: &[Event]) -> String {
    let runs = events.chunk_by(|one, next| one.kind == next.kind).map(|run| {
        let sequences: Vec<_> = run.iter().map(|event| event.sequence.to_string()).collect();
        format!("{} {}", run[0].kind, sequences.join(" "))
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// 1, 2, 3 … up to the position's own count.
fn unbroken(sequences: impl Iterator<Item = i64>, level: &Level) -> bool {
    sequences.eq(1..=level.sequence)
}
