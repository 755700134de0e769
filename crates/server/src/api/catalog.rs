//! SKUs and warehouses.

use super::{
    Problem, SharedApp, found,
    problem::{ReadProblems, WriteProblems},
    query::{PageOf, PageParams, PathId, Query},
    write::{Located, Write, WriteHeaders, created},
};
use crate::auth::Caller;
use axum::{Json, extract::State, response::Response};
use domain::catalog::{
    self, CreateSku, CreateWarehouse, SkuCreated, WarehouseCreated,
    read::{self, SkuView, WarehouseView},
};
use kernel::{
    id::{Sku, SkuId, Warehouse, WarehouseId},
    page::Page,
    text::Code,
};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new()
        .routes(routes!(skus, create_sku))
        .routes(routes!(sku))
        .routes(routes!(warehouses, create_warehouse))
        .routes(routes!(warehouse))
}

impl Located for SkuCreated {
    fn location(&self) -> String {
        format!("/v1/skus/{}", self.sku_id)
    }
}

impl Located for WarehouseCreated {
    fn location(&self) -> String {
        format!("/v1/warehouses/{}", self.warehouse_id)
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ByCode {
    /// Only the one of this code, compared as people compare: `85123a` finds `85123A`.
    code: Option<Code>,
}

/// Makes a SKU. A code that another SKU has, whatever its case, is a 409 that names that one.
/// Needs `catalog.write`.
#[utoipa::path(
    post, path = "/v1/skus", tag = "catalog", operation_id = "catalog.create_sku",
    security(("api_key" = [])), params(WriteHeaders), request_body = CreateSku,
    responses((status = 201, body = SkuCreated), WriteProblems)
)]
async fn create_sku(State(app): State<SharedApp>, write: Write<CreateSku>) -> Response {
    write.run(&app, created).await
}

/// SKUs. Needs `catalog.read`.
#[utoipa::path(
    get, path = "/v1/skus", tag = "catalog", security(("api_key" = [])), params(PageParams, ByCode),
    responses((status = 200, body = Page<SkuView>), ReadProblems)
)]
async fn skus(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<SkuId>>,
    Query(by): Query<ByCode>,
) -> Result<Json<Page<SkuView>>, Problem> {
    caller.may(catalog::READ)?;
    Ok(Json(read::skus(&app.engine, caller.tenant, by.code.as_deref(), page.after, page.limit).await?))
}

/// One SKU. Needs `catalog.read`.
#[utoipa::path(
    get, path = "/v1/skus/{sku_id}", tag = "catalog", security(("api_key" = [])),
    params(("sku_id" = SkuId, Path)),
    responses((status = 200, body = SkuView), ReadProblems)
)]
async fn sku(State(app): State<SharedApp>, caller: Caller, PathId(id): PathId<Sku>) -> Result<Response, Problem> {
    caller.may(catalog::READ)?;
    found(read::sku(&app.engine, caller.tenant, id).await?, "SKU", &id)
}

/// Makes a warehouse. A code that another warehouse has is a 409 that names that one. Needs
/// `catalog.write`.
#[utoipa::path(
    post, path = "/v1/warehouses", tag = "catalog", operation_id = "catalog.create_warehouse",
    security(("api_key" = [])), params(WriteHeaders), request_body = CreateWarehouse,
    responses((status = 201, body = WarehouseCreated), WriteProblems)
)]
async fn create_warehouse(State(app): State<SharedApp>, write: Write<CreateWarehouse>) -> Response {
    write.run(&app, created).await
}

/// Warehouses. Needs `catalog.read`.
#[utoipa::path(
    get, path = "/v1/warehouses", tag = "catalog", security(("api_key" = [])),
    params(PageParams, ByCode),
    responses((status = 200, body = Page<WarehouseView>), ReadProblems)
)]
async fn warehouses(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<WarehouseId>>,
    Query(by): Query<ByCode>,
) -> Result<Json<Page<WarehouseView>>, Problem> {
    caller.may(catalog::READ)?;
    Ok(Json(read::warehouses(&app.engine, caller.tenant, by.code.as_deref(), page.after, page.limit).await?))
}

/// One warehouse. Needs `catalog.read`.
#[utoipa::path(
    get, path = "/v1/warehouses/{warehouse_id}", tag = "catalog", security(("api_key" = [])),
    params(("warehouse_id" = WarehouseId, Path)),
    responses((status = 200, body = WarehouseView), ReadProblems)
)]
async fn warehouse(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<Warehouse>,
) -> Result<Response, Problem> {
    caller.may(catalog::READ)?;
    found(read::warehouse(&app.engine, caller.tenant, id).await?, "warehouse", &id)
}
