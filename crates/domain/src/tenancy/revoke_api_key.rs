//! Ends an API key. Revoking twice is revoking once: the first instant stays.

use super::MANAGE;
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Reject, command::Permission};
use jiff::Timestamp;
use kernel::{id::ApiKeyId, problem::Class};
use serde::Serialize;

#[derive(Debug)]
pub struct RevokeApiKey {
    pub api_key: ApiKeyId,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ApiKeyRevoked {
    pub api_key_id: ApiKeyId,
    #[schema(value_type = String, format = DateTime)]
    pub revoked_at: Timestamp,
}

#[derive(Debug)]
pub struct ApiKeyMissing(ApiKeyId);

impl Reject for ApiKeyMissing {
    fn code(&self) -> &'static str {
        "api_key_missing"
    }
    fn class(&self) -> Class {
        Class::Missing
    }
    fn detail(&self) -> String {
        format!("there is no API key {}", self.0)
    }
}

impl Command<WorkingSet> for RevokeApiKey {
    const NAME: &'static str = "tenancy.revoke_api_key";
    const NEEDS: Permission = MANAGE;
    const CRITICAL: bool = true;
    type Done = ApiKeyRevoked;
    type Reject = ApiKeyMissing;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        wants.api_key.change(self.api_key);
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<ApiKeyRevoked, ApiKeyMissing> {
        let row = cx.set.api_key.edit(&self.api_key).ok_or(ApiKeyMissing(self.api_key))?;
        let revoked_at = *row.revoked_at.get_or_insert(cx.at);
        Ok(ApiKeyRevoked { api_key_id: self.api_key, revoked_at })
    }
}
