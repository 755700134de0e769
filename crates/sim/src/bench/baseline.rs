//! How others allocate: the same rows in the same tables, under the same role and its row-level
//! security, with prepared statements, one transaction a request.
//!
//! B1 and B2 are the pattern as it is taught: the key is claimed by a row, which the end fills with
//! the answer. B3 looks for the answer and inserts it complete at the end, which is one write less.
//! As the product, none of them reads SKU and warehouse of a position that is there.

use super::{place::said, stock::Item};
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use jiff::Timestamp;
use rust_decimal::Decimal;
use std::fmt::Display;
use tokio_postgres::{Config, NoTls, Row, types::ToSql};
use uuid::Uuid;

/// The function that B3 calls.
pub const ONE_CALL: &str = include_str!("one_call.sql");
/// Stored with each answer; the keys of a bench are all fresh, so nobody compares it.
const FINGERPRINT: [u8; 32] = [7; 32];
const UNITS: Decimal = Decimal::ONE;

/// The pool of an ordinary application.
pub const POOL: usize = 20;
/// Where one row is fought for, more connections only wait for each other.
pub const POOL_HOT: usize = 2;

pub fn pool(database: &Config, connections: usize) -> Pool {
    let mut config = database.clone();
    // As the product: a plan made while a table was empty must not scan it for ever after.
    config.options("-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off");
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    Pool::builder(manager).max_size(connections).build().expect("a pool without time-outs can always be built")
}

const ANSWER_CLAIM: &str = "
    INSERT INTO answer (tenant_id, key, fingerprint, command, status, content_type, sealed, body, at)
    VALUES ($1, $2, $3, 'inventory.allocate', 200, 'application/json', false, '', clock_timestamp())
    ON CONFLICT (tenant_id, key) DO NOTHING
    RETURNING 1";
const ANSWER_FIND: &str = "SELECT body FROM answer WHERE tenant_id = $1 AND key = $2";
const ANSWER_FILL: &str = "
    UPDATE answer
    SET body = $3,
        at = $4
    WHERE tenant_id = $1
        AND key = $2";
const POSITION_LOCK: &str = "
    SELECT position_id, on_hand, on_order, allocated, reserved, overcommit_limit, sequence, clock_timestamp() AS at
    FROM stock_position
    WHERE tenant_id = $1
        AND sku_id = $2
        AND warehouse_id = $3
    FOR UPDATE";
const POSITION_UPDATE: &str = "
    UPDATE stock_position
    SET allocated = $4,
        sequence = $5
    WHERE tenant_id = $1
        AND sku_id = $2
        AND warehouse_id = $3";
const POSITION_TAKE: &str = "
    UPDATE stock_position
    SET allocated = allocated + $4,
        sequence = sequence + 1
    WHERE tenant_id = $1
        AND sku_id = $2
        AND warehouse_id = $3
        AND allocated + reserved + $4 <= on_hand + on_order + overcommit_limit
    RETURNING position_id, on_hand, on_order, allocated, reserved, sequence, clock_timestamp() AS at";
const LEDGER_INSERT: &str = "
    INSERT INTO stock_ledger (tenant_id, position_id, sequence, kind, on_hand, on_order, allocated, reserved, promise_id, at)
    VALUES ($1, $2, $3, 'allocate', 0, 0, $4, 0, $5, $6)";
const PROMISE_INSERT: &str = "
    INSERT INTO promise (tenant_id, promise_id, sku_id, warehouse_id, quantity, state, priority, created_at)
    VALUES ($1, $2, $3, $4, $5, 'open', 0, $6)";
const EVENT_INSERT: &str = "
    INSERT INTO event (tenant_id, event_id, kind, aggregate, aggregate_id, sequence, schema_version, data, correlation_id, at)
    VALUES ($1, $2, 'inventory.stock_allocated', 'stock_position', $3, $4, 1, $5::text::json, $6, $7)";
const AUDIT_INSERT: &str = "
    INSERT INTO audit (tenant_id, call_id, actor, command, outcome, key, correlation_id, remote, at)
    VALUES ($1, $2, 'bench', 'inventory.allocate', 'done', $3, $4, '127.0.0.1', $5)";
const CALL: &str = "SELECT bench_allocate($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// How a transaction takes its units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Take {
    /// B1: lock and read, decide, write.
    LockWrite,
    /// B2: one update, where there is enough.
    Conditional,
}

/// B1 and B2: a transaction of single statements, each awaited. Returns the body of the answer.
pub async fn by_statements(pool: &Pool, take: Take, item: &Item, key: &str) -> Result<Vec<u8>, String> {
    let conn = pool.get().await.map_err(|error| error.to_string())?;
    let done = transaction(&conn, take, item, key).await;
    if done.is_err() {
        // Its transaction may still be open.
        drop(Object::take(conn));
    }
    done
}

async fn run(conn: &Object, text: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, String> {
    let statement = conn.prepare_cached(text).await.map_err(|error| said(&error))?;
    conn.query(&statement, params).await.map_err(|error| said(&error))
}

async fn transaction(conn: &Object, take: Take, item: &Item, key: &str) -> Result<Vec<u8>, String> {
    let Item { tenant, sku, warehouse, .. } = item;
    let plain = async |text: &str| conn.batch_execute(text).await.map_err(|error| said(&error));
    plain(&format!("BEGIN; SET LOCAL tallyhold.tenant_id = '{tenant}'")).await?;
    if run(conn, ANSWER_CLAIM, &[tenant, &key, &FINGERPRINT.as_slice()]).await?.is_empty() {
        let body = run(conn, ANSWER_FIND, &[tenant, &key]).await?.first().ok_or("no answer is there")?.get(0);
        plain("COMMIT").await?;
        return Ok(body);
    }
    let (row, allocated, sequence) = match take {
        Take::LockWrite => {
            let row = run(conn, POSITION_LOCK, &[tenant, sku, warehouse]).await?.pop().ok_or("no such position")?;
            let units = |column| row.get::<_, Decimal>(column);
            let allocated = units("allocated") + UNITS;
            if allocated + units("reserved") > units("on_hand") + units("on_order") + units("overcommit_limit") {
                return Err("too little stock".into());
            }
            let sequence = row.get::<_, i64>("sequence") + 1;
            run(conn, POSITION_UPDATE, &[tenant, sku, warehouse, &allocated, &sequence]).await?;
            (row, allocated, sequence)
        }
        Take::Conditional => {
            let row = run(conn, POSITION_TAKE, &[tenant, sku, warehouse, &UNITS]).await?.pop();
            let row = row.ok_or("too little stock")?;
            let (allocated, sequence) = (row.get("allocated"), row.get("sequence"));
            (row, allocated, sequence)
        }
    };
    let position: Uuid = row.get("position_id");
    let at: Timestamp = row.get("at");
    let (call, promise, event) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let correlation = call.simple().to_string();
    let data = event_data(item, promise, &row, allocated);
    let body = answer_body(item, promise, &row, allocated);
    run(conn, LEDGER_INSERT, &[tenant, &position, &sequence, &UNITS, &promise, &at]).await?;
    run(conn, PROMISE_INSERT, &[tenant, &promise, sku, warehouse, &UNITS, &at]).await?;
    run(conn, EVENT_INSERT, &[tenant, &event, &position, &sequence, &data, &correlation, &at]).await?;
    run(conn, AUDIT_INSERT, &[tenant, &call, &key, &correlation, &at]).await?;
    run(conn, ANSWER_FILL, &[tenant, &key, &body.as_bytes(), &at]).await?;
    plain("COMMIT").await?;
    Ok(body.into_bytes())
}

/// B3: the whole transaction as one call.
pub async fn by_one_call(pool: &Pool, item: &Item, key: &str) -> Result<Vec<u8>, String> {
    let conn = pool.get().await.map_err(|error| error.to_string())?;
    let (call, promise, event) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let correlation = call.simple().to_string();
    let Item { tenant, sku, warehouse, .. } = item;
    let print = FINGERPRINT.as_slice();
    let params: [&(dyn ToSql + Sync); 10] =
        [tenant, sku, warehouse, &UNITS, &key, &print, &call, &promise, &event, &correlation];
    Ok(run(&conn, CALL, &params).await?.first().ok_or("no answer came back")?.get(0))
}

fn available(row: &Row, allocated: Decimal) -> Decimal {
    let units = |column| row.get::<_, Decimal>(column);
    (units("on_hand") + units("on_order") - allocated - units("reserved")).normalize()
}

fn event_data(item: &Item, promise: Uuid, row: &Row, allocated: Decimal) -> String {
    let position: Uuid = row.get("position_id");
    let units = |column| row.get::<_, Decimal>(column).normalize();
    let quoted = |name: &str, value: &dyn Display| format!("\"{name}\":\"{value}\"");
    let members = [
        quoted("position_id", &format_args!("pos_{}", position.simple())),
        quoted("sku_id", &format_args!("sku_{}", item.sku.simple())),
        quoted("warehouse_id", &format_args!("whs_{}", item.warehouse.simple())),
        quoted("quantity", &UNITS),
        quoted("promise_id", &format_args!("prm_{}", promise.simple())),
        quoted("on_hand", &units("on_hand")),
        quoted("on_order", &units("on_order")),
        quoted("allocated", &allocated.normalize()),
        quoted("reserved", &units("reserved")),
        quoted("ats_after", &available(row, allocated)),
    ];
    format!("{{{}}}", members.join(","))
}

fn answer_body(item: &Item, promise: Uuid, row: &Row, allocated: Decimal) -> String {
    let position: Uuid = row.get("position_id");
    format!(
        "{{\"lines\":[{{\"promise_id\":\"prm_{}\",\"position_id\":\"pos_{}\",\"sku_id\":\"sku_{}\",\
         \"warehouse_id\":\"whs_{}\",\"quantity\":\"{UNITS}\",\"ats_after\":\"{}\"}}]}}",
        promise.simple(),
        position.simple(),
        item.sku.simple(),
        item.warehouse.simple(),
        available(row, allocated)
    )
}
