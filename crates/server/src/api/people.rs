//! Roles, users, and what there is to be permitted.

use super::{
    Problem, SharedApp, found,
    problem::{ReadProblems, WriteProblems},
    query::{PageOf, PageParams, PathId, Query},
    write::{Bare, Located, Write, WriteHeaders, created, ok},
};
use crate::auth::{self, Caller};
use axum::{Json, extract::State, response::Response};
use domain::{
    registry::{COMMANDS, Checked, PERMISSIONS},
    tenancy::{
        self, ChangeRole, ChangeUser, CreateRole, CreateUserToken, InviteUser, RoleDone, UserChanged, UserInvited,
        UserTokenCreated,
        read::{self, RoleView, UserView},
    },
};
use kernel::{
    id::{Role, RoleId, User, UserId},
    page::Page,
    text::{Code, Email, Name},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new()
        .routes(routes!(permissions))
        .routes(routes!(roles, create_role))
        .routes(routes!(role, change_role))
        .routes(routes!(users, invite_user))
        .routes(routes!(user, change_user))
        .routes(routes!(create_user_token))
}

/// What a permission lets its holder change. One that only lets read names no command.
#[derive(Debug, Serialize, ToSchema)]
struct PermissionView {
    permission: &'static str,
    commands: Vec<CommandView>,
}

#[derive(Debug, Serialize, ToSchema)]
struct CommandView {
    /// Also the `operationId` of its route.
    command: &'static str,
    /// Does harm in the wrong hands.
    critical: bool,
}

#[derive(Debug, Serialize, ToSchema)]
struct Permissions {
    permissions: Vec<PermissionView>,
}

/// All permissions there are, with the commands each of them is needed for.
#[utoipa::path(
    get, path = "/v1/permissions", tag = "tenancy", security(("api_key" = [])),
    responses((status = 200, body = Permissions), ReadProblems)
)]
async fn permissions(_: Caller) -> Json<Permissions> {
    let view = |permission: &engine::command::Permission| PermissionView {
        permission: permission.0,
        commands: COMMANDS
            .iter()
            .filter(|command| command.needs == *permission)
            .map(|command| CommandView { command: command.name, critical: command.critical })
            .collect(),
    };
    Json(Permissions { permissions: PERMISSIONS.iter().map(view).collect() })
}

/// Permissions a role may have.
const PERMISSIONS_MAX: usize = 32;

fn check_permissions(permissions: &[String]) -> Result<(), (String, String)> {
    if permissions.len() <= PERMISSIONS_MAX {
        return Ok(());
    }
    Err(("permissions".into(), format!("a role has at most {PERMISSIONS_MAX} permissions")))
}

/// A new role.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRole {
    #[schema(example = "Warehouse")]
    name: Code,
    /// Only such as you have yourself.
    #[schema(max_items = 32, example = json!(["inventory.read", "inventory.write"]))]
    permissions: Vec<String>,
}

impl Checked for NewRole {
    fn check(&self) -> Result<(), (String, String)> {
        check_permissions(&self.permissions)
    }
}

/// What of a role changes; what is not said stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleChange {
    name: Option<Code>,
    /// All that it has from then on. Only such come to it as you have yourself.
    #[schema(max_items = 32)]
    permissions: Option<Vec<String>>,
}

impl Checked for RoleChange {
    fn check(&self) -> Result<(), (String, String)> {
        if self.name.is_none() && self.permissions.is_none() {
            return Err(("body".into(), "say what changes: `name`, `permissions`".into()));
        }
        check_permissions(self.permissions.as_deref().unwrap_or_default())
    }
}

/// Somebody new.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    email: Email,
    #[schema(example = "Mira Okafor")]
    name: Name,
    /// Only one that may no more than you.
    role_id: RoleId,
}

impl Checked for NewUser {}

/// What of a user changes; what is not said stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    name: Option<Name>,
    role_id: Option<RoleId>,
    disabled: Option<bool>,
}

impl Checked for UserChange {
    fn check(&self) -> Result<(), (String, String)> {
        if self.name.is_none() && self.role_id.is_none() && self.disabled.is_none() {
            return Err(("body".into(), "say what changes: `name`, `role_id`, `disabled`".into()));
        }
        Ok(())
    }
}

impl Located for RoleDone {
    fn location(&self) -> String {
        format!("/v1/roles/{}", self.role_id)
    }
}

impl Located for UserInvited {
    fn location(&self) -> String {
        format!("/v1/users/{}", self.user_id)
    }
}

/// Roles. Needs `tenancy.manage`.
#[utoipa::path(
    get, path = "/v1/roles", tag = "tenancy", security(("api_key" = [])), params(PageParams),
    responses((status = 200, body = Page<RoleView>), ReadProblems)
)]
async fn roles(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<RoleId>>,
) -> Result<Json<Page<RoleView>>, Problem> {
    caller.may(tenancy::MANAGE)?;
    Ok(Json(read::roles(&app.engine, caller.tenant, page.after, page.limit).await?))
}

/// One role. Needs `tenancy.manage`.
#[utoipa::path(
    get, path = "/v1/roles/{role_id}", tag = "tenancy", security(("api_key" = [])),
    params(("role_id" = RoleId, Path)),
    responses((status = 200, body = RoleView), ReadProblems)
)]
async fn role(State(app): State<SharedApp>, caller: Caller, PathId(id): PathId<Role>) -> Result<Response, Problem> {
    caller.may(tenancy::MANAGE)?;
    found(read::role(&app.engine, caller.tenant, id).await?, "role", &id)
}

/// Makes a role. Its name is another's already, whatever its case: a 409 that names that one. Needs
/// `tenancy.manage`.
#[utoipa::path(
    post, path = "/v1/roles", tag = "tenancy", operation_id = "tenancy.create_role",
    security(("api_key" = [])), params(WriteHeaders), request_body = NewRole,
    responses((status = 201, body = RoleDone), WriteProblems)
)]
async fn create_role(State(app): State<SharedApp>, write: Write<NewRole, CreateRole>) -> Response {
    write
        .run_as(&app, created, |new, caller| CreateRole {
            name: new.name,
            permissions: new.permissions,
            within: Some(caller.permissions.clone()),
        })
        .await
}

/// Changes a role, for all who have it: at once on this server, within five seconds on its
/// replicas. Needs `tenancy.manage`.
#[utoipa::path(
    patch, path = "/v1/roles/{role_id}", tag = "tenancy", operation_id = "tenancy.change_role",
    security(("api_key" = [])), params(WriteHeaders, ("role_id" = RoleId, Path)), request_body = RoleChange,
    responses((status = 200, body = RoleDone), WriteProblems)
)]
async fn change_role(
    State(app): State<SharedApp>,
    path: Result<PathId<Role>, Problem>,
    write: Write<RoleChange, ChangeRole>,
) -> Result<Response, Problem> {
    // Only now: who asks comes before what they ask for.
    let PathId(role) = path?;
    let response = write
        .run_as(&app, ok, |change, caller| ChangeRole {
            role,
            name: change.name,
            permissions: change.permissions,
            within: Some(caller.permissions.clone()),
        })
        .await;
    app.sessions.forget();
    Ok(response)
}

/// Users. Needs `tenancy.manage`.
#[utoipa::path(
    get, path = "/v1/users", tag = "tenancy", security(("api_key" = [])), params(PageParams),
    responses((status = 200, body = Page<UserView>), ReadProblems)
)]
async fn users(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<UserId>>,
) -> Result<Json<Page<UserView>>, Problem> {
    caller.may(tenancy::MANAGE)?;
    Ok(Json(read::users(&app.engine, caller.tenant, page.after, page.limit).await?))
}

/// One user. Needs `tenancy.manage`.
#[utoipa::path(
    get, path = "/v1/users/{user_id}", tag = "tenancy", security(("api_key" = [])),
    params(("user_id" = UserId, Path)),
    responses((status = 200, body = UserView), ReadProblems)
)]
async fn user(State(app): State<SharedApp>, caller: Caller, PathId(id): PathId<User>) -> Result<Response, Problem> {
    caller.may(tenancy::MANAGE)?;
    found(read::user(&app.engine, caller.tenant, id).await?, "user", &id)
}

/// Invites somebody. The token is in this answer only; whoever brings it to `/v1/auth/password`
/// within 72 hours is that user. Needs `tenancy.manage`.
#[utoipa::path(
    post, path = "/v1/users", tag = "tenancy", operation_id = "tenancy.invite_user",
    security(("api_key" = [])), params(WriteHeaders), request_body = NewUser,
    responses((status = 201, body = UserInvited), WriteProblems)
)]
async fn invite_user(State(app): State<SharedApp>, write: Write<NewUser, InviteUser>) -> Response {
    write
        .run_as(&app, created, |new, caller| InviteUser {
            email: new.email,
            name: new.name,
            role: new.role_id,
            within: Some(caller.permissions.clone()),
            handing: auth::handing(caller.tenant, UserId::mint()),
        })
        .await
}

/// Gives a user another name or role, disables or enables them: at once on this server, within five
/// seconds on its replicas. Disabling ends their sessions. The last manager who can log in stays
/// one. Needs `tenancy.manage`.
#[utoipa::path(
    patch, path = "/v1/users/{user_id}", tag = "tenancy", operation_id = "tenancy.change_user",
    security(("api_key" = [])), params(WriteHeaders, ("user_id" = UserId, Path)), request_body = UserChange,
    responses((status = 200, body = UserChanged), WriteProblems)
)]
async fn change_user(
    State(app): State<SharedApp>,
    path: Result<PathId<User>, Problem>,
    write: Write<UserChange, ChangeUser>,
) -> Result<Response, Problem> {
    // Only now: who asks comes before what they ask for.
    let PathId(user) = path?;
    let response = write
        .run_as(&app, ok, |change, caller| ChangeUser {
            user,
            name: change.name,
            role: change.role_id,
            disabled: change.disabled,
            within: Some(caller.permissions.clone()),
        })
        .await;
    app.sessions.forget();
    Ok(response)
}

/// Makes a token for a user: another invitation (72 hours) for who has not come yet, else leave to
/// set another password (one hour). It replaces the one made before. Only for a user who may no more
/// than you. Needs `tenancy.manage`.
#[utoipa::path(
    post, path = "/v1/users/{user_id}/token", tag = "tenancy", operation_id = "tenancy.create_user_token",
    security(("api_key" = [])), params(WriteHeaders, ("user_id" = UserId, Path)),
    responses((status = 200, body = UserTokenCreated), WriteProblems)
)]
async fn create_user_token(
    State(app): State<SharedApp>,
    write: Bare<CreateUserToken>,
    PathId(user): PathId<User>,
) -> Response {
    let within = Some(write.caller.permissions.clone());
    let handing = auth::handing(write.caller.tenant, user);
    write.run(&app, CreateUserToken { user, within, handing }, ok).await
}
