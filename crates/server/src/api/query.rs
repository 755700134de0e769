//! Query strings and ids in paths.

use super::Problem;
use axum::{extract::FromRequestParts, http::request::Parts};
use kernel::{
    id::{Id, Kind},
    page::Limit,
};
use serde::{Deserialize, de::DeserializeOwned};
use std::str::FromStr;

/// The query string as `T`; a wrong parameter is a 422 that names it. Unknown ones are ignored.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let text = parts.uri.query().unwrap_or("");
        let pairs: Vec<(String, String)> =
            serde_urlencoded::from_str(text).map_err(|error| Problem::invalid("query", error.to_string()))?;
        // The same parameter twice would be refused below with no name.
        for (index, (name, _)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(other, _)| other == name) {
                return Err(Problem::invalid(name.as_str(), "stands twice"));
            }
        }
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

/// An id in a path; a wrong spelling or kind is a 404, since nothing can be there.
pub fn path_id<K: Kind>(text: &str) -> Result<Id<K>, Problem> {
    Id::from_str(text).map_err(|error| Problem::missing(format!("{text:?} is {error}")))
}
