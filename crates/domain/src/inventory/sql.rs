//! Every statement of the inventory slice.

use super::model::{Counters, LedgerLine, Position, PositionKey, Promise, StockSource};
use engine::{
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Log, Table},
};
use jiff::Timestamp;
use kernel::{id::PromiseId, quantity::Quantity};
use rust_decimal::Decimal;
use uuid::Uuid;

const BOUND: &str = "numeric(18,6) is within a quantity's bound";

pub(super) fn quantity(row: &Row, column: &str) -> Quantity {
    Quantity::new(row.get(column)).expect(BOUND)
}

pub(super) fn quantity_if_any(row: &Row, column: &str) -> Option<Quantity> {
    row.get::<_, Option<Decimal>>(column).map(|value| Quantity::new(value).expect(BOUND))
}

pub(super) fn read_counters(row: &Row) -> Counters {
    Counters {
        on_hand: quantity(row, "on_hand"),
        on_order: quantity(row, "on_order"),
        allocated: quantity(row, "allocated"),
        reserved: quantity(row, "reserved"),
    }
}

pub(super) fn read_position(row: &Row) -> Position {
    Position {
        id: row.get::<_, Uuid>("position_id").into(),
        decimals: u8::try_from(row.get::<_, i16>("decimals")).expect("sku_decimals_0_to_6"),
        counters: read_counters(row),
        overcommit_limit: quantity(row, "overcommit_limit"),
        sequence: row.get("sequence"),
    }
}

pub(super) fn read_promise(row: &Row) -> Promise {
    Promise {
        sku: row.get::<_, Uuid>("sku_id").into(),
        warehouse: row.get::<_, Uuid>("warehouse_id").into(),
        quantity: quantity(row, "quantity"),
        shipped: quantity(row, "shipped"),
        released: quantity(row, "released"),
        returned: quantity(row, "returned"),
        source: row.get("source"),
        priority: row.get("priority"),
        promised_for: row.get("promised_for"),
        created_at: row.get("created_at"),
    }
}

pub struct Positions;

/// The keys come sorted, and each row is locked when its key's turn comes.
const POSITION_LOAD: Sql = Sql::new(
    "position_load",
    &[Type::UUID_ARRAY, Type::UUID_ARRAY],
    "
    SELECT t.sku_id, t.warehouse_id, t.position_id, t.decimals, t.on_hand, t.on_order, t.allocated, t.reserved,
        t.overcommit_limit, t.sequence
    FROM (SELECT unnest($2::uuid[]) AS sku_id, unnest($3::uuid[]) AS warehouse_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM stock_position AS r
        WHERE r.tenant_id = $1
            AND r.sku_id = k.sku_id
            AND r.warehouse_id = k.warehouse_id
        OFFSET 0) AS t",
);

/// Makes the rows that receive and adjust will lock, where SKU and warehouse exist.
///
/// GUARD(ensure_conflict): of two transactions that receive into a new position at once, the
/// second waits and locks the first's.
const POSITION_ENSURE: Sql = Sql::new(
    "position_ensure",
    &[Type::UUID_ARRAY, Type::UUID_ARRAY, Type::UUID_ARRAY],
    "
    INSERT INTO stock_position (tenant_id, sku_id, warehouse_id, position_id, decimals)
    SELECT $1, k.sku_id, k.warehouse_id, k.position_id, s.decimals
    FROM (
        SELECT unnest($2::uuid[]) AS sku_id, unnest($3::uuid[]) AS warehouse_id, unnest($4::uuid[]) AS position_id) AS k
    JOIN sku AS s
        ON s.tenant_id = $1
        AND s.sku_id = k.sku_id
    JOIN warehouse AS w
        ON w.tenant_id = $1
        AND w.warehouse_id = k.warehouse_id
    WHERE NOT EXISTS (
        SELECT FROM stock_position AS p
        WHERE p.tenant_id = $1
            AND p.sku_id = k.sku_id
            AND p.warehouse_id = k.warehouse_id)
    ORDER BY k.sku_id, k.warehouse_id
    ON CONFLICT (tenant_id, sku_id, warehouse_id) DO NOTHING",
);

/// The rows are ours, locked, and so stay where they are found. A plain join, planned while the table
/// was small, would read all rows of the tenant for ever after.
const POSITION_STORE: Sql = Sql::new(
    "position_store",
    &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::INT8_ARRAY,
    ],
    "
    WITH stored AS (
        UPDATE stock_position AS t
        SET on_hand = k.on_hand,
            on_order = k.on_order,
            allocated = k.allocated,
            reserved = k.reserved,
            sequence = k.sequence
        FROM (
            SELECT unnest($2::uuid[]) AS sku_id, unnest($3::uuid[]) AS warehouse_id, unnest($4::numeric[]) AS on_hand,
                unnest($5::numeric[]) AS on_order, unnest($6::numeric[]) AS allocated,
                unnest($7::numeric[]) AS reserved, unnest($8::int8[]) AS sequence) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM stock_position AS r
            WHERE r.tenant_id = $1
                AND r.sku_id = k.sku_id
                AND r.warehouse_id = k.warehouse_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

impl Table for Positions {
    type Key = PositionKey;
    type Row = Position;
    const NAME: &'static str = "stock_position";
    const LOAD: Sql = POSITION_LOAD;
    const ENSURE: Option<Sql> = Some(POSITION_ENSURE);

    fn keys(keys: &[PositionKey]) -> Vec<Param> {
        vec![
            param(keys.iter().map(|key| key.sku.uuid()).collect::<Vec<_>>()),
            param(keys.iter().map(|key| key.warehouse.uuid()).collect::<Vec<_>>()),
        ]
    }
    fn ensure(keys: &[PositionKey]) -> Vec<Param> {
        let mut params = Self::keys(keys);
        params.push(param(keys.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>()));
        params
    }
    fn read(row: &Row) -> (PositionKey, Position) {
        let key = PositionKey {
            sku: row.get::<_, Uuid>("sku_id").into(),
            warehouse: row.get::<_, Uuid>("warehouse_id").into(),
        };
        (key, read_position(row))
    }
    /// Positions are made by `ENSURE` alone, so all changes are updates.
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let counter = |f: fn(&Counters) -> Quantity| {
            param(changes.iter().map(|c| f(&c.after.counters).decimal()).collect::<Vec<Decimal>>())
        };
        let keys: Vec<_> = changes.iter().map(|change| change.key).collect();
        let mut params = Self::keys(&keys);
        params.extend([
            counter(|c| c.on_hand),
            counter(|c| c.on_order),
            counter(|c| c.allocated),
            counter(|c| c.reserved),
            param(changes.iter().map(|c| c.after.sequence).collect::<Vec<_>>()),
        ]);
        vec![Write { sql: POSITION_STORE, params }]
    }
    fn statements() -> Vec<Sql> {
        vec![POSITION_STORE]
    }
}

pub struct Promises;

const PROMISE_LOAD: Sql = Sql::new(
    "promise_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.promise_id, t.sku_id, t.warehouse_id, t.quantity, t.shipped, t.released, t.returned,
        t.source, t.priority, t.promised_for, t.created_at
    FROM (SELECT unnest($2::uuid[]) AS promise_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM promise AS r
        WHERE r.tenant_id = $1
            AND r.promise_id = k.promise_id
        OFFSET 0) AS t",
);

const PROMISE_INSERT: Sql = Sql::new(
    "promise_insert",
    &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT2_ARRAY,
        Type::DATE_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
    ],
    "
    INSERT INTO promise (tenant_id, promise_id, sku_id, warehouse_id, quantity, shipped, released, returned, state,
        source, priority, promised_for, created_at)
    SELECT $1, unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::uuid[]), unnest($5::numeric[]),
        unnest($6::numeric[]), unnest($7::numeric[]), unnest($8::numeric[]), unnest($9::text[]),
        unnest($10::text[]), unnest($11::int2[]), unnest($12::date[]), unnest($13::timestamptz[])",
);

/// See [`POSITION_STORE`].
const PROMISE_UPDATE: Sql = Sql::new(
    "promise_update",
    &[Type::UUID_ARRAY, Type::NUMERIC_ARRAY, Type::NUMERIC_ARRAY, Type::NUMERIC_ARRAY, Type::TEXT_ARRAY],
    "
    WITH stored AS (
        UPDATE promise AS t
        SET shipped = k.shipped,
            released = k.released,
            returned = k.returned,
            state = k.state
        FROM (
            SELECT unnest($2::uuid[]) AS promise_id, unnest($3::numeric[]) AS shipped,
                unnest($4::numeric[]) AS released, unnest($5::numeric[]) AS returned, unnest($6::text[]) AS state) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM promise AS r
            WHERE r.tenant_id = $1
                AND r.promise_id = k.promise_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

impl Table for Promises {
    type Key = PromiseId;
    type Row = Promise;
    const NAME: &'static str = "promise";
    const LOAD: Sql = PROMISE_LOAD;

    fn keys(keys: &[PromiseId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (PromiseId, Promise) {
        (row.get::<_, Uuid>("promise_id").into(), read_promise(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        let mut writes = Vec::new();
        if !new.is_empty() {
            let units = |f: fn(&Promise) -> Quantity| param(column(&new, |p| f(p).decimal()));
            writes.push(Write {
                sql: PROMISE_INSERT,
                params: vec![
                    param(new.iter().map(|c| c.key.uuid()).collect::<Vec<_>>()),
                    param(column(&new, |p| p.sku.uuid())),
                    param(column(&new, |p| p.warehouse.uuid())),
                    units(|p| p.quantity),
                    units(|p| p.shipped),
                    units(|p| p.released),
                    units(|p| p.returned),
                    param(column(&new, state)),
                    param(column(&new, |p| p.source.clone())),
                    param(column(&new, |p| p.priority)),
                    param(column(&new, |p| p.promised_for)),
                    param(column(&new, |p| p.created_at)),
                ],
            });
        }
        if !changed.is_empty() {
            let units = |f: fn(&Promise) -> Quantity| param(column(&changed, |p| f(p).decimal()));
            writes.push(Write {
                sql: PROMISE_UPDATE,
                params: vec![
                    param(changed.iter().map(|c| c.key.uuid()).collect::<Vec<_>>()),
                    units(|p| p.shipped),
                    units(|p| p.released),
                    units(|p| p.returned),
                    param(column(&changed, state)),
                ],
            });
        }
        writes
    }
    fn statements() -> Vec<Sql> {
        vec![PROMISE_INSERT, PROMISE_UPDATE]
    }
}

fn column<T>(changes: &[&Change<'_, Promises>], f: impl Fn(&Promise) -> T) -> Vec<T> {
    changes.iter().map(|change| f(change.after)).collect()
}

fn state(promise: &Promise) -> &'static str {
    if promise.is_open() { "open" } else { "closed" }
}

/// Business events booked already.
pub struct StockSources;

const STOCK_SOURCE_LOAD: Sql = Sql::new(
    "stock_source_load",
    &[Type::TEXT_ARRAY],
    "
    SELECT t.source, t.kind, t.record_id, t.at
    FROM (SELECT unnest($2::text[]) AS source) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM stock_source AS r
        WHERE r.tenant_id = $1
            AND r.source = k.source
        OFFSET 0) AS t",
);

/// The unique key on (tenant, source) is the guard; sorted, so that two batches that bring the
/// same sources wait for each other in one order.
const STOCK_SOURCE_STORE: Sql = Sql::new(
    "stock_source_store",
    &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TIMESTAMPTZ_ARRAY],
    "
    INSERT INTO stock_source (tenant_id, source, kind, record_id, at)
    SELECT $1, unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::timestamptz[])",
);

const KINDS: [&str; 6] = ["receive", "adjust", "allocate", "release", "ship", "return"];

impl Table for StockSources {
    type Key = String;
    type Row = StockSource;
    const NAME: &'static str = "stock_source";
    const LOCKED: bool = false;
    const LOAD: Sql = STOCK_SOURCE_LOAD;

    fn keys(keys: &[String]) -> Vec<Param> {
        vec![param(keys.to_vec())]
    }
    fn read(row: &Row) -> (String, StockSource) {
        let kind: &str = row.get("kind");
        let kind = KINDS.into_iter().find(|known| *known == kind).unwrap_or("another movement");
        (row.get("source"), StockSource { kind, record_id: row.get("record_id"), at: row.get("at") })
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        vec![Write {
            sql: STOCK_SOURCE_STORE,
            params: vec![
                param(changes.iter().map(|c| c.key.clone()).collect::<Vec<_>>()),
                param(changes.iter().map(|c| c.after.kind).collect::<Vec<_>>()),
                param(changes.iter().map(|c| c.after.record_id.clone()).collect::<Vec<_>>()),
                param(changes.iter().map(|c| c.after.at).collect::<Vec<_>>()),
            ],
        }]
    }
    fn statements() -> Vec<Sql> {
        vec![STOCK_SOURCE_STORE]
    }
}

pub struct StockLedger;

const STOCK_LEDGER_STORE: Sql = Sql::new(
    "stock_ledger_store",
    &[
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ,
    ],
    "
    INSERT INTO stock_ledger (tenant_id, position_id, sequence, kind, on_hand, on_order, allocated, reserved,
        promise_id, source, reason, at)
    SELECT $1, unnest($2::uuid[]), unnest($3::int8[]), unnest($4::text[]), unnest($5::numeric[]),
        unnest($6::numeric[]), unnest($7::numeric[]), unnest($8::numeric[]), unnest($9::uuid[]),
        unnest($10::text[]), unnest($11::text[]), $12",
);

impl Log for StockLedger {
    type Line = LedgerLine;
    const NAME: &'static str = "stock_ledger";

    fn store(lines: &[LedgerLine], at: Timestamp) -> Vec<Write> {
        let mut lines: Vec<_> = lines.iter().collect();
        lines.sort_unstable_by_key(|line| (line.position, line.sequence));
        let counter = |f: fn(&Counters) -> Quantity| {
            param(lines.iter().map(|line| f(&line.change).decimal()).collect::<Vec<Decimal>>())
        };
        vec![Write {
            sql: STOCK_LEDGER_STORE,
            params: vec![
                param(lines.iter().map(|line| line.position.uuid()).collect::<Vec<_>>()),
                param(lines.iter().map(|line| line.sequence).collect::<Vec<_>>()),
                param(lines.iter().map(|line| line.kind.name()).collect::<Vec<_>>()),
                counter(|c| c.on_hand),
                counter(|c| c.on_order),
                counter(|c| c.allocated),
                counter(|c| c.reserved),
                param(lines.iter().map(|line| line.promise.map(|id| id.uuid())).collect::<Vec<_>>()),
                param(lines.iter().map(|line| line.source.clone()).collect::<Vec<_>>()),
                param(lines.iter().map(|line| line.reason.clone()).collect::<Vec<_>>()),
                param(at),
            ],
        }]
    }
    fn statements() -> Vec<Sql> {
        vec![STOCK_LEDGER_STORE]
    }
}

pub const POSITION_LIST: Sql = Sql::new(
    "position_list",
    &[Type::UUID, Type::UUID, Type::UUID, Type::INT8],
    "
    SELECT t.position_id, t.sku_id, t.warehouse_id, t.decimals, t.on_hand, t.on_order, t.allocated, t.reserved,
        t.overcommit_limit, t.sequence
    FROM stock_position AS t
    WHERE t.tenant_id = $1
        AND t.position_id > $2
        AND ($3::uuid IS NULL OR t.sku_id = $3)
        AND ($4::uuid IS NULL OR t.warehouse_id = $4)
    ORDER BY t.position_id
    LIMIT $5",
);

pub const POSITION_FIND: Sql = Sql::new(
    "position_find",
    &[Type::UUID],
    "
    SELECT t.position_id, t.sku_id, t.warehouse_id, t.decimals, t.on_hand, t.on_order, t.allocated, t.reserved,
        t.overcommit_limit, t.sequence
    FROM stock_position AS t
    WHERE t.tenant_id = $1
        AND t.position_id = $2",
);

pub const LEDGER_LIST: Sql = Sql::new(
    "ledger_list",
    &[Type::UUID, Type::INT8, Type::INT8],
    "
    SELECT t.sequence, t.kind, t.on_hand, t.on_order, t.allocated, t.reserved, t.promise_id, t.source, t.reason, t.at
    FROM stock_ledger AS t
    WHERE t.tenant_id = $1
        AND t.position_id = $2
        AND t.sequence > $3
    ORDER BY t.sequence
    LIMIT $4",
);

pub const EVENT_LIST: Sql = Sql::new(
    "event_list",
    &[Type::UUID, Type::INT8, Type::INT8],
    "
    SELECT t.event_id, t.kind, t.sequence, t.schema_version, t.data::text AS data, t.correlation_id, t.at
    FROM event AS t
    WHERE t.tenant_id = $1
        AND t.aggregate_id = $2
        AND t.sequence > $3
    ORDER BY t.sequence
    LIMIT $4",
);

pub const PROMISE_LIST: Sql = Sql::new(
    "promise_list",
    &[Type::UUID, Type::UUID, Type::UUID, Type::TEXT, Type::INT8],
    "
    SELECT t.promise_id, t.sku_id, t.warehouse_id, t.quantity, t.shipped, t.released, t.returned,
        t.source, t.priority, t.promised_for, t.created_at
    FROM promise AS t
    WHERE t.tenant_id = $1
        AND t.promise_id > $2
        AND ($3::uuid IS NULL OR t.sku_id = $3)
        AND ($4::uuid IS NULL OR t.warehouse_id = $4)
        AND ($5::text IS NULL OR t.state = $5)
    ORDER BY t.promise_id
    LIMIT $6",
);

pub const PROMISE_FIND: Sql = Sql::new(
    "promise_find",
    &[Type::UUID],
    "
    SELECT t.promise_id, t.sku_id, t.warehouse_id, t.quantity, t.shipped, t.released, t.returned,
        t.source, t.priority, t.promised_for, t.created_at
    FROM promise AS t
    WHERE t.tenant_id = $1
        AND t.promise_id = $2",
);

/// What was booked under these sources, with its units. The record's id is taken out of its text
/// before the joins: under row-level security a join on the expression itself could use no index,
/// because `split_part` is not leakproof. A promise carries the quantity that was allocated; for
/// all else the ledger line tells, unless its month was dropped.
pub const SOURCE_LIST: Sql = Sql::new(
    "source_list",
    &[Type::TEXT_ARRAY],
    "
    WITH booked AS MATERIALIZED (
        SELECT t.source, t.kind, t.at, split_part(t.record_id, '_', 2)::uuid AS record_id
        FROM (SELECT unnest($2::text[]) AS source) AS k
        CROSS JOIN LATERAL (
            SELECT *
            FROM stock_source AS r
            WHERE r.tenant_id = $1
                AND r.source = k.source
            OFFSET 0) AS t)
    SELECT b.source, b.kind, p.promise_id, q.sku_id, q.warehouse_id, p.shipped,
        CASE b.kind
            WHEN 'allocate' THEN p.quantity
            ELSE (
                SELECT CASE b.kind
                    WHEN 'ship' THEN -l.on_hand
                    WHEN 'release' THEN -l.allocated
                    ELSE l.on_hand END
                FROM stock_ledger AS l
                WHERE l.tenant_id = $1
                    AND l.position_id = q.position_id
                    AND l.at = b.at
                    AND l.source = b.source)
            END AS quantity
    FROM booked AS b
    JOIN promise AS p
        ON p.tenant_id = $1
        AND p.promise_id = b.record_id
    JOIN stock_position AS q
        ON q.tenant_id = $1
        AND q.sku_id = p.sku_id
        AND q.warehouse_id = p.warehouse_id
    WHERE b.kind NOT IN ('receive', 'adjust')
    UNION ALL
    SELECT b.source, b.kind, NULL, q.sku_id, q.warehouse_id, 0, (
        SELECT l.on_hand
        FROM stock_ledger AS l
        WHERE l.tenant_id = $1
            AND l.position_id = q.position_id
            AND l.at = b.at
            AND l.source = b.source)
    FROM booked AS b
    JOIN stock_position AS q
        ON q.tenant_id = $1
        AND q.position_id = b.record_id
    WHERE b.kind IN ('receive', 'adjust')",
);

/// The queries above, for the test that prepares every statement.
pub const QUERIES: &[Sql] =
    &[POSITION_LIST, POSITION_FIND, LEDGER_LIST, EVENT_LIST, PROMISE_LIST, PROMISE_FIND, SOURCE_LIST];
