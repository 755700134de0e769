//! What pages and API show of roles and users.

use crate::{
    Engine,
    tenancy::{model::State, sql::people as sql},
};
use engine::{
    error::StepError,
    sql::{Row, param},
};
use jiff::Timestamp;
use kernel::{
    id::{RoleId, TenantId, UserId},
    page::{Limit, Page},
    text::fold,
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// A role, and how many have it who are not disabled.
#[derive(Debug, Serialize, ToSchema)]
pub struct RoleView {
    pub role_id: RoleId,
    pub name: String,
    pub permissions: Vec<String>,
    pub users: i32,
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A user, without what they prove themselves by.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserView {
    pub user_id: UserId,
    pub email: String,
    pub name: String,
    pub role_id: RoleId,
    pub state: State,
    /// Until when the token that was handed out for them may be used, while there is one.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub token_expires_at: Option<Timestamp>,
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

fn role_view(row: &Row) -> RoleView {
    RoleView {
        role_id: row.get::<_, Uuid>("role_id").into(),
        name: row.get("name"),
        permissions: row.get("permissions"),
        users: row.get("users_enabled"),
        version: row.get("version"),
        created_at: row.get("created_at"),
    }
}

fn user_view(row: &Row) -> UserView {
    UserView {
        user_id: row.get::<_, Uuid>("user_id").into(),
        email: row.get("email"),
        name: row.get("name"),
        role_id: row.get::<_, Uuid>("role_id").into(),
        state: match row.get("state") {
            "invited" => State::Invited,
            "active" => State::Active,
            _ => State::Disabled,
        },
        token_expires_at: row.get("token_expires_at"),
        version: row.get("version"),
        created_at: row.get("created_at"),
    }
}

pub async fn roles(
    engine: &Engine,
    tenant: TenantId,
    after: Option<RoleId>,
    limit: Limit,
) -> Result<Page<RoleView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let rows = engine.read(tenant, vec![(sql::ROLE_LIST, vec![param(after), param(limit.probe())])]).await?;
    Ok(Page::of(rows[0].iter().map(role_view).collect(), limit, |role| role.role_id.to_string()))
}

pub async fn role(engine: &Engine, tenant: TenantId, id: RoleId) -> Result<Option<RoleView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::ROLE_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(role_view))
}

/// The role of a name, as people compare names.
pub async fn role_by_name(engine: &Engine, tenant: TenantId, name: &str) -> Result<Option<RoleId>, StepError> {
    let rows = engine.read(tenant, vec![(sql::ROLE_BY_NAME, vec![param(fold(name))])]).await?;
    Ok(rows[0].first().map(|row| row.get::<_, Uuid>("role_id").into()))
}

pub async fn users(
    engine: &Engine,
    tenant: TenantId,
    after: Option<UserId>,
    limit: Limit,
) -> Result<Page<UserView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let rows = engine.read(tenant, vec![(sql::TENANT_USER_LIST, vec![param(after), param(limit.probe())])]).await?;
    Ok(Page::of(rows[0].iter().map(user_view).collect(), limit, |user| user.user_id.to_string()))
}

pub async fn user(engine: &Engine, tenant: TenantId, id: UserId) -> Result<Option<UserView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::TENANT_USER_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(user_view))
}

/// Whose token it is, by name, if it is the one that was handed out last and still lasts.
pub async fn token_holder(
    engine: &Engine,
    tenant: TenantId,
    user: UserId,
    hash: [u8; 32],
) -> Result<Option<String>, StepError> {
    let rows = engine.read(tenant, vec![(sql::TENANT_USER_TOKEN, vec![param(user.uuid())])]).await?;
    let holder = rows[0].first().filter(|row| {
        let kept: Option<Vec<u8>> = row.get("token_hash");
        kept.as_deref() == Some(&hash[..]) && row.get::<_, Option<bool>>("lasts") == Some(true)
    });
    Ok(holder.map(|row| row.get("name")))
}
