//! A new API key. Its secret is in the answer, once; a retry replays the sealed answer.

use super::{
    MANAGE,
    model::{ApiKey, Credential, Key},
    refusal::{exceeds, unknown},
    rules::{Ungiven, give},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Reject, command::Permission};
use jiff::Timestamp;
use kernel::{id::ApiKeyId, problem::Class, text::Name};
use serde::Serialize;
use serde_json::{Map, json};

#[derive(Debug)]
pub struct CreateApiKey {
    pub name: Name,
    pub permissions: Vec<String>,
    /// From then on it opens nothing; never, where not said.
    pub expires_at: Option<Timestamp>,
    /// What the maker may do; `None` for whoever runs the server.
    pub within: Option<Vec<String>>,
    /// Minted at the door: a decision has no random source.
    pub credential: Credential<Key>,
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
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug)]
pub enum ApiKeyRefusal {
    Unknown { permission: String },
    Exceeds { permission: String },
    Over { expires_at: Timestamp, at: Timestamp },
}

impl From<Ungiven> for ApiKeyRefusal {
    fn from(ungiven: Ungiven) -> Self {
        match ungiven {
            Ungiven::Unknown(permission) => Self::Unknown { permission },
            Ungiven::Exceeds(permission) => Self::Exceeds { permission },
        }
    }
}

impl Reject for ApiKeyRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "permission_unknown",
            Self::Exceeds { .. } => "permission_exceeded",
            Self::Over { .. } => "expiry_past",
        }
    }
    fn class(&self) -> Class {
        Class::Invalid
    }
    fn detail(&self) -> String {
        match self {
            Self::Unknown { permission } => unknown(permission),
            Self::Exceeds { permission } => exceeds(permission),
            Self::Over { expires_at, at } => format!("expires_at: {expires_at} is past, it is {at}"),
        }
    }
    fn more(&self) -> Map<String, serde_json::Value> {
        let field = if matches!(self, Self::Over { .. }) { "expires_at" } else { "permissions" };
        Map::from_iter([("errors".into(), json!([{"field": field, "message": self.detail()}]))])
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
        if let Some(expires_at) = self.expires_at.filter(|expires_at| *expires_at <= cx.at) {
            return Err(ApiKeyRefusal::Over { expires_at, at: cx.at });
        }
        let permissions = give(&self.permissions, self.within.as_deref())?;
        cx.set.api_key.insert(
            self.credential.of,
            ApiKey {
                name: self.name.to_string(),
                secret_hash: self.secret_hash,
                permissions: permissions.clone(),
                created_at: cx.at,
                expires_at: self.expires_at,
                last_used_at: None,
                revoked_at: None,
            },
        );
        Ok(ApiKeyCreated {
            api_key_id: self.credential.of,
            name: self.name.clone(),
            permissions,
            secret: self.credential.to_string(),
            created_at: cx.at,
            expires_at: self.expires_at,
        })
    }
}
