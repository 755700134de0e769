//! Tenants, their people, and the credentials that open them.
//!
//! Owns `tenant_slug`, `tenant`, `headcount`, `role`, `tenant_user`, `session`, `api_key`, `refusal`.
//! Invariant: a slug names one tenant (`tenant_slug_pkey`), an address one user of a tenant
//! (`tenant_user_email_unique`).
//! Invariant: nobody gives what they lack (`rules::give`).
//! Invariant: a tenant with people has a manager among them (`rules::keeps_manager`,
//! `headcount_manager_kept`, `verify_user_manager`).
//! Invariant: a session opens something only while its epoch is its user's (`verify_session_user`).
//! Never stores a secret, only its SHA-256, or Argon2 where people chose it; an answer that shows one
//! is sealed, or not stored.

mod create_api_key;
mod create_tenant;
pub mod model;
pub mod read;
mod refusal;
mod revoke_api_key;
mod role;
mod rules;
mod session;
mod set_password;
pub mod sql;
mod user;

pub use create_api_key::{ApiKeyCreated, ApiKeyRefusal, CreateApiKey};
pub use create_tenant::{CreateTenant, TenantCreated, TenantRefusal};
pub use refusal::PeopleRefusal;
pub use revoke_api_key::{ApiKeyMissing, ApiKeyRevoked, RevokeApiKey};
pub use role::{ChangeRole, CreateRole, RoleDone};
pub use session::{
    LoggedOut, Login, LoginRefused, Logout, Refresh, Refreshed, SESSION_LASTS, SessionOpen, SessionOver,
};
pub use set_password::{PasswordSet, SetPassword, TokenNotValid};
pub use user::{ChangeUser, CreateUserToken, Handing, InviteUser, UserChanged, UserInvited, UserTokenCreated};

use engine::command::Permission;

/// Make and revoke API keys; let people in and say what they may.
pub const MANAGE: Permission = Permission("tenancy.manage");
/// Read the audit, the refusals and the deadlock log.
pub const AUDIT: Permission = Permission("tenancy.audit");
/// Held by no key: only the command line of whoever runs the server.
pub const OPERATE: Permission = Permission("operator");
/// Asked of nobody: the command itself holds what the caller knows against its rows.
pub const ANYONE: Permission = Permission("anyone");
