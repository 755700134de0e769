//! Stock, and what is promised of it.

use super::{
    Problem, SharedApp, found,
    problem::{ReadProblems, WriteProblems},
    query::{AfterSequence, PageOf, PageParams, PathId, Query},
    write::{Write, WriteHeaders, ok},
};
use crate::auth::Caller;
use axum::{Json, extract::State, response::Response};
use domain::inventory::{
    self, Adjust, Allocate, Moved, Promised, Receive, Release, Return, Ship,
    read::{self, EventView, LedgerView, Of, PositionView, PromiseView},
};
use kernel::{
    id::{Position, PositionId, Promise, PromiseId, SkuId, WarehouseId},
    page::Page,
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new()
        .routes(routes!(receive))
        .routes(routes!(adjust))
        .routes(routes!(allocate))
        .routes(routes!(release))
        .routes(routes!(ship))
        .routes(routes!(return_))
        .routes(routes!(positions))
        .routes(routes!(position))
        .routes(routes!(ledger))
        .routes(routes!(events))
        .routes(routes!(promises))
        .routes(routes!(promise))
}

/// Books units that arrived: all lines, or none. Needs `inventory.write`.
#[utoipa::path(
    post, path = "/v1/stock/receive", tag = "inventory", operation_id = "inventory.receive",
    security(("api_key" = [])), params(WriteHeaders), request_body = Receive,
    responses((status = 200, body = Moved), WriteProblems)
)]
async fn receive(State(app): State<SharedApp>, write: Write<Receive>) -> Response {
    write.run(&app, ok).await
}

/// Corrects what is on hand, up or down: all lines, or none. Taking away more than is on hand and
/// not promised is a 422 `stock_promised`. Needs `inventory.write`.
#[utoipa::path(
    post, path = "/v1/stock/adjust", tag = "inventory", operation_id = "inventory.adjust",
    security(("api_key" = [])), params(WriteHeaders), request_body = Adjust,
    responses((status = 200, body = Moved), WriteProblems)
)]
async fn adjust(State(app): State<SharedApp>, write: Write<Adjust>) -> Response {
    write.run(&app, ok).await
}

/// Promises units: all lines, or none. Lines of one position are summed before they are checked
/// against what is available; too little is a 422 `insufficient_ats` that tells what is left.
/// Needs `inventory.write`.
#[utoipa::path(
    post, path = "/v1/stock/allocate", tag = "inventory", operation_id = "inventory.allocate",
    security(("api_key" = [])), params(WriteHeaders), request_body = Allocate,
    responses((status = 200, body = Promised), WriteProblems)
)]
async fn allocate(State(app): State<SharedApp>, mut write: Write<Allocate>) -> Result<Response, Problem> {
    write.body.seen_short = inventory::precheck(&app.engine, write.caller.tenant, write.key(), &write.body).await?;
    Ok(write.run(&app, ok).await)
}

/// Gives open units of promises back: all lines, or none. Releasing more than is open is a 422
/// `promise_not_open`. Needs `inventory.write`.
#[utoipa::path(
    post, path = "/v1/promises/release", tag = "inventory", operation_id = "inventory.release",
    security(("api_key" = [])), params(WriteHeaders), request_body = Release,
    responses((status = 200, body = Moved), WriteProblems)
)]
async fn release(State(app): State<SharedApp>, write: Write<Release>) -> Response {
    write.run(&app, ok).await
}

/// Ships open units of promises: all lines, or none. Units promised against stock that has not
/// arrived are a 422 `insufficient_on_hand`. Needs `inventory.write`.
#[utoipa::path(
    post, path = "/v1/promises/ship", tag = "inventory", operation_id = "inventory.ship",
    security(("api_key" = [])), params(WriteHeaders), request_body = Ship,
    responses((status = 200, body = Moved), WriteProblems)
)]
async fn ship(State(app): State<SharedApp>, write: Write<Ship>) -> Response {
    write.run(&app, ok).await
}

/// Takes shipped units back: all lines, or none, and never more than were shipped over all
/// returns; beyond that a 422 `return_exceeds_shipped`. Needs `inventory.write`.
#[utoipa::path(
    post, path = "/v1/promises/return", tag = "inventory", operation_id = "inventory.return",
    security(("api_key" = [])), params(WriteHeaders), request_body = Return,
    responses((status = 200, body = Moved), WriteProblems)
)]
async fn return_(State(app): State<SharedApp>, write: Write<Return>) -> Response {
    write.run(&app, ok).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OfQuery {
    /// Only of this SKU.
    sku_id: Option<SkuId>,
    /// Only in this warehouse.
    warehouse_id: Option<WarehouseId>,
}

impl From<OfQuery> for Of {
    fn from(query: OfQuery) -> Self {
        Self { sku: query.sku_id, warehouse: query.warehouse_id }
    }
}

/// Stock positions. Needs `inventory.read`.
#[utoipa::path(
    get, path = "/v1/stock-positions", tag = "inventory", security(("api_key" = [])),
    params(PageParams, OfQuery),
    responses((status = 200, body = Page<PositionView>), ReadProblems)
)]
async fn positions(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<PositionId>>,
    Query(of): Query<OfQuery>,
) -> Result<Json<Page<PositionView>>, Problem> {
    caller.may(inventory::READ)?;
    Ok(Json(read::positions(&app.engine, caller.tenant, of.into(), page.after, page.limit).await?))
}

/// One stock position. Needs `inventory.read`.
#[utoipa::path(
    get, path = "/v1/stock-positions/{position_id}", tag = "inventory", security(("api_key" = [])),
    params(("position_id" = PositionId, Path)),
    responses((status = 200, body = PositionView), ReadProblems)
)]
async fn position(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<Position>,
) -> Result<Response, Problem> {
    caller.may(inventory::READ)?;
    found(read::position(&app.engine, caller.tenant, id).await?, "stock position", &id)
}

/// The ledger of a position: every change of its counters, in order, without a hole. Needs
/// `inventory.read`.
#[utoipa::path(
    get, path = "/v1/stock-positions/{position_id}/ledger", tag = "inventory", security(("api_key" = [])),
    params(("position_id" = PositionId, Path), AfterSequence),
    responses((status = 200, body = Page<LedgerView>), ReadProblems)
)]
async fn ledger(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<Position>,
    Query(page): Query<AfterSequence>,
) -> Result<Response, Problem> {
    caller.may(inventory::READ)?;
    let lines = read::ledger(&app.engine, caller.tenant, id, page.after.0, page.limit).await?;
    found(lines, "stock position", &id)
}

/// The events of a position, one for each line of its ledger. Needs `inventory.read`.
#[utoipa::path(
    get, path = "/v1/stock-positions/{position_id}/events", tag = "inventory", security(("api_key" = [])),
    params(("position_id" = PositionId, Path), AfterSequence),
    responses((status = 200, body = Page<EventView>), ReadProblems)
)]
async fn events(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<Position>,
    Query(page): Query<AfterSequence>,
) -> Result<Response, Problem> {
    caller.may(inventory::READ)?;
    let events = read::events(&app.engine, caller.tenant, id, page.after.0, page.limit).await?;
    found(events, "stock position", &id)
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PromiseState {
    Open,
    Closed,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ByState {
    /// Only open or only closed ones.
    #[param(inline)]
    state: Option<PromiseState>,
}

/// Promises. Needs `inventory.read`.
#[utoipa::path(
    get, path = "/v1/promises", tag = "inventory", security(("api_key" = [])),
    params(PageParams, OfQuery, ByState),
    responses((status = 200, body = Page<PromiseView>), ReadProblems)
)]
async fn promises(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<PromiseId>>,
    Query(of): Query<OfQuery>,
    Query(by): Query<ByState>,
) -> Result<Json<Page<PromiseView>>, Problem> {
    caller.may(inventory::READ)?;
    let state = by.state.map(|state| match state {
        PromiseState::Open => "open",
        PromiseState::Closed => "closed",
    });
    Ok(Json(read::promises(&app.engine, caller.tenant, of.into(), state, page.after, page.limit).await?))
}

/// One promise. Needs `inventory.read`.
#[utoipa::path(
    get, path = "/v1/promises/{promise_id}", tag = "inventory", security(("api_key" = [])),
    params(("promise_id" = PromiseId, Path)),
    responses((status = 200, body = PromiseView), ReadProblems)
)]
async fn promise(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<Promise>,
) -> Result<Response, Problem> {
    caller.may(inventory::READ)?;
    found(read::promise(&app.engine, caller.tenant, id).await?, "promise", &id)
}
