//! What pages and API show of SKUs and warehouses.

use super::sql;
use crate::Engine;
use engine::{
    error::StepError,
    sql::{Row, param},
};
use jiff::Timestamp;
use kernel::{
    id::{SkuId, TenantId, WarehouseId},
    page::{Limit, Page},
    text::fold,
};
use serde::Serialize;
use std::collections::HashMap;
use utoipa::ToSchema;
use uuid::Uuid;

#[derive(Debug, Serialize, ToSchema)]
pub struct SkuView {
    pub sku_id: SkuId,
    pub code: String,
    pub name: String,
    pub unit: String,
    pub decimals: u8,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WarehouseView {
    pub warehouse_id: WarehouseId,
    pub code: String,
    pub name: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

fn sku_view(row: &Row) -> SkuView {
    let sku = sql::read_sku(row);
    SkuView {
        sku_id: row.get::<_, Uuid>("sku_id").into(),
        code: sku.code,
        name: sku.name,
        unit: sku.unit,
        decimals: sku.decimals,
        created_at: sku.created_at,
    }
}

fn warehouse_view(row: &Row) -> WarehouseView {
    let warehouse = sql::read_warehouse(row);
    WarehouseView {
        warehouse_id: row.get::<_, Uuid>("warehouse_id").into(),
        code: warehouse.code,
        name: warehouse.name,
        created_at: warehouse.created_at,
    }
}

pub async fn sku(engine: &Engine, tenant: TenantId, id: SkuId) -> Result<Option<SkuView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::SKU_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(sku_view))
}

pub async fn warehouse(engine: &Engine, tenant: TenantId, id: WarehouseId) -> Result<Option<WarehouseView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::WAREHOUSE_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(warehouse_view))
}

/// SKUs by id; with `code`, the one of that code as people compare codes.
pub async fn skus(
    engine: &Engine,
    tenant: TenantId,
    code: Option<&str>,
    after: Option<SkuId>,
    limit: Limit,
) -> Result<Page<SkuView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let params = vec![param(after), param(code.map(fold)), param(limit.probe())];
    let rows = engine.read(tenant, vec![(sql::SKU_LIST, params)]).await?;
    Ok(Page::of(rows[0].iter().map(sku_view).collect(), limit, |sku| sku.sku_id.to_string()))
}

/// The SKUs that have these codes, as people compare codes: by the code as it was asked for.
pub async fn skus_of(engine: &Engine, tenant: TenantId, codes: &[&str]) -> Result<HashMap<String, SkuId>, StepError> {
    let folded: Vec<String> = codes.iter().map(|code| fold(code)).collect();
    let rows = engine.read(tenant, vec![(sql::SKU_BY_CODE, vec![param(folded.clone())])]).await?;
    let found: HashMap<&str, SkuId> =
        rows[0].iter().map(|row| (row.get("code_folded"), row.get::<_, Uuid>("sku_id").into())).collect();
    let asked = codes.iter().zip(&folded);
    Ok(asked.filter_map(|(code, folded)| Some(((*code).to_owned(), *found.get(folded.as_str())?))).collect())
}

/// Warehouses by id; with `code`, the one of that code as people compare codes.
pub async fn warehouses(
    engine: &Engine,
    tenant: TenantId,
    code: Option<&str>,
    after: Option<WarehouseId>,
    limit: Limit,
) -> Result<Page<WarehouseView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let params = vec![param(after), param(code.map(fold)), param(limit.probe())];
    let rows = engine.read(tenant, vec![(sql::WAREHOUSE_LIST, params)]).await?;
    Ok(Page::of(rows[0].iter().map(warehouse_view).collect(), limit, |one| one.warehouse_id.to_string()))
}
