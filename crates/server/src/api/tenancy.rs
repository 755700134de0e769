//! Your tenant, its API keys, its audit and its deadlocks.

use super::{
    Problem, SharedApp, found,
    problem::{ReadProblems, WriteProblems},
    query::{PageOf, PageParams, PathId, Query},
    write::{Bare, Located, Write, WriteHeaders, created, ok},
};
use crate::auth::{self, Caller};
use axum::{Json, extract::State, response::Response};
use domain::{
    registry::Checked,
    tenancy::{
        self, ApiKeyCreated, ApiKeyRevoked, CreateApiKey, RevokeApiKey,
        read::{self, ApiKeyView, AuditView, DeadlockView, RefusalView, TenantView},
    },
};
use jiff::Timestamp;
use kernel::{
    id::{ApiKey, ApiKeyId, CallId},
    page::Page,
    text::Name,
};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new()
        .routes(routes!(tenant))
        .routes(routes!(api_keys, create_api_key))
        .routes(routes!(revoke_api_key))
        .routes(routes!(audit))
        .routes(routes!(refusals))
        .routes(routes!(deadlocks))
}

/// The tenant your key belongs to.
#[utoipa::path(
    get, path = "/v1/tenant", tag = "tenancy", security(("api_key" = [])),
    responses((status = 200, body = TenantView), ReadProblems)
)]
async fn tenant(State(app): State<SharedApp>, caller: Caller) -> Result<Response, Problem> {
    found(read::tenant(&app.engine, caller.tenant).await?, "tenant", &caller.tenant)
}

/// API keys, without their secrets. Needs `tenancy.manage`.
#[utoipa::path(
    get, path = "/v1/api-keys", tag = "tenancy", security(("api_key" = [])), params(PageParams),
    responses((status = 200, body = Page<ApiKeyView>), ReadProblems)
)]
async fn api_keys(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<ApiKeyId>>,
) -> Result<Json<Page<ApiKeyView>>, Problem> {
    caller.may(tenancy::MANAGE)?;
    Ok(Json(read::api_keys(&app.engine, caller.tenant, page.after, page.limit).await?))
}

/// A new API key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewApiKey {
    name: Name,
    /// Only such as your own key has.
    #[schema(min_items = 1, max_items = 32, example = json!(["inventory.read", "inventory.write"]))]
    permissions: Vec<String>,
    /// From then on it opens nothing; never, where not said.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

impl Checked for NewApiKey {
    fn check(&self) -> Result<(), (String, String)> {
        if (1..=32).contains(&self.permissions.len()) {
            Ok(())
        } else {
            Err(("permissions".into(), "a key has 1 to 32 permissions".into()))
        }
    }
}

impl Located for ApiKeyCreated {
    fn location(&self) -> String {
        format!("/v1/api-keys/{}", self.api_key_id)
    }
}

/// Makes an API key. Its secret is in this answer only. Needs `tenancy.manage`.
#[utoipa::path(
    post, path = "/v1/api-keys", tag = "tenancy", operation_id = "tenancy.create_api_key",
    security(("api_key" = [])), params(WriteHeaders), request_body = NewApiKey,
    responses((status = 201, body = ApiKeyCreated), WriteProblems)
)]
async fn create_api_key(State(app): State<SharedApp>, write: Write<NewApiKey, CreateApiKey>) -> Response {
    write
        .run_as(&app, created, |new, caller| {
            let (credential, secret_hash) = auth::mint(caller.tenant, ApiKeyId::mint());
            let within = Some(caller.permissions.clone());
            let NewApiKey { name, permissions, expires_at } = new;
            CreateApiKey { name, permissions, expires_at, within, credential, secret_hash }
        })
        .await
}

/// Ends an API key: at once on this server, within five seconds on its replicas. Needs
/// `tenancy.manage`.
#[utoipa::path(
    delete, path = "/v1/api-keys/{api_key_id}", tag = "tenancy", operation_id = "tenancy.revoke_api_key",
    security(("api_key" = [])), params(WriteHeaders, ("api_key_id" = ApiKeyId, Path)),
    responses((status = 200, body = ApiKeyRevoked), WriteProblems)
)]
async fn revoke_api_key(
    State(app): State<SharedApp>,
    write: Bare<RevokeApiKey>,
    PathId(api_key): PathId<ApiKey>,
) -> Response {
    let response = write.run(&app, RevokeApiKey { api_key }, ok).await;
    app.keys.forget();
    response
}

/// Who did what, from where, with which outcome. Needs `tenancy.audit`.
#[utoipa::path(
    get, path = "/v1/audit", tag = "tenancy", security(("api_key" = [])), params(PageParams),
    responses((status = 200, body = Page<AuditView>), ReadProblems)
)]
async fn audit(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<CallId>>,
) -> Result<Json<Page<AuditView>>, Problem> {
    caller.may(tenancy::AUDIT)?;
    Ok(Json(read::audit(&app.engine, caller.tenant, page.after, page.limit).await?))
}

/// What your keys and users were refused, by actor, route and code, summed up by the minute and written
/// within the next. Whoever is unknown is not in it. Needs `tenancy.audit`.
#[utoipa::path(
    get, path = "/v1/refusals", tag = "tenancy", security(("api_key" = [])), params(PageParams),
    responses((status = 200, body = Page<RefusalView>), ReadProblems)
)]
async fn refusals(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<Uuid>>,
) -> Result<Json<Page<RefusalView>>, Problem> {
    caller.may(tenancy::AUDIT)?;
    Ok(Json(read::refusals(&app.engine, caller.tenant, page.after, page.limit).await?))
}

/// Deadlocks that were broken and retried, with both statements. Needs `tenancy.audit`.
#[utoipa::path(
    get, path = "/v1/deadlocks", tag = "tenancy", security(("api_key" = [])), params(PageParams),
    responses((status = 200, body = Page<DeadlockView>), ReadProblems)
)]
async fn deadlocks(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<Uuid>>,
) -> Result<Json<Page<DeadlockView>>, Problem> {
    caller.may(tenancy::AUDIT)?;
    Ok(Json(read::deadlocks(&app.engine, caller.tenant, page.after, page.limit).await?))
}
