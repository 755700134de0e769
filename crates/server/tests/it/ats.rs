//! Never oversell.

use serde_json::{Value, json};
use std::sync::Arc;
use testkit::{App, app::Stock};

#[tokio::test]
async fn ats_01_available_is_on_hand_plus_on_order_less_allocated_less_reserved() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    app.allocate("a", &stock, "3").await.ok();
    // What later slices will move, put in as they would: with its ledger line and event.
    let admin = app.database.raw_admin().await;
    let position = app.position(&stock).await;
    let uuid = position["position_id"].as_str().expect("an id").trim_start_matches("pos_").to_owned();
    admin
        .batch_execute(&format!(
            "UPDATE stock_position SET on_order = 5, reserved = 2, sequence = sequence + 1 WHERE position_id = '{uuid}';
             INSERT INTO stock_ledger (tenant_id, position_id, sequence, kind, on_hand, on_order, allocated, reserved, at)
             SELECT tenant_id, position_id, sequence, 'receive', 0, 5, 0, 2, now() FROM stock_position;
             INSERT INTO event (tenant_id, event_id, kind, aggregate, aggregate_id, sequence, schema_version, data,
                 correlation_id, at)
             SELECT tenant_id, gen_random_uuid(), 'inventory.stock_received', 'stock_position', position_id, sequence,
                 1, '{{}}', '', now() FROM stock_position"
        ))
        .await
        .expect("the counters can be set");
    let position = app.position(&stock).await;
    assert_eq!(position["ats"], "10", "{position}");
    app.allocate("b", &stock, "11").await.problem(422, "insufficient_ats");
    app.allocate("c", &stock, "10").await.ok();
    assert_eq!(app.position(&stock).await["ats"], "0");
    app.finish().await;
}

#[tokio::test]
async fn ats_02_case_022_two_orders_of_six_against_six_units() {
    let app = App::start().await;
    let twin = app.replica().await;
    let stock = app.stock("6").await;
    let (austin, tokyo) = tokio::join!(app.allocate("austin", &stock, "6"), twin.allocate("tokyo", &stock, "6"));
    let (won, lost) = if austin.status == 200 { (austin, tokyo) } else { (tokyo, austin) };
    assert_eq!(won.ok()["lines"][0]["ats_after"], "0");
    let refusal = lost.problem(422, "insufficient_ats");
    assert_eq!(refusal["shorts"][0]["wanted"], "6");
    assert_eq!(refusal["shorts"][0]["available"], "0");
    assert_eq!(app.position(&stock).await["allocated"], "6");
    twin.finish().await;
}

#[tokio::test]
async fn ats_02_case_022_the_second_is_told_what_is_left() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    app.allocate("a", &stock, "6").await.ok();
    let refusal = app.allocate("b", &stock, "6").await.problem(422, "insufficient_ats");
    assert_eq!(refusal["shorts"][0]["available"], "4");
    assert_eq!(refusal["shorts"][0]["sku_id"], stock.sku);
    assert!(refusal["detail"].as_str().is_some_and(|text| text.contains("4 available")), "{refusal}");
    app.finish().await;
}

#[tokio::test]
async fn ats_03_the_decision_is_made_over_the_row_as_locked_never_over_an_earlier_read() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let stock = app.stock("10").await;
    // The first has read and decided, and holds the lock; the second asks meanwhile.
    let mut gate = engine::gate::hold("batch.decided");
    let (one, beside) = (app.clone(), stock.clone());
    let first = tokio::spawn(async move { one.allocate("a", &beside, "8").await });
    let go = gate.reached().await;
    let (two, beside) = (twin.clone(), stock.clone());
    let second = tokio::spawn(async move { two.allocate("b", &beside, "8").await });
    app.database.wait_for_lock_wait("position_load").await;
    drop(go);
    first.await.expect("first").ok();
    let refusal = second.await.expect("second").problem(422, "insufficient_ats");
    assert_eq!(refusal["shorts"][0]["available"], "2");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn ats_04_the_database_refuses_an_oversell_whatever_code_runs() {
    let app = App::start().await;
    app.stock("6").await;
    let admin = app.database.raw_admin().await;
    for (statement, constraint) in [
        ("UPDATE stock_position SET allocated = 7", "stock_position_no_oversell"),
        ("UPDATE stock_position SET reserved = 7", "stock_position_no_oversell"),
        ("UPDATE stock_position SET on_hand = -1, overcommit_limit = 9", "stock_position_on_hand_min"),
        ("UPDATE stock_position SET allocated = -1", "stock_position_allocated_min"),
        ("UPDATE stock_position SET reserved = -1", "stock_position_reserved_min"),
        ("UPDATE stock_position SET on_order = -1, overcommit_limit = 9", "stock_position_on_order_min"),
    ] {
        let error = admin.execute(statement, &[]).await.expect_err(statement);
        let error = error.as_db_error().expect("a database error");
        assert_eq!(error.constraint(), Some(constraint), "{statement}: {error}");
    }
    app.finish().await;
}

#[tokio::test]
async fn ats_05_an_unknown_sku_and_too_little_stock_are_told_apart() {
    let app = App::start().await;
    let stock = app.stock("1").await;
    let unknown = Stock { sku: kernel::id::SkuId::mint().to_string(), ..stock.clone() };
    let body = app.allocate("a", &unknown, "1").await.problem(404, "sku_missing");
    assert_eq!(body["errors"][0]["field"], "lines[0].sku_id");
    let nowhere = Stock { warehouse: kernel::id::WarehouseId::mint().to_string(), ..stock.clone() };
    let body = app.allocate("b", &nowhere, "1").await.problem(404, "warehouse_missing");
    assert_eq!(body["errors"][0]["field"], "lines[0].warehouse_id");
    // Known, but never received there: nothing to promise.
    let never = Stock { sku: app.sku("NEVER").await, ..stock.clone() };
    let body = app.allocate("c", &never, "1").await.problem(422, "insufficient_ats");
    assert_eq!(body["shorts"][0]["available"], "0");
    app.allocate("d", &stock, "2").await.problem(422, "insufficient_ats");
    app.finish().await;
}

#[tokio::test]
async fn ats_06_every_change_has_its_ledger_line_and_the_ledger_refuses_change() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let promise = app.allocate("a", &stock, "6").await.ok()["lines"][0]["promise_id"].clone();
    let part = |quantity: &str| json!({"lines": [{"promise_id": promise, "quantity": quantity}]});
    app.post("/v1/promises/ship", "s", &part("4")).await.ok();
    app.post("/v1/promises/return", "r", &part("1")).await.ok();
    app.post("/v1/promises/release", "x", &part("2")).await.ok();
    let (sku, warehouse) = (&stock.sku, &stock.warehouse);
    let adjust = json!({"lines": [
        {"sku_id": sku, "warehouse_id": warehouse, "quantity": "-3", "reason": "water damage"}]});
    app.post("/v1/stock/adjust", "w", &adjust).await.ok();
    let position = app.position(&stock).await;
    let id = position["position_id"].as_str().expect("an id");
    let ledger = app.get(&format!("/v1/stock-positions/{id}/ledger")).await.ok();
    let told: Vec<_> = ledger["items"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| {
            let text = |member: &str| line[member].as_str().unwrap_or_default().to_owned();
            (line["sequence"].as_i64(), text("kind"), text("on_hand"), text("allocated"))
        })
        .collect();
    let line = |n, kind: &str, on_hand: &str, allocated: &str| (Some(n), kind.into(), on_hand.into(), allocated.into());
    assert_eq!(
        told,
        [
            line(1, "receive", "10", "0"),
            line(2, "allocate", "0", "6"),
            line(3, "ship", "-4", "-4"),
            line(4, "return", "1", "0"),
            line(5, "release", "0", "-2"),
            line(6, "adjust", "-3", "0"),
        ]
    );
    assert_eq!(ledger["items"][5]["reason"], "water damage");
    let server = app.database.raw().await;
    for table in ["stock_ledger", "event", "audit", "answer"] {
        for change in ["DELETE FROM", "TRUNCATE"] {
            let error = server.batch_execute(&format!("{change} {table}")).await.expect_err(table);
            assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("42501"), "{change} {table}");
        }
        let update = format!("UPDATE {table} SET tenant_id = tenant_id");
        let error = server.batch_execute(&update).await.expect_err(table);
        assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("42501"), "{update}");
    }
    // A partition is no way around: the server has no rights on it at all.
    let month: String = app
        .database
        .raw_admin()
        .await
        .query_one(
            "SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'stock_ledger'::regclass",
            &[],
        )
        .await
        .expect("partitions")
        .get(0);
    let error = server.batch_execute(&format!("SELECT * FROM {month}")).await.expect_err("no rights");
    assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("42501"));
    app.finish().await;
}

#[tokio::test]
async fn ats_07_answer_and_event_carry_ats_after() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let line = app.allocate("a", &stock, "3").await.ok()["lines"][0].clone();
    assert_eq!(line["ats_after"], "7");
    let id = line["position_id"].as_str().expect("an id");
    let events = app.get(&format!("/v1/stock-positions/{id}/events")).await.ok();
    let event = &events["items"][1];
    assert_eq!(event["kind"], "inventory.stock_allocated");
    assert_eq!(event["data"]["ats_after"], "7");
    assert_eq!(event["data"]["promise_id"], line["promise_id"]);
    app.finish().await;
}

#[tokio::test]
async fn case_001_lines_of_one_item_are_summed_before_the_check() {
    let app = App::start().await;
    let stock = app.stock("1").await;
    let refusal = app.post("/v1/stock/allocate", "two", &stock.lines(&["1", "1"])).await;
    let body = refusal.problem(422, "insufficient_ats");
    assert_eq!((&body["shorts"][0]["wanted"], &body["shorts"][0]["available"]), (&json!("2"), &json!("1")));
    let three = app.post("/v1/stock/allocate", "three", &stock.lines(&["0.3", "0.3", "0.4"])).await;
    three.problem(422, "quantity_decimals_exceeded");
    assert_eq!(app.position(&stock).await["allocated"], "0");
    assert_eq!(app.get("/v1/promises").await.ok()["items"], json!([]));
    // The same over several positions: one short line refuses the whole call.
    let other = Stock { sku: app.sku("OTHER").await, ..stock.clone() };
    app.post("/v1/stock/receive", "o", &other.lines(&["5"])).await.ok();
    let mut lines = other.lines(&["2", "2"]);
    let more = stock.lines(&["1", "1"])["lines"].as_array().cloned().expect("lines");
    lines["lines"].as_array_mut().expect("lines").extend(more);
    let body = app.post("/v1/stock/allocate", "mixed", &lines).await.problem(422, "insufficient_ats");
    assert_eq!(body["shorts"].as_array().map(Vec::len), Some(1), "{body}");
    assert_eq!(app.position(&other).await["allocated"], "0");
    app.finish().await;
}

#[tokio::test]
async fn case_003_the_same_row_named_twice_is_locked_once() {
    let app = App::start().await;
    let stock = app.stock("5").await;
    let done = app.post("/v1/stock/allocate", "k", &stock.lines(&["1", "2", "1"])).await.ok();
    let left: Vec<_> = done["lines"].as_array().expect("lines").iter().map(|line| line["ats_after"].clone()).collect();
    assert_eq!(left, ["4", "2", "1"]);
    let promise = &done["lines"][1]["promise_id"];
    let twice = json!({"lines": [{"promise_id": promise, "quantity": "1"}, {"promise_id": promise, "quantity": "1"}]});
    app.post("/v1/promises/ship", "s", &twice).await.ok();
    assert_eq!(app.get(&format!("/v1/promises/{}", promise.as_str().expect("an id"))).await.ok()["state"], "closed");
    app.finish().await;
}

#[tokio::test]
async fn case_005_case_019_two_allocations_of_all_there_is() {
    let app = App::start().await;
    let twin = app.replica().await;
    let stock = app.stock("5").await;
    for round in 0..5 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let (one, two) = tokio::join!(app.allocate(&a, &stock, "5"), twin.allocate(&b, &stock, "5"));
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 422]);
        let won = if one.status == 200 { one } else { two };
        let promise = won.ok()["lines"][0]["promise_id"].clone();
        let release = json!({"lines": [{"promise_id": promise}]});
        app.post("/v1/promises/release", &format!("r{round}"), &release).await.ok();
    }
    twin.finish().await;
}

#[tokio::test]
async fn case_007_case_008_stock_is_checked_when_it_is_promised_not_when_it_was_seen() {
    let app = App::start().await;
    let stock = app.stock("20").await;
    assert_eq!(app.position(&stock).await["ats"], "20"); // A looks and fills a cart with 5.
    app.allocate("b", &stock, "20").await.ok();
    let body = app.allocate("a", &stock, "5").await.problem(422, "insufficient_ats");
    assert_eq!(body["shorts"][0]["available"], "0");
    app.finish().await;
}

#[tokio::test]
async fn case_010_under_load_every_promise_has_its_rows() {
    let app = Arc::new(App::start().await);
    let stock = app.stock("1000").await;
    let orders = (0..100).map(|n| {
        let (app, stock) = (app.clone(), stock.clone());
        tokio::spawn(async move { app.allocate(&format!("order-{n}"), &stock, "2").await.ok() })
    });
    for order in orders.collect::<Vec<_>>() {
        order.await.expect("it ends");
    }
    let position = app.position(&stock).await;
    assert_eq!((&position["allocated"], &position["sequence"]), (&json!("200"), &json!(101)));
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn case_013_case_012_twenty_reserve_where_ten_are() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let stock = app.stock("10").await;
    let buyers = (0..20).map(|n| {
        let (app, stock) = (if n % 2 == 0 { app.clone() } else { twin.clone() }, stock.clone());
        tokio::spawn(async move { app.allocate(&format!("buyer-{n}"), &stock, "1").await.status })
    });
    let mut statuses = Vec::new();
    for buyer in buyers.collect::<Vec<_>>() {
        statuses.push(buyer.await.expect("it ends"));
    }
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(200), count(422)), (10, 10));
    assert_eq!(app.position(&stock).await["allocated"], "10");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn case_014_counts_and_completions_at_once_never_drift() {
    let app = Arc::new(App::start().await);
    let stock = app.stock("100").await;
    let mut promises = Vec::new();
    for n in 0..20 {
        promises.push(app.allocate(&format!("p{n}"), &stock, "2").await.ok()["lines"][0]["promise_id"].clone());
    }
    let (sku, warehouse) = (stock.sku.clone(), stock.warehouse.clone());
    let tasks = (0..60).map(|n: usize| {
        let app = app.clone();
        let (path, body) = match n % 3 {
            0 => ("/v1/promises/ship", json!({"lines": [{"promise_id": promises[n / 3]}]})),
            1 => ("/v1/promises/release", json!({"lines": [{"promise_id": promises[n / 3], "quantity": "1"}]})),
            _ => {
                let quantity = if n.is_multiple_of(2) { "1" } else { "-1" };
                let line = json!({"sku_id": sku, "warehouse_id": warehouse, "quantity": quantity, "reason": "count"});
                ("/v1/stock/adjust", json!({"lines": [line]}))
            }
        };
        tokio::spawn(async move { app.post(path, &format!("t{n}"), &body).await.status })
    });
    for task in tasks.collect::<Vec<_>>() {
        let status = task.await.expect("it ends");
        assert!([200, 422].contains(&status), "{status}");
    }
    assert_eq!(app.position(&stock).await["allocated"], "0");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn case_016_a_double_release_changes_nothing_twice() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let promise = app.allocate("a", &stock, "4").await.ok()["lines"][0]["promise_id"].clone();
    let all = json!({"lines": [{"promise_id": promise}]});
    let (one, two) =
        tokio::join!(app.post("/v1/promises/release", "r1", &all), app.post("/v1/promises/ship", "r2", &all));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422], "ship and release at once: one of them");
    let body = app.post("/v1/promises/release", "r3", &all).await.problem(422, "promise_not_open");
    assert_eq!(body["open"], "0");
    assert_eq!(app.position(&stock).await["allocated"], "0");
    app.finish().await;
}

#[tokio::test]
async fn case_048_more_than_was_shipped_cannot_be_returned() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let promise = app.allocate("a", &stock, "5").await.ok()["lines"][0]["promise_id"].clone();
    let part = |quantity: &str| json!({"lines": [{"promise_id": promise, "quantity": quantity}]});
    app.post("/v1/promises/return", "r0", &part("1")).await.problem(422, "return_exceeds_shipped");
    app.post("/v1/promises/ship", "s", &part("3")).await.ok();
    let two_units = part("2");
    let (one, two) = tokio::join!(
        app.post("/v1/promises/return", "r1", &two_units),
        app.post("/v1/promises/return", "r2", &two_units)
    );
    let lost = if one.status == 200 { two } else { one };
    assert_eq!(lost.problem(422, "return_exceeds_shipped")["returnable"], "1");
    app.post("/v1/promises/return", "r3", &part("1")).await.ok();
    assert_eq!(app.post("/v1/promises/return", "r4", &part("1")).await.json()["returnable"], "0");
    app.finish().await;
}

#[tokio::test]
async fn what_is_promised_against_nothing_on_hand_cannot_be_shipped() {
    let app = App::start().await;
    let stock = app.stock("2").await;
    let promise = app.allocate("a", &stock, "2").await.ok()["lines"][0]["promise_id"].clone();
    // One of the two is gone, and one is on its way: what a purchasing slice will do.
    let admin = app.database.raw_admin().await;
    let shift = "UPDATE stock_position SET on_hand = 1, on_order = 1";
    admin.batch_execute(shift).await.expect("the counters can be set");
    let body = app.post("/v1/promises/ship", "s", &json!({"lines": [{"promise_id": promise}]})).await;
    assert_eq!(body.problem(422, "insufficient_on_hand")["on_hand"], "1");
    let adjust = |quantity: &str| -> Value {
        json!({"lines": [{"sku_id": stock.sku, "warehouse_id": stock.warehouse, "quantity": quantity, "reason": "x"}]})
    };
    app.post("/v1/stock/adjust", "w", &adjust("-1")).await.problem(422, "stock_promised");
}

#[tokio::test]
async fn an_adjustment_of_a_position_that_never_was_is_refused_without_a_trace() {
    let app = App::start().await;
    let (sku, warehouse) = (app.sku("S").await, app.warehouse("W").await);
    let body = json!({"lines": [{"sku_id": sku, "warehouse_id": warehouse, "quantity": "-1", "reason": "count"}]});
    let refused = app.post("/v1/stock/adjust", "a", &body).await.problem(422, "insufficient_on_hand");
    assert_eq!((&refused["on_hand"], &refused["promise_id"]), (&json!("0"), &json!(null)), "{refused}");
    let body = json!({"lines": [{"sku_id": sku, "warehouse_id": warehouse, "quantity": "2.5", "reason": "count"}]});
    app.post("/v1/stock/adjust", "b", &body).await.problem(422, "quantity_decimals_exceeded");
    let body = json!({"lines": [{"sku_id": sku, "warehouse_id": warehouse, "quantity": "2", "reason": "count"}]});
    app.post("/v1/stock/adjust", "c", &body).await.ok();
    app.finish().await;
}

#[tokio::test]
async fn case_104_what_is_left_to_the_last_cent_can_be_promised() {
    let app = App::start().await;
    let (sku, warehouse) = (app.sku_with("CLOTH", 2).await, app.warehouse("W").await);
    let stock = Stock { sku, warehouse };
    app.post("/v1/stock/receive", "r", &stock.lines(&["3140"])).await.ok();
    app.allocate("a", &stock, "3106.40").await.ok();
    app.allocate("b", &stock, "33.61").await.problem(422, "insufficient_ats");
    let done = app.allocate("c", &stock, "33.60").await.ok();
    assert_eq!(done["lines"][0]["ats_after"], "0");
    app.finish().await;
}
