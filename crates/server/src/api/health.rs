//! Whether the program lives, whether it can serve, and its metrics.

use super::{Problem, SharedApp};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use std::sync::OnceLock;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

/// The recorder of the process, once installed.
pub static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new().routes(routes!(live)).routes(routes!(ready)).routes(routes!(metrics))
}

#[derive(Serialize, ToSchema)]
struct Health {
    status: &'static str,
}

/// Whether the process lives. It asks nobody else.
#[utoipa::path(get, path = "/health/live", tag = "operation", responses((status = 200, body = Health)))]
async fn live() -> Json<Health> {
    Json(Health { status: "live" })
}

/// Whether it can serve: the database answers and has the schema this program needs.
#[utoipa::path(
    get, path = "/health/ready", tag = "operation",
    responses((status = 200, body = Health), (status = 503, description = "not now; the detail says why"))
)]
async fn ready(State(app): State<SharedApp>) -> Result<Json<Health>, Problem> {
    app.engine.ready(domain::SCHEMA_VERSION).await.map_err(|error| Problem::unavailable(error.to_string()))?;
    Ok(Json(Health { status: "ready" }))
}

/// Metrics in the Prometheus text format. They name no tenant.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, content_type = "text/plain", body = String)))]
async fn metrics(State(app): State<SharedApp>) -> Response {
    for (lane, waiting) in app.engine.waiting().into_iter().enumerate() {
        metrics::gauge!("tallyhold_lane_waiting_calls", "lane" => lane.to_string()).set(waiting as f64);
    }
    for (pool, status) in app.engine.pools() {
        metrics::gauge!("tallyhold_pool_connections", "pool" => pool, "state" => "open").set(status.size as f64);
        metrics::gauge!("tallyhold_pool_connections", "pool" => pool, "state" => "idle").set(status.available as f64);
    }
    METRICS.get().map(PrometheusHandle::render).unwrap_or_default().into_response()
}
