//! Locks for long edits.

use super::{
    Problem, SharedApp, found,
    problem::{EditProblems, ReadProblems},
    query::{PageOf, PageParams, Query, path_text},
    write::{Located, Write, WriteHeaders, created, ok},
};
use crate::auth::Caller;
use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::request::Parts,
    response::Response,
};
use domain::edit_lock::{
    self, AcquireEditLock, BreakEditLock, BrokenView, DocumentId, EditLockView, ReleaseEditLock, RenewEditLock,
};
use kernel::{id::EditLockId, page::Page};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new()
        .routes(routes!(acquire))
        .routes(routes!(renew))
        .routes(routes!(release))
        .routes(routes!(break_))
        .routes(routes!(held))
        .routes(routes!(broken))
}

impl Located for EditLockView {
    fn location(&self) -> String {
        format!("/v1/edit-locks/{}", self.document_id)
    }
}

/// Takes a lock on a document, or on a part of it; one's own is prolonged. Where somebody else holds a
/// part of it, a 423 `edit_lock_held` tells who, since when and until when. Needs `edit_locks.use`.
#[utoipa::path(
    post, path = "/v1/edit-locks", tag = "editing", operation_id = "edit_locks.acquire",
    security(("api_key" = [])), params(WriteHeaders), request_body = AcquireEditLock,
    responses((status = 201, body = EditLockView), EditProblems)
)]
async fn acquire(State(app): State<SharedApp>, write: Write<AcquireEditLock>) -> Response {
    write.run(&app, created).await
}

/// Prolongs a lock, also one that has ended and that nobody took. Needs `edit_locks.use`.
#[utoipa::path(
    post, path = "/v1/edit-locks/renew", tag = "editing", operation_id = "edit_locks.renew",
    security(("api_key" = [])), params(WriteHeaders), request_body = RenewEditLock,
    responses((status = 200, body = EditLockView), EditProblems)
)]
async fn renew(State(app): State<SharedApp>, write: Write<RenewEditLock>) -> Response {
    write.run(&app, ok).await
}

/// Gives a lock back. Needs `edit_locks.use`.
#[utoipa::path(
    post, path = "/v1/edit-locks/release", tag = "editing", operation_id = "edit_locks.release",
    security(("api_key" = [])), params(WriteHeaders), request_body = ReleaseEditLock,
    responses((status = 200, body = EditLockView), EditProblems)
)]
async fn release(State(app): State<SharedApp>, write: Write<ReleaseEditLock>) -> Response {
    write.run(&app, ok).await
}

/// Takes somebody's lock away, for a reason that is kept. Needs `edit_locks.break`.
#[utoipa::path(
    post, path = "/v1/edit-locks/break", tag = "editing", operation_id = "edit_locks.break",
    security(("api_key" = [])), params(WriteHeaders), request_body = BreakEditLock,
    responses((status = 200, body = EditLockView), EditProblems)
)]
async fn break_(State(app): State<SharedApp>, write: Write<BreakEditLock>) -> Response {
    write.run(&app, ok).await
}

/// The live locks of a document.
#[derive(Debug, Serialize, ToSchema)]
struct HeldLocks {
    items: Vec<EditLockView>,
}

/// The id of a document in a path.
struct PathDocument(DocumentId);

impl<S: Send + Sync> FromRequestParts<S> for PathDocument {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = path_text(parts, state).await?;
        text.parse().map(Self).map_err(|error| Problem::missing(format!("{text:?} {error}")))
    }
}

/// The live locks of a document. Needs `edit_locks.use`.
#[utoipa::path(
    get, path = "/v1/edit-locks/{document_id}", tag = "editing", security(("api_key" = [])),
    params(("document_id" = DocumentId, Path)),
    responses((status = 200, body = HeldLocks), ReadProblems)
)]
async fn held(
    State(app): State<SharedApp>,
    caller: Caller,
    PathDocument(document): PathDocument,
) -> Result<Response, Problem> {
    caller.may(edit_lock::USE)?;
    let locks = edit_lock::held(&app.engine, caller.tenant, document).await?;
    found(locks.map(|items| HeldLocks { items }), "document", &document)
}

/// Locks that were taken away: whose, by whom and why. Needs `edit_locks.break`.
#[utoipa::path(
    get, path = "/v1/broken-edit-locks", tag = "editing", security(("api_key" = [])), params(PageParams),
    responses((status = 200, body = Page<BrokenView>), ReadProblems)
)]
async fn broken(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<EditLockId>>,
) -> Result<Json<Page<BrokenView>>, Problem> {
    caller.may(edit_lock::BREAK)?;
    Ok(Json(edit_lock::broken(&app.engine, caller.tenant, page.after, page.limit).await?))
}
