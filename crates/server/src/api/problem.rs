//! Problem documents (RFC 9457): how a refusal looks on the wire.
//!
//! Owns the one table from classes and faults to status codes.

use axum::{
    Json,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::{Fault, Reject, answer::Answer, error::StepError};
use kernel::problem::Class;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{any::Any, borrow::Cow, time::Duration};
use utoipa::{
    IntoResponses, PartialSchema, ToSchema,
    openapi::{Content, RefOr, Response as Described, ResponseBuilder},
};

/// Seconds after which a caller may try again.
const RETRY_AFTER_S: u64 = 1;

/// The body of every refusal.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemBody {
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    kind: &'static str,
    title: &'static str,
    #[schema(example = 422)]
    status: u16,
    /// Stable: programs tell refusals apart by it.
    #[schema(example = "insufficient_ats")]
    code: &'static str,
    /// What is wrong, with which value, and the way out.
    detail: String,
    /// `errors`, a list of `field` and `message`, where fields of the request are wrong; and what
    /// else belongs to the code.
    #[serde(flatten)]
    #[schema(additional_properties)]
    more: Map<String, Value>,
}

/// The code of a refusal, beside its bytes: for the audit.
#[derive(Debug, Clone)]
pub struct Code(pub Cow<'static, str>);

/// A refusal on its way out.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    more: Map<String, Value>,
    retry_after_s: Option<u64>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Map::new(), retry_after_s: None }
    }

    pub fn malformed(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    pub fn forbidden(permission: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_missing", format!("you lack the permission `{permission}`"))
    }

    /// A cookie goes along with whatever a page of anybody sends.
    pub fn foreign_origin() -> Self {
        let detail = "the session's cookie is taken from pages of this host only; send `Authorization` instead";
        Self::new(StatusCode::FORBIDDEN, "origin_foreign", detail)
    }

    pub fn too_many_logins(wait: Duration) -> Self {
        let detail = "too many logins were tried for this user or from this address; wait, then try again";
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_logins", detail);
        Self { retry_after_s: Some(wait.as_secs() + 1), ..problem }
    }

    pub fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub fn precondition_required() -> Self {
        let detail = "If-Match: a save names the version it began from, by the ETag the document was read with";
        Self::new(StatusCode::PRECONDITION_REQUIRED, "if_match_missing", detail)
    }

    pub fn too_large(bytes_max: usize) -> Self {
        let detail = format!("the body has more than {bytes_max} bytes; send fewer lines at a time");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    }

    pub fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body took too long to arrive")
    }

    pub fn not_json() -> Self {
        let detail = "the body must be JSON, said by `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type_not_json", detail)
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self { retry_after_s: Some(RETRY_AFTER_S), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail) }
    }

    /// A value that cannot be right, with the field it stands in.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let detail = format!("{field}: {message}");
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value", detail);
        problem.more.insert("errors".into(), json!([{"field": field, "message": message}]));
        problem
    }

    fn body(self) -> ProblemBody {
        ProblemBody {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            code: self.code,
            detail: self.detail,
            more: self.more,
        }
    }
}

/// The business saying no, as the bytes that are stored and sent.
pub fn rejected(reject: &impl Reject) -> Answer {
    let status = match reject.class() {
        Class::Refused | Class::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        Class::Missing => StatusCode::NOT_FOUND,
        Class::Conflict => StatusCode::CONFLICT,
        Class::Locked => StatusCode::LOCKED,
        Class::Unproven => StatusCode::UNAUTHORIZED,
    };
    let problem =
        Problem { status, code: reject.code(), detail: reject.detail(), more: reject.more(), retry_after_s: None };
    let body = serde_json::to_vec(&problem.body()).expect("a problem is plain JSON");
    Answer::problem(status.as_u16(), Bytes::from(body))
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        let detail = fault.to_string();
        match fault {
            Fault::KeyReused { stored, sent } => {
                let mut problem = Self::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "idempotency_key_reused",
                    "Idempotency-Key: it was used before with another method, path or body; \
                     a new intention needs a new key",
                );
                problem.more.insert("stored_fingerprint".into(), json!(stored));
                problem.more.insert("sent_fingerprint".into(), json!(sent));
                problem
            }
            Fault::InFlight => Self {
                retry_after_s: Some(RETRY_AFTER_S),
                ..Self::new(StatusCode::CONFLICT, "request_in_flight", detail)
            },
            Fault::Overloaded | Fault::Deadline | Fault::RowHeld | Fault::Unavailable(_) | Fault::Stopping => {
                let code = match fault {
                    Fault::Overloaded => "overloaded",
                    Fault::Deadline => "deadline_passed",
                    Fault::RowHeld => "row_held",
                    Fault::Stopping => "stopping",
                    _ => "unavailable",
                };
                Self { retry_after_s: Some(RETRY_AFTER_S), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail) }
            }
            // The cause is in the log, under the correlation id; it is not the caller's business.
            Fault::Bug(_) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "defect",
                "a defect of this program; its log has the cause under the X-Correlation-Id. \
                 Send the request again with the same key: it runs, or tells what it did",
            ),
        }
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        tracing::warn!(%error, "a read failed");
        Self::unavailable("the database cannot be read now")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code, retry_after_s) = (self.status, self.code, self.retry_after_s);
        let mut response = (status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Code(code.into()));
        response
    }
}

pub async fn no_such_route(uri: Uri) -> Problem {
    Problem::missing(format!("there is no {}; see /docs", uri.path()))
}

pub async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}; see /docs", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

#[expect(clippy::needless_pass_by_value, reason = "the layer asks for this signature")]
pub fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    tracing::error!(panic = text, "a handler panicked");
    Problem::from(Fault::Bug(text.to_owned())).into_response()
}

fn describe(responses: &[(u16, &str)]) -> std::collections::BTreeMap<String, RefOr<Described>> {
    let schema = ProblemBody::schema();
    let one = |text: &str| {
        let content = Content::new(Some(schema.clone()));
        ResponseBuilder::new().description(text).content("application/problem+json", content).build()
    };
    responses.iter().map(|(status, text)| (status.to_string(), RefOr::T(one(text)))).collect()
}

/// What every read may answer beside its result.
pub struct ReadProblems;

impl IntoResponses for ReadProblems {
    fn responses() -> std::collections::BTreeMap<String, RefOr<Described>> {
        describe(&[
            (401, "no valid credential"),
            (403, "you lack the permission"),
            (404, "no such row in your tenant"),
            (422, "a query parameter is wrong; `errors` names it"),
            (503, "try again after Retry-After"),
        ])
    }
}

/// What a save of a document may answer beside its result.
pub struct EditProblems;

impl IntoResponses for EditProblems {
    fn responses() -> std::collections::BTreeMap<String, RefOr<Described>> {
        let mut responses = WriteProblems::responses();
        responses.extend(describe(&[
            (409, "saved by somebody else in between: `version_conflict` tells what changed; or a name is taken"),
            (423, "somebody is editing what the save would change, or its lock was lost; the key is not used up"),
            (428, "no If-Match"),
        ]));
        responses
    }
}

/// What every write may answer beside its result.
pub struct WriteProblems;

impl IntoResponses for WriteProblems {
    fn responses() -> std::collections::BTreeMap<String, RefOr<Described>> {
        describe(&[
            (400, "no usable Idempotency-Key, or the body is no JSON"),
            (401, "no valid credential"),
            (403, "you lack the permission"),
            (404, "it names a row that is not there; the key is not used up"),
            (408, "the body took too long"),
            (409, "a conflict with what exists, or the same key is in flight; the key is not used up"),
            (413, "the body is too large"),
            (415, "the body is not said to be JSON"),
            (422, "refused, kept and replayed; or a wrong value, or a reused key, which are not kept"),
            (503, "try again with the same key after Retry-After"),
        ])
    }
}

/// What a write may answer that needs no key and no caller.
pub struct OpenProblems;

impl IntoResponses for OpenProblems {
    fn responses() -> std::collections::BTreeMap<String, RefOr<Described>> {
        describe(&[
            (400, "the body is no JSON"),
            (401, "what it brings opens nothing: unknown, wrong, used or over, all in the same words"),
            (403, "a session's cookie came with the Origin of another host"),
            (408, "the body took too long"),
            (413, "the body is too large"),
            (415, "the body is not said to be JSON"),
            (422, "a wrong value; `errors` names the field"),
            (429, "too often; try again after Retry-After"),
            (503, "try again after Retry-After"),
        ])
    }
}
