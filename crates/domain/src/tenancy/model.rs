//! Rows of the tenancy slice.

use jiff::Timestamp;
use kernel::{
    id::{ApiKeyId, TenantId},
    text::Name,
};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// The name of a tenant in an address and at the login: `kestrel-goods`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Slug(String);

impl Slug {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Slug {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts_fit = text
            .split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        if parts_fit && text.len() <= 40 {
            Ok(Self(text.to_owned()))
        } else {
            Err("a slug is 1 to 40 lowercase letters, digits and single hyphens between them".into())
        }
    }
}

impl<'de> Deserialize<'de> for Slug {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    pub name: Name,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ApiKey {
    pub name: String,
    pub secret_hash: [u8; 32],
    pub permissions: Vec<String>,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// The secret half of an API key: shown once, kept as a hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub tenant: TenantId,
    pub api_key: ApiKeyId,
    pub secret: String,
}

impl fmt::Display for Credential {
    /// `thk_` + tenant + `_` + key + `_` + secret: the credential alone tells its tenant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tenant, key) = (self.tenant.uuid().simple(), self.api_key.uuid().simple());
        write!(f, "thk_{tenant}_{key}_{}", self.secret)
    }
}

impl fmt::Debug for Credential {
    /// Without the secret: this may end in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.api_key)
    }
}

impl FromStr for Credential {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.strip_prefix("thk_").ok_or(())?.split('_');
        let (Some(tenant), Some(key), Some(secret), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let tenant = format!("ten_{tenant}").parse().map_err(|_| ())?;
        let api_key = format!("key_{key}").parse().map_err(|_| ())?;
        let plain = secret.len() == 64 && secret.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if plain { Ok(Self { tenant, api_key, secret: secret.to_owned() }) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_have_one_form() {
        for (text, ok) in [
            ("kestrel", true),
            ("kestrel-goods-2", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a--b", false),
            ("Kestrel", false),
            ("k_g", false),
            (&"a".repeat(41), false),
        ] {
            assert_eq!(text.parse::<Slug>().is_ok(), ok, "{text:?}");
        }
    }

    #[test]
    fn a_credential_reads_back_and_hides_its_secret() {
        let credential = Credential { tenant: TenantId::mint(), api_key: ApiKeyId::mint(), secret: "ab".repeat(32) };
        assert!(credential.to_string().parse::<Credential>() == Ok(credential.clone()));
        assert!(!format!("{credential:?}").contains("abab"));
        for wrong in ["", "thk_", "thk_a_b_c", &credential.to_string()[1..], &format!("{credential}_x")] {
            assert!(wrong.parse::<Credential>().is_err(), "{wrong}");
        }
    }
}
