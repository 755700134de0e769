//! Every way parties say no.

use crate::{document::Stale, edit_lock};
use engine::Reject;
use kernel::{
    id::{CustomerGroupId, CustomerId},
    problem::Class,
};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub enum Refusal {
    CustomerMissing(CustomerId),
    GroupMissing(CustomerGroupId),
    /// The customer's field `customer_group_id` names none.
    NoSuchGroup(CustomerGroupId),
    NameTaken {
        name: String,
        existing: CustomerId,
    },
    TaxIdTaken {
        tax_id: String,
        existing: CustomerId,
    },
    GroupNameTaken {
        name: String,
        existing: CustomerGroupId,
    },
    Invalid {
        field: String,
        message: String,
    },
    Stale(Box<Stale>),
    Locked(edit_lock::Refusal),
}

impl From<Box<Stale>> for Refusal {
    fn from(stale: Box<Stale>) -> Self {
        Self::Stale(stale)
    }
}

impl From<edit_lock::Refusal> for Refusal {
    fn from(locked: edit_lock::Refusal) -> Self {
        Self::Locked(locked)
    }
}

impl Refusal {
    pub(super) fn invalid((field, message): (String, String)) -> Self {
        Self::Invalid { field, message }
    }
}

impl Reject for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::CustomerMissing(_) => "customer_missing",
            Self::GroupMissing(_) | Self::NoSuchGroup(_) => "customer_group_missing",
            Self::NameTaken { .. } => "customer_name_taken",
            Self::TaxIdTaken { .. } => "customer_tax_id_taken",
            Self::GroupNameTaken { .. } => "customer_group_name_taken",
            Self::Invalid { .. } => "invalid_value",
            Self::Stale(stale) => stale.code(),
            Self::Locked(locked) => locked.code(),
        }
    }

    fn class(&self) -> Class {
        match self {
            Self::CustomerMissing(_) | Self::GroupMissing(_) | Self::NoSuchGroup(_) => Class::Missing,
            Self::NameTaken { .. } | Self::TaxIdTaken { .. } | Self::GroupNameTaken { .. } => Class::Conflict,
            Self::Invalid { .. } => Class::Invalid,
            Self::Stale(stale) => stale.class(),
            Self::Locked(locked) => locked.class(),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::CustomerMissing(id) => format!("there is no customer {id}"),
            Self::GroupMissing(id) => format!("there is no customer group {id}"),
            Self::NoSuchGroup(id) => format!("customer_group_id: there is no customer group {id}"),
            Self::NameTaken { name, existing } => format!("name: customer {existing} has the name {name:?} already"),
            Self::TaxIdTaken { tax_id, existing } => {
                format!("tax_id: customer {existing} has the tax id {tax_id:?} already")
            }
            Self::GroupNameTaken { name, existing } => {
                format!("name: customer group {existing} has the name {name:?} already")
            }
            Self::Invalid { field, message } => format!("{field}: {message}"),
            Self::Stale(stale) => stale.detail(),
            Self::Locked(locked) => locked.detail(),
        }
    }

    fn more(&self) -> Map<String, Value> {
        match self {
            Self::NameTaken { existing, .. } | Self::TaxIdTaken { existing, .. } => {
                Map::from_iter([("existing_id".into(), json!(existing))])
            }
            Self::GroupNameTaken { existing, .. } => Map::from_iter([("existing_id".into(), json!(existing))]),
            Self::Invalid { field, message } => {
                Map::from_iter([("errors".into(), json!([{"field": field, "message": message}]))])
            }
            Self::Stale(stale) => stale.more(),
            Self::Locked(locked) => locked.more(),
            Self::CustomerMissing(_) | Self::GroupMissing(_) | Self::NoSuchGroup(_) => Map::new(),
        }
    }
}
