//! Documents that people edit: a save names the version it began from, and is refused when somebody
//! else's came first.
//!
//! Invariant: no lock is held between reading and saving; the document's own row, wanted for change,
//! is compared and raised in one transaction, with its version's row and its event.
//! Invariant: nothing is merged by guess. The refusal carries all that a person, or a program for
//! fields nobody else touched, needs to save again over the new version.

use crate::{Cx, Engine, Wants};
use engine::{
    Reject,
    edit_lock::overlap,
    error::StepError,
    event::Event,
    history::{Version, Versions},
    sql::{Sql, Type, param},
    table::{Look, Table},
};
use jiff::Timestamp;
use kernel::{
    id::TenantId,
    page::{Limit, Page},
    problem::Class,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use utoipa::ToSchema;
use uuid::Uuid;

/// A kind of document: the names its versions and events go by.
pub struct Kind {
    pub name: &'static str,
    pub created: &'static str,
    pub changed: &'static str,
}

/// For a member that may be left out: left out it is `None`, and `null` is a value like any other.
pub fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Makes of a struct of optional members the changes it asks of the fields.
#[macro_export]
macro_rules! patch {
    ($Patch:ty => $Fields:ty { $($field:ident),* $(,)? }) => {
        impl $Patch {
            /// The fields with what is given put in.
            pub fn over(&self, fields: &$Fields) -> $Fields {
                let mut fields = fields.clone();
                $(if let Some(value) = &self.$field {
                    fields.$field.clone_from(value);
                })*
                fields
            }

            /// The fields, which are also the parts that can be locked apart.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            pub fn is_empty(&self) -> bool {
                true $(&& self.$field.is_none())*
            }
        }
    };
}

/// A field, or an entry of a list with a label or a code (`sales_areas/US-S`), that differs between two versions.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FieldChange {
    pub field: String,
    /// What the version the caller began from held.
    pub base: Value,
    /// What is there now.
    pub current: Value,
}

/// Somebody else's save came first.
#[derive(Debug)]
pub struct Stale {
    base: i64,
    version: i64,
    current: Value,
    by: Option<Version>,
    changed: Vec<FieldChange>,
    disjoint: bool,
}

fn members(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        _ => unreachable!("a document's fields are an object"),
    }
}

fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<(String, Value, Value)> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let at = |map: &Map<String, Value>, name: &str| map.get(name).cloned().unwrap_or(Value::Null);
    let pairs = names.into_iter().map(|name| (name.clone(), at(before, name), at(after, name)));
    let different = pairs.filter(|(_, old, new)| old != new);
    different
        .flat_map(|(name, old, new)| match (entries(&old), entries(&new)) {
            (Some(before), Some(after)) => {
                let inner = differences(&before, &after);
                if inner.is_empty() {
                    // Nothing but their order.
                    return vec![(name, old, new)];
                }
                inner.into_iter().map(|(entry, old, new)| (format!("{name}/{entry}"), old, new)).collect()
            }
            _ => vec![(name, old, new)],
        })
        .collect()
}

/// A list whose entries are told apart by a label or a code, by that.
fn entries(list: &Value) -> Option<Map<String, Value>> {
    let entries = list.as_array()?.iter().map(|entry| {
        let key = entry.get("label").or_else(|| entry.get("code"))?.as_str()?;
        Some((key.to_owned(), entry.clone()))
    });
    entries.collect()
}

/// Parts of a document: fields, or entries of a list (`sales_areas/US-S`).
pub struct Parts(Vec<String>);

impl Parts {
    /// What a save changes.
    pub fn changed(before: &impl Serialize, after: &impl Serialize) -> Self {
        Self(differences(&members(before), &members(after)).into_iter().map(|(part, _, _)| part).collect())
    }

    /// What a save would set, over the version it began from: of a list only the entries that differ.
    fn given(base: &Map<String, Value>, patch: &impl Serialize) -> Self {
        let parts = members(patch).into_iter().flat_map(|(name, new)| {
            let old = base.get(&name).cloned().unwrap_or(Value::Null);
            match (entries(&old), entries(&new)) {
                (Some(_), Some(_)) => {
                    differences(&Map::from_iter([(name.clone(), old)]), &Map::from_iter([(name, new)]))
                        .into_iter()
                        .map(|(part, _, _)| part)
                        .collect()
                }
                _ => vec![name],
            }
        });
        Self(parts.collect())
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}

/// Wants what the refusal of a stale save tells of: the version the caller began from, which an earlier
/// call of the same batch may leave behind, and the one that is there, once that is known.
pub fn want_versions(id: Uuid, base: i64, found: Option<i64>, wants: &mut Wants) {
    wants.document_version.read((id, base));
    if let Some(version) = found
        && version != base
    {
        wants.document_version.read((id, version));
    }
}

/// Refuses a save that began from another version. `view` is what the caller would be shown.
pub fn check_version<V: Serialize>(
    cx: &Cx<'_>,
    id: Uuid,
    base: i64,
    version: i64,
    fields: &impl Serialize,
    patch: &impl Serialize,
    view: impl FnOnce() -> V,
) -> Result<(), Box<Stale>> {
    // GUARD(stale_save): the second of two that began from one version would undo the first.
    if base == version {
        return Ok(());
    }
    let of = |version: i64| match cx.set.document_version.look(&(id, version)) {
        Look::Row(row) => Some(row),
        Look::Missing | Look::Unasked => None,
    };
    let (began, by) = (of(base), of(version).cloned());
    let current = Value::Object(members(&view()));
    let nothing = Map::new();
    let before = began.and_then(|version| version.data.as_object()).unwrap_or(&nothing);
    let changed = differences(before, &members(fields));
    let changed: Vec<_> =
        changed.into_iter().map(|(field, base, current)| FieldChange { field, base, current }).collect();
    let disjoint = began.is_some() && {
        let given = Parts::given(before, patch);
        !changed.iter().any(|change| given.names().any(|part| overlap(part, &change.field)))
    };
    Err(Box::new(Stale { base, version, current, by, changed, disjoint }))
}

/// Writes a document's new version and its event, which its row must carry.
pub fn record(cx: &mut Cx<'_>, kind: &Kind, id: Uuid, version: i64, fields: &impl Serialize) {
    let data = Value::Object(members(fields));
    let text = json!({"id": id.simple().to_string(), "version": version, "fields": &data}).to_string();
    let row = Version::new(kind.name, data, cx.head(), cx.at);
    cx.set.document_version.insert((id, version), row);
    let event = Event {
        id: cx.id(),
        kind: if version == 1 { kind.created } else { kind.changed },
        aggregate: kind.name,
        aggregate_id: id,
        sequence: version,
        schema_version: 1,
        data: text,
    };
    cx.event(event);
}

impl Reject for Stale {
    fn code(&self) -> &'static str {
        "version_conflict"
    }
    fn class(&self) -> Class {
        Class::Conflict
    }
    fn detail(&self) -> String {
        let Self { base, version, by, .. } = self;
        let who = by.as_ref().map_or_else(String::new, |by| format!(" by {} at {}", by.actor_name, by.at));
        format!(
            "If-Match: you began from version {base}, and version {version} was saved{who}; look at `changed_fields` and save over version {version}"
        )
    }
    fn more(&self) -> Map<String, Value> {
        let mut more = Map::from_iter([
            ("your_base_version".into(), json!(self.base)),
            ("current_version".into(), json!(self.version)),
            ("current".into(), self.current.clone()),
            ("changed_fields".into(), json!(self.changed)),
            ("disjoint".into(), json!(self.disjoint)),
        ]);
        if let Some(by) = &self.by {
            more.insert("changed_by".into(), json!({"id": by.actor, "name": by.actor_name}));
            more.insert("changed_at".into(), json!(by.at));
        }
        more
    }
}

/// One version of a document, as its history tells it.
#[derive(Debug, Serialize, ToSchema)]
pub struct VersionView {
    pub version: i64,
    /// The id of who saved it: an API key's, `operator`.
    pub actor: String,
    pub actor_name: String,
    /// The address it came from.
    pub remote: Option<String>,
    pub correlation_id: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What it changed; of the first version, everything it set.
    pub changes: Vec<OldAndNew>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct OldAndNew {
    pub field: String,
    pub old: Value,
    pub new: Value,
}

const VERSION_LIST: Sql = Sql::new(
    "document_version_list",
    &[Type::TEXT, Type::UUID, Type::INT8, Type::INT8],
    "
    SELECT t.version, t.document, t.data, t.actor, t.actor_name, t.remote, t.correlation_id, t.at
    FROM document_version AS t
    WHERE t.tenant_id = $1
        AND t.document = $2
        AND t.document_id = $3
        AND t.version > $4
    ORDER BY t.version
    LIMIT $5",
);

pub const QUERIES: &[Sql] = &[VERSION_LIST];

/// The versions of a document after `after`, or `None` where there is no such document.
pub async fn history(
    engine: &Engine,
    tenant: TenantId,
    kind: &Kind,
    id: Uuid,
    after: i64,
    limit: Limit,
) -> Result<Option<Page<VersionView>>, StepError> {
    let steps = vec![
        (VERSION_LIST, vec![param(kind.name), param(id), param(after), param(limit.probe())]),
        (Versions::LOAD, Versions::keys(&[(id, 1), (id, after)])),
    ];
    let rows = engine.read(tenant, steps).await?;
    if rows[1].iter().all(|row| row.get::<_, i64>("version") != 1 || row.get::<_, &str>("document") != kind.name) {
        return Ok(None);
    }
    let mut before =
        rows[1].iter().map(Versions::read).find(|((_, version), _)| *version == after).map(|(_, row)| row.data);
    let mut items = Vec::with_capacity(rows[0].len());
    let nothing = Map::new();
    for row in &rows[0] {
        let Version { data, actor, actor_name, remote, correlation, at, .. } = Version::read(row);
        let old = before.as_ref().and_then(Value::as_object).unwrap_or(&nothing);
        let changes = differences(old, data.as_object().unwrap_or(&nothing));
        let changes = changes.into_iter().map(|(field, old, new)| OldAndNew { field, old, new }).collect();
        items.push(VersionView {
            version: row.get("version"),
            actor,
            actor_name,
            remote,
            correlation_id: correlation,
            at,
            changes,
        });
        before = Some(data);
    }
    Ok(Some(Page::of(items, limit, |version| version.version.to_string())))
}
