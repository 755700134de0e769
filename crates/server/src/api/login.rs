//! How people prove who they are.
//!
//! These writes need no Idempotency-Key: each brings in its body what is good once, or changes
//! nothing that a second time would double. Their answers hold secrets and are kept nowhere.

use super::{
    App, Problem, SharedApp,
    problem::{OpenProblems, rejected},
    write::{Open, ok, run_unkept, sent},
};
use crate::{
    auth::{self, COOKIE, Caller, password::Password},
    notes::Who,
};
use axum::{
    extract::{ConnectInfo, FromRequestParts, Request, State},
    http::{HeaderValue, header, request::Parts},
    response::Response,
};
use domain::{
    registry::Checked,
    tenancy::{
        LoggedOut, Login, LoginRefused, Logout, PasswordSet, Refresh, Refreshed, SessionOpen, SessionOver, SetPassword,
        TokenNotValid,
        model::{self, Cookie, Credential, Slug, Token},
        read,
    },
};
use engine::{Actor, Answered, Reject, answer::Answer, number::Numbers};
use jiff::Timestamp;
use kernel::{
    id::{SessionId, TenantId, UserId},
    text::{Email, fold},
};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new()
        .routes(routes!(login))
        .routes(routes!(refresh))
        .routes(routes!(logout))
        .routes(routes!(set_password))
}

/// A secret on its way back rests in no cache.
fn uncached(answer: Answer) -> Response {
    let mut response = sent(Answered { answer, replayed: None });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn refused(reject: &impl Reject) -> Response {
    uncached(rejected(reject))
}

/// Who logs in, and where.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLogin {
    /// The tenant's slug.
    #[schema(value_type = String, min_length = 1, max_length = 40, example = "kestrel")]
    tenant: Slug,
    email: Email,
    #[schema(value_type = String, max_length = 200)]
    password: Password,
    /// Set the session's cookie, too: for pages.
    #[serde(default)]
    cookie: bool,
}

impl Checked for NewLogin {
    fn check(&self) -> Result<(), (String, String)> {
        self.password.check_sent()
    }
}

/// What opens a session.
#[derive(Debug, Serialize, ToSchema)]
pub struct LoggedIn {
    user_id: UserId,
    session_id: SessionId,
    /// A JWT, for `Authorization: Bearer`. It is good for 15 minutes, and only while the session is.
    access_token: String,
    #[schema(value_type = String, format = DateTime)]
    access_expires_at: Timestamp,
    /// For `/v1/auth/refresh`, once.
    refresh_token: String,
    #[schema(value_type = String, format = DateTime)]
    session_expires_at: Timestamp,
}

impl LoggedIn {
    /// Of what a command answered: tokens are made here and kept nowhere.
    fn answer(app: &App, tenant: TenantId, answer: &Answer, refresh: &Credential<model::Refresh>) -> Answer {
        let session: SessionOpen = serde_json::from_slice(&answer.body).expect("our own answer");
        let (access_token, access_expires_at) = app.access.sign(tenant, &session);
        let made = Self {
            user_id: session.user_id,
            session_id: session.session_id,
            access_token,
            access_expires_at,
            refresh_token: refresh.to_string(),
            session_expires_at: session.session_expires_at,
        };
        Answer::json(200, serde_json::to_vec(&made).expect("plain JSON").into())
    }
}

/// Begins a session of a user: for 30 days, while it is refreshed. Everything that does not fit
/// together is a 401 in the same words. Ten tries at once for a user, then one each six seconds; an
/// address has more.
#[utoipa::path(
    post, path = "/v1/auth/login", tag = "login", operation_id = "tenancy.login",
    security(()), request_body = NewLogin,
    responses((status = 200, body = LoggedIn), OpenProblems)
)]
async fn login(State(app): State<SharedApp>, open: Open<NewLogin>) -> Result<Response, Problem> {
    let (new, parts) = open.split();
    let email_folded = fold(&new.email);
    let remote = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    app.limits.check(new.tenant.as_str(), &email_folded, remote).map_err(Problem::too_many_logins)?;
    let tenant = read::tenant_by_slug(&app.engine, new.tenant.as_str()).await?;
    let found = read::login(&app.engine, tenant, email_folded).await?;
    let kept = found.as_ref().map(|found| found.password_hash.clone());
    let is_right = app.passwords.is_right(new.password, kept).await?;
    let (Some(tenant), Some(found), true) = (tenant, found, is_right) else {
        return Ok(refused(&LoginRefused));
    };
    let session = SessionId::mint();
    let (refresh, _) = auth::mint::<model::Refresh>(tenant, session);
    let (family_hash, refresh_hash) = auth::halves(&refresh);
    let (cookie, cookie_hash) = auth::mint::<Cookie>(tenant, session);
    let command = Login {
        user: found.user,
        password_hash: found.password_hash,
        session,
        family_hash,
        refresh_hash,
        cookie_hash: new.cookie.then_some(cookie_hash),
    };
    let actor = Actor { id: found.user.to_string(), name: found.name };
    let answer = run_unkept(&app, &parts, tenant, actor, command, ok).await?;
    if answer.status != 200 {
        return Ok(uncached(answer));
    }
    let mut response = uncached(LoggedIn::answer(&app, tenant, &answer, &refresh));
    if new.cookie {
        set_cookie(&mut response, &parts, &cookie.to_string(), domain::tenancy::SESSION_LASTS.as_secs());
    }
    Ok(response)
}

/// Out of reach of scripts, and not sent along from pages of others.
fn set_cookie(response: &mut Response, parts: &Parts, value: &str, lasts_s: i64) {
    // Whoever ends TLS in front of us says so; a browser would not send it back over plain HTTP.
    let proto = parts.headers.get("x-forwarded-proto").map(HeaderValue::as_bytes);
    let secure = if proto == Some(b"https") { "; Secure" } else { "" };
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts_s}{secure}");
    response.headers_mut().insert(header::SET_COOKIE, HeaderValue::try_from(text).expect("visible ASCII"));
}

/// A refresh token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRefresh {
    /// The one that was given last.
    refresh_token: String,
}

impl Checked for NewRefresh {}

fn refreshed(outcome: Result<&Refreshed, &SessionOver>, numbers: &Numbers) -> Answer {
    match outcome {
        Ok(Refreshed::Open(session)) => ok::<_, SessionOver>(Ok(session), numbers),
        Ok(Refreshed::Ended) => rejected(&SessionOver),
        Err(over) => rejected(over),
    }
}

/// Another access token, and another refresh token for the one sent. Each is good once: when one
/// comes again, two hold it, and the session ends.
#[utoipa::path(
    post, path = "/v1/auth/refresh", tag = "login", operation_id = "tenancy.refresh",
    security(()), request_body = NewRefresh,
    responses((status = 200, body = LoggedIn), OpenProblems)
)]
async fn refresh(State(app): State<SharedApp>, open: Open<NewRefresh>) -> Result<Response, Problem> {
    let (new, parts) = open.split();
    let Ok(token) = new.refresh_token.parse::<Credential<model::Refresh>>() else {
        return Ok(refused(&SessionOver));
    };
    let (family_hash, sent_hash) = auth::halves(&token);
    let found = read::session(&app.engine, token.tenant, token.of).await?;
    let Some(found) = found.filter(|found| found.family_hash == Some(family_hash)) else {
        return Ok(refused(&SessionOver));
    };
    if let Some(who) = parts.extensions.get::<Who>() {
        who.is(token.tenant, &found.user.to_string());
    }
    let next = auth::next(&token);
    let (_, next_hash) = auth::halves(&next);
    let command = Refresh { session: token.of, user: found.user, family_hash, sent_hash, next_hash };
    let actor = Actor { id: found.user.to_string(), name: found.name };
    let answer = run_unkept(&app, &parts, token.tenant, actor, command, refreshed).await?;
    if answer.status != 200 {
        app.sessions.forget();
        return Ok(uncached(answer));
    }
    Ok(uncached(LoggedIn::answer(&app, token.tenant, &answer, &next)))
}

/// Ends the session whose access token or cookie is sent: at once on this server, within five seconds
/// on its replicas.
#[utoipa::path(
    post, path = "/v1/auth/logout", tag = "login", operation_id = "tenancy.logout",
    security(("access_token" = []), ("session" = [])),
    responses((status = 200, body = LoggedOut), OpenProblems)
)]
async fn logout(State(app): State<SharedApp>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    let session = caller.session.ok_or_else(|| Problem::unauthorized("Authorization: an API key has no session"))?;
    let answer = run_unkept(&app, &parts, caller.tenant, caller.actor, Logout { session }, ok).await?;
    app.sessions.forget();
    let mut response = uncached(answer);
    set_cookie(&mut response, &parts, "", 0);
    Ok(response)
}

/// A password for whoever holds the token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// From the invitation, or from the leave to set another password.
    token: String,
    #[schema(value_type = String, min_length = 12, max_length = 200)]
    password: Password,
}

impl Checked for NewPassword {
    fn check(&self) -> Result<(), (String, String)> {
        self.password.check()
    }
}

/// Sets a password with the token that was handed out for it: the first one of an invited user, or
/// another one. A token is good once, and only until it expires. All sessions of the user end.
#[utoipa::path(
    post, path = "/v1/auth/password", tag = "login", operation_id = "tenancy.set_password",
    security(()), request_body = NewPassword,
    responses((status = 200, body = PasswordSet), OpenProblems)
)]
async fn set_password(State(app): State<SharedApp>, open: Open<NewPassword>) -> Result<Response, Problem> {
    let (new, parts) = open.split();
    let Ok(Credential::<Token> { tenant, of: user, secret }) = new.token.parse() else {
        return Ok(refused(&TokenNotValid));
    };
    let token_hash = auth::hash(&secret);
    // Looked at before a hash is made for it: only who holds a good token may keep a core busy.
    let Some(name) = read::token_holder(&app.engine, tenant, user, token_hash).await? else {
        return Ok(refused(&TokenNotValid));
    };
    let password_hash = app.passwords.hash(new.password).await?;
    let command = SetPassword { user, token_hash, password_hash };
    let actor = Actor { id: user.to_string(), name };
    let answer = run_unkept(&app, &parts, tenant, actor, command, ok).await?;
    app.sessions.forget();
    Ok(uncached(answer))
}
