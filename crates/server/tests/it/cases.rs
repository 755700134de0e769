//! Load, two clients on one record, and cases that fit no other file.

use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};
use testkit::{App, app::Stock};

/// A small generator with a seed: the test must be the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[tokio::test]
async fn test_01_under_load_from_two_replicas_the_books_equal_an_independent_model() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let warehouse = app.warehouse("MAIN").await;
    let mut stocks = Vec::new();
    for n in 0..4 {
        let stock = Stock { sku: app.sku(&format!("S{n}")).await, warehouse: warehouse.clone() };
        app.post("/v1/stock/receive", &format!("open{n}"), &stock.lines(&["60"])).await.ok();
        stocks.push(stock);
    }
    let callers: Vec<_> = (0..32u64)
        .map(|caller| {
            let app = if caller % 2 == 0 { app.clone() } else { twin.clone() };
            let stocks = stocks.clone();
            tokio::spawn(async move {
                let mut dice = Dice(caller);
                let mut promises = Vec::new();
                // What this caller did: on hand and allocated per SKU.
                let mut done: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
                for step in 0..12 {
                    let key = format!("c{caller}s{step}");
                    let which = dice.roll(4) as usize;
                    let units = 1 + dice.roll(3).cast_signed();
                    let (path, body, of) = match dice.roll(5) {
                        0 => ("/v1/stock/receive", stocks[which].lines(&[&units.to_string()]), None),
                        1 | 2 => ("/v1/stock/allocate", stocks[which].lines(&[&units.to_string()]), None),
                        kind => {
                            let Some((promise, which, units)) = promises.pop() else { continue };
                            let path = if kind == 3 { "/v1/promises/ship" } else { "/v1/promises/release" };
                            (path, json!({"lines": [{"promise_id": promise}]}), Some((which, units)))
                        }
                    };
                    // Every fourth message is sent twice, as a nervous client does.
                    let reply = if step % 4 == 0 {
                        let (one, two) = tokio::join!(app.post(path, &key, &body), app.post(path, &key, &body));
                        if one.status == 409 { two } else { one }
                    } else {
                        app.post(path, &key, &body).await
                    };
                    if reply.status == 422 {
                        continue;
                    }
                    let answer = reply.ok();
                    let (which, units) = of.unwrap_or((which, units));
                    let sums = done.entry(which).or_default();
                    match path {
                        "/v1/stock/receive" => sums.0 += units,
                        "/v1/stock/allocate" => {
                            sums.1 += units;
                            promises.push((answer["lines"][0]["promise_id"].clone(), which, units));
                        }
                        "/v1/promises/ship" => {
                            sums.0 -= units;
                            sums.1 -= units;
                        }
                        _ => sums.1 -= units,
                    }
                }
                done
            })
        })
        .collect();
    let mut model = BTreeMap::from([(0, (60, 0)), (1, (60, 0)), (2, (60, 0)), (3, (60, 0))]);
    for caller in callers {
        for (which, (on_hand, allocated)) in caller.await.expect("it ends") {
            let sums = model.entry(which).or_default();
            sums.0 += on_hand;
            sums.1 += allocated;
        }
    }
    for (which, (on_hand, allocated)) in model {
        let position = app.position(&stocks[which]).await;
        assert_eq!(position["on_hand"], on_hand.to_string(), "{which}");
        assert_eq!(position["allocated"], allocated.to_string(), "{which}");
    }
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn test_02_two_clients_on_the_same_promise_ship_it_once() {
    let app = App::start().await;
    let twin = app.replica().await;
    let stock = app.stock("8").await;
    let promise = app.allocate("a", &stock, "8").await.ok()["lines"][0]["promise_id"].clone();
    let body = json!({"lines": [{"promise_id": promise}]});
    let (one, two) =
        tokio::join!(app.post("/v1/promises/ship", "x", &body), twin.post("/v1/promises/ship", "y", &body));
    let lost = if one.status == 200 { two } else { one };
    lost.problem(422, "promise_not_open");
    assert_eq!(app.position(&stock).await["on_hand"], "0");
    twin.finish().await;
}

#[tokio::test]
async fn case_023_case_027_the_last_unit_goes_to_one_and_nobody_is_refused_for_a_collision() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let stock = app.stock("1").await;
    let (one, two) = tokio::join!(app.allocate("a", &stock, "1"), twin.allocate("b", &stock, "1"));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422]);
    // With enough for all, nobody is told otherwise, however they collide.
    app.post("/v1/stock/receive", "more", &stock.lines(&["300"])).await.ok();
    let calls: Vec<_> = (0..30)
        .map(|n| {
            let (app, stock) = (if n % 2 == 0 { app.clone() } else { twin.clone() }, stock.clone());
            tokio::spawn(async move { app.allocate(&format!("t{n}"), &stock, "10").await.status })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("it ends"), 200);
    }
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn case_024_many_notes_with_overlapping_items_in_any_order_never_fail() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let warehouse = app.warehouse("MAIN").await;
    let mut skus = Vec::new();
    for n in 0..6 {
        let stock = Stock { sku: app.sku(&format!("S{n}")).await, warehouse: warehouse.clone() };
        app.post("/v1/stock/receive", &format!("r{n}"), &stock.lines(&["1000"])).await.ok();
        skus.push(stock.sku);
    }
    let notes: Vec<_> = (0..48u64)
        .map(|note| {
            let app = if note % 2 == 0 { app.clone() } else { twin.clone() };
            let (skus, warehouse) = (skus.clone(), warehouse.clone());
            tokio::spawn(async move {
                let mut dice = Dice(note);
                let line = |dice: &mut Dice| {
                    let sku = &skus[dice.roll(6) as usize];
                    json!({"sku_id": sku, "warehouse_id": warehouse, "quantity": "1"})
                };
                let lines: Vec<_> = (0..5).map(|_| line(&mut dice)).collect();
                let done = app.post("/v1/stock/allocate", &format!("n{note}"), &json!({"lines": lines})).await.ok();
                let ids = done["lines"].as_array().expect("lines").iter().rev();
                let ship: Vec<_> = ids.map(|line| json!({"promise_id": line["promise_id"]})).collect();
                app.post("/v1/promises/ship", &format!("s{note}"), &json!({"lines": ship})).await.ok();
            })
        })
        .collect();
    for note in notes {
        note.await.expect("no note fails");
    }
    assert_eq!(app.get("/v1/deadlocks").await.ok()["items"], json!([]));
    testkit::app::sweep(app.engine()).await;
}
