//! Idempotency of every write.

use engine::gate;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::App;

/// The routes that need no key: each brings what is good once, or changes nothing a second time.
const KEYLESS: [&str; 4] = ["/v1/auth/login", "/v1/auth/logout", "/v1/auth/password", "/v1/auth/refresh"];

/// Every write of the API that needs a key: method and path, ids filled in with ones that fit.
fn writes() -> Vec<(Method, String)> {
    let description = serde_json::to_value(server::api::openapi()).expect("the description is JSON");
    let paths = description["paths"].as_object().expect("paths").clone();
    let mut writes = Vec::new();
    for (path, item) in paths {
        for method in ["post", "put", "patch", "delete"] {
            if item.get(method).is_some() {
                if KEYLESS.contains(&&*path) {
                    continue;
                }
                let ids = [
                    ("api_key_id", "key"),
                    ("role_id", "rol"),
                    ("user_id", "usr"),
                    ("customer_id", "cus"),
                    ("customer_group_id", "cgr"),
                ];
                let path = ids.into_iter().fold(path.clone(), |path, (name, prefix)| {
                    path.replace(&format!("{{{name}}}"), &format!("{prefix}_0198c0de5eed70008000000000000001"))
                });
                assert!(!path.contains('{'), "{path} has an id this test does not fill in");
                writes.push((method.to_uppercase().parse().expect("a method"), path));
            }
        }
    }
    assert!(writes.len() >= 10, "{writes:?}");
    writes
}

#[test]
fn idem_01_only_these_routes_need_no_key() {
    let description = serde_json::to_value(server::api::openapi()).expect("the description is JSON");
    let mut keyless = Vec::new();
    for (path, item) in description["paths"].as_object().expect("paths") {
        for method in ["post", "put", "patch", "delete"] {
            let Some(operation) = item.get(method) else { continue };
            let command = operation["operationId"].as_str().expect("an id");
            let entry = domain::registry::COMMANDS.iter().find(|entry| entry.name == command).expect("a command");
            let keyed = operation["parameters"].to_string().contains("Idempotency-Key");
            assert_eq!(keyed, entry.stored, "{command}");
            if !keyed {
                keyless.push(path.clone());
            }
        }
    }
    assert_eq!(keyless, KEYLESS);
}

#[tokio::test]
async fn idem_01_every_write_wants_a_key_of_1_to_255_characters() {
    let app = App::start().await;
    // Well formed, of no tenant: had the database been asked, the answer would be 401.
    let unknown = format!("thk_{0}_{0}_{0}{0}", "0198c0de5eed70008000000000000001");
    for (method, path) in writes() {
        for key in [None, Some(""), Some(" "), Some(&*"k".repeat(256)), Some("ké")] {
            let mut request = app.request(method.clone(), &path).bearer_auth(&unknown).json(&json!({}));
            if let Some(key) = key {
                request = request.header("idempotency-key", key.as_bytes());
            }
            let body = app.send(request).await.problem(400, "idempotency_key_missing");
            assert!(body["detail"].as_str().is_some_and(|text| text.contains("Idempotency-Key")), "{path} {body}");
        }
        let longest = app.request(method.clone(), &path).bearer_auth(&app.token).json(&json!({}));
        let reply = app.send(longest.header("idempotency-key", "k".repeat(255))).await;
        assert_ne!(reply.status, 400, "{path}: {}", reply.text());
        let two = app.request(method, &path).bearer_auth(&app.token).header("idempotency-key", "a");
        app.send(two.header("idempotency-key", "b").json(&json!({}))).await.problem(400, "idempotency_key_missing");
    }
    app.finish().await;
}

#[tokio::test]
async fn idem_02_a_retry_gets_the_first_answer_byte_for_byte() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let first = app.allocate("order-1", &stock, "4").await;
    first.ok();
    assert!(!first.replayed());
    for _ in 0..3 {
        let again = app.allocate("order-1", &stock, "4").await;
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes));
        assert!(again.replayed());
        assert_eq!(again.header("content-type"), first.header("content-type"));
    }
    let made = app.post("/v1/warehouses", "w", &json!({"code": "W2", "name": "Second"})).await;
    let again = app.post("/v1/warehouses", "w", &json!({"code": "W2", "name": "Second"})).await;
    assert_eq!((again.status, &again.bytes), (201, &made.bytes));
    assert_eq!(again.header("location"), made.header("location"));
    assert_eq!(app.position(&stock).await["allocated"], "4");
    app.finish().await;
}

#[tokio::test]
async fn idem_02_the_answer_with_a_secret_is_replayed_and_not_readable_in_the_table() {
    let app = App::start().await;
    let body = json!({"name": "shop", "permissions": ["inventory.read"]});
    let first = app.post("/v1/api-keys", "key-1", &body).await;
    let secret = first.ok()["secret"].as_str().expect("a secret").to_owned();
    let again = app.post("/v1/api-keys", "key-1", &body).await;
    assert_eq!((again.replayed(), &again.bytes), (true, &first.bytes));
    app.get_as(&secret, "/v1/stock-positions").await.ok();
    // Whoever else may make keys gets this one's secret from nobody.
    let other = json!({"name": "other", "permissions": ["tenancy.manage"]});
    let other = app.post("/v1/api-keys", "key-2", &other).await.ok()["secret"].as_str().expect("a secret").to_owned();
    app.post_as(&other, "/v1/api-keys", "key-1", &body).await.problem(422, "idempotency_key_reused");
    let admin = app.database.raw_admin().await;
    let row = admin.query_one("SELECT body, sealed FROM answer WHERE key = 'key-1'", &[]).await.expect("the answer");
    let stored: Vec<u8> = row.get(0);
    assert!(row.get::<_, bool>(1));
    assert!(!stored.windows(20).any(|window| secret.as_bytes()[90..110] == *window));
    app.finish().await;
}

#[tokio::test]
async fn idem_03_two_replicas_with_one_key_at_the_same_instant_run_it_once() {
    let app = Arc::new(App::start().await);
    let twin = app.replica().await;
    // A command that locks no row: only the unique index on the answer stands between the two.
    let body = json!({"code": "TWIN", "name": "Twin", "unit": "piece"});
    let mut gate = gate::hold_all("batch.storing");
    let (one, two) = tokio::join!(
        async { tokio::join!(app.post("/v1/skus", "twin", &body), twin.post("/v1/skus", "twin", &body)) },
        async {
            // Both have looked for an answer, found none and decided; now they store at once.
            let (first, second) = (gate.reached().await, gate.reached().await);
            drop((first, second));
            drop(gate);
        }
    )
    .0;
    assert_eq!((one.status, two.status), (201, 201), "{} {}", one.text(), two.text());
    assert_eq!(one.bytes, two.bytes);
    assert!(one.replayed() != two.replayed(), "one ran, the other replays");
    let skus = app.get("/v1/skus").await.ok();
    assert_eq!(skus["items"].as_array().map(Vec::len), Some(1));
    twin.finish().await;
}

#[tokio::test]
async fn idem_04_key_reuse_with_another_request_is_422_and_runs_nothing() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    app.allocate("order-1", &stock, "4").await.ok();
    let body = app.allocate("order-1", &stock, "5").await.problem(422, "idempotency_key_reused");
    assert_eq!(body["stored_fingerprint"].as_str().map(str::len), Some(64));
    assert_ne!(body["stored_fingerprint"], body["sent_fingerprint"]);
    let elsewhere = app.post("/v1/stock/receive", "order-1", &stock.lines(&["4"])).await;
    elsewhere.problem(422, "idempotency_key_reused");
    assert_eq!(app.position(&stock).await["allocated"], "4");
    assert_eq!(app.position(&stock).await["on_hand"], "10");
    app.finish().await;
}

#[tokio::test]
async fn idem_04_member_order_and_white_space_are_the_same_request() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let (sku, warehouse) = (&stock.sku, &stock.warehouse);
    let one = format!(r#"{{"lines":[{{"sku_id":"{sku}","warehouse_id":"{warehouse}","quantity":4}}]}}"#);
    let two =
        format!("{{ \"lines\" : [ {{\"quantity\":4.0 ,\n\"warehouse_id\":\"{warehouse}\", \"sku_id\":\"{sku}\"}} ] }}");
    let first = app.post_bytes("/v1/stock/allocate", "o", one).await;
    let again = app.post_bytes("/v1/stock/allocate", "o", two).await;
    assert_eq!((again.status, again.replayed(), &again.bytes), (200, true, &first.bytes));
    app.finish().await;
}

#[tokio::test]
async fn idem_05_the_same_key_in_flight_is_409_with_retry_after_and_later_the_replay() {
    let app = Arc::new(App::start().await);
    let stock = app.stock("10").await;
    let mut gate = gate::hold("batch.loaded");
    let (slow, beside) = (app.clone(), stock.clone());
    let first = tokio::spawn(async move { slow.allocate("order-1", &beside, "4").await });
    let go = gate.reached().await;
    let busy = app.allocate("order-1", &stock, "4").await;
    busy.problem(409, "request_in_flight");
    assert!(busy.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
    // Another body, too: whether the key is used shows only when the first has ended.
    app.allocate("order-1", &stock, "5").await.problem(409, "request_in_flight");
    drop(go);
    let first = first.await.expect("the first request ends");
    first.ok();
    app.allocate("order-1", &stock, "5").await.problem(422, "idempotency_key_reused");
    let again = app.allocate("order-1", &stock, "4").await;
    assert_eq!((again.replayed(), &again.bytes), (true, &first.bytes));
    assert_eq!(app.position(&stock).await["allocated"], "4");
}

#[tokio::test]
async fn idem_05_a_duplicate_on_another_replica_waits_and_replays() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let stock = app.stock("10").await;
    let mut gate = gate::hold("batch.storing");
    let (slow, beside) = (app.clone(), stock.clone());
    let first = tokio::spawn(async move { slow.allocate("order-1", &beside, "4").await });
    let go = gate.reached().await;
    let (other, beside) = (twin.clone(), stock.clone());
    let second = tokio::spawn(async move { other.allocate("order-1", &beside, "4").await });
    app.database.wait_for_lock_wait("position_load").await;
    drop(go);
    let (first, second) = (first.await.expect("first"), second.await.expect("second"));
    assert_eq!((first.ok(), first.replayed()), (second.ok(), false));
    assert!(second.replayed());
    assert_eq!(app.position(&stock).await["allocated"], "4");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn idem_06_a_refusal_is_kept_and_replayed_even_when_stock_has_come() {
    let app = App::start().await;
    let stock = app.stock("3").await;
    let refused = app.allocate("order-1", &stock, "4").await;
    refused.problem(422, "insufficient_ats");
    app.post("/v1/stock/receive", "more", &stock.lines(&["10"])).await.ok();
    let again = app.allocate("order-1", &stock, "4").await;
    assert_eq!((again.status, again.replayed(), &again.bytes), (422, true, &refused.bytes));
    app.allocate("order-2", &stock, "4").await.ok();
    app.finish().await;
}

#[tokio::test]
async fn idem_06_what_may_change_by_itself_is_not_kept() {
    let app = App::start().await;
    let stock = app.stock("3").await;
    let missing = testkit::app::Stock { sku: kernel::id::SkuId::mint().to_string(), ..stock.clone() };
    app.allocate("order-1", &missing, "1").await.problem(404, "sku_missing");
    app.allocate("order-1", &stock, "1").await.ok();
    // A natural-key conflict is a 409 that leaves its key free as well.
    let body = json!({"code": "kestrel-m", "name": "Again", "unit": "piece"});
    app.post("/v1/skus", "again", &body).await.problem(409, "sku_code_taken");
    let body = json!({"code": "other", "name": "Again", "unit": "piece"});
    app.post("/v1/skus", "again", &body).await.ok();
    // As does a value that only the data shows to be wrong.
    app.allocate("order-3", &stock, "0.5").await.problem(422, "quantity_decimals_exceeded");
    app.allocate("order-3", &stock, "1").await.ok();
    app.finish().await;
}

#[tokio::test]
async fn idem_07_a_failure_leaves_no_claim_and_the_retry_runs() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    for gate in ["batch.loaded", "batch.decided", "batch.storing", "tx.answered"] {
        engine::gate::panic_next(gate);
        let broken = app.write("/v1/stock/allocate", gate, &stock.lines(&["1"]));
        app.send_any(broken).await.problem(500, "defect");
        let again = app.allocate(gate, &stock, "1").await;
        again.ok();
        assert!(!again.replayed(), "{gate}");
    }
    assert_eq!(app.position(&stock).await["allocated"], "4");
    app.finish().await;
}

#[tokio::test]
async fn idem_08_bad_requests_never_use_up_the_key() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let path = "/v1/stock/allocate";
    let good = stock.lines(&["1"]);
    let keyed = |body: Vec<u8>| {
        let request = app.request(Method::POST, path).header("idempotency-key", "k").body(body);
        request.header("content-type", "application/json")
    };
    let bytes = serde_json::to_vec(&good).expect("JSON");
    let reader = app.key_with(&["inventory.read"]).await;
    app.send(keyed(bytes.clone())).await.problem(401, "unauthorized");
    app.send(keyed(bytes.clone()).bearer_auth("thk_nonsense")).await.problem(401, "unauthorized");
    app.send(keyed(bytes.clone()).bearer_auth(reader)).await.problem(403, "permission_missing");
    app.post_bytes(path, "k", "{").await.problem(400, "malformed_json");
    app.post_bytes(path, "k", vec![b' '; 2 << 20]).await.problem(413, "body_too_large");
    app.post(path, "k", &stock.lines(&["0"])).await.problem(422, "invalid_value");
    app.post(path, "k", &json!({"lines": []})).await.problem(422, "invalid_value");
    let text = app.request(Method::POST, path).bearer_auth(&app.token).header("idempotency-key", "k").body(bytes);
    app.send(text.header("content-type", "text/plain")).await.problem(415, "content_type_not_json");
    let done = app.post(path, "k", &good).await;
    done.ok();
    assert!(!done.replayed());
    app.finish().await;
}

#[tokio::test]
async fn idem_09_case_066_keys_of_tenants_never_meet() {
    let app = App::start().await;
    let (_, other) = app.other_tenant("heron").await;
    let body = json!({"code": "A", "name": "A", "unit": "piece"});
    let ours = app.post("/v1/skus", "order-1", &body).await;
    let theirs = app.post_as(&other, "/v1/skus", "order-1", &body).await;
    assert_eq!((ours.status, theirs.status), (201, 201));
    assert!(!theirs.replayed());
    assert_ne!(ours.json()["sku_id"], theirs.json()["sku_id"]);
    // Another body under the same words is no reuse across tenants.
    let body = json!({"code": "B", "name": "B", "unit": "piece"});
    app.post_as(&other, "/v1/skus", "order-2", &body).await.ok();
    app.post("/v1/skus", "order-2", &json!({"code": "C", "name": "C", "unit": "piece"})).await.ok();
    app.finish().await;
}

#[tokio::test]
async fn idem_09_a_key_in_flight_at_one_tenant_does_not_block_another() {
    let app = Arc::new(App::start().await);
    let (_, other) = app.other_tenant("heron").await;
    let body = json!({"code": "A", "name": "A", "unit": "piece"});
    let mut gate = gate::hold("batch.loaded");
    let (slow, held) = (app.clone(), body.clone());
    let first = tokio::spawn(async move { slow.post("/v1/skus", "k", &held).await });
    let go = gate.reached().await;
    // It may share the lane of the held batch, so it is not awaited here; but it is not refused.
    let (beside, theirs) = (app.clone(), other.clone());
    let second = tokio::spawn(async move { beside.post_as(&theirs, "/v1/skus", "k", &body).await });
    drop(go);
    assert_eq!(first.await.expect("first").status, 201);
    assert_eq!(second.await.expect("second").status, 201);
}

#[tokio::test]
async fn case_068_a_replay_tells_when_the_answer_was_given() {
    let app = App::start().await;
    let stock = app.stock("1").await;
    app.allocate("k", &stock, "2").await.problem(422, "insufficient_ats");
    let mut dates = Vec::new();
    for _ in 0..3 {
        let again = app.allocate("k", &stock, "2").await;
        assert!(again.replayed());
        dates.push(again.header("idempotent-original-date").expect("a date").to_owned());
    }
    assert_eq!(dates[0], dates[2]);
    let at: jiff::Timestamp = dates[0].parse().expect("a timestamp");
    let answer = app.database.raw_admin().await;
    let stored = answer.query_one("SELECT at FROM answer WHERE key = 'k'", &[]).await.expect("the answer");
    assert_eq!(stored.get::<_, jiff::Timestamp>(0), at);
    app.finish().await;
}

#[tokio::test]
async fn test_05_the_same_message_three_times_has_one_effect_on_every_route() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let promise = app.allocate("a", &stock, "6").await.ok()["lines"][0]["promise_id"].clone();
    let by_promise = |quantity: &str| json!({"lines": [{"promise_id": promise, "quantity": quantity}]});
    let (sku, warehouse) = (&stock.sku, &stock.warehouse);
    let adjust = json!({"lines": [
        {"sku_id": sku, "warehouse_id": warehouse, "quantity": "-1", "reason": "broken"}]});
    let (customer, other) = (app.customer("A").await, app.customer("B").await);
    let mut locks = Vec::new();
    for document in [&customer, &other] {
        let lock = app.post("/v1/edit-locks", document, &json!({"document_id": document, "part": "name"})).await.ok();
        locks.push(lock["edit_lock_id"].clone());
    }
    let role = app.role("Manager", &["tenancy.manage"]).await;
    let invited = app.invite("mira@kestrel.example", &role).await;
    let token = format!("/v1/users/{}/token", invited["user_id"].as_str().expect("an id"));
    let messages: Vec<(&str, Value)> = vec![
        ("/v1/roles", json!({"name": "R", "permissions": []})),
        ("/v1/users", json!({"email": "ivo@kestrel.example", "name": "Ivo", "role_id": role})),
        (&token, Value::Null),
        ("/v1/skus", json!({"code": "S", "name": "S", "unit": "piece"})),
        ("/v1/warehouses", json!({"code": "W", "name": "W"})),
        ("/v1/api-keys", json!({"name": "K", "permissions": ["inventory.read"]})),
        ("/v1/customers", json!({"name": "C", "currency": "EUR"})),
        ("/v1/customer-groups", json!({"name": "G"})),
        ("/v1/edit-locks", json!({"document_id": customer, "part": "phone"})),
        ("/v1/edit-locks/renew", json!({"document_id": customer, "edit_lock_id": locks[0]})),
        ("/v1/edit-locks/release", json!({"document_id": customer, "edit_lock_id": locks[0]})),
        ("/v1/edit-locks/break", json!({"document_id": other, "edit_lock_id": locks[1], "reason": "gone home"})),
        ("/v1/stock/receive", stock.lines(&["5"])),
        ("/v1/stock/adjust", adjust),
        ("/v1/stock/allocate", stock.lines(&["2"])),
        ("/v1/promises/ship", by_promise("3")),
        ("/v1/promises/return", by_promise("1")),
        ("/v1/promises/release", by_promise("2")),
    ];
    let posts = writes().into_iter().filter(|(method, _)| *method == Method::POST).count();
    assert_eq!(messages.len(), posts, "a new write route needs its message here");
    for (path, body) in &messages {
        let first = app.post(path, path, body).await;
        assert!(first.status < 300, "{path}: {}", first.text());
        for _ in 0..2 {
            let again = app.post(path, path, body).await;
            assert_eq!((again.status, again.replayed(), &again.bytes), (first.status, true, &first.bytes), "{path}");
        }
    }
    let position = app.position(&stock).await;
    // 10 + 5 - 1 - 3 + 1 on hand; 6 + 2 - 3 - 2 allocated.
    assert_eq!((&position["on_hand"], &position["allocated"]), (&json!("12"), &json!("3")), "{position}");
    app.finish().await;
}
