//! One write at the door: from a request to a command's call, and from its answer to a response.
//!
//! The order of the checks is what keeps a key unused by a bad request: form of the headers,
//! credential, permission, form of the body, values. Only then the engine hears of the key.

use super::{
    App, BODY_BYTES_MAX, BODY_TIME_MAX, Correlation, Problem, SharedApp,
    problem::{Code, rejected},
};
use crate::auth::Caller;
use axum::{
    body::Body,
    extract::{ConnectInfo, FromRequest, FromRequestParts, Request},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use domain::{WorkingSet, registry::Checked};
use engine::{
    Actor, Answered, Command, Encode, Head, Reject,
    answer::{Answer, Fingerprint, Key},
    number::Numbers,
};
use kernel::id::{CallId, TenantId};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{marker::PhantomData, net::SocketAddr};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const ORIGINAL_DATE: HeaderName = HeaderName::from_static("idempotent-original-date");

/// A checked write: who asks, under which key, and the body as `T`, on its way to command `C`.
pub struct Write<T, C = T> {
    pub caller: Caller,
    pub body: T,
    head: Head,
    command: PhantomData<fn() -> C>,
}

impl<T, C> FromRequest<SharedApp> for Write<T, C>
where
    T: DeserializeOwned + Checked,
    C: Command<WorkingSet>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let (caller, key) = door::<C>(&mut parts, app).await?;
        let bytes = read_body(&parts.headers, body).await?;
        let body: T = parse(&bytes)?;
        body.check().map_err(|(field, message)| Problem::invalid(field, message))?;
        let head = head(&parts, &caller, key, &bytes)?;
        Ok(Self { caller, body, head, command: PhantomData })
    }
}

/// A write without a body.
pub struct Bare<C> {
    pub caller: Caller,
    head: Head,
    command: PhantomData<fn() -> C>,
}

impl<C: Command<WorkingSet>> FromRequestParts<SharedApp> for Bare<C> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let (caller, key) = door::<C>(parts, app).await?;
        let head = head(parts, &caller, key, b"")?;
        Ok(Self { caller, head, command: PhantomData })
    }
}

/// A write that needs no key and no caller: what it brings in its body is what it proves itself by.
pub struct Open<T> {
    pub body: T,
    parts: Parts,
}

impl<T: DeserializeOwned + Checked> FromRequest<SharedApp> for Open<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &SharedApp) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(&parts.headers, body).await?;
        let body: T = parse(&bytes)?;
        body.check().map_err(|(field, message)| Problem::invalid(field, message))?;
        Ok(Self { body, parts })
    }
}

/// Runs a command whose answer is not kept, under a key of our own.
pub async fn run_unkept<C: Command<WorkingSet>>(
    app: &App,
    parts: &Parts,
    tenant: TenantId,
    actor: Actor,
    command: C,
    encode: Encode<C::Done, C::Reject>,
) -> Result<Answer, Problem> {
    const { assert!(!C::STORED, "a caller brings the key of an answer that is kept") };
    let call = CallId::mint();
    let key = Key::new(&format!("server|{call}")).expect("visible ASCII");
    let head = head_of(parts, call, tenant, actor, key, b"")?;
    Ok(app.engine.submit(head, command, encode).await?.answer)
}

impl<T> Open<T> {
    pub fn split(self) -> (T, Parts) {
        (self.body, self.parts)
    }
}

async fn door<C: Command<WorkingSet>>(parts: &mut Parts, app: &SharedApp) -> Result<(Caller, Key), Problem> {
    Caller::credential(&parts.headers)?;
    let key = key(&parts.headers)?;
    let caller = Caller::from_request_parts(parts, app).await?;
    caller.may(C::NEEDS)?;
    Ok((caller, key))
}

pub fn key(headers: &HeaderMap) -> Result<Key, Problem> {
    let wrong = |detail| Problem::malformed("idempotency_key_missing", detail);
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = sent.next() else {
        return Err(wrong("Idempotency-Key: every write carries one; derive it from your business event"));
    };
    if sent.next().is_some() {
        return Err(wrong("Idempotency-Key: send exactly one"));
    }
    value
        .to_str()
        .ok()
        .and_then(Key::new)
        .ok_or_else(|| wrong("Idempotency-Key: 1 to 255 visible ASCII characters, no space at the edges"))
}

async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Problem::not_json());
    }
    match tokio::time::timeout(BODY_TIME_MAX, axum::body::to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let text = format!("{error:?}");
            if text.contains("LengthLimit") {
                Err(Problem::too_large(BODY_BYTES_MAX))
            } else {
                Err(Problem::malformed("body_broken", "the body did not arrive whole"))
            }
        }
        Err(_) => Err(Problem::too_slow()),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if !inner.is_data() {
            return Problem::malformed("malformed_json", format!("the body is no JSON: {inner}"));
        }
        let text = inner.to_string();
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned();
        // The name of a type of ours is nobody's business.
        let message = match message.split_once(", expected struct ") {
            Some((what, _)) => format!("{what}, expected an object"),
            None => message,
        };
        // A missing or doubled member has no place of its own; its parent's path and its name make one.
        let missing = ["missing field `", "duplicate field `"]
            .into_iter()
            .find_map(|prefix| message.strip_prefix(prefix)?.strip_suffix('`'));
        let field = match missing {
            _ if path.starts_with('[') => "body".to_owned(),
            Some(name) if path == "." => name.to_owned(),
            Some(name) => format!("{path}.{name}"),
            None if path == "." => "body".to_owned(),
            // Within an array that stands for an object, its place in the list says enough.
            None => path.split_once("][").map_or(path.clone(), |(place, _)| format!("{place}]")),
        };
        Problem::invalid(field, message)
    })?;
    deserializer
        .end()
        .map_err(|error| Problem::malformed("malformed_json", format!("the body goes on after its JSON: {error}")))?;
    no_positional(bytes)?;
    Ok(value)
}

/// Refuses an array where an object belongs: serde would take its items by position, and a caller
/// whose order differs from ours would book something else. No request of ours nests arrays.
fn no_positional(bytes: &[u8]) -> Result<(), Problem> {
    fn nested(value: &Value, place: &str) -> Option<String> {
        match value {
            Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
                let place = format!("{place}[{index}]");
                if item.is_array() { Some(place) } else { nested(item, &place) }
            }),
            Value::Object(members) => members.iter().find_map(|(name, member)| {
                nested(member, &if place.is_empty() { name.clone() } else { format!("{place}.{name}") })
            }),
            _ => None,
        }
    }
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| Problem::malformed("malformed_json", error.to_string()))?;
    let place = if value.is_array() { Some("body".to_owned()) } else { nested(&value, "") };
    place.map_or(Ok(()), |place| Err(Problem::invalid(place, "must be an object, not an array")))
}

fn head(parts: &Parts, caller: &Caller, key: Key, body: &[u8]) -> Result<Head, Problem> {
    head_of(parts, CallId::mint(), caller.tenant, caller.actor(), key, body)
}

fn head_of(
    parts: &Parts,
    call: CallId,
    tenant: TenantId,
    actor: Actor,
    key: Key,
    body: &[u8],
) -> Result<Head, Problem> {
    let if_match = parts.headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok());
    let path = parts.uri.path();
    let fingerprint = Fingerprint::of(parts.method.as_str(), path, if_match, body)
        .map_err(|error| Problem::malformed("malformed_json", format!("the body is no JSON: {error}")))?;
    let correlation = parts.extensions.get::<Correlation>().map(|id| id.0.clone()).unwrap_or_default();
    let remote = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip().to_string());
    Ok(Head { call, tenant, key, fingerprint, actor, correlation, remote })
}

impl<T, C> Write<T, C> {
    pub fn key(&self) -> &Key {
        &self.head.key
    }
}

impl<T: Command<WorkingSet>> Write<T> {
    /// Runs the body, which is the command.
    pub async fn run(self, app: &App, encode: Encode<T::Done, T::Reject>) -> Response {
        respond(app.engine.submit(self.head, self.body, encode).await)
    }
}

impl<T, C: Command<WorkingSet>> Write<T, C> {
    /// Runs a command made from the body.
    pub async fn run_as(
        self,
        app: &App,
        encode: Encode<C::Done, C::Reject>,
        make: impl FnOnce(T, &Caller) -> C,
    ) -> Response {
        let command = make(self.body, &self.caller);
        respond(app.engine.submit(self.head, command, encode).await)
    }
}

impl<C: Command<WorkingSet>> Bare<C> {
    pub async fn run(self, app: &App, command: C, encode: Encode<C::Done, C::Reject>) -> Response {
        respond(app.engine.submit(self.head, command, encode).await)
    }
}

fn respond(outcome: Result<Answered, engine::Fault>) -> Response {
    match outcome {
        Ok(answered) => sent(answered),
        Err(fault) => Problem::from(fault).into_response(),
    }
}

/// The code in the bytes of a refusal.
fn code_of(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body["code"].as_str().map(str::to_owned)
}

/// An answer on its way out.
pub fn sent(Answered { answer, replayed }: Answered) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let code = status.is_client_error().then(|| code_of(&answer.body)).flatten();
    let mut response = (status, answer.body).into_response();
    if let Some(code) = code {
        response.extensions_mut().insert(Code(code.into()));
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    let mut put = |name: HeaderName, value: Option<String>| {
        if let Some(value) = value.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(name, value);
        }
    };
    put(header::ETAG, answer.etag);
    put(header::WWW_AUTHENTICATE, (status == StatusCode::UNAUTHORIZED).then(|| "Bearer".to_owned()));
    put(header::LOCATION, answer.location);
    put(REPLAYED, replayed.map(|_| "true".to_owned()));
    put(ORIGINAL_DATE, replayed.map(|at| at.to_string()));
    response
}

/// Encodes a result as 200.
pub fn ok<D: Serialize, R: Reject>(outcome: Result<&D, &R>, _: &Numbers) -> Answer {
    outcome.map_or_else(rejected, |done| Answer::json(200, json_bytes(done)))
}

/// Where a new row is found.
pub trait Located {
    fn location(&self) -> String;
}

/// Encodes a result as 201 with its Location.
pub fn created<D: Serialize + Located, R: Reject>(outcome: Result<&D, &R>, _: &Numbers) -> Answer {
    outcome
        .map_or_else(rejected, |done| Answer { location: Some(done.location()), ..Answer::json(201, json_bytes(done)) })
}

pub fn json_bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("views are plain JSON").into()
}

/// The header of every write, for the description of the API.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it only describes")]
pub struct WriteHeaders {
    /// Names the intention, derived from the business event: `shop|order-1001`. The same on
    /// every retry; another body under it is refused.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$",
        example = "shop|order-1001"
    )]
    idempotency_key: String,
}
