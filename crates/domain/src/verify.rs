//! Every invariant as a query over a live database, each in the snapshot of its run.
//!
//! Owns the list of checks; each slice's invariants stand here beside the others', since most of
//! them are between tables. A check returns the rows that are off, and none when all is well.
//! Never changes anything.

use crate::{Engine, tenancy};
use engine::{
    error::StepError,
    sql::{Sql, Type},
};
use kernel::id::TenantId;
use serde::Serialize;

/// One row that is not as it must be.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Finding {
    pub tenant: String,
    pub check: &'static str,
    pub table: &'static str,
    pub key: String,
    pub expected: String,
    pub found: String,
}

/// What a run looked at and what it found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub tenants: usize,
    pub checks: usize,
    pub findings: Vec<Finding>,
}

/// An invariant: which table, what it says, and the query for its exceptions.
pub struct Check {
    pub table: &'static str,
    /// What always holds, for people.
    pub says: &'static str,
    pub sql: Sql,
}

/// Exceptions shown per check and tenant: one flaw may touch every row.
const FINDINGS_MAX: i64 = 100;

macro_rules! check {
    ($name:literal, $table:literal, $says:literal, $text:literal) => {
        Check { table: $table, says: $says, sql: Sql::new($name, &[Type::INT8], $text) }
    };
}

/// All checks; every query yields (key, expected, found).
pub const CHECKS: &[Check] = &[
    check!("verify_position_ledger", "stock_position", "each counter is the sum of its ledger",
        "
        SELECT t.position_id::text,
            concat_ws('/', coalesce(l.on_hand, 0), coalesce(l.on_order, 0), coalesce(l.allocated, 0), coalesce(l.reserved, 0)),
            concat_ws('/', t.on_hand, t.on_order, t.allocated, t.reserved)
        FROM stock_position AS t
        LEFT JOIN (
            SELECT position_id, sum(on_hand) AS on_hand, sum(on_order) AS on_order,
                sum(allocated) AS allocated, sum(reserved) AS reserved
            FROM stock_ledger
            WHERE tenant_id = $1
            GROUP BY position_id) AS l USING (position_id)
        WHERE t.tenant_id = $1
            AND (t.on_hand, t.on_order, t.allocated, t.reserved)
                IS DISTINCT FROM (coalesce(l.on_hand, 0), coalesce(l.on_order, 0), coalesce(l.allocated, 0), coalesce(l.reserved, 0))
        LIMIT $2"),
    check!("verify_ledger_position", "stock_ledger", "each ledger line has its position",
        "
        SELECT DISTINCT t.position_id::text, 'a position', 'none'
        FROM stock_ledger AS t
        LEFT JOIN stock_position AS p
            ON p.tenant_id = t.tenant_id
            AND p.position_id = t.position_id
        WHERE t.tenant_id = $1
            AND p.position_id IS NULL
        LIMIT $2"),
    check!("verify_position_sold", "stock_position", "promised is at most on hand + on order + overcommit limit",
        "
        SELECT t.position_id::text, (t.on_hand + t.on_order + t.overcommit_limit)::text, (t.allocated + t.reserved)::text
        FROM stock_position AS t
        WHERE t.tenant_id = $1
            AND (t.allocated + t.reserved > t.on_hand + t.on_order + t.overcommit_limit
                OR least(t.on_hand, t.on_order, t.allocated, t.reserved, t.overcommit_limit) < 0)
        LIMIT $2"),
    check!("verify_position_promise", "stock_position", "allocated is what the position's promises have open",
        "
        SELECT t.position_id::text, coalesce(p.open, 0)::text, t.allocated::text
        FROM stock_position AS t
        LEFT JOIN (
            SELECT sku_id, warehouse_id, sum(quantity - shipped - released) AS open
            FROM promise
            WHERE tenant_id = $1
            GROUP BY sku_id, warehouse_id) AS p USING (sku_id, warehouse_id)
        WHERE t.tenant_id = $1
            AND t.allocated <> coalesce(p.open, 0)
        LIMIT $2"),
    check!("verify_promise_position", "promise", "each promise has its position",
        "
        SELECT t.promise_id::text, 'a position', 'none'
        FROM promise AS t
        LEFT JOIN stock_position AS p
            ON p.tenant_id = t.tenant_id
            AND p.sku_id = t.sku_id
            AND p.warehouse_id = t.warehouse_id
        WHERE t.tenant_id = $1
            AND p.position_id IS NULL
        LIMIT $2"),
    check!("verify_promise_ledger", "promise", "quantity, shipped, released and returned are the sums of the promise's ledger lines",
        "
        SELECT t.promise_id::text,
            concat_ws('/', coalesce(l.quantity, 0), coalesce(l.shipped, 0), coalesce(l.released, 0), coalesce(l.returned, 0)),
            concat_ws('/', t.quantity, t.shipped, t.released, t.returned)
        FROM promise AS t
        LEFT JOIN (
            SELECT promise_id,
                sum(allocated) FILTER (WHERE kind = 'allocate') AS quantity,
                -sum(allocated) FILTER (WHERE kind = 'ship') AS shipped,
                -sum(allocated) FILTER (WHERE kind = 'release') AS released,
                sum(on_hand) FILTER (WHERE kind = 'return') AS returned
            FROM stock_ledger
            WHERE tenant_id = $1
                AND promise_id IS NOT NULL
            GROUP BY promise_id) AS l USING (promise_id)
        WHERE t.tenant_id = $1
            AND (t.quantity, t.shipped, t.released, t.returned)
                IS DISTINCT FROM (coalesce(l.quantity, 0), coalesce(l.shipped, 0), coalesce(l.released, 0), coalesce(l.returned, 0))
        LIMIT $2"),
    check!("verify_promise_state", "promise", "the state says whether something is open",
        "
        SELECT t.promise_id::text, CASE WHEN t.shipped + t.released < t.quantity THEN 'open' ELSE 'closed' END, t.state
        FROM promise AS t
        WHERE t.tenant_id = $1
            AND (t.state = 'open') <> (t.shipped + t.released < t.quantity)
        LIMIT $2"),
    check!("verify_ledger_sequence", "stock_ledger", "a position's ledger is numbered 1 to its sequence, without a hole or a double",
        "
        SELECT t.position_id::text, t.sequence::text || ' lines', coalesce(l.lines, 0) || ' lines, last ' || coalesce(l.last, 0)
        FROM stock_position AS t
        LEFT JOIN (
            SELECT position_id, count(*) AS lines, count(DISTINCT sequence) AS different, max(sequence) AS last
            FROM stock_ledger
            WHERE tenant_id = $1
            GROUP BY position_id) AS l USING (position_id)
        WHERE t.tenant_id = $1
            AND (t.sequence, t.sequence, t.sequence)
                IS DISTINCT FROM (coalesce(l.lines, 0), coalesce(l.different, 0), coalesce(l.last, 0))
        LIMIT $2"),
    check!("verify_ledger_event", "stock_ledger", "each ledger line has exactly one event, and each event of a position its line",
        "
        SELECT coalesce(t.position_id, e.aggregate_id) || ' ' || coalesce(t.sequence, e.sequence),
            'one line, one event',
            CASE WHEN e.aggregate_id IS NULL THEN 'a line without event'
                WHEN t.position_id IS NULL THEN 'an event without line'
                ELSE e.events || ' events' END
        FROM (
            SELECT position_id, sequence, kind
            FROM stock_ledger
            WHERE tenant_id = $1) AS t
        FULL JOIN (
            SELECT aggregate_id, sequence, count(*) AS events, min(kind) AS kind
            FROM event
            WHERE tenant_id = $1
                AND aggregate = 'stock_position'
            GROUP BY aggregate_id, sequence) AS e
            ON e.aggregate_id = t.position_id
            AND e.sequence = t.sequence
        WHERE t.position_id IS NULL
            OR e.aggregate_id IS NULL
            OR e.events <> 1
            OR e.kind <> CASE t.kind
                WHEN 'receive' THEN 'inventory.stock_received'
                WHEN 'adjust' THEN 'inventory.stock_adjusted'
                WHEN 'allocate' THEN 'inventory.stock_allocated'
                WHEN 'release' THEN 'inventory.stock_released'
                WHEN 'ship' THEN 'inventory.stock_shipped'
                ELSE 'inventory.stock_returned' END
        LIMIT $2"),
    check!("verify_document_version", "document_version", "a document's versions are 1 to its own, and the last is what it holds",
        "
        SELECT coalesce(t.document || ' ' || t.id, v.document || ' ' || v.document_id),
            'versions 1 to ' || coalesce(t.version, 0) || ' of ' || coalesce(t.name, 'nothing'),
            coalesce(v.versions, 0) || ' versions up to ' || coalesce(v.last, 0) || ' of ' || coalesce(v.name, 'nothing')
        FROM (
            SELECT 'customer' AS document, customer_id AS id, version, name
            FROM customer
            WHERE tenant_id = $1
            UNION ALL
            SELECT 'customer_group', customer_group_id, version, name
            FROM customer_group
            WHERE tenant_id = $1) AS t
        FULL JOIN (
            SELECT document, document_id, count(*) AS versions, max(version) AS last,
                (array_agg(data ->> 'name' ORDER BY version DESC))[1] AS name
            FROM document_version
            WHERE tenant_id = $1
            GROUP BY document, document_id) AS v
            ON v.document = t.document
            AND v.document_id = t.id
        WHERE (t.version, t.version, t.name) IS DISTINCT FROM (v.versions, v.last, v.name)
        LIMIT $2"),
    check!("verify_document_event", "document_version", "each version has exactly one event, and each event of a document its version",
        "
        SELECT coalesce(v.document, e.aggregate) || ' ' || coalesce(v.document_id, e.aggregate_id) || ' '
                || coalesce(v.version, e.sequence),
            'one version, one event',
            CASE WHEN e.aggregate_id IS NULL THEN 'a version without event'
                WHEN v.document_id IS NULL THEN 'an event without version'
                ELSE e.events || ' events' END
        FROM (
            SELECT document, document_id, version
            FROM document_version
            WHERE tenant_id = $1) AS v
        FULL JOIN (
            SELECT aggregate, aggregate_id, sequence, count(*) AS events
            FROM event
            WHERE tenant_id = $1
                AND aggregate <> 'stock_position'
            GROUP BY aggregate, aggregate_id, sequence) AS e
            ON e.aggregate = v.document
            AND e.aggregate_id = v.document_id
            AND e.sequence = v.version
        WHERE v.document_id IS NULL
            OR e.aggregate_id IS NULL
            OR e.events <> 1
        LIMIT $2"),
    check!("verify_edit_lock", "edit_lock", "no two live locks of a document overlap",
        "
        SELECT t.document_id::text, 'locks apart', quote_literal(a.one ->> 'part') || ' and ' || quote_literal(b.one ->> 'part')
        FROM edit_lock AS t,
            json_array_elements(t.locks) WITH ORDINALITY AS a (one, n),
            json_array_elements(t.locks) WITH ORDINALITY AS b (one, n)
        WHERE t.tenant_id = $1
            AND a.n <> b.n
            AND least((a.one ->> 'until')::timestamptz, (b.one ->> 'until')::timestamptz) > clock_timestamp()
            AND (a.one ->> 'part' IN ('', b.one ->> 'part')
                OR starts_with(b.one ->> 'part', (a.one ->> 'part') || '/'))
        LIMIT $2"),
    check!("verify_event_id", "event", "an event id is given once",
        "
        SELECT t.event_id::text, '1', count(*)::text
        FROM event AS t
        WHERE t.tenant_id = $1
        GROUP BY t.event_id
        HAVING count(*) > 1
        LIMIT $2"),
    check!("verify_source_ledger", "stock_source", "each booked source has exactly one ledger line, and each line with a source its row",
        "
        SELECT coalesce(t.source, l.source), 'one source, one line', coalesce(l.lines, 0) || ' lines'
        FROM (
            SELECT source, kind
            FROM stock_source
            WHERE tenant_id = $1) AS t
        FULL JOIN (
            SELECT source, count(*) AS lines, min(kind) AS kind
            FROM stock_ledger
            WHERE tenant_id = $1
                AND source IS NOT NULL
            GROUP BY source) AS l ON l.source = t.source
        WHERE t.source IS NULL
            OR l.source IS NULL
            OR l.lines <> 1
            OR l.kind <> t.kind
        LIMIT $2"),
    check!("verify_headcount", "headcount", "a tenant's people are counted right",
        "
        SELECT t.tenant_id::text, concat_ws('/', coalesce(u.enabled, 0), coalesce(u.managers, 0), coalesce(u.managers_active, 0)),
            coalesce(concat_ws('/', h.users_enabled, h.managers_enabled, h.managers_active), 'none')
        FROM tenant AS t
        LEFT JOIN headcount AS h ON h.tenant_id = t.tenant_id
        LEFT JOIN (
            SELECT p.tenant_id, count(*) AS enabled,
                count(*) FILTER (WHERE 'tenancy.manage' = ANY (r.permissions)) AS managers,
                count(*) FILTER (WHERE 'tenancy.manage' = ANY (r.permissions) AND p.state = 'active') AS managers_active
            FROM tenant_user AS p
            JOIN role AS r USING (tenant_id, role_id)
            WHERE p.tenant_id = $1
                AND p.state <> 'disabled'
            GROUP BY p.tenant_id) AS u ON u.tenant_id = t.tenant_id
        WHERE t.tenant_id = $1
            AND (h.users_enabled, h.managers_enabled, h.managers_active)
                IS DISTINCT FROM (coalesce(u.enabled, 0), coalesce(u.managers, 0), coalesce(u.managers_active, 0))
        LIMIT $2"),
    check!("verify_role_users", "role", "the users of a role are counted right",
        "
        SELECT t.role_id::text, concat_ws('/', coalesce(u.enabled, 0), coalesce(u.active, 0)),
            concat_ws('/', t.users_enabled, t.users_active)
        FROM role AS t
        LEFT JOIN (
            SELECT role_id, count(*) AS enabled, count(*) FILTER (WHERE state = 'active') AS active
            FROM tenant_user
            WHERE tenant_id = $1
                AND state <> 'disabled'
            GROUP BY role_id) AS u USING (role_id)
        WHERE t.tenant_id = $1
            AND (t.users_enabled, t.users_active) IS DISTINCT FROM (coalesce(u.enabled, 0), coalesce(u.active, 0))
        LIMIT $2"),
    check!("verify_user_manager", "tenant_user", "where there are people, one of them may let others in",
        "
        SELECT t.tenant_id::text, 'a manager', count(*) || ' users, none of them'
        FROM tenant_user AS t
        JOIN role AS r USING (tenant_id, role_id)
        WHERE t.tenant_id = $1
            AND t.state <> 'disabled'
        GROUP BY t.tenant_id
        HAVING NOT bool_or('tenancy.manage' = ANY (r.permissions))
        LIMIT $2"),
    check!("verify_session_user", "session", "no session of a disabled user opens anything",
        "
        SELECT t.session_id::text, 'an older epoch', t.epoch::text
        FROM session AS t
        JOIN tenant_user AS u USING (tenant_id, user_id)
        WHERE t.tenant_id = $1
            AND t.ended_at IS NULL
            AND t.epoch = u.epoch
            AND u.state <> 'active'
        LIMIT $2"),
    check!("verify_answer_form", "answer", "a stored answer is final and its body, unless sealed, is JSON text",
        "
        SELECT t.key, 'a final answer with a JSON object', t.status || ' ' || left(encode(t.body, 'escape'), 60)
        FROM answer AS t
        WHERE t.tenant_id = $1
            AND (NOT (t.status BETWEEN 200 AND 299 OR t.status = 422)
                OR length(t.fingerprint) <> 32
                OR (NOT t.sealed AND (get_byte(t.body, 0) <> 123 OR get_byte(t.body, length(t.body) - 1) <> 125)))
        LIMIT $2"),
    check!("verify_answer_audit", "answer", "each stored answer has its audit line with the same command",
        "
        SELECT t.key, t.command, coalesce(min(a.command), 'no audit line')
        FROM answer AS t
        LEFT JOIN audit AS a
            ON a.tenant_id = t.tenant_id
            AND a.key = t.key
            AND a.command = t.command
            AND a.at = t.at
        WHERE t.tenant_id = $1
        GROUP BY t.key, t.command
        HAVING count(a.call_id) <> 1
        LIMIT $2"),
];

/// Checks every tenant, or one, in one snapshot each.
pub async fn verify(engine: &Engine, only: Option<TenantId>) -> Result<Report, StepError> {
    let tenants = tenancy::read::tenants(engine).await?;
    let tenants: Vec<_> = tenants.into_iter().filter(|(_, id)| only.is_none_or(|only| only == *id)).collect();
    let mut findings = Vec::new();
    for (slug, tenant) in &tenants {
        let steps = CHECKS.iter().map(|check| (check.sql, vec![engine::sql::param(FINDINGS_MAX)])).collect();
        let results = engine.audit_read(*tenant, steps).await?;
        for (check, rows) in CHECKS.iter().zip(results) {
            findings.extend(rows.iter().map(|row| Finding {
                tenant: slug.clone(),
                check: check.sql.name,
                table: check.table,
                key: row.get(0),
                expected: row.get(1),
                found: row.get(2),
            }));
        }
    }
    Ok(Report { tenants: tenants.len(), checks: CHECKS.len(), findings })
}
