//! Rows of the parties slice, and what may be said in them.

use jiff::Timestamp;
use kernel::{
    id::{CustomerGroupId, CustomerId},
    money::{Amount, Currency},
    text::{Code, Email, Line, Name, Phone, TaxId, fold},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::HashMap;
use utoipa::ToSchema;

/// Addresses, and sales areas, that one customer may have.
pub const PARTS_MAX: usize = 50;

/// A country by its two letters (ISO 3166-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, pattern = "^[A-Z]{2}$", example = "US")]
pub struct Country(String);

impl<'de> Deserialize<'de> for Country {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase()) {
            Ok(Self(text))
        } else {
            Err(de::Error::custom("must be a country's two capital letters (ISO 3166-1), like US"))
        }
    }
}

/// A place of a customer's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// What tells it from the customer's others: `Austin store`.
    pub label: Line,
    pub street: Line,
    pub city: Line,
    #[serde(default)]
    pub postal_code: Option<Code>,
    #[serde(default)]
    pub region: Option<Line>,
    pub country: Country,
}

/// A part of a customer that somebody looks after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SalesArea {
    pub code: Code,
    pub responsible: Name,
}

/// What people edit of a customer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomerFields {
    pub name: Name,
    #[serde(default)]
    pub tax_id: Option<TaxId>,
    #[serde(default)]
    pub customer_group_id: Option<CustomerGroupId>,
    pub currency: Currency,
    /// Days after the invoice.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 365)]
    pub payment_terms_days: PaymentTerms,
    /// In the customer's currency; none is no limit.
    #[serde(default)]
    pub credit_limit: Option<Amount>,
    #[serde(default)]
    pub email: Option<Email>,
    #[serde(default)]
    pub phone: Option<Phone>,
    /// No new orders.
    #[serde(default)]
    pub blocked: bool,
    #[serde(default)]
    #[schema(max_items = 50)]
    pub addresses: Vec<Address>,
    #[serde(default)]
    #[schema(max_items = 50)]
    pub sales_areas: Vec<SalesArea>,
}

/// 0 to 365 days, 0 when not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = i16, minimum = 0, maximum = 365)]
pub struct PaymentTerms(i16);

impl PaymentTerms {
    pub fn new(days: i16) -> Option<Self> {
        (0..=365).contains(&days).then_some(Self(days))
    }

    pub const fn days(self) -> i16 {
        self.0
    }
}

impl<'de> Deserialize<'de> for PaymentTerms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let days = i16::deserialize(deserializer)?;
        Self::new(days).ok_or_else(|| de::Error::custom("must be a whole number of days from 0 to 365"))
    }
}

impl CustomerFields {
    /// What can be said of the fields together, without looking at other rows.
    ///
    /// # Errors
    /// The field, and what is wrong with it.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |field: &str, message: String| Err((field.to_owned(), message));
        if self.tax_id.as_ref().is_some_and(|id| fold_tax_id(id).is_empty()) {
            return wrong("tax_id", "must have a letter or a digit".into());
        }
        if let Some(limit) = self.credit_limit {
            let (currency, decimals) = (self.currency, self.currency.decimals());
            if limit.is_negative() {
                return wrong("credit_limit", "must not be below 0".into());
            }
            if limit.decimals() > decimals {
                return wrong("credit_limit", format!("{limit} has more than the {decimals} decimals of {currency}"));
            }
        }
        if self.email.as_ref().is_some_and(|email| !is_address(email)) {
            return wrong("email", "must be one address, like orders@boutique.example".into());
        }
        distinct("addresses", "label", self.addresses.iter().map(|address| &*address.label))?;
        distinct("sales_areas", "code", self.sales_areas.iter().map(|area| &*area.code))
    }
}

fn distinct<'a>(list: &str, member: &str, names: impl Iterator<Item = &'a str>) -> Result<(), (String, String)> {
    let mut seen = HashMap::new();
    for (index, name) in names.enumerate() {
        if index == PARTS_MAX {
            return Err((list.to_owned(), format!("has at most {PARTS_MAX} entries")));
        }
        if let Some(first) = seen.insert(fold(name), index) {
            return Err((format!("{list}[{index}].{member}"), format!("{name:?} stands in {list}[{first}] already")));
        }
    }
    Ok(())
}

/// One `@` with something on both sides, a point in the domain, no space: the rest is for the mail
/// server to say.
fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let plain = |part: &str| !part.is_empty() && !part.contains(['@', ' ', ',', ';', '<', '>', '"']);
    plain(local) && plain(domain) && domain.split('.').count() > 1 && domain.split('.').all(|label| !label.is_empty())
}

/// The form in which tax ids are compared: folded, letters and digits only.
pub fn fold_tax_id(text: &str) -> String {
    fold(text).chars().filter(|c| c.is_alphanumeric()).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub struct Customer {
    pub version: i64,
    pub fields: CustomerFields,
    pub created_at: Timestamp,
}

/// A customer as the API shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CustomerView {
    pub customer_id: CustomerId,
    pub version: i64,
    #[serde(flatten)]
    pub fields: CustomerFields,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl Customer {
    pub fn view(&self, customer_id: CustomerId) -> CustomerView {
        CustomerView { customer_id, version: self.version, fields: self.fields.clone(), created_at: self.created_at }
    }
}

/// What people edit of a group of customers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomerGroupFields {
    pub name: Name,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CustomerGroup {
    pub version: i64,
    pub fields: CustomerGroupFields,
    pub created_at: Timestamp,
}

/// A group as the API shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CustomerGroupView {
    pub customer_group_id: CustomerGroupId,
    pub version: i64,
    #[serde(flatten)]
    pub fields: CustomerGroupFields,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl CustomerGroup {
    pub fn view(&self, customer_group_id: CustomerGroupId) -> CustomerGroupView {
        CustomerGroupView {
            customer_group_id,
            version: self.version,
            fields: self.fields.clone(),
            created_at: self.created_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tax_ids_are_compared_by_their_letters_and_digits() {
        for (a, b, same) in [
            ("GB 123 4567 89", "gb123456789", true),
            ("DE-123.456/789", "DE123456789", true),
            ("ＤＥ123", "de123", true),
            ("DE123", "DE124", false),
        ] {
            assert_eq!(fold_tax_id(a) == fold_tax_id(b), same, "{a} {b}");
        }
        assert_eq!(fold_tax_id("-./ "), "");
    }

    #[test]
    fn an_address_of_mail_has_one_at_and_a_domain() {
        for (text, good) in [
            ("orders@boutique.example", true),
            ("a.b+c@x.y.z", true),
            ("orders", false),
            ("@boutique.example", false),
            ("orders@", false),
            ("orders@localhost", false),
            ("orders@boutique..example", false),
            ("a@b.c@d.e", false),
            ("a b@c.d", false),
            ("<a@b.c>", false),
            ("a@b.c, d@e.f", false),
        ] {
            assert_eq!(is_address(text), good, "{text}");
        }
    }
}
