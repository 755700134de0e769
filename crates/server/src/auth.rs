//! Credentials at the door: which tenant, which key, which permissions.
//!
//! The credential alone decides the tenant; no header and no query parameter does.
//! Never keeps a secret: only its SHA-256 is compared, in constant time.

use crate::api::{Problem, SharedApp};
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use domain::tenancy::model::Credential;
use domain::{Engine, tenancy};
use engine::{Actor, command::Permission, error::StepError};
use kernel::id::{ApiKeyId, TenantId};
use moka::future::Cache;
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};
use subtle::ConstantTimeEq;

/// How long a replica may go on with a key that another one revoked.
const KEY_CACHE_TTL: Duration = Duration::from_secs(5);
const KEY_CACHE_KEYS_MAX: u64 = 10_000;

struct Known {
    name: String,
    secret_hash: [u8; 32],
    permissions: Vec<String>,
    revoked: bool,
}

/// The API keys seen lately. Reading one from the database on every request would cost more than
/// the request.
pub struct Keys(Cache<(TenantId, ApiKeyId), Option<Arc<Known>>>);

impl Default for Keys {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(KEY_CACHE_KEYS_MAX).time_to_live(KEY_CACHE_TTL).build())
    }
}

impl Keys {
    async fn find(
        &self,
        engine: &Engine,
        tenant: TenantId,
        key: ApiKeyId,
    ) -> Result<Option<Arc<Known>>, Arc<StepError>> {
        let load = async {
            let row = tenancy::read::api_key(engine, tenant, key).await?;
            Ok(row.map(|row| {
                let revoked = row.revoked_at.is_some();
                Arc::new(Known { name: row.name, secret_hash: row.secret_hash, permissions: row.permissions, revoked })
            }))
        };
        self.0.try_get_with((tenant, key), load).await
    }

    /// After a revocation: this process stops at once.
    pub async fn forget(&self, tenant: TenantId, key: ApiKeyId) {
        self.0.invalidate(&(tenant, key)).await;
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    pub tenant: TenantId,
    pub api_key: ApiKeyId,
    pub name: String,
    pub permissions: Vec<String>,
}

impl Caller {
    pub fn actor(&self) -> Actor {
        Actor { id: self.api_key.to_string(), name: self.name.clone() }
    }

    pub fn may(&self, needed: Permission) -> Result<(), Problem> {
        if self.permissions.iter().any(|permission| permission == needed.0) {
            Ok(())
        } else {
            Err(Problem::forbidden(needed.0))
        }
    }

    /// The credential as sent, without asking whether it opens anything.
    pub fn credential(headers: &HeaderMap) -> Result<Credential, Problem> {
        let mut all = headers.get_all(header::AUTHORIZATION).iter();
        let first = all.next();
        if all.next().is_some() {
            return Err(Problem::unauthorized("Authorization: send exactly one"));
        }
        let sent = first.and_then(|value| value.to_str().ok());
        let Some((scheme, token)) = sent.and_then(|text| text.split_once(' ')) else {
            return Err(Problem::unauthorized("Authorization: send `Bearer` and your API key"));
        };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Problem::unauthorized("Authorization: the scheme is `Bearer`"));
        }
        token.trim().parse().map_err(|()| unknown_key())
    }
}

/// The same words for a wrong form, an unknown key, a wrong secret and a revoked key: a stranger
/// learns nothing of what exists.
fn unknown_key() -> Problem {
    Problem::unauthorized("Authorization: the API key is not valid")
}

impl FromRequestParts<SharedApp> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let Credential { tenant, api_key, secret } = Self::credential(&parts.headers)?;
        let known = app.keys.find(&app.engine, tenant, api_key).await.map_err(|error| {
            tracing::warn!(%error, "a credential could not be looked up");
            Problem::unavailable("the database cannot be read now")
        })?;
        let known = known.filter(|known| {
            let right: bool = hash(&secret).ct_eq(&known.secret_hash).into();
            right && !known.revoked
        });
        let known = known.ok_or_else(unknown_key)?;
        Ok(Self { tenant, api_key, name: known.name.clone(), permissions: known.permissions.clone() })
    }
}

/// A secret has 256 random bits, so a plain hash is enough: there is nothing to guess.
fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A fresh credential and the hash to keep of it.
///
/// # Panics
/// When the operating system has no randomness to give.
pub fn mint(tenant: TenantId) -> (Credential, [u8; 32]) {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let secret_hash = hash(&secret);
    (Credential { tenant, api_key: ApiKeyId::mint(), secret }, secret_hash)
}
