//! Documents over HTTP: a strong `ETag` says the version that was read, `If-Match` the version a save
//! began from.

use super::{
    App, Problem, SharedApp,
    problem::rejected,
    write::{self, Located, Write, json_bytes},
};
use crate::auth::Caller;
use axum::{
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
};
use domain::{WorkingSet, registry::Checked};
use engine::{Command, Encode, Reject, answer::Answer, number::Numbers};
use kernel::id::EditLockId;
use serde::{Serialize, de::DeserializeOwned};

/// A view of a document at a version.
pub trait Versioned {
    fn version(&self) -> i64;
}

fn tag(version: i64) -> String {
    format!("\"v{version}\"")
}

/// Encodes a saved document as 200, with its new version as `ETag`.
pub fn changed<D: Serialize + Versioned, R: Reject>(outcome: Result<&D, &R>, _: &Numbers) -> Answer {
    outcome
        .map_or_else(rejected, |done| Answer { etag: Some(tag(done.version())), ..Answer::json(200, json_bytes(done)) })
}

/// Encodes a new document as 201, with its Location and its version as `ETag`.
pub fn created_document<D: Serialize + Versioned + Located, R: Reject>(outcome: Result<&D, &R>, _: &Numbers) -> Answer {
    outcome.map_or_else(rejected, |done| Answer {
        etag: Some(tag(done.version())),
        location: Some(done.location()),
        ..Answer::json(201, json_bytes(done))
    })
}

/// A read that found the document, with its version as `ETag`, or a 404 that names what is missing.
pub fn found_document<T: Serialize + Versioned>(
    row: Option<T>,
    what: &str,
    id: &dyn std::fmt::Display,
) -> Result<Response, Problem> {
    let etag = row.as_ref().and_then(|row| HeaderValue::try_from(tag(row.version())).ok());
    let mut response = super::found(row, what, id)?;
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

const EDIT_LOCK: HeaderName = HeaderName::from_static("x-edit-lock");

/// A checked save: a [`Write`], the version it began from, and the edit lock it is made under.
pub struct Edit<T, C> {
    write: Write<T, C>,
    base: i64,
    lock: Option<EditLockId>,
}

impl<T, C> FromRequest<SharedApp> for Edit<T, C>
where
    T: DeserializeOwned + Checked,
    C: Command<WorkingSet>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, Problem> {
        Caller::credential(request.headers())?;
        write::key(request.headers())?;
        let (base, lock) = (base(request.headers())?, lock(request.headers())?);
        Ok(Self { write: Write::from_request(request, app).await?, base, lock })
    }
}

impl<T, C: Command<WorkingSet>> Edit<T, C> {
    /// Runs a command made from the body, the version it began from and the lock it is made under.
    pub async fn run(
        self,
        app: &App,
        encode: Encode<C::Done, C::Reject>,
        make: impl FnOnce(T, i64, Option<EditLockId>) -> C,
    ) -> Response {
        let Self { write, base, lock } = self;
        write.run_as(app, encode, |body, _| make(body, base, lock)).await
    }
}

/// The version that `If-Match` names. Only one strong tag of ours does: `*`, a list or a weak one would
/// save over what nobody read.
fn base(headers: &HeaderMap) -> Result<i64, Problem> {
    let mut sent = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = sent.next() else { return Err(Problem::precondition_required()) };
    let digits = value.to_str().ok().and_then(|text| text.trim().strip_prefix("\"v")?.strip_suffix('"'));
    let plain = digits.filter(|digits| !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    match (plain.and_then(|digits| digits.parse().ok()), sent.next()) {
        (Some(version), None) => Ok(version),
        _ => Err(Problem::malformed(
            "if_match_malformed",
            "If-Match: send the one ETag you read the document with, like \"v3\"",
        )),
    }
}

/// The lock that `X-Edit-Lock` names, if it is sent.
fn lock(headers: &HeaderMap) -> Result<Option<EditLockId>, Problem> {
    let mut sent = headers.get_all(EDIT_LOCK).iter();
    let Some(value) = sent.next() else { return Ok(None) };
    let lock = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    match (lock, sent.next()) {
        (Some(lock), None) => Ok(Some(lock)),
        _ => Err(Problem::malformed("edit_lock_malformed", "X-Edit-Lock: send the id of one edit lock, lck_…")),
    }
}

/// The headers of every save, for the description of the API.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it only describes")]
pub struct IfMatch {
    /// The `ETag` the document was read with.
    #[param(rename = "If-Match", pattern = "^\"v[1-9][0-9]*\"$", example = "\"v3\"")]
    if_match: String,
    /// The edit lock the save is made under, if there is one.
    #[param(rename = "X-Edit-Lock", pattern = "^lck_[0-9a-f]{32}$")]
    x_edit_lock: Option<String>,
}
