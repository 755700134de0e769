//! Idempotency keys, fingerprints of requests, and the answers that commit with their effect.
//!
//! Owns `answer`. A stored answer is the exact bytes that were sent; the unique index on
//! (tenant, key) is the final arbiter over all replicas.
//! Invariant: an answer row exists if and only if the effect of its command does: same commit.
//! Never stores what may change by itself (`kernel::problem::Class::is_stored`).

use crate::{
    error::Fault,
    run::Answered,
    sql::{Row, Sql, Type, Write, param},
};
use aes_gcm::{
    Aes256Gcm, KeyInit, Nonce,
    aead::{Aead, AeadCore, OsRng, Payload},
};
use bytes::Bytes;
use jiff::Timestamp;
use kernel::id::TenantId;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Characters a key may have.
pub const KEY_CHARS_MAX: usize = 255;

/// The caller's name for one intention; the same on every retry of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// 1 to 255 visible ASCII characters (and inner spaces), or nothing.
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=KEY_CHARS_MAX).contains(&text.len());
        let visible = text.bytes().all(|b| (0x20..0x7f).contains(&b)) && text.trim() == text;
        (fits && visible).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// SHA-256 over method, path, If-Match and the canonical body (RFC 8785).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Each part is preceded by its length, so that no two lists of parts run together alike.
    ///
    /// # Errors
    /// When the body is no JSON that RFC 8785 can canonicalise.
    pub fn of(method: &str, path: &str, if_match: Option<&str>, body: &[u8]) -> Result<Self, serde_json::Error> {
        let canonical = if body.is_empty() {
            Vec::new()
        } else {
            let value: serde_json::Value = serde_json::from_slice(body)?;
            serde_json_canonicalizer::to_vec(&value)?
        };
        let mut hash = Sha256::new();
        for part in [method.as_bytes(), path.as_bytes(), if_match.unwrap_or("").as_bytes(), &canonical] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Ok(Self(hash.finalize().into()))
    }

    /// The same request of this actor only.
    pub(crate) fn of_actor(self, actor: &str) -> Self {
        let hash = Sha256::new().chain_update(self.0).chain_update(actor);
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The exact bytes sent, with what belongs to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub etag: Option<String>,
    pub location: Option<String>,
    pub body: Bytes,
}

/// An answer found in the table.
pub(crate) struct Stored {
    pub fingerprint: Vec<u8>,
    /// `None` where it was sealed with another secret than ours.
    pub answer: Option<Answer>,
    pub at: Timestamp,
}

impl Stored {
    /// GUARD(fingerprint_first): another request under the same key never gets this answer.
    pub fn replay(&self, sent: Fingerprint) -> Result<Answered, Fault> {
        if self.fingerprint == sent.0 {
            let sealed = || Fault::Unavailable("its answer was sealed with another TALLYHOLD_SECRET".into());
            let answer = self.answer.clone().ok_or_else(sealed)?;
            return Ok(Answered { answer, replayed: Some(self.at) });
        }
        let stored = self.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
        Err(Fault::KeyReused { stored, sent: sent.to_string() })
    }
}

/// Encrypts answers that carry a secret: the table is readable to whoever reads a backup.
#[derive(Clone)]
pub struct Seal(Aes256Gcm);

impl Seal {
    /// From the server's secret, whose strength the configuration checked.
    pub fn new(secret: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"tallyhold answer seal v1");
        hash.update(secret);
        let key: [u8; 32] = hash.finalize().into();
        Self(Aes256Gcm::new(&key.into()))
    }

    /// The tenant and the key are bound in: a sealed answer moved to another row does not open.
    fn bound(tenant: TenantId, key: &Key) -> Vec<u8> {
        [tenant.uuid().as_bytes().as_slice(), key.0.as_bytes()].concat()
    }

    fn close(&self, tenant: TenantId, key: &Key, body: &[u8]) -> Vec<u8> {
        let nonce = Aes256Gcm::generate_nonce(&mut OsRng);
        let aad = Self::bound(tenant, key);
        let sealed = self.0.encrypt(&nonce, Payload { msg: body, aad: &aad });
        [nonce.as_slice(), &sealed.expect("AES-GCM takes any body shorter than 64 GiB")].concat()
    }

    fn open(&self, tenant: TenantId, key: &Key, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_at_checked(12)?;
        let aad = Self::bound(tenant, key);
        self.0.decrypt(Nonce::from_slice(nonce), Payload { msg: body, aad: &aad }).ok()
    }
}

/// Looks keys up, and reads the database's clock. It is sent after the locks: an answer another
/// replica just committed under the same rows is seen, and the time is later than every change the
/// locks waited for. One row at least; without an answer its columns are null.
pub const ANSWER_FIND: Sql = Sql::new(
    "answer_find",
    &[Type::TEXT_ARRAY],
    "
    SELECT clock_timestamp() AS now, t.key, t.fingerprint, t.status, t.content_type, t.etag, t.location, t.sealed,
        t.body, t.at
    FROM (SELECT) AS one
    LEFT JOIN (
        (SELECT unnest($2::text[]) AS key) AS k
        CROSS JOIN LATERAL (
            SELECT *
            FROM answer AS r
            WHERE r.tenant_id = $1
                AND r.key = k.key
            OFFSET 0) AS t)
        ON true",
);

const ANSWER_STORE: Sql = Sql::new(
    "answer_store",
    &[
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TIMESTAMPTZ,
    ],
    "
    INSERT INTO answer (tenant_id, key, fingerprint, command, status, content_type, etag, location, sealed, body, at)
    SELECT $1, unnest($2::text[]), unnest($3::bytea[]), unnest($4::text[]), unnest($5::int2[]), unnest($6::text[]),
        unnest($7::text[]), unnest($8::text[]), unnest($9::bool[]), unnest($10::bytea[]), $11",
);

pub(crate) const STATEMENTS: [Sql; 2] = [ANSWER_FIND, ANSWER_STORE];

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// Content types come from a closed list, so that a stored one is again a `&'static str`.
fn content_type(text: &str) -> &'static str {
    if text == PROBLEM { PROBLEM } else { JSON }
}

impl Answer {
    pub fn json(status: u16, body: Bytes) -> Self {
        Self { status, content_type: JSON, etag: None, location: None, body }
    }

    pub fn problem(status: u16, body: Bytes) -> Self {
        Self { status, content_type: PROBLEM, etag: None, location: None, body }
    }
}

/// The key of a row of [`ANSWER_FIND`], if an answer was found.
pub fn key(row: &Row) -> Option<Key> {
    row.get::<_, Option<String>>("key").map(Key)
}

/// The row as key and stored answer, if there is one.
pub(crate) fn read(row: &Row, tenant: TenantId, seal: &Seal) -> Option<(Key, Stored)> {
    let key = key(row)?;
    let body: Vec<u8> = row.get("body");
    let body = if row.get("sealed") { seal.open(tenant, &key, &body) } else { Some(body) };
    let status: i16 = row.get("status");
    let answer = body.map(|body| Answer {
        status: status.unsigned_abs(),
        content_type: content_type(row.get("content_type")),
        etag: row.get("etag"),
        location: row.get("location"),
        body: body.into(),
    });
    Some((key, Stored { fingerprint: row.get("fingerprint"), answer, at: row.get("at") }))
}

/// An answer on its way into the table.
pub(crate) struct Fresh<'a> {
    pub key: &'a Key,
    pub fingerprint: Fingerprint,
    pub command: &'static str,
    pub sealed: bool,
    pub answer: &'a Answer,
}

/// One insert.
///
/// GUARD(answer_order): in key order, so that two batches that store the same keys wait for each
/// other, never in a circle.
pub(crate) fn store(mut fresh: Vec<Fresh<'_>>, tenant: TenantId, seal: &Seal, at: Timestamp) -> Write {
    fresh.sort_unstable_by_key(|one| one.key);
    let body = |one: &Fresh<'_>| {
        if one.sealed { seal.close(tenant, one.key, &one.answer.body) } else { one.answer.body.to_vec() }
    };
    let each = |text: fn(&Answer) -> Option<String>| fresh.iter().map(|one| text(one.answer)).collect::<Vec<_>>();
    Write {
        sql: ANSWER_STORE,
        params: vec![
            param(fresh.iter().map(|one| one.key.0.clone()).collect::<Vec<_>>()),
            param(fresh.iter().map(|one| one.fingerprint.0.to_vec()).collect::<Vec<_>>()),
            param(fresh.iter().map(|one| one.command).collect::<Vec<_>>()),
            param(fresh.iter().map(|one| one.answer.status.cast_signed()).collect::<Vec<_>>()),
            param(fresh.iter().map(|one| one.answer.content_type).collect::<Vec<_>>()),
            param(each(|answer| answer.etag.clone())),
            param(each(|answer| answer.location.clone())),
            param(fresh.iter().map(|one| one.sealed).collect::<Vec<_>>()),
            param(fresh.iter().map(body).collect::<Vec<_>>()),
            param(at),
        ],
    }
}

/// The keys this process is working on, by tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    by_tenant: HashMap<TenantId, HashSet<Key>>,
    all: usize,
}

/// Frees its key when dropped, which is after the batch answered, whatever became of the caller.
#[derive(Debug)]
pub(crate) struct Running {
    of: InFlight,
    key: Option<(TenantId, Key)>,
}

impl InFlight {
    /// GUARD(in_flight): the same key twice at once in one process is told to come back. That holds for
    /// another request, too: only what is stored says that a key is used.
    pub fn enter(&self, tenant: TenantId, key: &Key) -> Result<Running, Fault> {
        let mut calls = self.calls();
        if !calls.by_tenant.entry(tenant).or_default().insert(key.clone()) {
            return Err(Fault::InFlight);
        }
        calls.all += 1;
        Ok(Running { of: self.clone(), key: Some((tenant, key.clone())) })
    }

    /// How many of `parts` equal parts of the work are the tenant's, rounded up.
    pub fn share(&self, tenant: TenantId, parts: usize) -> usize {
        let calls = self.calls();
        let of_tenant = calls.by_tenant.get(&tenant).map_or(0, HashSet::len);
        (parts * of_tenant).div_ceil(calls.all.max(1))
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some((tenant, key)) = self.key.take() else { return };
        let mut calls = self.of.calls();
        if let Some(of_tenant) = calls.by_tenant.get_mut(&tenant) {
            of_tenant.remove(&key);
            if of_tenant.is_empty() {
                calls.by_tenant.remove(&tenant);
            }
            calls.all -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idem_04_fingerprint_ignores_member_order_and_white_space_only() {
        let of = |method: &str, path: &str, if_match: Option<&str>, body: &str| {
            Fingerprint::of(method, path, if_match, body.as_bytes()).unwrap()
        };
        let base = of("POST", "/v1/a", None, r#"{"a":1,"b":[1,2]}"#);
        assert_eq!(base, of("POST", "/v1/a", None, "{ \"b\" : [1, 2],\n \"a\": 1.0 }"));
        for other in [
            of("PUT", "/v1/a", None, r#"{"a":1,"b":[1,2]}"#),
            of("POST", "/v1/b", None, r#"{"a":1,"b":[1,2]}"#),
            of("POST", "/v1/a", Some("\"1\""), r#"{"a":1,"b":[1,2]}"#),
            of("POST", "/v1/a", None, r#"{"a":1,"b":[2,1]}"#),
            of("POST", "/v1/a", None, r#"{"a":"1","b":[1,2]}"#),
            of("POST", "/v1/a", None, ""),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn idem_01_keys_are_visible_ascii_of_at_most_255_characters() {
        for (text, ok) in [
            ("a", true),
            ("WMS|SHIP-88213|10|GOODS_ISSUE", true),
            (&"k".repeat(255), true),
            (&"k".repeat(256), false),
            ("", false),
            (" ", false),
            (" a", false),
            ("a\tb", false),
            ("é", false),
        ] {
            assert_eq!(Key::new(text).is_some(), ok, "{text:?}");
        }
    }

    #[test]
    fn a_tenant_alone_has_every_part_and_one_among_many_its_share() {
        let calls = InFlight::default();
        let enter = |tenant, key: &str| calls.enter(tenant, &Key::new(key).unwrap()).unwrap();
        let (one, other) = (TenantId::mint(), TenantId::mint());
        assert_eq!(calls.share(one, 4), 0);
        let first = enter(one, "a");
        assert_eq!((calls.share(one, 4), calls.share(other, 4)), (4, 0));
        let many: Vec<_> = ["a", "b", "c", "d"].map(|key| enter(other, key)).into();
        assert_eq!((calls.share(one, 4), calls.share(other, 4)), (1, 4));
        drop(first);
        assert_eq!((calls.share(one, 4), calls.share(other, 4)), (0, 4));
        drop(many);
        assert_eq!(calls.calls().all, 0);
    }

    #[test]
    fn a_sealed_answer_opens_only_where_it_was_sealed() {
        let (seal, tenant) = (Seal::new(b"one secret"), TenantId::mint());
        let (key, other) = (Key::new("k").unwrap(), Key::new("l").unwrap());
        let sealed = seal.close(tenant, &key, b"thk_secret");
        assert_eq!(seal.open(tenant, &key, &sealed).as_deref(), Some(b"thk_secret".as_slice()));
        assert_eq!(seal.open(tenant, &other, &sealed), None);
        assert_eq!(seal.open(TenantId::mint(), &key, &sealed), None);
        assert_eq!(Seal::new(b"another").open(tenant, &key, &sealed), None);
        assert_eq!(seal.open(tenant, &key, b"short"), None);
    }
}
