//! What pages and API show of tenants, keys, audit and deadlocks.

mod people;
mod session;

pub use people::*;
pub use session::*;

use super::{model::ApiKey, sql};
use crate::Engine;
use engine::{
    error::StepError,
    sql::{Row, param},
};
use jiff::Timestamp;
use kernel::{
    id::{ApiKeyId, CallId, TenantId},
    page::{Limit, Page},
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// A tenant as its own people see it.
#[derive(Debug, Serialize, ToSchema)]
pub struct TenantView {
    pub tenant_id: TenantId,
    pub slug: String,
    pub name: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// An API key without its secret, which nobody has.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApiKeyView {
    pub api_key_id: ApiKeyId,
    pub name: String,
    pub permissions: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// To within two minutes.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

/// One command that was answered for good: by whom, from where, with which outcome.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditView {
    pub call_id: CallId,
    /// The id of the API key or the user, or `operator`.
    pub actor: String,
    pub command: String,
    /// `done`, or the code of the refusal.
    pub outcome: String,
    pub idempotency_key: String,
    pub correlation_id: String,
    pub remote: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A deadlock that was broken and retried.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadlockView {
    pub deadlock_id: Uuid,
    /// Our statement, by name.
    pub statement: String,
    /// The other one, by name where it has one; `unknown` where it could not be told for sure.
    pub other_statement: String,
    /// The server's own words.
    pub detail: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// The key a credential names, if the tenant has it.
pub async fn api_key(engine: &Engine, tenant: TenantId, key: ApiKeyId) -> Result<Option<ApiKey>, StepError> {
    let rows = engine.read(tenant, vec![(sql::API_KEY_FIND, vec![param(key.uuid())])]).await?;
    Ok(rows[0].first().map(sql::read_api_key))
}

pub async fn tenant(engine: &Engine, tenant: TenantId) -> Result<Option<TenantView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::TENANT_FIND, Vec::new())]).await?;
    Ok(rows[0].first().map(|row| TenantView {
        tenant_id: row.get::<_, Uuid>("tenant_id").into(),
        slug: row.get("slug"),
        name: row.get("name"),
        created_at: row.get("created_at"),
    }))
}

/// The tenant a slug names.
pub async fn tenant_by_slug(engine: &Engine, slug: &str) -> Result<Option<TenantId>, StepError> {
    let nobody = TenantId::from(Uuid::nil());
    let rows = engine.read(nobody, vec![(sql::TENANT_SLUG_FIND, vec![param(slug.to_owned())])]).await?;
    Ok(rows[0].first().map(|row| row.get::<_, Uuid>("tenant_id").into()))
}

/// Every tenant of the server, for whoever runs it.
pub async fn tenants(engine: &Engine) -> Result<Vec<(String, TenantId)>, StepError> {
    let nobody = TenantId::from(Uuid::nil());
    let rows = engine.read(nobody, vec![(sql::TENANT_SLUG_LIST, Vec::new())]).await?;
    Ok(rows[0].iter().map(|row| (row.get("slug"), row.get::<_, Uuid>("tenant_id").into())).collect())
}

pub async fn api_keys(
    engine: &Engine,
    tenant: TenantId,
    after: Option<ApiKeyId>,
    limit: Limit,
) -> Result<Page<ApiKeyView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let rows = engine.read(tenant, vec![(sql::API_KEY_LIST, vec![param(after), param(limit.probe())])]).await?;
    let view = |row: &Row| {
        let key = sql::read_api_key(row);
        ApiKeyView {
            api_key_id: row.get::<_, Uuid>("api_key_id").into(),
            name: key.name,
            permissions: key.permissions,
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
        }
    };
    Ok(Page::of(rows[0].iter().map(view).collect(), limit, |key| key.api_key_id.to_string()))
}

pub async fn audit(
    engine: &Engine,
    tenant: TenantId,
    after: Option<CallId>,
    limit: Limit,
) -> Result<Page<AuditView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let rows = engine.read(tenant, vec![(sql::AUDIT_LIST, vec![param(after), param(limit.probe())])]).await?;
    let view = |row: &Row| AuditView {
        call_id: row.get::<_, Uuid>("call_id").into(),
        actor: row.get("actor"),
        command: row.get("command"),
        outcome: row.get("outcome"),
        idempotency_key: row.get("key"),
        correlation_id: row.get("correlation_id"),
        remote: row.get("remote"),
        at: row.get("at"),
    };
    Ok(Page::of(rows[0].iter().map(view).collect(), limit, |entry| entry.call_id.to_string()))
}

pub async fn deadlocks(
    engine: &Engine,
    tenant: TenantId,
    after: Option<Uuid>,
    limit: Limit,
) -> Result<Page<DeadlockView>, StepError> {
    let after = after.unwrap_or_default();
    let rows = engine.read(tenant, vec![(sql::DEADLOCK_LIST, vec![param(after), param(limit.probe())])]).await?;
    let view = |row: &Row| DeadlockView {
        deadlock_id: row.get("deadlock_id"),
        statement: row.get("statement"),
        other_statement: row.get("other_statement"),
        detail: row.get("detail"),
        at: row.get("at"),
    };
    Ok(Page::of(rows[0].iter().map(view).collect(), limit, |one| one.deadlock_id.to_string()))
}
