//! Query strings and ids in paths.

use super::Problem;
use crate::auth::Caller;
use axum::{
    extract::{FromRequestParts, MatchedPath, Path, Request, State},
    http::{Method, request::Parts},
    middleware::Next,
    response::Response,
};
use kernel::{
    id::{Id, Kind},
    page::Limit,
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::{borrow::Cow, collections::HashMap, sync::Arc};
use utoipa::openapi::{OpenApi, RefOr, path::ParameterIn};

/// What other systems choose a tenant by. Here the credential alone does, so these say nothing.
const IGNORED: [&str; 3] = ["org", "tenant", "tenant_id"];

/// The query parameters that the description of the API names, by method and path.
pub struct Known(HashMap<(Method, String), Vec<String>>);

impl Known {
    pub fn of(description: &OpenApi) -> Self {
        let mut known = HashMap::new();
        for (path, item) in &description.paths.paths {
            let operations = [
                (Method::GET, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ];
            for (method, operation) in operations.into_iter().filter_map(|(method, op)| Some((method, op.as_ref()?))) {
                let parameters = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
                    RefOr::T(parameter) => Some(parameter),
                    RefOr::Ref(_) => None,
                });
                let named = parameters.filter(|of| of.parameter_in == ParameterIn::Query).map(|of| of.name.clone());
                known.insert((method, path.clone()), named.collect());
            }
        }
        Self(known)
    }

    fn check(&self, method: &Method, path: &str, query: &str) -> Result<(), Problem> {
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        let known = self.0.get(&(method, path.to_owned())).map_or(&[][..], Vec::as_slice);
        let mut seen: Vec<Cow<'_, str>> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            // What bytes that are no UTF-8 were decoded to.
            if name.contains('\u{fffd}') || value.contains('\u{fffd}') {
                return Err(Problem::invalid(name, "must be UTF-8"));
            }
            if IGNORED.contains(&&*name) {
                continue;
            }
            if !known.iter().any(|of| *of == name) {
                let names = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::invalid(name, format!("is no parameter of {path}; known: {names}")));
            }
            if seen.contains(&name) {
                return Err(Problem::invalid(name, "stands twice"));
            }
            seen.push(name);
        }
        Ok(())
    }
}

/// Refuses a query string that would be misread: a mistyped filter gives the whole list, and looks
/// like an answer to the question.
pub async fn check(
    State(known): State<Arc<Known>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Some(query) = request.uri().query()
        && path.as_str().starts_with("/v1/")
    {
        known.check(request.method(), path.as_str(), query)?;
    }
    Ok(next.run(request).await)
}

/// The query string as `T`, which takes of it what is its own; a wrong parameter is a 422 that
/// names it.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = parts.uri.query().unwrap_or("");
        let parse = serde_urlencoded::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
        serde_path_to_error::deserialize(parse).map(Self).map_err(|error| {
            let field = error.path().to_string();
            Problem::invalid(field, error.into_inner().to_string())
        })
    }
}

/// Which page of a list, after the row of id `T`.
#[derive(Debug, Deserialize)]
pub struct PageOf<T> {
    pub after: Option<T>,
    #[serde(default)]
    pub limit: Limit,
}

/// [`PageOf`], for the description of the API.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes")]
pub struct PageParams {
    /// The `next` of the page before.
    after: Option<String>,
    /// Rows a page, 50 when not said.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

/// A place in what is counted from 1: a ledger, a history; 0 is before its first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequence(pub i64);

impl<'de> Deserialize<'de> for Sequence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let plain = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        plain.map(Self).ok_or_else(|| serde::de::Error::custom("must be a whole number from 0"))
    }
}

/// A page of what is counted, after which number.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AfterSequence {
    /// The `next` of the page before: a number.
    #[serde(default)]
    #[param(value_type = Option<i64>, minimum = 0)]
    pub after: Sequence,
    /// Rows a page, 50 when not said.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    pub limit: Limit,
}

/// The one id in a path, as it is written.
pub async fn path_text<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Problem> {
    // A stranger is not told which paths could be right.
    Caller::credential(&parts.headers)?;
    let text = Path::<String>::from_request_parts(parts, state).await;
    text.map(|Path(text)| text).map_err(|_| Problem::missing(format!("{} holds no id", parts.uri.path())))
}

/// The one id in a path; a wrong spelling or kind is a 404, since nothing can be there.
pub struct PathId<K: Kind>(pub Id<K>);

impl<K: Kind, S: Send + Sync> FromRequestParts<S> for PathId<K> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = path_text(parts, state).await?;
        text.parse().map(Self).map_err(|error| Problem::missing(format!("{text:?} is {error}")))
    }
}
