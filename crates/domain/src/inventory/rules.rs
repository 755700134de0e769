//! What stock allows: pure decisions over a position and a promise.
//!
//! Every function either does all of its change or none.

use super::model::{Counters, Position, Promise};
use kernel::quantity::{Overflow, Quantity};

/// More was wanted than could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLittle {
    pub available: Quantity,
}

/// Why a counter cannot move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    TooLittle(TooLittle),
    Overflow,
}

impl From<Overflow> for Stopped {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

const NONE: Counters =
    Counters { on_hand: Quantity::ZERO, on_order: Quantity::ZERO, allocated: Quantity::ZERO, reserved: Quantity::ZERO };

/// Promises `wanted` units, or tells how many could be had (overcommitting included).
pub fn promise(position: &Position, wanted: Quantity) -> Result<Counters, Stopped> {
    let available = position.promisable();
    // GUARD(oversell_rule): the caller is told how many could be had, instead of a constraint's no.
    if wanted > available {
        return Err(Stopped::TooLittle(TooLittle { available }));
    }
    Ok(Counters { allocated: wanted, ..NONE })
}

pub fn receive(quantity: Quantity) -> Counters {
    Counters { on_hand: quantity, ..NONE }
}

/// Corrects what is on hand. Taking away what is promised is stopped, with what may be taken.
pub fn adjust(position: &Position, difference: Quantity) -> Result<Counters, Stopped> {
    if difference.is_negative() {
        let free = position.promisable().min(position.counters.on_hand);
        if difference.negated() > free {
            let available = free.max(Quantity::ZERO);
            return Err(Stopped::TooLittle(TooLittle { available }));
        }
    }
    Ok(Counters { on_hand: difference, ..NONE })
}

/// Gives back a promise's open units; `None` means all of them.
pub fn release(promise: &mut Promise, wanted: Option<Quantity>) -> Result<Counters, Stopped> {
    let quantity = open_part(promise, wanted)?;
    promise.released = promise.released.plus(quantity)?;
    Ok(Counters { allocated: quantity.negated(), ..NONE })
}

/// Ships a promise's open units, which leave the shelf and the promise at once.
pub fn ship(position: &Position, promise: &mut Promise, wanted: Option<Quantity>) -> Result<Counters, ShipStopped> {
    let quantity = open_part(promise, wanted).map_err(ShipStopped::Promise)?;
    let on_hand = position.counters.on_hand;
    if quantity > on_hand {
        return Err(ShipStopped::OnHand(on_hand));
    }
    promise.shipped = promise.shipped.plus(quantity).map_err(|_| ShipStopped::Promise(Stopped::Overflow))?;
    Ok(Counters { on_hand: quantity.negated(), allocated: quantity.negated(), ..NONE })
}

/// Why nothing is shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShipStopped {
    Promise(Stopped),
    /// It was promised against what has not arrived.
    OnHand(Quantity),
}

/// Takes shipped units back, never more than were shipped over all returns.
pub fn take_back(promise: &mut Promise, quantity: Quantity) -> Result<Counters, Stopped> {
    let returnable = promise.shipped.minus(promise.returned)?;
    if quantity > returnable {
        return Err(Stopped::TooLittle(TooLittle { available: returnable }));
    }
    promise.returned = promise.returned.plus(quantity)?;
    Ok(Counters { on_hand: quantity, ..NONE })
}

fn open_part(promise: &Promise, wanted: Option<Quantity>) -> Result<Quantity, Stopped> {
    let open = promise.open();
    let quantity = wanted.unwrap_or(open);
    if quantity > open || quantity.is_zero() {
        return Err(Stopped::TooLittle(TooLittle { available: open }));
    }
    Ok(quantity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::id::{PositionId, SkuId, WarehouseId};
    use proptest::prelude::*;

    fn q(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    fn position(on_hand: &str, on_order: &str, allocated: &str, reserved: &str, overcommit: &str) -> Position {
        let counters =
            Counters { on_hand: q(on_hand), on_order: q(on_order), allocated: q(allocated), reserved: q(reserved) };
        Position { id: PositionId::mint(), decimals: 0, counters, overcommit_limit: q(overcommit), sequence: 0 }
    }

    fn promised(quantity: &str, shipped: &str, released: &str, returned: &str) -> Promise {
        Promise {
            sku: SkuId::mint(),
            warehouse: WarehouseId::mint(),
            quantity: q(quantity),
            shipped: q(shipped),
            released: q(released),
            returned: q(returned),
            source: None,
            priority: 0,
            promised_for: None,
            created_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn ats_01_a_promise_needs_on_hand_plus_on_order_less_allocated_less_reserved() {
        for (on_hand, on_order, allocated, reserved, overcommit, wanted, left) in [
            ("6", "0", "0", "0", "0", "6", None),
            ("6", "0", "0", "0", "0", "7", Some("6")),
            ("6", "0", "6", "0", "0", "6", Some("0")),
            ("6", "4", "6", "0", "0", "4", None),
            ("6", "4", "6", "3", "0", "2", Some("1")),
            ("6", "0", "6", "0", "2", "2", None),
            ("6", "0", "6", "0", "2", "3", Some("2")),
            ("3140", "0", "3106.40", "0", "0", "33.60", None),
            ("3140", "0", "3106.40", "0", "0", "33.61", Some("33.6")),
        ] {
            let position = position(on_hand, on_order, allocated, reserved, overcommit);
            let expected = left.map(|left| Stopped::TooLittle(TooLittle { available: q(left) }));
            assert_eq!(promise(&position, q(wanted)).err(), expected, "{wanted} of {position:?}");
        }
    }

    #[test]
    fn an_adjustment_never_takes_what_is_promised() {
        for (on_hand, on_order, allocated, difference, may) in [
            ("6", "0", "0", "-6", None),
            ("6", "0", "0", "-7", Some("6")),
            ("6", "0", "4", "-2", None),
            ("6", "0", "4", "-3", Some("2")),
            ("6", "9", "4", "-7", Some("6")),
            ("0", "0", "0", "5", None),
        ] {
            let position = position(on_hand, on_order, allocated, "0", "0");
            let expected = may.map(|may| Stopped::TooLittle(TooLittle { available: q(may) }));
            assert_eq!(adjust(&position, q(difference)).err(), expected, "{difference} of {position:?}");
        }
    }

    #[test]
    fn case_016_a_promise_gives_back_at_most_what_is_open() {
        for (shipped, released, wanted, gives) in [
            ("0", "0", None, Ok("10")),
            ("4", "0", None, Ok("6")),
            ("4", "6", None, Err("0")),
            ("0", "10", Some("1"), Err("0")),
            ("4", "0", Some("7"), Err("6")),
            ("4", "0", Some("6"), Ok("6")),
        ] {
            let mut promise = promised("10", shipped, released, "0");
            let given = release(&mut promise, wanted.map(q)).map(|change| change.allocated.negated());
            let expected = gives.map(q).map_err(|open| Stopped::TooLittle(TooLittle { available: q(open) }));
            assert_eq!(given, expected, "{wanted:?} of {promise:?}");
        }
    }

    #[test]
    fn case_048_returns_never_exceed_what_was_shipped() {
        let mut promise = promised("10", "5", "0", "0");
        assert!(take_back(&mut promise, q("3")).is_ok());
        assert!(take_back(&mut promise, q("2")).is_ok());
        let refused = take_back(&mut promise, q("1"));
        assert_eq!(refused, Err(Stopped::TooLittle(TooLittle { available: q("0") })));
    }

    proptest! {
        #[test]
        fn no_sequence_of_decisions_breaks_the_position(
            steps in prop::collection::vec((0u8..6, 1u32..20, any::<prop::sample::Index>()), 1..60)
        ) {
            let mut position = position("0", "0", "0", "0", "0");
            let mut promises: Vec<Promise> = Vec::new();
            for (kind, amount, which) in steps {
                let amount = Quantity::from(amount);
                let last = (!promises.is_empty()).then(|| which.index(promises.len()));
                let change = match (kind, last) {
                    (0, _) => Some(receive(amount)),
                    (1, _) => adjust(&position, amount.negated()).ok(),
                    (2, Some(n)) => release(&mut promises[n], None).ok(),
                    (3, Some(n)) => ship(&position, &mut promises[n], None).ok(),
                    (4, Some(n)) => take_back(&mut promises[n], amount).ok(),
                    _ => promise(&position, amount).ok().inspect(|_| {
                        promises.push(promised(&amount.to_string(), "0", "0", "0"));
                    }),
                };
                if let Some(change) = change {
                    position.counters = position.counters.plus(&change).unwrap();
                }
                let counters = position.counters;
                prop_assert!(!counters.on_hand.is_negative());
                prop_assert!(!counters.allocated.is_negative());
                prop_assert!(!position.available().is_negative());
                let open = promises.iter().map(Promise::open).fold(Quantity::ZERO, |a, b| a.plus(b).unwrap());
                prop_assert_eq!(open, counters.allocated);
            }
        }
    }
}
