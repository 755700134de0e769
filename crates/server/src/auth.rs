//! Credentials at the door: which tenant, who, which permissions.
//!
//! The credential alone decides the tenant; no header and no query parameter does. It is an API key,
//! an access token (a JWT of one session), or the cookie of a session.
//! Never keeps a secret: only its SHA-256 is compared, in constant time.

pub mod access;
pub mod limit;
pub mod password;
mod seen;

use crate::{
    api::{Problem, SharedApp},
    notes::Who,
};
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use domain::tenancy::{
    self, Handing,
    model::{ApiKey, Cookie, Credential, Key, Opens, Refresh},
    read::SessionFound,
};
use engine::{Actor, command::Permission, error::StepError};
use jiff::Timestamp;
use kernel::id::{ApiKeyId, Id, SessionId, TenantId, UserId};
use seen::Seen;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The cookie of a session, for pages.
pub const COOKIE: &str = "tallyhold_session";

/// The API keys seen lately.
pub type Keys = Seen<(TenantId, ApiKeyId), ApiKey>;
/// The sessions seen lately, with what their users may do.
pub type Sessions = Seen<(TenantId, SessionId), SessionFound>;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    pub tenant: TenantId,
    pub actor: Actor,
    pub permissions: Vec<String>,
    /// Of a user; an API key has none.
    pub session: Option<SessionId>,
}

/// A credential as sent, without asking whether it opens anything.
pub enum Sent {
    Key(Credential<Key>),
    Access(String),
    Cookie(Credential<Cookie>),
}

impl Caller {
    pub fn actor(&self) -> Actor {
        self.actor.clone()
    }

    pub fn may(&self, needed: Permission) -> Result<(), Problem> {
        if self.permissions.iter().any(|permission| permission == needed.0) {
            Ok(())
        } else {
            Err(Problem::forbidden(needed.0))
        }
    }

    /// The one credential of a request. Where there is an Authorization, a cookie says nothing.
    pub fn credential(headers: &HeaderMap) -> Result<Sent, Problem> {
        let mut all = headers.get_all(header::AUTHORIZATION).iter();
        let first = all.next();
        if all.next().is_some() {
            return Err(Problem::unauthorized("Authorization: send exactly one"));
        }
        let Some(first) = first else { return cookie(headers) };
        let Some((scheme, token)) = first.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return Err(Problem::unauthorized("Authorization: send `Bearer` and your credential"));
        };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Problem::unauthorized("Authorization: the scheme is `Bearer`"));
        }
        let token = token.trim();
        if token.matches('.').count() == 2 {
            return Ok(Sent::Access(token.to_owned()));
        }
        token.parse().map(Sent::Key).map_err(|()| opens_nothing())
    }
}

fn cookie(headers: &HeaderMap) -> Result<Sent, Problem> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
    let Some(value) = ours.next() else {
        return Err(Problem::unauthorized("Authorization: send `Bearer` and your credential"));
    };
    // GUARD(foreign_origin): a page of somebody else on a neighbouring host would act as whoever reads it.
    if let Some(origin) = headers.get(header::ORIGIN) {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let origin = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
        if origin.is_none() || origin != host {
            return Err(Problem::foreign_origin());
        }
    }
    value.parse().map(Sent::Cookie).map_err(|()| opens_nothing())
}

/// The same words for a wrong form, an unknown credential, a wrong secret and one that is over: a
/// stranger learns nothing of what exists.
fn opens_nothing() -> Problem {
    Problem::unauthorized("Authorization: the credential is not valid")
}

fn unreadable(error: &Arc<StepError>) -> Problem {
    tracing::warn!(%error, "a credential could not be looked up");
    Problem::unavailable("the database cannot be read now")
}

impl FromRequestParts<SharedApp> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let sent = Self::credential(&parts.headers)?;
        let (caller, lasts) = match &sent {
            Sent::Key(credential) => by_key(app, credential).await?,
            Sent::Access(token) => by_access(app, token).await?,
            Sent::Cookie(credential) => by_cookie(app, credential).await?,
        };
        // Known from here on, also where it is refused: what follows is audited.
        if let Some(who) = parts.extensions.get::<Who>() {
            who.is(caller.tenant, &caller.actor.id);
        }
        if !lasts {
            return Err(opens_nothing());
        }
        if let Sent::Key(credential) = &sent {
            app.notes.used(caller.tenant, credential.of);
        }
        Ok(caller)
    }
}

async fn by_key(app: &SharedApp, sent: &Credential<Key>) -> Result<(Caller, bool), Problem> {
    let Credential { tenant, of, secret } = sent;
    let load = || tenancy::read::api_key(&app.engine, *tenant, *of);
    let found = app.keys.find((*tenant, *of), load).await.map_err(|error| unreadable(&error))?;
    let key = found.row().filter(|key| bool::from(hash(secret).ct_eq(&key.secret_hash))).ok_or_else(opens_nothing)?;
    let lasts = key.revoked_at.is_none() && key.expires_at.is_none_or(|at| at > Timestamp::now());
    let actor = Actor { id: of.to_string(), name: key.name.clone() };
    let caller = Caller { tenant: *tenant, actor, permissions: key.permissions.clone(), session: None };
    Ok((caller, lasts))
}

async fn by_access(app: &SharedApp, token: &str) -> Result<(Caller, bool), Problem> {
    let claims = app.access.read(token).ok_or_else(opens_nothing)?;
    by_session(app, claims.org, claims.sid, |session| session.user == claims.sub).await
}

async fn by_cookie(app: &SharedApp, sent: &Credential<Cookie>) -> Result<(Caller, bool), Problem> {
    let is_right =
        |session: &SessionFound| session.cookie_hash.is_some_and(|kept| bool::from(hash(&sent.secret).ct_eq(&kept)));
    by_session(app, sent.tenant, sent.of, is_right).await
}

async fn by_session(
    app: &SharedApp,
    tenant: TenantId,
    id: SessionId,
    is_right: impl Fn(&SessionFound) -> bool,
) -> Result<(Caller, bool), Problem> {
    let load = || tenancy::read::session(&app.engine, tenant, id);
    let found = app.sessions.find((tenant, id), load).await.map_err(|error| unreadable(&error))?;
    let session = found.row().filter(|session| is_right(session)).ok_or_else(opens_nothing)?;
    let lasts = session.good && session.expires_at > Timestamp::now();
    let actor = Actor { id: session.user.to_string(), name: session.name.clone() };
    let caller = Caller { tenant, actor, permissions: session.permissions.clone(), session: Some(id) };
    Ok((caller, lasts))
}

/// A secret has 256 random bits, so a plain hash is enough: there is nothing to guess.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A fresh credential and the hash to keep of it.
///
/// # Panics
/// When the operating system has no randomness to give.
pub fn mint<O: Opens>(tenant: TenantId, of: Id<O::Of>) -> (Credential<O>, [u8; 32]) {
    let secret = digits(O::DIGITS);
    let secret_hash = hash(&secret);
    (Credential { tenant, of, secret }, secret_hash)
}

fn digits(count: usize) -> String {
    let mut bytes = vec![0u8; count / 2];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A token to be handed to a user.
pub fn handing(tenant: TenantId, user: UserId) -> Handing {
    let (token, hash) = mint(tenant, user);
    Handing { token, hash }
}

/// The hashes of both halves of a refresh token: the family's, and that of this one.
pub fn halves(token: &Credential<Refresh>) -> ([u8; 32], [u8; 32]) {
    let (family, own) = token.secret.split_at(Refresh::DIGITS / 2);
    (hash(family), hash(own))
}

/// The next refresh token of the same family.
pub fn next(token: &Credential<Refresh>) -> Credential<Refresh> {
    let (family, _) = token.secret.split_at(Refresh::DIGITS / 2);
    Credential { tenant: token.tenant, of: token.of, secret: format!("{family}{}", digits(Refresh::DIGITS / 2)) }
}
