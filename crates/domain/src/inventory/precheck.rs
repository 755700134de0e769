//! Fail fast when stock is clearly short and the lane is crowded, without waiting for a lock.
//!
//! Invariant: it never says yes. It only spares a call that is refused anyway the wait behind a
//! hot row; the refusal runs through the pipeline like any other, and so is stored and replayed.
//! Invariant: it comes after the stored answers missed, in the same snapshot: the retry of the
//! call that took the last units still gets its 200. Should that answer commit in between, the
//! unique key on answers sends us back to find it.
//! Ignores what is reserved: those holds may be overdue.

use super::{
    Allocate, Short,
    model::{Counters, PositionKey},
    sql::Positions,
};
use crate::Engine;
use engine::{
    Command,
    answer::{self, ANSWER_FIND, Key},
    error::StepError,
    sql::param,
    table::Table,
};
use kernel::{id::TenantId, quantity::Quantity};
use std::collections::BTreeMap;

/// What is clearly short of what the command wants; nothing where that is not clear.
pub async fn precheck(
    engine: &Engine,
    tenant: TenantId,
    key: &Key,
    command: &Allocate,
) -> Result<Vec<Short>, StepError> {
    if !engine.is_crowded(tenant, command.lane()) {
        return Ok(Vec::new());
    }
    let mut sums: BTreeMap<PositionKey, Quantity> = BTreeMap::new();
    for line in &command.lines {
        let sum = sums.entry(line.key()).or_default();
        // A sum beyond the bound is for the decision to refuse.
        let Ok(total) = sum.plus(line.quantity.get()) else { return Ok(Vec::new()) };
        *sum = total;
    }
    let keys: Vec<_> = sums.keys().copied().collect();
    let steps =
        vec![(ANSWER_FIND, vec![param(vec![key.as_str().to_owned()])]), (Positions::LOAD, Positions::keys(&keys))];
    let rows = engine.read(tenant, steps).await?;
    if answer::key(&rows[0][0]).is_some() {
        return Ok(Vec::new());
    }
    let positions = rows[1].iter().map(Positions::read);
    let shorts = positions
        .filter_map(|(key, position)| {
            let Counters { on_hand, on_order, allocated, .. } = position.counters;
            let most = on_hand.plus(on_order).and_then(|sum| sum.plus(position.overcommit_limit));
            let most = most.and_then(|sum| sum.minus(allocated)).ok()?;
            let wanted = *sums.get(&key)?;
            let available = position.promisable();
            let short = Short { sku_id: key.sku, warehouse_id: key.warehouse, wanted, available };
            (wanted > most).then_some(short)
        })
        .collect();
    Ok(shorts)
}
