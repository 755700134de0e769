//! What must be there before the first line is booked: the tenant, its warehouse, the SKUs.
//!
//! Owns finding and making them. Never changes one that exists: a SKU keeps its name.
//! Invariant: found first, made only where missing, found again where somebody was faster; so
//! imports that run at once share them.

use super::{
    plan::Sku,
    report::Prepared,
    send::{Sender, Sent, Stopped, read},
};
use crate::cli::admin;
use domain::{
    Engine,
    catalog::{self, CreateSku, CreateWarehouse},
    tenancy::{self, model::Slug},
};
use futures::{StreamExt, TryStreamExt, stream};
use kernel::{
    id::{SkuId, TenantId, WarehouseId},
    page::Limit,
    text::{Code, Name},
};
use serde_json::json;
use std::collections::HashMap;

/// Codes asked for in one query.
const CODES_ASKED_MAX: usize = 1_000;

pub async fn tenant(engine: &Engine, slug: &Slug) -> Result<TenantId, String> {
    let find = async || {
        let found = read("the tenant", || tenancy::read::tenant_by_slug(engine, slug.as_str())).await;
        found.map_err(|stopped| stopped.to_string())
    };
    if let Some(tenant) = find().await? {
        return Ok(tenant);
    }
    let name = slug.as_str().parse().expect("a slug is a name");
    match admin::create_tenant(engine, slug, name).await {
        Ok(tenant) => Ok(tenant),
        Err(refused) => find().await?.ok_or(refused),
    }
}

pub async fn warehouse(sender: &Sender<'_>, code: &Code) -> Result<WarehouseId, String> {
    let Sender { engine, tenant } = *sender;
    let find = async || {
        let found =
            read("the warehouse", || catalog::read::warehouses(engine, tenant, Some(code), None, Limit::default()))
                .await;
        found.map(|page| page.items.first().map(|found| found.warehouse_id)).map_err(|stopped| stopped.to_string())
    };
    if let Some(warehouse) = find().await? {
        return Ok(warehouse);
    }
    let intent = json!({"code": code, "name": code});
    let sent = sender.send::<CreateWarehouse>(&format!("online-retail|warehouse|{code}"), &intent).await;
    if let Sent::Refused(why) = sent.map_err(|stopped| stopped.to_string())? {
        return Err(format!("the warehouse {code:?} could not be made: {why}"));
    }
    find().await?.ok_or_else(|| format!("the warehouse {code:?} was made, but is not found"))
}

/// The id of each SKU, or why it has none; `made` hears of every one.
pub async fn skus(
    sender: &Sender<'_>,
    skus: &[Sku],
    callers: usize,
    made: impl Fn(&Sku, Prepared),
) -> Result<Vec<Result<SkuId, String>>, Stopped> {
    let codes: Vec<&str> = skus.iter().map(|sku| sku.code.as_str()).collect();
    let there = find(sender, &codes).await?;
    let missing = skus.iter().filter(|sku| !there.contains_key(&sku.code));
    let sent: Vec<(&Sku, Sent)> = stream::iter(missing)
        .map(|sku| async move { create(sender, sku).await.map(|sent| (sku, sent)) })
        .buffer_unordered(callers)
        .try_collect()
        .await?;
    let asked_again: Vec<&str> = sent.iter().map(|(sku, _)| sku.code.as_str()).collect();
    let new = find(sender, &asked_again).await?;
    let sent: HashMap<&str, Sent> = sent.into_iter().map(|(sku, sent)| (sku.code.as_str(), sent)).collect();

    let result = |sku: &Sku| {
        let id = there.get(&sku.code).or_else(|| new.get(&sku.code)).copied();
        let outcome = match (id, sent.get(sku.code.as_str())) {
            (Some(_), Some(Sent::Done { fresh: true, .. })) => Prepared::Done,
            (Some(_), _) => Prepared::Before,
            (None, Some(Sent::Refused(why) | Sent::Taken { detail: why })) => Prepared::Refused(why.clone()),
            (None, _) => Prepared::Refused("it was made, but is not found".to_owned()),
        };
        made(sku, outcome.clone());
        match (id, outcome) {
            (None, Prepared::Refused(why)) => Err(why),
            (None, _) => unreachable!("without an id it is refused"),
            (Some(id), _) => Ok(id),
        }
    };
    Ok(skus.iter().map(result).collect())
}

async fn find(sender: &Sender<'_>, codes: &[&str]) -> Result<HashMap<String, SkuId>, Stopped> {
    let mut found = HashMap::new();
    for codes in codes.chunks(CODES_ASKED_MAX) {
        found.extend(sender.skus(codes).await?);
    }
    Ok(found)
}

async fn create(sender: &Sender<'_>, sku: &Sku) -> Result<Sent, Stopped> {
    let Sku { code, name } = sku;
    // A description may be of such kind that it makes no name: invisible characters only.
    let name = if name.parse::<Name>().is_ok() { name } else { code };
    let intent = json!({"code": code, "name": name, "unit": "piece", "decimals": 0});
    sender.send::<CreateSku>(&format!("online-retail|sku|{code}"), &intent).await
}
