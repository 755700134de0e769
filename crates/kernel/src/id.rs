//! Ids that carry their kind: `sku_0198c0de…`, a UUIDv7 under a prefix.
//!
//! Invariant: an id has exactly one spelling, prefix + `_` + 32 lowercase hex digits
//! (`one_spelling_only`), so that two texts name the same row if and only if they are equal.
//! Never compares ids of two kinds: that does not compile.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, cmp::Ordering, fmt, hash, marker::PhantomData, str::FromStr};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, schema::Type};
use uuid::Uuid;

/// What an id names. A new kind is a unit type and its prefix.
pub trait Kind: 'static {
    const PREFIX: &'static str;
}

macro_rules! kinds {
    ($($kind:ident $prefix:literal $alias:ident;)*) => {$(
        #[derive(Debug)]
        pub enum $kind {}
        impl Kind for $kind {
            const PREFIX: &'static str = $prefix;
        }
        pub type $alias = Id<$kind>;
    )*};
}

kinds! {
    Tenant "ten" TenantId;
    ApiKey "key" ApiKeyId;
    Role "rol" RoleId;
    User "usr" UserId;
    Session "ses" SessionId;
    Sku "sku" SkuId;
    Warehouse "whs" WarehouseId;
    Position "pos" PositionId;
    Promise "prm" PromiseId;
    Customer "cus" CustomerId;
    CustomerGroup "cgr" CustomerGroupId;
    EditLock "lck" EditLockId;
    Event "evt" EventId;
    Call "cal" CallId;
}

/// The id of a row of kind `K`.
pub struct Id<K>(Uuid, PhantomData<fn() -> K>);

impl<K: Kind> Id<K> {
    /// A fresh id. Its first 48 bits are the time, so new rows land at the end of an index.
    pub fn mint() -> Self {
        Self::from(Uuid::now_v7())
    }

    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

/// The text is not the one spelling of an id of kind `K`.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongId {
    pub expected: &'static str,
}

impl fmt::Display for WrongId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an id of this kind: expected `{}_` and 32 lowercase hex digits", self.expected)
    }
}

impl std::error::Error for WrongId {}

impl<K: Kind> FromStr for Id<K> {
    type Err = WrongId;

    fn from_str(text: &str) -> Result<Self, WrongId> {
        let wrong = WrongId { expected: K::PREFIX };
        let Some(hex) = text.strip_prefix(K::PREFIX).and_then(|rest| rest.strip_prefix('_')) else {
            return Err(wrong);
        };
        let plain = hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !plain {
            return Err(wrong);
        }
        Uuid::try_parse(hex).map(Self::from).map_err(|_| wrong)
    }
}

impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", K::PREFIX, self.0.simple())
    }
}

impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K> From<Uuid> for Id<K> {
    fn from(uuid: Uuid) -> Self {
        Self(uuid, PhantomData)
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K> hash::Hash for Id<K> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<K: Kind> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl<K: Kind> utoipa::PartialSchema for Id<K> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(format!("^{}_[0-9a-f]{{32}}$", K::PREFIX)))
            .examples([format!("{}_0198c0de5eed70008000000000000001", K::PREFIX)])
            .into()
    }
}

impl<K: Kind> utoipa::ToSchema for Id<K> {
    fn name() -> Cow<'static, str> {
        let kind = std::any::type_name::<K>().rsplit("::").next().unwrap_or_default();
        Cow::Owned(format!("{kind}Id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_only() {
        let id = SkuId::mint();
        let text = id.to_string();
        assert_eq!(text.parse::<SkuId>(), Ok(id));
        let hex = &text[4..];
        for wrong in [
            hex.to_string(),
            format!("sku{hex}"),
            format!("SKU_{hex}"),
            format!("whs_{hex}"),
            format!("sku_{}", hex.to_uppercase()),
            format!("sku_{hex} "),
            format!(" sku_{hex}"),
            format!("sku_{}", &hex[1..]),
            format!("sku_{hex}0"),
            format!("sku_{}", id.uuid()),
            format!("sku_{{{hex}}}"),
            String::new(),
            "sku_".into(),
            "sku_٣".into(),
        ] {
            // A UUID whose hex holds no letter has no upper case to be wrong in.
            if wrong == text {
                continue;
            }
            assert!(wrong.parse::<SkuId>().is_err(), "{wrong:?} was taken");
        }
    }
}
