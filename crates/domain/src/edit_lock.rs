//! Locks for long edits: who is editing what, for all to see, with an end.
//!
//! Owns nothing of its own: the rows are the engine's (`engine::edit_lock`).
//! Invariant: a save changes no part that somebody else holds a live lock on, and none under a lock
//! that was lost. It holds the locks' row shared while it decides, so a lock is not taken in between;
//! before a document's first lock there is no row to hold, and then its version is what protects it.

use crate::{Cx, Engine, Wants, WorkingSet, document::Parts};
use engine::{
    Command, Next, Reject,
    command::Permission,
    edit_lock::{Broken, EditLocks, Held, Locks},
    error::StepError,
    history::Versions,
    sql::{Sql, Type, param},
    table::{Look, Table},
};
use jiff::{SignedDuration, Timestamp};
use kernel::{
    id::{CustomerGroupId, CustomerId, EditLockId, TenantId},
    page::{Limit, Page},
    problem::Class,
    text::{Part, Reason},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value, json};
use std::{fmt, str::FromStr};
use utoipa::ToSchema;
use uuid::Uuid;

pub const USE: Permission = Permission("edit_locks.use");
pub const BREAK: Permission = Permission("edit_locks.break");

/// Locks that one document may have at a time.
const LOCKS_MAX: usize = 200;

/// A document that people edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentId {
    Customer(CustomerId),
    CustomerGroup(CustomerGroupId),
}

impl DocumentId {
    pub fn uuid(self) -> Uuid {
        match self {
            Self::Customer(id) => id.uuid(),
            Self::CustomerGroup(id) => id.uuid(),
        }
    }

    fn want(self, wants: &mut Wants) {
        match self {
            Self::Customer(id) => wants.customer.read(id),
            Self::CustomerGroup(id) => wants.customer_group.read(id),
        }
    }

    fn is_there(self, cx: &Cx<'_>) -> bool {
        match self {
            Self::Customer(id) => cx.set.customer.get(&id).is_some(),
            Self::CustomerGroup(id) => cx.set.customer_group.get(&id).is_some(),
        }
    }

    /// The fields of such a document, which are its parts.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Customer(_) => crate::parties::CustomerPatch::NAMES,
            Self::CustomerGroup(_) => crate::parties::CustomerGroupPatch::NAMES,
        }
    }
}

impl FromStr for DocumentId {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let customer = text.parse().ok().map(Self::Customer);
        let document = customer.or_else(|| text.parse().ok().map(Self::CustomerGroup));
        document.ok_or("must be the id of a document: cus_… or cgr_…")
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Customer(id) => id.fmt(f),
            Self::CustomerGroup(id) => id.fmt(f),
        }
    }
}

impl Serialize for DocumentId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DocumentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for DocumentId {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some("^(cus|cgr)_[0-9a-f]{32}$"))
            .examples(["cus_0198c0de5eed70008000000000000001"])
            .into()
    }
}
impl ToSchema for DocumentId {}

/// How long a lock lasts unless it is renewed: 10 to 900 seconds, 120 when not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(i64);

impl Default for Seconds {
    fn default() -> Self {
        Self(120)
    }
}

impl Seconds {
    const fn duration(self) -> SignedDuration {
        SignedDuration::from_secs(self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = i64::deserialize(deserializer)?;
        if (10..=900).contains(&seconds) {
            return Ok(Self(seconds));
        }
        Err(de::Error::custom("must be a whole number of seconds from 10 to 900"))
    }
}

/// A lock as its owner is told of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EditLockView {
    /// What a save under it carries as `X-Edit-Lock`.
    pub edit_lock_id: EditLockId,
    #[schema(value_type = String)]
    pub document_id: DocumentId,
    /// Empty for the whole document.
    pub part: String,
    /// Who holds it: an API key's id.
    pub owner: String,
    pub owner_name: String,
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
}

fn view(document_id: DocumentId, held: Held) -> EditLockView {
    let Held { token, part, owner, owner_name, since, until } = held;
    EditLockView { edit_lock_id: token.into(), document_id, part, owner, owner_name, since, until }
}

#[derive(Debug)]
pub enum Refusal {
    DocumentMissing(DocumentId),
    PartUnknown {
        part: String,
        known: &'static [&'static str],
    },
    TooMany,
    /// Somebody else edits it.
    Held(Box<Held>),
    /// The caller's lock ended and was taken, was broken, or never was.
    Lost(EditLockId),
}

impl Reject for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::DocumentMissing(_) => "document_missing",
            Self::PartUnknown { .. } | Self::TooMany => "invalid_value",
            Self::Held(_) => "edit_lock_held",
            Self::Lost(_) => "edit_lock_lost",
        }
    }
    fn class(&self) -> Class {
        match self {
            Self::DocumentMissing(_) => Class::Missing,
            Self::PartUnknown { .. } | Self::TooMany => Class::Invalid,
            Self::Held(_) | Self::Lost(_) => Class::Locked,
        }
    }
    fn detail(&self) -> String {
        match self {
            Self::DocumentMissing(id) => format!("document_id: there is no document {id}"),
            Self::PartUnknown { part, known } => {
                format!("part: {part:?} is no part of it; its parts are its fields: {}", known.join(", "))
            }
            Self::TooMany => format!("part: a document has at most {LOCKS_MAX} locks at a time"),
            Self::Held(held) => {
                let what = if held.part.is_empty() { "the document" } else { &held.part };
                format!("{what} is locked by {} since {}, until {}", held.owner_name, held.since, held.until)
            }
            Self::Lost(id) => {
                format!("the edit lock {id} is not yours any more: it ended and was taken, or was released")
            }
        }
    }
    fn more(&self) -> Map<String, Value> {
        match self {
            Self::Held(held) => Map::from_iter([
                ("part".into(), json!(held.part)),
                ("locked_by".into(), json!({"id": held.owner, "name": held.owner_name})),
                ("since".into(), json!(held.since)),
                ("until".into(), json!(held.until)),
            ]),
            Self::PartUnknown { .. } | Self::TooMany => {
                let detail = self.detail();
                let message = detail.strip_prefix("part: ").unwrap_or(&detail);
                Map::from_iter([("errors".into(), json!([{"field": "part", "message": message}]))])
            }
            Self::DocumentMissing(_) | Self::Lost(_) => Map::new(),
        }
    }
}

/// Wants the locks of a document for [`check_save`].
pub fn want_shared(document: Uuid, set: &WorkingSet, wants: &mut Wants) {
    if matches!(set.edit_lock.look(&document), Look::Unasked) {
        wants.edit_lock.share(document);
    }
}

/// Before a save that would change these parts: nobody else holds one of them, and the lock the caller
/// saves under is still the caller's.
pub fn check_save(cx: &Cx<'_>, document: Uuid, token: Option<EditLockId>, parts: &Parts) -> Result<(), Refusal> {
    let none = Locks::default();
    let locks = cx.set.edit_lock.get(&document).unwrap_or(&none);
    // GUARD(edit_lock_token): a lock that was taken over does not save over its new owner's edits.
    if let Some(id) = token
        && locks.find(id.uuid()).is_none()
    {
        return Err(Refusal::Lost(id));
    }
    let against = |part: &String| locks.against(part, token.map(EditLockId::uuid), cx.at);
    match parts.names().find_map(against) {
        Some(held) => Err(Refusal::Held(Box::new(held.clone()))),
        None => Ok(()),
    }
}

/// Takes a lock on a document or a part of it, or prolongs one's own.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireEditLock {
    pub document_id: DocumentId,
    /// A field, or a field and an entry of its list (`sales_areas/US-S`); left out, the whole.
    #[serde(default)]
    pub part: Option<Part>,
    #[serde(default)]
    #[schema(value_type = Option<i64>, minimum = 10, maximum = 900, default = 120)]
    pub seconds: Seconds,
}

/// Prolongs a lock: the heartbeat of an editor that is still open.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewEditLock {
    pub document_id: DocumentId,
    pub edit_lock_id: EditLockId,
    #[serde(default)]
    #[schema(value_type = Option<i64>, minimum = 10, maximum = 900, default = 120)]
    pub seconds: Seconds,
}

/// Gives a lock back.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseEditLock {
    pub document_id: DocumentId,
    pub edit_lock_id: EditLockId,
}

/// Takes somebody's lock away, for a reason that is kept.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakEditLock {
    pub document_id: DocumentId,
    pub edit_lock_id: EditLockId,
    pub reason: Reason,
}

/// Wants the locks of a document for change, and the document itself.
fn want(document: DocumentId, wants: &mut Wants) -> Next {
    wants.edit_lock.change(document.uuid());
    document.want(wants);
    Next::Complete
}

/// The locks of a document that is there.
fn locks<'a>(cx: &'a mut Cx<'_>, document: DocumentId) -> Result<Option<&'a mut Locks>, Refusal> {
    if document.is_there(cx) {
        Ok(cx.set.edit_lock.edit(&document.uuid()))
    } else {
        Err(Refusal::DocumentMissing(document))
    }
}

impl Command<WorkingSet> for AcquireEditLock {
    const NAME: &'static str = "edit_locks.acquire";
    const NEEDS: Permission = USE;
    type Done = EditLockView;
    type Reject = Refusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        want(self.document_id, wants)
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<EditLockView, Refusal> {
        let part = self.part.as_deref().unwrap_or("");
        let known = self.document_id.fields();
        let field = part.split_once('/').map_or(part, |(field, entry)| if entry.is_empty() { "" } else { field });
        if !part.is_empty() && !known.contains(&field) {
            return Err(Refusal::PartUnknown { part: part.to_owned(), known });
        }
        let (at, who, token) = (cx.at, cx.head().actor.clone(), cx.id::<kernel::id::EditLock>().uuid());
        let ttl = self.seconds.duration();
        let take = |locks: &mut Locks| {
            let held = locks.take(part, &who, token, at, ttl).map_err(|held| Refusal::Held(Box::new(held)))?;
            if locks.0.len() > LOCKS_MAX { Err(Refusal::TooMany) } else { Ok(held) }
        };
        let held = match locks(cx, self.document_id)? {
            Some(locks) => take(locks)?,
            None => {
                let mut locks = Locks::default();
                let held = take(&mut locks)?;
                cx.set.edit_lock.insert(self.document_id.uuid(), locks);
                held
            }
        };
        Ok(view(self.document_id, held))
    }
}

impl Command<WorkingSet> for RenewEditLock {
    const NAME: &'static str = "edit_locks.renew";
    const NEEDS: Permission = USE;
    type Done = EditLockView;
    type Reject = Refusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        want(self.document_id, wants)
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<EditLockView, Refusal> {
        let (at, ttl, id) = (cx.at, self.seconds.duration(), self.edit_lock_id);
        let held = locks(cx, self.document_id)?.and_then(|locks| locks.renew(id.uuid(), at, ttl));
        Ok(view(self.document_id, held.ok_or(Refusal::Lost(id))?))
    }
}

impl Command<WorkingSet> for ReleaseEditLock {
    const NAME: &'static str = "edit_locks.release";
    const NEEDS: Permission = USE;
    type Done = EditLockView;
    type Reject = Refusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        want(self.document_id, wants)
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<EditLockView, Refusal> {
        let id = self.edit_lock_id;
        let held = locks(cx, self.document_id)?.and_then(|locks| locks.end(id.uuid()));
        Ok(view(self.document_id, held.ok_or(Refusal::Lost(id))?))
    }
}

impl Command<WorkingSet> for BreakEditLock {
    const NAME: &'static str = "edit_locks.break";
    const NEEDS: Permission = BREAK;
    type Done = EditLockView;
    type Reject = Refusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        want(self.document_id, wants)
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<EditLockView, Refusal> {
        let id = self.edit_lock_id;
        let held = locks(cx, self.document_id)?.and_then(|locks| locks.end(id.uuid())).ok_or(Refusal::Lost(id))?;
        let by = cx.head().actor.clone();
        let document = self.document_id.uuid();
        cx.set.edit_lock_broken.push(Broken { document, held: held.clone(), by, reason: self.reason.to_string() });
        Ok(view(self.document_id, held))
    }
}

/// A lock that an administrator took away.
#[derive(Debug, Serialize, ToSchema)]
pub struct BrokenView {
    pub edit_lock_id: EditLockId,
    pub part: String,
    pub owner: String,
    pub owner_name: String,
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    pub broken_by: String,
    pub broken_by_name: String,
    pub reason: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

const BROKEN_LIST: Sql = Sql::new(
    "edit_lock_broken_list",
    &[Type::UUID, Type::INT8],
    "
    SELECT t.token, t.part, t.owner, t.owner_name, t.since, t.broken_by, t.broken_by_name, t.reason, t.at
    FROM edit_lock_broken AS t
    WHERE t.tenant_id = $1
        AND t.token > $2
    ORDER BY t.token
    LIMIT $3",
);

const CLOCK: Sql = Sql::new("clock", &[], "SELECT clock_timestamp() AS now WHERE $1::uuid IS NOT NULL");

pub const QUERIES: &[Sql] = &[BROKEN_LIST, CLOCK];

/// The live locks of a document, or `None` where there is no such document.
pub async fn held(
    engine: &Engine,
    tenant: TenantId,
    document: DocumentId,
) -> Result<Option<Vec<EditLockView>>, StepError> {
    let steps = vec![
        (EditLocks::LOAD, EditLocks::keys(&[document.uuid()])),
        (CLOCK, Vec::new()),
        (Versions::LOAD, Versions::keys(&[(document.uuid(), 1)])),
    ];
    let rows = engine.read(tenant, steps).await?;
    if rows[2].is_empty() {
        return Ok(None);
    }
    let now: Timestamp = rows[1][0].get("now");
    let locks = rows[0].first().map(|row| EditLocks::read(row).1).unwrap_or_default();
    Ok(Some(locks.0.into_iter().filter(|held| held.until > now).map(|held| view(document, held)).collect()))
}

/// Locks that were taken away, in the order they were taken in.
pub async fn broken(
    engine: &Engine,
    tenant: TenantId,
    after: Option<EditLockId>,
    limit: Limit,
) -> Result<Page<BrokenView>, StepError> {
    let after = after.map_or(Uuid::nil(), EditLockId::uuid);
    let rows = engine.read(tenant, vec![(BROKEN_LIST, vec![param(after), param(limit.probe())])]).await?;
    let view = |row: &engine::sql::Row| BrokenView {
        edit_lock_id: row.get::<_, Uuid>("token").into(),
        part: row.get("part"),
        owner: row.get("owner"),
        owner_name: row.get("owner_name"),
        since: row.get("since"),
        broken_by: row.get("broken_by"),
        broken_by_name: row.get("broken_by_name"),
        reason: row.get("reason"),
        at: row.get("at"),
    };
    Ok(Page::of(rows[0].iter().map(view).collect(), limit, |of| of.edit_lock_id.to_string()))
}
