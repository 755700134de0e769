//! Event rows exist if and only if their change does.

use engine::gate;
use serde_json::{Value, json};
use testkit::{App, app::Stock};

async fn events(app: &App, stock: &Stock) -> Vec<Value> {
    let position = app.position(stock).await;
    let Some(id) = position["position_id"].as_str() else { return Vec::new() };
    let page = app.get(&format!("/v1/stock-positions/{id}/events?limit=200")).await.ok();
    page["items"].as_array().cloned().expect("events")
}

#[tokio::test]
async fn out_01_case_078_an_event_exists_if_and_only_if_its_change_committed() {
    let app = App::start().await;
    let stock = app.stock("5").await;
    assert_eq!(events(&app, &stock).await.len(), 1);
    app.allocate("refused", &stock, "6").await.problem(422, "insufficient_ats");
    assert_eq!(events(&app, &stock).await.len(), 1, "a refusal changes nothing");
    // The transaction is rolled back with everything written but the commit.
    gate::panic_next("batch.storing");
    let broken = app.write("/v1/stock/allocate", "broken", &stock.lines(&["2"]));
    app.send_any(broken).await.problem(500, "defect");
    assert_eq!(events(&app, &stock).await.len(), 1, "no phantom of a rolled-back change");
    app.allocate("broken", &stock, "2").await.ok();
    app.allocate("broken", &stock, "2").await.ok();
    let told = events(&app, &stock).await;
    assert_eq!(told.len(), 2, "one change, one event, however often it is asked");
    assert_eq!(told[1]["kind"], "inventory.stock_allocated");
    app.finish().await;
}

#[tokio::test]
async fn case_077_an_event_is_seen_only_as_a_committed_row() {
    let app = std::sync::Arc::new(App::start().await);
    let stock = app.stock("5").await;
    let mut gate = gate::hold("batch.storing");
    let (slow, beside) = (app.clone(), stock.clone());
    let write = tokio::spawn(async move { slow.allocate("a", &beside, "2").await });
    let go = gate.reached().await;
    assert_eq!(events(&app, &stock).await.len(), 1);
    drop(go);
    write.await.expect("it ends").ok();
    assert_eq!(events(&app, &stock).await.len(), 2);
}

#[tokio::test]
async fn out_07_case_079_sequences_follow_the_ledger_without_a_hole_under_load() {
    let app = std::sync::Arc::new(App::start().await);
    let twin = std::sync::Arc::new(app.replica().await);
    let stock = app.stock("1000").await;
    let tasks = (0..80).map(|n| {
        let (app, stock) = (if n % 2 == 0 { app.clone() } else { twin.clone() }, stock.clone());
        tokio::spawn(async move { app.allocate(&format!("o{n}"), &stock, "1").await.ok() })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("it ends");
    }
    let told = events(&app, &stock).await;
    let sequences: Vec<_> = told.iter().filter_map(|event| event["sequence"].as_i64()).collect();
    assert_eq!(sequences, (1..=81).collect::<Vec<_>>());
    let left: Vec<_> =
        told[1..].iter().map(|event| event["data"]["ats_after"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(left, (0..80).map(|n| (999 - n).to_string()).collect::<Vec<_>>(), "in the order of the commits");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn ten_05_the_audit_tells_who_did_what_from_where_under_which_correlation_id() {
    let app = App::start().await;
    let stock = app.stock("5").await;
    let write = app.write("/v1/stock/allocate", "order-1", &stock.lines(&["2"])).header("x-correlation-id", "call-77");
    let reply = app.send(write).await;
    reply.ok();
    assert_eq!(reply.header("x-correlation-id"), Some("call-77"));
    app.allocate("order-2", &stock, "9").await.problem(422, "insufficient_ats");
    app.allocate("order-2", &stock, "9").await.problem(422, "insufficient_ats"); // a replay runs nothing
    let audit = app.get("/v1/audit?limit=200").await.ok();
    let rows = audit["items"].as_array().expect("rows");
    let of = |key: &str| rows.iter().filter(|row| row["idempotency_key"] == key).collect::<Vec<_>>();
    let (done, refused) = (of("order-1"), of("order-2"));
    assert_eq!((done.len(), refused.len()), (1, 1));
    assert_eq!(done[0]["command"], "inventory.allocate");
    assert_eq!(done[0]["outcome"], "done");
    assert_eq!(done[0]["correlation_id"], "call-77");
    assert_eq!(done[0]["remote"], "127.0.0.1");
    let keys = app.get("/v1/api-keys").await.ok();
    assert_eq!(done[0]["actor"], keys["items"][0]["api_key_id"]);
    assert_eq!(refused[0]["outcome"], "insufficient_ats");
    let events = events(&app, &stock).await;
    assert_eq!(events[1]["correlation_id"], "call-77");
    // A correlation id that cannot be a header's is replaced, not refused.
    let odd =
        app.write("/v1/stock/allocate", "order-3", &stock.lines(&["1"])).header("x-correlation-id", "x".repeat(200));
    let reply = app.send(odd).await;
    assert_eq!(reply.header("x-correlation-id").map(str::len), Some(32));
    let reader = app.key_with(&["inventory.read"]).await;
    app.get_as(&reader, "/v1/audit").await.problem(403, "permission_missing");
    app.finish().await;
}

#[tokio::test]
async fn case_034_case_065_a_business_event_is_booked_once_even_under_another_key() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let receipt = stock.line_from("3", "pos|terminal-4|receipt-881");
    app.post("/v1/stock/allocate", "click-1", &receipt).await.ok();
    let body = app.post("/v1/stock/allocate", "click-2", &receipt).await.problem(409, "source_taken");
    assert!(body["existing_id"].as_str().is_some_and(|id| id.starts_with("prm_")), "{body}");
    assert_eq!(body["errors"][0]["field"], "lines[0].source");
    // Another movement under the same source is the same event said twice.
    app.post("/v1/stock/receive", "click-3", &receipt).await.problem(409, "source_taken");
    // Two at once: the batch, or the unique key, lets one through.
    let twin = app.replica().await;
    let other = stock.line_from("1", "pos|terminal-4|receipt-882");
    let (one, two) =
        tokio::join!(app.post("/v1/stock/allocate", "c4", &other), twin.post("/v1/stock/allocate", "c5", &other));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let same = json!({"lines": [receipt["lines"][0], receipt["lines"][0]]});
    app.post("/v1/stock/allocate", "c6", &same).await.problem(422, "invalid_value");
    assert_eq!(app.position(&stock).await["allocated"], "4");
    twin.finish().await;
}
