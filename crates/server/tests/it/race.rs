//! Races, two real transactions each, of two replicas where that makes a difference. A test is
//! named after its guard: without that guard it fails (`bin/hygiene guards`).

use engine::gate;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::{App, Reply, app::Stock};
use tokio::task::JoinHandle;

fn spawn(app: &Arc<App>, path: &'static str, key: &'static str, body: Value) -> JoinHandle<Reply> {
    let app = app.clone();
    tokio::spawn(async move { app.send_any(app.write(path, key, &body)).await })
}

/// Positions with 10 units each, their SKUs in ascending order, received in the order of `turns`.
async fn positions(app: &App, count: usize, turns: &[usize]) -> Vec<Stock> {
    let warehouse = app.warehouse("MAIN").await;
    let mut stocks = Vec::new();
    for n in 0..count {
        stocks.push(Stock { sku: app.sku(&format!("S{n}")).await, warehouse: warehouse.clone() });
    }
    stocks.sort_by(|a, b| a.sku.cmp(&b.sku));
    for &n in turns {
        app.post("/v1/stock/receive", &format!("r{n}"), &stocks[n].lines(&["10"])).await.ok();
    }
    stocks
}

/// One line of 1 unit for each stock.
fn one_of_each<'a>(stocks: impl IntoIterator<Item = &'a Stock>) -> Value {
    let lines: Vec<_> = stocks.into_iter().map(|stock| stock.lines(&["1"])["lines"][0].clone()).collect();
    json!({"lines": lines})
}

/// Whether any batch was torn apart: that is for poisoned ones.
async fn was_bisected(app: &App) -> bool {
    app.send(app.request(Method::GET, "/metrics")).await.text().contains("\ntallyhold_batch_bisections_total")
}

#[tokio::test]
async fn change_lock() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let stock = app.stock("10").await;
    let mut gate = gate::hold("batch.decided");
    let first = spawn(&app, "/v1/stock/allocate", "a", stock.lines(&["8"]));
    let go = gate.reached().await;
    let second = spawn(&twin, "/v1/stock/allocate", "b", stock.lines(&["8"]));
    app.database.wait_for_lock_wait_or_end("position_load", &second).await;
    drop(go);
    first.await.expect("first").ok();
    second.await.expect("second").problem(422, "insufficient_ats");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn a_sku_that_comes_into_being_while_it_is_received_is_missing_or_there_and_never_half() {
    let app = Arc::new(App::start().await);
    let (known, warehouse) = (app.sku("KNOWN").await, app.warehouse("MAIN").await);
    let stock = Stock { sku: kernel::id::SkuId::mint().to_string(), warehouse };
    let mut gate = gate::hold("batch.locked");
    let first = spawn(&app, "/v1/stock/receive", "r", stock.lines(&["5"]));
    let go = gate.reached().await;
    let (id, known): (kernel::id::SkuId, kernel::id::SkuId) =
        (stock.sku.parse().expect("ours"), known.parse().expect("an id"));
    let admin = app.database.raw_admin().await;
    let copy = "INSERT INTO sku SELECT tenant_id, $1, 'NEW', 'new', name, unit, decimals, created_at FROM sku WHERE sku_id = $2";
    admin.execute(copy, &[&id.uuid(), &known.uuid()]).await.expect("another SKU");
    drop(go);
    first.await.expect("first").problem(404, "sku_missing");
    app.post("/v1/stock/receive", "r", &stock.lines(&["5"])).await.ok();
    assert_eq!(app.position(&stock).await["on_hand"], "5");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn no_key_lock() {
    let app = Arc::new(App::start().await);
    let stock = app.stock("10").await;
    let mut gate = gate::hold("batch.loaded");
    let change = spawn(&app, "/v1/stock/allocate", "a", stock.lines(&["1"]));
    let go = gate.reached().await;
    // Whoever refers to the position by foreign key only makes sure that it stays.
    let (tenant, sku, warehouse) = (app.tenant.uuid(), &stock.sku[4..], &stock.warehouse[4..]);
    let raw = app.database.raw().await;
    raw.batch_execute(&format!(
        "BEGIN; SET LOCAL tallyhold.tenant_id = '{tenant}'; SET LOCAL lock_timeout = '300ms';
         SELECT FROM stock_position WHERE sku_id = '{sku}' AND warehouse_id = '{warehouse}' FOR KEY SHARE;
         ROLLBACK"
    ))
    .await
    .expect("it does not wait for the batch");
    drop(go);
    change.await.expect("it ends").ok();
}

#[tokio::test]
async fn lock_order() {
    let patient = |config: &mut engine::Config| config.timeouts.lock_ms = 10_000;
    let app = Arc::new(App::start_with(patient).await);
    let twin = Arc::new(app.replica_with(patient).await);
    let stocks = positions(&app, 4, &[0, 1, 2, 3]).await;
    // Somebody holds a row in the middle, so that both batches stop half-way.
    let holder = app.database.raw_admin().await;
    let lock = format!("BEGIN; SELECT FROM stock_position WHERE sku_id = '{}' FOR UPDATE", &stocks[1].sku[4..]);
    holder.batch_execute(&lock).await.expect("it is held");
    let up = spawn(&app, "/v1/stock/allocate", "up", one_of_each(&stocks[..3]));
    app.database.wait_for_lock_waits("position_load", 1).await;
    let down = spawn(&twin, "/v1/stock/allocate", "down", one_of_each(stocks.iter().rev()));
    app.database.wait_for_lock_waits("position_load", 2).await;
    holder.batch_execute("ROLLBACK").await.expect("it is let go");
    up.await.expect("up").ok();
    down.await.expect("down").ok();
    assert_eq!(app.get("/v1/deadlocks").await.ok()["items"], json!([]));
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn ensure_conflict() {
    let app = Arc::new(App::start().await);
    let stocks = positions(&app, 2, &[]).await;
    let (twin, third) = (Arc::new(app.replica().await), Arc::new(app.replica().await));
    // Two new positions, each just being received into for the first time.
    let mut gate = gate::hold("batch.loaded");
    let first = spawn(&app, "/v1/stock/receive", "a", stocks[0].lines(&["5"]));
    let go_first = gate.reached().await;
    let before = app.database.open_transactions().await;
    drop(gate);
    let mut gate = gate::hold("batch.loaded");
    let second = spawn(&twin, "/v1/stock/receive", "b", stocks[1].lines(&["5"]));
    let go_second = gate.reached().await;
    drop(gate);
    let opened = app.database.open_transactions().await;
    let holder = opened.into_iter().find(|pid| !before.contains(pid)).expect("the second one's transaction");
    // A third receives into both: it meets the one, and then the other.
    let both = spawn(&third, "/v1/stock/receive", "c", one_of_each(&stocks));
    app.database.wait_for_lock_wait("position_ensure").await;
    drop(go_first);
    first.await.expect("first").ok();
    app.database.wait_for_lock_of(holder).await;
    drop(go_second);
    second.await.expect("second").ok();
    both.await.expect("both").ok();
    for stock in &stocks {
        assert_eq!(app.position(stock).await["on_hand"], "6");
    }
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn answer_arbiter() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    // A command that locks no row and has no natural key.
    let body = json!({"name": "twin", "permissions": ["inventory.read"]});
    let mut gate = gate::hold_all("batch.storing");
    let one = spawn(&app, "/v1/api-keys", "same", body.clone());
    let two = spawn(&twin, "/v1/api-keys", "same", body);
    let both = (gate.reached().await, gate.reached().await);
    drop(gate);
    drop(both);
    let (one, two) = (one.await.expect("one"), two.await.expect("two"));
    assert_eq!((one.ok(), one.replayed()), (two.ok(), !two.replayed()));
    let keys = app.get("/v1/api-keys").await.ok();
    let made = keys["items"].as_array().expect("keys").iter().filter(|key| key["name"] == "twin").count();
    assert_eq!(made, 1);
}

#[tokio::test]
async fn answer_taken() {
    let app = Arc::new(App::start_with(|config| config.lanes = 1).await);
    let twin = app.replica().await;
    let body = json!({"name": "k", "permissions": ["inventory.read"]});
    let mut gate = gate::hold("batch.decided");
    let opener = spawn(&app, "/v1/api-keys", "opener", body.clone());
    let go = gate.reached().await;
    let (shared, own) =
        (spawn(&app, "/v1/api-keys", "shared", body.clone()), spawn(&app, "/v1/api-keys", "own", body.clone()));
    while app.engine().waiting()[0] < 2 {
        tokio::task::yield_now().await;
    }
    drop(gate);
    let mut gate = gate::hold("batch.decided");
    drop(go);
    // One batch of both has found no answer; another replica stores one of the two first.
    let go = gate.reached().await;
    let stored = twin.post("/v1/api-keys", "shared", &body).await;
    drop(go);
    let shared = shared.await.expect("shared");
    assert_eq!((shared.ok(), shared.replayed()), (stored.ok(), true));
    own.await.expect("own").ok();
    opener.await.expect("opener").ok();
    assert!(!was_bisected(&app).await);
}

#[tokio::test]
async fn tx_discard() {
    let app = App::start().await;
    let twin = app.replica().await;
    let stock = app.stock("10").await;
    // The batch dies with the row locked and its transaction open.
    gate::panic_next("batch.decided");
    app.send_any(app.write("/v1/stock/allocate", "dies", &stock.lines(&["1"]))).await.problem(500, "defect");
    twin.allocate("next", &stock, "1").await.ok();
    twin.finish().await;
}

#[tokio::test]
async fn skip_locked_once() {
    let tune = |config: &mut engine::Config| {
        config.lanes = 1;
        config.timeouts.lock_ms = 300;
    };
    let app = Arc::new(App::start_with(tune).await);
    let stocks = positions(&app, 3, &[0, 1, 2]).await;
    let holder = app.database.raw_admin().await;
    let lock = format!("BEGIN; SELECT FROM stock_position WHERE sku_id = '{}' FOR UPDATE", &stocks[1].sku[4..]);
    holder.batch_execute(&lock).await.expect("it is held");
    // One batch of two: they queue while another is at a gate.
    let mut gate = gate::hold("batch.decided");
    let opener = spawn(&app, "/v1/stock/allocate", "opener", stocks[0].lines(&["1"]));
    let go = gate.reached().await;
    let held = spawn(&app, "/v1/stock/allocate", "held", stocks[1].lines(&["1"]));
    let free = spawn(&app, "/v1/stock/allocate", "free", stocks[2].lines(&["1"]));
    while app.engine().waiting()[0] < 2 {
        tokio::task::yield_now().await;
    }
    drop(go);
    opener.await.expect("opener").ok();
    held.await.expect("held").problem(503, "row_held");
    free.await.expect("free").ok();
    assert!(!was_bisected(&app).await, "the free one was made to wait again and again");
    holder.batch_execute("ROLLBACK").await.expect("it is let go");
    app.allocate("held", &stocks[1], "1").await.ok();
}

#[tokio::test]
async fn source_arbiter() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let stocks = positions(&app, 2, &[0, 1]).await;
    // One business event, twice under two keys, and no row in common.
    let mut gate = gate::hold_all("batch.decided");
    let one = spawn(&app, "/v1/stock/allocate", "a", stocks[0].line_from("1", "receipt-1"));
    let two = spawn(&twin, "/v1/stock/allocate", "b", stocks[1].line_from("1", "receipt-1"));
    let both = (gate.reached().await, gate.reached().await);
    drop(gate);
    drop(both);
    let (one, two) = (one.await.expect("one"), two.await.expect("two"));
    let (won, lost) = if one.status == 200 { (one, two) } else { (two, one) };
    won.ok();
    lost.problem(409, "source_taken");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn partition_lock() {
    let app = Arc::new(App::start().await);
    let admin = app.database.raw_admin().await;
    let last = "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'event'::regclass";
    let last: String = admin.query_one(last, &[]).await.expect("partitions").get(0);
    admin.batch_execute(&format!("DROP TABLE {last}")).await.expect("dropped");
    // Another server makes it, and has not committed yet.
    let other = app.database.raw().await;
    other.batch_execute("BEGIN; SELECT partition_ensure()").await.expect("it makes the partition");
    let starting = app.clone();
    let ensured = tokio::spawn(async move { starting.engine().ensure_partitions().await });
    app.database.wait_for_lock_wait_or_end("partition_ensure", &ensured).await;
    other.batch_execute("COMMIT").await.expect("it is made");
    ensured.await.expect("it ends").expect("it finds it done");
}
