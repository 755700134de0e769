//! Rows of the tenancy slice.

use jiff::Timestamp;
use kernel::{
    id::{self, Id, Kind, RoleId, TenantId, UserId},
    text::Name,
};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{borrow::Cow, fmt, str::FromStr};
use utoipa::ToSchema;

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
    pub expires_at: Option<Timestamp>,
    /// To within two minutes.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// What people of a tenant may do, under a name of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    pub name: String,
    pub name_folded: String,
    pub permissions: Vec<String>,
    /// Of the users who have it: the invited and the active.
    pub users_enabled: i32,
    pub users_active: i32,
    pub version: i64,
    pub created_at: Timestamp,
}

impl Role {
    /// Whether who has it can let others in.
    pub fn manages(&self) -> bool {
        self.permissions.iter().any(|permission| permission == super::MANAGE.0)
    }
}

/// Where somebody stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Has set no password yet.
    Invited,
    Active,
    Disabled,
}

impl State {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invited => "invited",
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }
}

/// What was handed out to set a password with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    pub hash: [u8; 32],
    pub expires_at: Timestamp,
}

#[derive(Clone, PartialEq)]
pub struct User {
    pub email: String,
    pub email_folded: String,
    pub name: String,
    pub role: RoleId,
    pub disabled: bool,
    pub password_hash: Option<String>,
    pub token: Option<Handed>,
    /// A session of an older epoch opens nothing.
    pub epoch: i64,
    pub version: i64,
    pub created_at: Timestamp,
}

impl User {
    pub fn state(&self) -> State {
        match (self.disabled, &self.password_hash) {
            (true, _) => State::Disabled,
            (false, None) => State::Invited,
            (false, Some(_)) => State::Active,
        }
    }
}

impl fmt::Debug for User {
    /// Without hashes: this may end in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({}, {})", self.email, self.state().as_str())
    }
}

/// One login of a user.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    pub user: UserId,
    /// Of the user when it began.
    pub epoch: i64,
    /// Of what all its refresh tokens begin with.
    pub family_hash: [u8; 32],
    /// Of the rest of the one that is good now.
    pub refresh_hash: [u8; 32],
    pub cookie_hash: Option<[u8; 32]>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl fmt::Debug for Session {
    /// Without hashes: this may end in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session(of {})", self.user)
    }
}

/// How many people a tenant has. See `headcount` in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headcount {
    pub users_enabled: i32,
    pub managers_enabled: i32,
    pub managers_active: i32,
}

/// What a secret opens, and so how it is spelled.
pub trait Opens: 'static {
    const MARK: &'static str;
    /// Hex digits of the secret.
    const DIGITS: usize;
    type Of: Kind;
}

macro_rules! opens {
    ($($(#[$doc:meta])* $name:ident $mark:literal $of:ident $digits:literal;)*) => {$(
        $(#[$doc])*
        pub enum $name {}
        impl Opens for $name {
            const MARK: &'static str = $mark;
            const DIGITS: usize = $digits;
            type Of = id::$of;
        }
    )*};
}

opens! {
    /// An API key.
    Key "thk" ApiKey 64;
    /// An invitation, or leave to set another password.
    Token "tht" User 64;
    /// Another access token of a session: what all of the session begin with, and what is its own.
    Refresh "thr" Session 128;
    /// A session, for pages.
    Cookie "ths" Session 64;
}

/// A secret with what it opens: shown once, kept as a hash.
pub struct Credential<O: Opens> {
    pub tenant: TenantId,
    pub of: Id<O::Of>,
    pub secret: String,
}

impl<O: Opens> fmt::Display for Credential<O> {
    /// `thk_` + tenant + `_` + key + `_` + secret: the credential alone tells its tenant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tenant, of) = (self.tenant.uuid().simple(), self.of.uuid().simple());
        write!(f, "{}_{tenant}_{of}_{}", O::MARK, self.secret)
    }
}

impl<O: Opens> fmt::Debug for Credential<O> {
    /// Without the secret: this may end in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.of)
    }
}

impl<O: Opens> FromStr for Credential<O> {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.strip_prefix(O::MARK).and_then(|rest| rest.strip_prefix('_')).ok_or(())?.split('_');
        let (Some(tenant), Some(of), Some(secret), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let tenant = format!("ten_{tenant}").parse().map_err(|_| ())?;
        let of = format!("{}_{of}", O::Of::PREFIX).parse().map_err(|_| ())?;
        let plain = secret.len() == O::DIGITS && secret.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if plain { Ok(Self { tenant, of, secret: secret.to_owned() }) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::id::ApiKeyId;

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
        let credential = Credential::<Key> { tenant: TenantId::mint(), of: ApiKeyId::mint(), secret: "ab".repeat(32) };
        let read: Credential<Key> = credential.to_string().parse().expect("one of ours");
        assert!((read.tenant, read.of, &read.secret) == (credential.tenant, credential.of, &credential.secret));
        assert!(!format!("{credential:?}").contains("abab"));
        for wrong in ["", "thk_", "thk_a_b_c", &credential.to_string()[1..], &format!("{credential}_x")] {
            assert!(wrong.parse::<Credential<Key>>().is_err(), "{wrong}");
        }
        for other in [credential.to_string(), credential.to_string().replace("thk_", "tht-")] {
            assert!(other.parse::<Credential<Token>>().is_err(), "{other}");
        }
    }
}
