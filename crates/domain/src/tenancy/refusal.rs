//! What is said no to about people.

use super::{model::State, rules::Ungiven};
use crate::registry::PERMISSIONS;
use engine::Reject;
use kernel::{
    id::{RoleId, UserId},
    problem::Class,
};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub enum PeopleRefusal {
    Unknown { permission: String },
    Exceeds { permission: String },
    RoleExceeds { permission: String },
    NameTaken { name: String, existing: RoleId },
    EmailTaken { email: String, existing: UserId },
    RoleMissing { role: RoleId },
    UserMissing { user: UserId },
    UserDisabled { user: UserId },
    ManagerLast,
    ManagerFirst,
}

impl From<Ungiven> for PeopleRefusal {
    fn from(ungiven: Ungiven) -> Self {
        match ungiven {
            Ungiven::Unknown(permission) => Self::Unknown { permission },
            Ungiven::Exceeds(permission) => Self::Exceeds { permission },
        }
    }
}

/// In the words of every refusal to give a permission.
pub(super) fn unknown(permission: &str) -> String {
    let all: Vec<_> = PERMISSIONS.iter().map(|permission| permission.0).collect();
    format!("permissions: `{permission}` is none; there are {}", all.join(", "))
}

pub(super) fn exceeds(permission: &str) -> String {
    format!("permissions: you lack `{permission}` yourself, so you cannot give it")
}

impl PeopleRefusal {
    fn field(&self) -> Option<&'static str> {
        match self {
            Self::Unknown { .. } | Self::Exceeds { .. } => Some("permissions"),
            Self::NameTaken { .. } => Some("name"),
            Self::EmailTaken { .. } => Some("email"),
            Self::RoleMissing { .. } | Self::RoleExceeds { .. } | Self::ManagerFirst => Some("role_id"),
            Self::UserMissing { .. } | Self::UserDisabled { .. } | Self::ManagerLast => None,
        }
    }
}

impl Reject for PeopleRefusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "permission_unknown",
            Self::Exceeds { .. } | Self::RoleExceeds { .. } => "permission_exceeded",
            Self::NameTaken { .. } => "role_name_taken",
            Self::EmailTaken { .. } => "email_taken",
            Self::RoleMissing { .. } => "role_missing",
            Self::UserMissing { .. } => "user_missing",
            Self::UserDisabled { .. } => "user_disabled",
            Self::ManagerLast => "manager_last",
            Self::ManagerFirst => "manager_first",
        }
    }
    fn class(&self) -> Class {
        match self {
            // They may change by themselves: somebody is let in, or enabled.
            Self::Unknown { .. }
            | Self::Exceeds { .. }
            | Self::RoleExceeds { .. }
            | Self::UserDisabled { .. }
            | Self::ManagerLast
            | Self::ManagerFirst => Class::Invalid,
            Self::NameTaken { .. } | Self::EmailTaken { .. } => Class::Conflict,
            Self::RoleMissing { .. } | Self::UserMissing { .. } => Class::Missing,
        }
    }
    fn detail(&self) -> String {
        match self {
            Self::Unknown { permission } => unknown(permission),
            Self::Exceeds { permission } => exceeds(permission),
            Self::RoleExceeds { permission } => {
                format!("role_id: you lack `{permission}` yourself, which goes with the role")
            }
            Self::NameTaken { name, existing } => format!("name: role {existing} has the name {name:?} already"),
            Self::EmailTaken { email, existing } => format!("email: user {existing} has the address {email} already"),
            Self::RoleMissing { role } => format!("role_id: there is no role {role}"),
            Self::UserMissing { user } => format!("there is no user {user}"),
            Self::UserDisabled { user } => {
                format!("user {user} is {}; enable it first", State::Disabled.as_str())
            }
            Self::ManagerLast => {
                "nobody who can log in would be left with `tenancy.manage`; give it to somebody else first".into()
            }
            Self::ManagerFirst => {
                "role_id: the first user needs a role with `tenancy.manage`, or nobody could let others in".into()
            }
        }
    }
    fn more(&self) -> Map<String, Value> {
        let mut more = Map::new();
        match self {
            Self::NameTaken { existing, .. } => drop(more.insert("existing_id".into(), json!(existing))),
            Self::EmailTaken { existing, .. } => drop(more.insert("existing_id".into(), json!(existing))),
            _ => {}
        }
        if let Some(field) = self.field() {
            more.insert("errors".into(), json!([{"field": field, "message": self.detail()}]));
        }
        more
    }
}
