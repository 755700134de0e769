//! A new API key. Its secret is in the answer, once; a retry replays the sealed answer.

use super::{
    MANAGE,
    model::{ApiKey, Credential},
};
use crate::{Cx, Wants, WorkingSet, registry::PERMISSIONS};
use engine::{Command, Next, Reject, command::Permission};
use jiff::Timestamp;
use kernel::{id::ApiKeyId, problem::Class, text::Name};
use serde::Serialize;
use serde_json::{Map, json};

#[derive(Debug)]
pub struct CreateApiKey {
    pub name: Name,
    pub permissions: Vec<String>,
    /// What the maker may do; `None` for whoever runs the server.
    pub within: Option<Vec<String>>,
    /// Minted at the door: a decision has no random source.
    pub credential: Credential,
    pub secret_hash: [u8; 32],
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ApiKeyCreated {
    pub api_key_id: ApiKeyId,
    pub name: Name,
    pub permissions: Vec<String>,
    /// The whole credential, for `Authorization: Bearer`. It is shown only here.
    pub secret: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

#[derive(Debug)]
pub enum ApiKeyRefusal {
    Unknown { permission: String },
    Exceeds { permission: String },
}

impl Reject for ApiKeyRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "permission_unknown",
            Self::Exceeds { .. } => "permission_exceeded",
        }
    }
    fn class(&self) -> Class {
        Class::Invalid
    }
    fn detail(&self) -> String {
        let all: Vec<_> = PERMISSIONS.iter().map(|permission| permission.0).collect();
        match self {
            Self::Unknown { permission } => {
                format!("permissions: `{permission}` is none; there are {}", all.join(", "))
            }
            Self::Exceeds { permission } => {
                format!("permissions: your own key lacks `{permission}`, so it cannot grant it")
            }
        }
    }
    fn more(&self) -> Map<String, serde_json::Value> {
        Map::from_iter([("errors".into(), json!([{"field": "permissions", "message": self.detail()}]))])
    }
}

impl Command<WorkingSet> for CreateApiKey {
    const NAME: &'static str = "tenancy.create_api_key";
    const NEEDS: Permission = MANAGE;
    const SEALED: bool = true;
    type Done = ApiKeyCreated;
    type Reject = ApiKeyRefusal;

    fn wants(&self, _: &WorkingSet, _: &mut Wants) -> Next {
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<ApiKeyCreated, ApiKeyRefusal> {
        for permission in &self.permissions {
            if !PERMISSIONS.iter().any(|known| known.0 == permission) {
                return Err(ApiKeyRefusal::Unknown { permission: permission.clone() });
            }
            if self.within.as_ref().is_some_and(|within| !within.contains(permission)) {
                return Err(ApiKeyRefusal::Exceeds { permission: permission.clone() });
            }
        }
        let mut permissions = self.permissions.clone();
        permissions.sort_unstable();
        permissions.dedup();
        cx.set.api_key.insert(
            self.credential.api_key,
            ApiKey {
                name: self.name.to_string(),
                secret_hash: self.secret_hash,
                permissions: permissions.clone(),
                created_at: cx.at,
                revoked_at: None,
            },
        );
        Ok(ApiKeyCreated {
            api_key_id: self.credential.api_key,
            name: self.name.clone(),
            permissions,
            secret: self.credential.to_string(),
            created_at: cx.at,
        })
    }
}
