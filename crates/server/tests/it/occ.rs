//! Documents that people edit: saves over a version, conflicts that lose nothing, natural keys.

use engine::gate;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::App;

const V1: &str = "\"v1\"";

async fn customer(app: &App, name: &str) -> (String, Value) {
    let id = app.customer(name).await;
    let path = format!("/v1/customers/{id}");
    let body = app.get(&path).await.ok();
    (path, body)
}

#[tokio::test]
async fn occ_01_occ_02_occ_04_a_save_names_the_version_it_began_from_and_gives_the_next() {
    let app = App::start().await;
    let body = json!({"name": "Boutique Austin", "currency": "USD", "credit_limit": "2500.5", "payment_terms_days": 30,
        "tax_id": "US 12-3456789", "email": "orders@boutique.example", "phone": "+1 512 555 0100",
        "addresses": [{"label": "Store", "street": "1100 South Congress", "city": "Austin", "postal_code": "78704",
            "region": "TX", "country": "US"}],
        "sales_areas": [{"code": "US-S", "responsible": "Ruth"}]});
    let made = app.post("/v1/customers", "c", &body).await;
    let shown = made.ok();
    let path = made.header("location").expect("a location").to_owned();
    assert_eq!((made.status, made.header("etag"), &shown["version"]), (201, Some(V1), &json!(1)));
    let read = app.get(&path).await;
    assert_eq!((read.header("etag"), read.ok()), (Some(V1), shown.clone()));
    for (name, value) in body.as_object().expect("an object") {
        assert_eq!(&shown[name], value, "{name}");
    }

    // One's own second save goes on from the first one's version.
    let first = app.patch(&path, "1", V1, &json!({"payment_terms_days": 60, "tax_id": null})).await;
    assert_eq!((first.status, first.header("etag")), (200, Some("\"v2\"")), "{}", first.text());
    let second = app.patch(&path, "2", first.header("etag").expect("a tag"), &json!({"blocked": true})).await.ok();
    assert_eq!(
        (&second["version"], &second["payment_terms_days"], &second["tax_id"], &second["blocked"], &second["name"]),
        (&json!(3), &json!(60), &json!(null), &json!(true), &json!("Boutique Austin"))
    );
    // The same save again is answered, not saved again; one that changes nothing makes no version.
    let again = app.patch(&path, "1", V1, &json!({"payment_terms_days": 60, "tax_id": null})).await;
    assert_eq!((again.status, again.replayed(), &again.bytes), (200, true, &first.bytes));
    assert_eq!(again.header("etag"), Some("\"v2\""));
    let same = app.patch(&path, "3", "\"v3\"", &json!({"blocked": true})).await;
    assert_eq!((same.status, same.header("etag")), (200, Some("\"v3\"")));
    // The same key over another version is another request.
    app.patch(&path, "2", V1, &json!({"blocked": true})).await.problem(422, "idempotency_key_reused");

    let none = app.request(Method::PATCH, &path).bearer_auth(&app.token).header("idempotency-key", "n");
    app.send(none.json(&json!({"blocked": false}))).await.problem(428, "if_match_missing");
    for tag in [
        "*",
        "v3",
        "3",
        "\"3\"",
        "W/\"v3\"",
        "\"v3\", \"v2\"",
        "\"v03\"",
        "\"v\"",
        "\"v-1\"",
        "\"v0\"",
        "\"v99999999999999999999\"",
        "",
    ] {
        let reply = app.patch(&path, "n", tag, &json!({"blocked": false})).await;
        assert_eq!(reply.status, 400, "{tag}: {}", reply.text());
        reply.problem(400, "if_match_malformed");
    }
    let two = app.save(&path, "n", "\"v3\"", &json!({"blocked": false})).header("if-match", "\"v3\"");
    app.send(two).await.problem(400, "if_match_malformed");
    assert_eq!(app.get(&path).await.ok()["version"], 3);
    app.finish().await;
}

#[tokio::test]
async fn occ_03_case_055_a_stale_save_is_told_who_changed_what_and_loses_nothing() {
    let app = App::start().await;
    let (path, before) = customer(&app, "Boutique").await;
    let change = json!({"name": "Boutique Austin", "payment_terms_days": 60});
    app.patch(&path, "ruth", V1, &change).await.ok();
    app.patch(&path, "karim", "\"v2\"", &json!({"phone": "+1 512"})).await.ok();
    let now = app.get(&path).await.ok();

    // The same field: both values, for the person to choose.
    let stale = app.patch(&path, "mine", V1, &json!({"payment_terms_days": 14, "blocked": true})).await;
    let told = stale.problem(409, "version_conflict");
    assert_eq!((&told["your_base_version"], &told["current_version"], &told["current"]), (&json!(1), &json!(3), &now));
    assert_eq!((&told["changed_by"]["name"], &told["disjoint"]), (&json!("test"), &json!(false)));
    assert!(told["changed_by"]["id"].as_str().is_some_and(|id| id.starts_with("key_")), "{told}");
    assert!(told["changed_at"].as_str().is_some_and(|at| *at >= *before["created_at"].as_str().expect("a time")));
    assert_eq!(
        told["changed_fields"],
        json!([
            {"field": "name", "base": "Boutique", "current": "Boutique Austin"},
            {"field": "payment_terms_days", "base": 0, "current": 60},
            {"field": "phone", "base": null, "current": "+1 512"},
        ])
    );
    // Fields nobody else touched: the client may offer to save them over the new version.
    let rebase = app.patch(&path, "mine", V1, &json!({"blocked": true})).await.problem(409, "version_conflict");
    assert_eq!(rebase["disjoint"], true);
    let current = format!("\"v{}\"", rebase["current_version"]);
    let saved = app.patch(&path, "mine", &current, &json!({"blocked": true})).await.ok();
    assert_eq!((&saved["version"], &saved["blocked"], &saved["phone"]), (&json!(4), &json!(true), &json!("+1 512")));
    // Changed and changed back is not changed.
    app.patch(&path, "there", "\"v4\"", &json!({"email": "a@b.example"})).await.ok();
    app.patch(&path, "back", "\"v5\"", &json!({"email": null})).await.ok();
    let told = app.patch(&path, "x", "\"v4\"", &json!({"email": "c@d.example"})).await.problem(409, "version_conflict");
    assert_eq!((&told["changed_fields"], &told["disjoint"]), (&json!([]), &json!(true)));
    // A version that never was: nothing can be said to be apart from it.
    let told = app.patch(&path, "y", "\"v77\"", &json!({"email": null})).await.problem(409, "version_conflict");
    assert_eq!((&told["your_base_version"], &told["disjoint"]), (&json!(77), &json!(false)));
    app.finish().await;
}

#[tokio::test]
async fn ten_05_the_history_of_a_document_tells_who_changed_what_when_and_from_where() {
    let app = App::start().await;
    let (path, _) = customer(&app, "Boutique").await;
    let save = app.save(&path, "s", V1, &json!({"name": "Boutique Austin", "blocked": true}));
    app.send(save.header("x-correlation-id", "desk-7")).await.ok();
    let history = app.get(&format!("{path}/history")).await.ok();
    let versions = history["items"].as_array().expect("items");
    assert_eq!(versions.len(), 2, "{history}");
    let second = &versions[1];
    assert_eq!(
        (&second["version"], &second["actor_name"], &second["correlation_id"], &second["remote"]),
        (&json!(2), &json!("test"), &json!("desk-7"), &json!("127.0.0.1"))
    );
    assert_eq!(
        second["changes"],
        json!([
            {"field": "blocked", "old": false, "new": true},
            {"field": "name", "old": "Boutique", "new": "Boutique Austin"},
        ])
    );
    let first: Vec<_> = versions[0]["changes"].as_array().expect("changes").iter().map(|of| &of["field"]).collect();
    assert!(first.contains(&&json!("name")) && first.contains(&&json!("currency")), "{history}");
    // By pages, each telling the same.
    let page = app.get(&format!("{path}/history?limit=1")).await.ok();
    assert_eq!((&page["items"][0], &page["next"]), (&versions[0], &json!("1")));
    let page = app.get(&format!("{path}/history?limit=1&after=1")).await.ok();
    assert_eq!((&page["items"][0], page["next"].is_null()), (second, true));
    // A group's id is no customer's.
    let group = app.post("/v1/customer-groups", "g", &json!({"name": "Boutiques"})).await.ok();
    let id = group["customer_group_id"].as_str().expect("an id").replace("cgr_", "cus_");
    app.get(&format!("/v1/customers/{id}/history")).await.problem(404, "not_found");
    app.finish().await;
}

#[tokio::test]
async fn stale_save() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let (path, _) = customer(&app, "Boutique").await;
    let mut gate = gate::hold("batch.decided");
    let send = |app: &Arc<App>, key: &'static str, body: Value| {
        let (app, path) = (app.clone(), path.clone());
        tokio::spawn(async move { app.patch(&path, key, V1, &body).await })
    };
    let first = send(&app, "a", json!({"payment_terms_days": 30}));
    let go = gate.reached().await;
    let second = send(&twin, "b", json!({"payment_terms_days": 60}));
    app.database.wait_for_lock_wait_or_end("customer_load", &second).await;
    drop(go);
    assert_eq!(first.await.expect("first").ok()["payment_terms_days"], 30);
    let told = second.await.expect("second").problem(409, "version_conflict");
    let fields = json!([{"field": "payment_terms_days", "base": 0, "current": 30}]);
    assert_eq!(
        (&told["changed_fields"], &told["disjoint"], &told["changed_by"]["name"]),
        (&fields, &json!(false), &json!("test"))
    );
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn occ_03_of_two_saves_in_one_batch_the_second_is_told_of_the_first() {
    let app = Arc::new(App::start_with(|config| config.lanes = 1).await);
    let (path, _) = customer(&app, "Boutique").await;
    // One call holds the lane, so that the two behind it share a batch.
    let mut gate = gate::hold("batch.decided");
    let send = |key: &'static str, body: Value| {
        let (app, path) = (app.clone(), path.clone());
        tokio::spawn(async move { app.patch(&path, key, V1, &body).await })
    };
    let ahead = tokio::spawn({
        let app = app.clone();
        async move { app.post("/v1/customer-groups", "g", &json!({"name": "G"})).await }
    });
    let go = gate.reached().await;
    let calls = [send("a", json!({"phone": "1"})), send("b", json!({"email": "a@b.example"}))];
    app.until_waiting(2).await;
    drop(go);
    ahead.await.expect("ahead").ok();
    let mut replies = Vec::new();
    for call in calls {
        replies.push(call.await.expect("it ends"));
    }
    let told = replies.iter().find(|reply| reply.status == 409).expect("one is stale").problem(409, "version_conflict");
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 1);
    assert_eq!((told["changed_fields"].as_array().map(Vec::len), &told["disjoint"]), (Some(1), &json!(true)), "{told}");
    assert_eq!(told["changed_by"]["name"], "test");
    testkit::app::sweep(app.engine()).await;
}

/// Both at once on two replicas, staged so that neither sees the other: one 201, and what the other got.
async fn two_at_once(one: Value, two: Value) -> (Value, testkit::Reply) {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let mut gate = gate::hold("batch.decided");
    let send = |app: &Arc<App>, key: &'static str, body: Value| {
        let app = app.clone();
        tokio::spawn(async move { app.send_any(app.write("/v1/customers", key, &body)).await })
    };
    let first = send(&app, "a", one);
    let go = gate.reached().await;
    let second = send(&twin, "b", two);
    let second = second.await.expect("second");
    drop(go);
    let first = first.await.expect("first");
    testkit::app::sweep(app.engine()).await;
    (second.ok(), first)
}

#[tokio::test]
async fn customer_name() {
    // The first had looked and found nobody when the second came and was quicker.
    let body = |name: &str| json!({"name": name, "currency": "EUR"});
    let (won, lost) = two_at_once(body("Boutique  Austin"), body("BOUTIQUE AUSTIN")).await;
    let told = lost.problem(409, "customer_name_taken");
    assert_eq!(told["existing_id"], won["customer_id"]);
    assert!(told["detail"].as_str().is_some_and(|text| text.contains("\"BOUTIQUE AUSTIN\"")), "{told}");
}

#[tokio::test]
async fn customer_tax_id() {
    let body = |name: &str, tax: &str| json!({"name": name, "currency": "EUR", "tax_id": tax});
    let (won, lost) = two_at_once(body("A", "DE 123.456"), body("B", "de-123456")).await;
    assert_eq!(lost.problem(409, "customer_tax_id_taken")["existing_id"], won["customer_id"]);
}

#[tokio::test]
async fn race_01_idem_14_two_users_make_the_same_customer_and_one_is_made() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let calls: Vec<_> = (0..16)
        .map(|n| {
            let app = if n % 2 == 0 { app.clone() } else { twin.clone() };
            let body = json!({"name": if n % 3 == 0 { "Boutique" } else { "BOUTIQUE" }, "currency": "EUR"});
            tokio::spawn(async move { app.post("/v1/customers", &format!("c{n}"), &body).await })
        })
        .collect();
    let mut made = Vec::new();
    let mut told = Vec::new();
    for call in calls {
        let reply = call.await.expect("it ends");
        if reply.status == 201 {
            made.push(reply.ok()["customer_id"].clone());
        } else {
            told.push(reply.problem(409, "customer_name_taken")["existing_id"].clone());
        }
    }
    assert_eq!((made.len(), told.len()), (1, 15));
    assert!(told.iter().all(|id| *id == made[0]), "{told:?}");
    let list = app.get("/v1/customers?name=boutique").await.ok();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn idem_14_a_name_or_tax_id_is_one_customers_also_after_a_change() {
    let app = App::start().await;
    let body = json!({"name": "A", "currency": "EUR", "tax_id": "DE 1"});
    let a = app.post("/v1/customers", "a", &body).await.ok()["customer_id"].clone();
    let (b, _) = customer(&app, "B").await;
    let told = app.patch(&b, "1", V1, &json!({"name": "ａ"})).await.problem(409, "customer_name_taken");
    assert_eq!(told["existing_id"], a);
    let told = app.patch(&b, "2", V1, &json!({"tax_id": "de-1"})).await.problem(409, "customer_tax_id_taken");
    assert_eq!(told["existing_id"], a);
    // One's own, spelled anew, is no clash; a name given up is free.
    let a = format!("/v1/customers/{}", a.as_str().expect("an id"));
    app.patch(&a, "3", V1, &json!({"name": "a", "tax_id": "DE-1"})).await.ok();
    app.patch(&a, "4", "\"v2\"", &json!({"name": "C", "tax_id": null})).await.ok();
    app.patch(&b, "5", V1, &json!({"name": "A", "tax_id": "DE1"})).await.ok();
    assert_eq!(app.get("/v1/customers?tax_id=de%201").await.ok()["items"][0]["name"], "A");
    // Groups, too; and a customer's group has to be there.
    let group = app.post("/v1/customer-groups", "g", &json!({"name": "Boutiques"})).await;
    let (at, group) = (group.header("location").expect("a location").to_owned(), group.ok());
    let told = app.post("/v1/customer-groups", "h", &json!({"name": "BOUTIQUES"})).await;
    assert_eq!(told.problem(409, "customer_group_name_taken")["existing_id"], group["customer_group_id"]);
    app.patch(&at, "6", V1, &json!({"name": "Shops"})).await.ok();
    app.patch(&at, "7", V1, &json!({"name": "Stores"})).await.problem(409, "version_conflict");
    app.patch(&b, "8", "\"v2\"", &json!({"customer_group_id": group["customer_group_id"]})).await.ok();
    let nobody = json!({"customer_group_id": "cgr_0198c0de5eed70008000000000000001"});
    app.patch(&b, "9", "\"v3\"", &nobody).await.problem(404, "customer_group_missing");
    app.finish().await;
}

#[tokio::test]
async fn what_a_customer_cannot_be_is_refused_with_the_field() {
    let app = App::start().await;
    let (path, _) = customer(&app, "Boutique").await;
    let address = |label: &str| json!({"label": label, "street": "S", "city": "C", "country": "US"});
    let areas: Vec<_> = (0..51).map(|n| json!({"code": format!("A{n}"), "responsible": "R"})).collect();
    for (field, given) in [
        ("name", json!({"name": ""})),
        ("name", json!({"name": null})),
        ("name", json!({"name": "x".repeat(201)})),
        ("currency", json!({"currency": "eur"})),
        ("currency", json!({"currency": "XYZ"})),
        ("currency", json!({"currency": null})),
        ("credit_limit", json!({"credit_limit": "-1"})),
        ("credit_limit", json!({"credit_limit": "0.001"})),
        ("credit_limit", json!({"credit_limit": "1e400"})),
        ("credit_limit", json!({"credit_limit": "9999999999999999"})),
        ("credit_limit", json!({"currency": "JPY", "credit_limit": "0.5"})),
        ("payment_terms_days", json!({"payment_terms_days": -1})),
        ("payment_terms_days", json!({"payment_terms_days": 366})),
        ("payment_terms_days", json!({"payment_terms_days": 1.5})),
        ("payment_terms_days", json!({"payment_terms_days": "30"})),
        ("tax_id", json!({"tax_id": "--"})),
        ("tax_id", json!({"tax_id": "x".repeat(41)})),
        ("email", json!({"email": "nobody"})),
        ("phone", json!({"phone": "1\u{0}"})),
        ("blocked", json!({"blocked": "yes"})),
        ("addresses[1].label", json!({"addresses": [address("Store"), address("STORE")]})),
        ("addresses[0].country", json!({"addresses": [{"label": "S", "street": "S", "city": "C", "country": "usa"}]})),
        ("addresses[0].city", json!({"addresses": [{"label": "S", "street": "S", "country": "US"}]})),
        ("addresses[0]", json!({"addresses": [["S", "S", "C", "US"]]})),
        ("sales_areas", json!({"sales_areas": areas})),
        (
            "sales_areas[1].code",
            json!({"sales_areas": [{"code": "a", "responsible": "R"}, {"code": "A", "responsible": "R"}]}),
        ),
        ("version", json!({"version": 7})),
        ("customer_group_id", json!({"customer_group_id": "cus_0198c0de5eed70008000000000000001"})),
    ] {
        let told = app.patch(&path, "k", V1, &given).await.problem(422, "invalid_value");
        assert_eq!(told["errors"][0]["field"], field, "{given}: {told}");
        let mut body = json!({"name": "New", "currency": "EUR"});
        let members = given.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(members);
        let told = app.post("/v1/customers", "n", &body).await.problem(422, "invalid_value");
        assert_eq!(told["errors"][0]["field"], field, "{body}: {told}");
    }
    app.patch(&path, "k", V1, &json!({})).await.problem(422, "invalid_value");
    app.patch("/v1/customers/cus_0198c0de5eed70008000000000000001", "k", V1, &json!({"blocked": true}))
        .await
        .problem(404, "customer_missing");
    app.patch("/v1/customers/x", "k", V1, &json!({"blocked": true})).await.problem(404, "not_found");
    assert_eq!(app.get(&path).await.ok()["version"], 1);
    assert_eq!(app.get("/v1/customers").await.ok()["items"].as_array().map(Vec::len), Some(1));
    app.finish().await;
}
