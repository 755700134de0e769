//! The HTTP API: `/v1/…`, its description at `/openapi.json`, the page to try it at `/docs`.

mod catalog;
mod document;
mod edit_lock;
mod health;
mod inventory;
mod login;
mod parties;
mod people;
mod problem;
mod query;
mod tenancy;
mod write;

pub use health::METRICS;
pub mod encode {
    pub use super::write::{created, ok};
}
pub use problem::{Code, Problem, ProblemBody};

use crate::{
    auth::{COOKIE, Keys, Sessions, access::Access, limit::Limits, password::Passwords},
    notes::{self, Notes},
};
use axum::{
    Router,
    extract::Request,
    http::{HeaderName, HeaderValue},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use domain::Engine;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        OpenApi as OpenApiDocument, PathItem,
        path::Operation,
        security::{ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_axum::router::OpenApiRouter;

/// Bytes a request body may have.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a body may take to arrive.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// How long any request may take; above the engine's deadline, so that its answer comes first.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// What every handler may use.
pub struct App {
    pub engine: Arc<Engine>,
    pub keys: Keys,
    pub sessions: Sessions,
    pub access: Access,
    pub limits: Limits,
    pub passwords: Passwords,
    pub notes: Notes,
}

impl App {
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            access: Access::new(&engine.config().secret),
            engine,
            keys: Keys::default(),
            sessions: Sessions::default(),
            limits: Limits::default(),
            passwords: Passwords::default(),
            notes: Notes::default(),
        }
    }
}

pub type SharedApp = Arc<App>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tallyhold",
        description = "The system of record for a company's stock: what is there, and what of it is promised.\n\n\
            Every write carries an `Idempotency-Key` that names the intention: send the same key \
            again after a lost reply and you get the first answer, byte for byte, with \
            `Idempotent-Replayed: true`. Quantities are exact decimals, spelled as strings. \
            Refusals are problem documents (RFC 9457) with a stable `code`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&Credentials),
    tags(
        (name = "login", description = "How people prove who they are; these need no credential but what their body brings"),
        (name = "tenancy", description = "Your tenant, its people, its API keys, its audit"),
        (name = "catalog", description = "SKUs and warehouses"),
        (name = "parties", description = "Customers and their groups"),
        (name = "editing", description = "Locks for long edits"),
        (name = "inventory", description = "Stock, and what is promised of it"),
        (name = "operation", description = "Health and metrics"),
    ),
)]
struct Description;

struct Credentials;

impl Modify for Credentials {
    fn modify(&self, openapi: &mut OpenApiDocument) {
        let bearer = |format: &str, text: &str| {
            let http = Http::builder().scheme(HttpAuthScheme::Bearer).bearer_format(format).description(Some(text));
            SecurityScheme::Http(http.build())
        };
        let cookie = ApiKeyValue::with_description(COOKIE, "Of a session, for pages: a login sets it where asked to.");
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("api_key", bearer("API key", "For programs: `thk_…`."));
        components
            .add_security_scheme("access_token", bearer("JWT", "For people: what a login gives, for 15 minutes."));
        components
            .add_security_scheme("session", SecurityScheme::ApiKey(utoipa::openapi::security::ApiKey::Cookie(cookie)));
    }
}

fn asked_for(scheme: &str) -> SecurityRequirement {
    SecurityRequirement::new(scheme, Vec::<String>::new())
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// Whatever an API key opens, a user's session does.
fn open_to_people(openapi: &mut OpenApiDocument) {
    for operation in openapi.paths.paths.values_mut().flat_map(operations) {
        let asks = operation.security.iter().flatten().any(|asked| *asked == asked_for("api_key"));
        if let (true, Some(security)) = (asks, &mut operation.security) {
            security.extend([asked_for("access_token"), asked_for("session")]);
        }
    }
}

fn parts() -> (Router<SharedApp>, OpenApiDocument) {
    let (router, mut openapi) = routes().split_for_parts();
    open_to_people(&mut openapi);
    (router, openapi)
}

fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(login::routes())
        .merge(tenancy::routes())
        .merge(people::routes())
        .merge(catalog::routes())
        .merge(parties::routes())
        .merge(edit_lock::routes())
        .merge(inventory::routes())
        .merge(health::routes())
}

/// The description of the API, as served at `/openapi.json`.
pub fn openapi() -> OpenApiDocument {
    parts().1
}

/// The whole program as a service.
pub fn router(app: SharedApp) -> Router {
    let (router, description) = parts();
    let known = Arc::new(query::Known::of(&description));
    let router = router.route_layer(middleware::from_fn_with_state(known, query::check));
    let router = router.route_layer(middleware::from_fn_with_state(app.clone(), notes::audit));
    let swagger = utoipa_swagger_ui::SwaggerUi::new("/docs").url("/openapi.json", description);
    router
        .merge(swagger)
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::no_such_method)
        .with_state(app)
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(correlate))
}

const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
/// Characters a correlation id may have.
const CORRELATION_CHARS_MAX: usize = 128;

/// The id under which logs, audit and events of one request are found.
#[derive(Debug, Clone)]
pub struct Correlation(pub String);

/// Takes the caller's correlation id, or makes one, and gives it back with the response.
async fn correlate(mut request: Request, next: Next) -> Response {
    let sent = request.headers().get(CORRELATION).and_then(|value| value.to_str().ok()).map(str::trim);
    let usable = sent.filter(|text| (1..=CORRELATION_CHARS_MAX).contains(&text.len()));
    let id = usable.map_or_else(|| uuid::Uuid::now_v7().simple().to_string(), str::to_owned);
    let span =
        tracing::info_span!("request", method = %request.method(), path = request.uri().path(), correlation = %id);
    let header = HeaderValue::from_str(&id);
    request.extensions_mut().insert(Correlation(id));
    let since = Instant::now();
    let answered = tokio::time::timeout(REQUEST_TIME_MAX, next.run(request).instrument(span.clone())).await;
    let mut response = answered.unwrap_or_else(|_| Problem::unavailable("the request took too long").into_response());
    let elapsed_ms = since.elapsed().as_secs_f64() * 1000.0;
    span.in_scope(|| tracing::info!(status = response.status().as_u16(), elapsed_ms, "answered"));
    if let Ok(header) = header {
        response.headers_mut().insert(CORRELATION, header);
    }
    response
}

/// A read that found the row, or a 404 that names what is missing.
fn found<T: serde::Serialize>(row: Option<T>, what: &str, id: &dyn std::fmt::Display) -> Result<Response, Problem> {
    match row {
        Some(row) => Ok(axum::Json(row).into_response()),
        None => Err(Problem::missing(format!("there is no {what} {id}"))),
    }
}
