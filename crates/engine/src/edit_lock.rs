//! Locks that people hold while they edit: rows with an owner and an end, no lock of the database.
//!
//! Owns `edit_lock` (one row a document, with the locks on its parts) and `edit_lock_broken`, the log
//! of locks that an administrator took away.
//! Invariant: no two live locks of a document overlap; its row is wanted for change by whoever takes,
//! renews or ends one, and read by every save.
//! A lock ends by itself: a browser that was closed, a program that was killed, block nobody for long.

use crate::{
    command::Actor,
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Log, Table},
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// How long a lock that has ended and that nobody took is still good for its owner's save.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// One lock on a part of a document. The empty part is the whole; `sales_areas` and
/// `sales_areas/US-S` are a part and a part of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub token: Uuid,
    pub part: String,
    pub owner: String,
    pub owner_name: String,
    pub since: Timestamp,
    pub until: Timestamp,
}

/// Whether two parts share anything.
pub fn overlap(one: &str, other: &str) -> bool {
    let within = |part: &str, whole: &str| {
        part.strip_prefix(whole).is_some_and(|rest| whole.is_empty() || rest.is_empty() || rest.starts_with('/'))
    };
    within(one, other) || within(other, one)
}

/// The locks on one document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Locks(pub Vec<Held>);

impl Locks {
    /// The live lock of another that is in the way of this part.
    pub fn against(&self, part: &str, token: Option<Uuid>, at: Timestamp) -> Option<&Held> {
        self.0.iter().find(|held| held.until > at && Some(held.token) != token && overlap(&held.part, part))
    }

    pub fn find(&self, token: Uuid) -> Option<&Held> {
        self.0.iter().find(|held| held.token == token)
    }

    /// Takes a part, or renews it where it is the caller's own. `token` is for a new one.
    ///
    /// # Errors
    /// The lock that is in the way.
    pub fn take(
        &mut self,
        part: &str,
        who: &Actor,
        token: Uuid,
        at: Timestamp,
        ttl: SignedDuration,
    ) -> Result<Held, Held> {
        let own = self.0.iter().position(|held| held.part == part && held.owner == who.id && held.until > at);
        let token = own.map_or(token, |index| self.0[index].token);
        // GUARD(edit_lock_held): two people who both think they edit alone both lose.
        if let Some(held) = self.against(part, Some(token), at) {
            return Err(held.clone());
        }
        let since = own.map_or(at, |index| self.0[index].since);
        // What has ended goes when its part is taken, or a day later: until then its owner may save.
        let gone = |held: &Held| held.until <= at && (overlap(&held.part, part) || held.until + KEPT <= at);
        self.0.retain(|held| held.token != token && !gone(held));
        let held = Held {
            token,
            part: part.to_owned(),
            owner: who.id.clone(),
            owner_name: who.name.clone(),
            since,
            until: at + ttl,
        };
        self.0.push(held.clone());
        Ok(held)
    }

    /// Prolongs a lock that nobody took meanwhile, also one that has ended.
    pub fn renew(&mut self, token: Uuid, at: Timestamp, ttl: SignedDuration) -> Option<Held> {
        let held = self.0.iter_mut().find(|held| held.token == token)?;
        held.until = held.until.max(at + ttl);
        Some(held.clone())
    }

    pub fn end(&mut self, token: Uuid) -> Option<Held> {
        let index = self.0.iter().position(|held| held.token == token)?;
        Some(self.0.remove(index))
    }
}

/// By document.
pub struct EditLocks;

const EDIT_LOCK_LOAD: Sql = Sql::new(
    "edit_lock_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.document_id, t.locks
    FROM (SELECT unnest($2::uuid[]) AS document_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM edit_lock AS r
        WHERE r.tenant_id = $1
            AND r.document_id = k.document_id
        OFFSET 0) AS t",
);

const EDIT_LOCK_INSERT: Sql = Sql::new(
    "edit_lock_insert",
    &[Type::UUID_ARRAY, Type::TEXT_ARRAY],
    "
    INSERT INTO edit_lock (tenant_id, document_id, locks)
    SELECT $1, unnest($2::uuid[]), unnest($3::text[])::json",
);

const EDIT_LOCK_UPDATE: Sql = Sql::new(
    "edit_lock_update",
    &[Type::UUID_ARRAY, Type::TEXT_ARRAY],
    "
    WITH stored AS (
        UPDATE edit_lock AS t
        SET locks = k.locks
        FROM (SELECT unnest($2::uuid[]) AS document_id, unnest($3::text[])::json AS locks) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM edit_lock AS r
            WHERE r.tenant_id = $1
                AND r.document_id = k.document_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

impl Table for EditLocks {
    type Key = Uuid;
    type Row = Locks;
    const NAME: &'static str = "edit_lock";
    const LOAD: Sql = EDIT_LOCK_LOAD;

    fn keys(keys: &[Uuid]) -> Vec<Param> {
        vec![param(keys.to_vec())]
    }
    fn read(row: &Row) -> (Uuid, Locks) {
        let locks = serde_json::from_value(row.get::<_, Value>("locks")).expect("what is stored was ours");
        (row.get("document_id"), Locks(locks))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        let write = |sql: Sql, of: Vec<&Change<'_, Self>>| {
            let locks = of.iter().map(|c| serde_json::to_string(&c.after.0).expect("plain texts are JSON"));
            (!of.is_empty()).then(|| Write {
                sql,
                params: vec![param(of.iter().map(|c| c.key).collect::<Vec<_>>()), param(locks.collect::<Vec<_>>())],
            })
        };
        [write(EDIT_LOCK_INSERT, new), write(EDIT_LOCK_UPDATE, changed)].into_iter().flatten().collect()
    }
    fn statements() -> Vec<Sql> {
        vec![EDIT_LOCK_INSERT, EDIT_LOCK_UPDATE]
    }
}

/// A lock that an administrator took away.
pub struct Broken {
    pub document: Uuid,
    pub held: Held,
    pub by: Actor,
    pub reason: String,
}

pub struct BrokenLocks;

const EDIT_LOCK_BROKEN_STORE: Sql = Sql::new(
    "edit_lock_broken_store",
    &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ,
    ],
    "
    INSERT INTO edit_lock_broken (tenant_id, token, document_id, part, owner, owner_name, since, broken_by,
        broken_by_name, reason, at)
    SELECT $1, unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::text[]), unnest($5::text[]), unnest($6::text[]),
        unnest($7::timestamptz[]), unnest($8::text[]), unnest($9::text[]), unnest($10::text[]), $11",
);

impl Log for BrokenLocks {
    type Line = Broken;
    const NAME: &'static str = "edit_lock_broken";

    fn store(lines: &[Broken], at: Timestamp) -> Vec<Write> {
        let text = |f: fn(&Broken) -> &str| param(lines.iter().map(|line| f(line).to_owned()).collect::<Vec<_>>());
        vec![Write {
            sql: EDIT_LOCK_BROKEN_STORE,
            params: vec![
                param(lines.iter().map(|line| line.held.token).collect::<Vec<_>>()),
                param(lines.iter().map(|line| line.document).collect::<Vec<_>>()),
                text(|line| &line.held.part),
                text(|line| &line.held.owner),
                text(|line| &line.held.owner_name),
                param(lines.iter().map(|line| line.held.since).collect::<Vec<_>>()),
                text(|line| &line.by.id),
                text(|line| &line.by.name),
                text(|line| &line.reason),
                param(at),
            ],
        }]
    }
    fn statements() -> Vec<Sql> {
        vec![EDIT_LOCK_BROKEN_STORE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_overlap_where_one_holds_the_other() {
        for (one, other, expected) in [
            ("", "", true),
            ("", "addresses", true),
            ("addresses", "addresses", true),
            ("addresses", "sales_areas", false),
            ("sales_areas", "sales_areas/US-S", true),
            ("sales_areas/US-S", "sales_areas/US-N", false),
            ("sales_areas/US", "sales_areas/US-S", false),
            ("sales", "sales_areas", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one:?} {other:?}");
            assert_eq!(overlap(other, one), expected, "{other:?} {one:?}");
        }
    }
}
