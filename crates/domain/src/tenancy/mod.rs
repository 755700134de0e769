//! Tenants and the credentials that open them.
//!
//! Owns `tenant_slug`, `tenant`, `api_key`.
//! Invariant: a slug names one tenant (`tenant_slug_pkey`).
//! Invariant: a key never grants what its maker lacks (`CreateApiKey`).
//! Never stores a secret, only its SHA-256; the one answer that shows it is sealed.

mod create_api_key;
mod create_tenant;
pub mod model;
pub mod read;
mod revoke_api_key;
pub mod sql;

pub use create_api_key::{ApiKeyCreated, ApiKeyRefusal, CreateApiKey};
pub use create_tenant::{CreateTenant, TenantCreated, TenantRefusal};
pub use revoke_api_key::{ApiKeyMissing, ApiKeyRevoked, RevokeApiKey};

use engine::command::Permission;

/// Make and revoke API keys.
pub const MANAGE: Permission = Permission("tenancy.manage");
/// Read the audit and the deadlock log.
pub const AUDIT: Permission = Permission("tenancy.audit");
/// Held by no key: only the command line of whoever runs the server.
pub const OPERATE: Permission = Permission("operator");
