//! Sessions and logins as the door looks them up, and what it noted of refusals.

use crate::{
    Engine,
    tenancy::sql::{
        note,
        session::{self as sql, hash},
    },
};
use engine::{
    error::StepError,
    sql::{Row, param},
};
use jiff::Timestamp;
use kernel::{
    id::{ApiKeyId, SessionId, TenantId, UserId},
    page::{Limit, Page},
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// What a session opens.
pub struct SessionFound {
    pub user: UserId,
    pub name: String,
    pub permissions: Vec<String>,
    pub family_hash: Option<[u8; 32]>,
    pub cookie_hash: Option<[u8; 32]>,
    pub expires_at: Timestamp,
    /// Not ended, nor ended with its user's epoch.
    pub good: bool,
}

pub async fn session(engine: &Engine, tenant: TenantId, id: SessionId) -> Result<Option<SessionFound>, StepError> {
    let rows = engine.read(tenant, vec![(sql::SESSION_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(|row| SessionFound {
        user: row.get::<_, Uuid>("user_id").into(),
        name: row.get("name"),
        permissions: row.get("permissions"),
        family_hash: hash(row, "family_hash"),
        cookie_hash: hash(row, "cookie_hash"),
        expires_at: row.get("expires_at"),
        good: row.get("good"),
    }))
}

/// Who may log in with an address.
pub struct LoginFound {
    pub user: UserId,
    pub name: String,
    pub password_hash: String,
}

/// The active user of a folded address. Asked of no tenant, it takes as long, and finds nobody.
pub async fn login(
    engine: &Engine,
    tenant: Option<TenantId>,
    email_folded: String,
) -> Result<Option<LoginFound>, StepError> {
    let tenant = tenant.unwrap_or_else(|| Uuid::nil().into());
    let rows = engine.read(tenant, vec![(sql::LOGIN_FIND, vec![param(email_folded)])]).await?;
    Ok(rows[0].first().map(|row| LoginFound {
        user: row.get::<_, Uuid>("user_id").into(),
        name: row.get("name"),
        password_hash: row.get("password_hash"),
    }))
}

/// Refusals of one actor, route and code, within a minute.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusalView {
    pub refusal_id: Uuid,
    /// The id of the API key or the user.
    pub actor: String,
    pub method: String,
    /// As the description of the API spells it.
    pub route: String,
    pub code: String,
    pub count: i64,
    #[schema(value_type = String, format = DateTime)]
    pub first_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub last_at: Timestamp,
}

pub async fn refusals(
    engine: &Engine,
    tenant: TenantId,
    after: Option<Uuid>,
    limit: Limit,
) -> Result<Page<RefusalView>, StepError> {
    let after = after.unwrap_or_default();
    let rows = engine.read(tenant, vec![(note::REFUSAL_LIST, vec![param(after), param(limit.probe())])]).await?;
    let view = |row: &Row| RefusalView {
        refusal_id: row.get("refusal_id"),
        actor: row.get("actor"),
        method: row.get("method"),
        route: row.get("route"),
        code: row.get("code"),
        count: row.get("count"),
        first_at: row.get("first_at"),
        last_at: row.get("last_at"),
    };
    Ok(Page::of(rows[0].iter().map(view).collect(), limit, |refusal| refusal.refusal_id.to_string()))
}

/// Refusals to be written down; ages in seconds.
pub struct RefusalSeen {
    pub actor: String,
    pub method: String,
    pub route: String,
    pub code: String,
    pub count: i64,
    pub first_s: f64,
    pub last_s: f64,
}

/// Writes down what was seen of a tenant's calls: what was refused, and which keys were used.
pub async fn note(
    engine: &Engine,
    tenant: TenantId,
    refused: &[RefusalSeen],
    used: &[ApiKeyId],
) -> Result<(), StepError> {
    let mut steps = Vec::new();
    if !refused.is_empty() {
        let each = |f: fn(&RefusalSeen) -> &String| param(refused.iter().map(|one| f(one).clone()).collect::<Vec<_>>());
        let params = vec![
            param(refused.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>()),
            each(|one| &one.actor),
            each(|one| &one.method),
            each(|one| &one.route),
            each(|one| &one.code),
            param(refused.iter().map(|one| one.count).collect::<Vec<_>>()),
            param(refused.iter().map(|one| one.first_s).collect::<Vec<_>>()),
            param(refused.iter().map(|one| one.last_s).collect::<Vec<_>>()),
        ];
        steps.push((note::REFUSAL_STORE, params));
    }
    if !used.is_empty() {
        steps.push((note::API_KEY_USED, vec![param(used.iter().map(|key| key.uuid()).collect::<Vec<_>>())]));
    }
    engine.note(tenant, steps).await
}
