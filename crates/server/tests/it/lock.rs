//! Locks that people hold while they edit.

use engine::gate;
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::{App, Reply};

const V1: &str = "\"v1\"";

/// Somebody else at the same tenant: a key of another name.
async fn karim(app: &App) -> String {
    let key = json!({"name": "Karim", "permissions": ["parties.read", "parties.write", "edit_locks.use"]});
    app.post("/v1/api-keys", "karim", &key).await.ok()["secret"].as_str().expect("a secret").to_owned()
}

async fn lock(app: &App, token: &str, key: &str, document: &str, part: Option<&str>) -> Reply {
    app.post_as(token, "/v1/edit-locks", key, &json!({"document_id": document, "part": part})).await
}

fn of(held: &Value) -> String {
    held["edit_lock_id"].as_str().expect("a lock's id").to_owned()
}

async fn save(app: &App, customer: &str, key: &str, etag: &str, lock: Option<&str>, body: &Value) -> Reply {
    let request = app.save(&format!("/v1/customers/{customer}"), key, etag, body);
    app.send(match lock {
        Some(lock) => request.header("x-edit-lock", lock),
        None => request,
    })
    .await
}

/// Lets every lock of the tenant end, as time would.
async fn let_end(app: &App) {
    let end = "UPDATE edit_lock SET locks = (
        SELECT json_agg(jsonb_set(one::jsonb, '{until}', to_jsonb(one ->> 'since'))) FROM json_array_elements(locks) AS one)
        WHERE json_array_length(locks) > 0";
    app.database.raw_admin().await.batch_execute(end).await.expect("the locks end");
}

#[tokio::test]
async fn lock_01_lock_03_case_058_a_lock_is_a_row_with_an_owner_and_an_end_and_no_lock_of_the_database() {
    let app = App::start().await;
    let karim = karim(&app).await;
    let customer = app.customer("Boutique").await;
    let made = lock(&app, &app.token, "l", &customer, None).await;
    let held = made.ok();
    assert_eq!((made.status, &held["owner_name"], &held["part"]), (201, &json!("test"), &json!("")));
    let (since, until) = (held["since"].as_str().expect("a time"), held["until"].as_str().expect("a time"));
    let lasts = until.parse::<jiff::Timestamp>().expect("a time") - since.parse::<jiff::Timestamp>().expect("a time");
    assert_eq!(lasts.get_seconds(), 120);
    // Nothing waits for it in the database.
    let admin = app.database.raw_admin().await;
    let free = "BEGIN; SELECT FROM customer FOR UPDATE NOWAIT; SELECT FROM edit_lock FOR UPDATE NOWAIT; COMMIT";
    admin.batch_execute(free).await.expect("no row is locked");
    // Everybody is told who, since when and until when, before typing and when trying.
    let seen = app.get_as(&karim, &format!("/v1/edit-locks/{customer}")).await.ok();
    assert_eq!(seen["items"], json!([held]));
    for told in
        [lock(&app, &karim, "k", &customer, None).await, lock(&app, &karim, "k", &customer, Some("phone")).await, {
            let request = app.request(reqwest::Method::PATCH, &format!("/v1/customers/{customer}"));
            let request = request.bearer_auth(&karim).header("idempotency-key", "s").header("if-match", V1);
            app.send(request.json(&json!({"phone": "1"}))).await
        }]
    {
        let told = told.problem(423, "edit_lock_held");
        assert_eq!(
            (&told["locked_by"]["name"], &told["since"], &told["until"]),
            (&json!("test"), &held["since"], &held["until"])
        );
        let expected = format!("locked by test since {since}, until {until}");
        assert!(told["detail"].as_str().is_some_and(|text| text.contains(&expected)), "{told}");
    }
    // The refusal uses up no key: once the lock is given back, the same request is done.
    let back = json!({"document_id": customer, "edit_lock_id": held["edit_lock_id"]});
    app.post("/v1/edit-locks/release", "r", &back).await.ok();
    assert_eq!(app.get(&format!("/v1/edit-locks/{customer}")).await.ok()["items"], json!([]));
    lock(&app, &karim, "k", &customer, None).await.ok();
    app.post("/v1/edit-locks/release", "again", &back).await.problem(423, "edit_lock_lost");
    app.finish().await;
}

#[tokio::test]
async fn lock_02_lock_06_a_lock_lives_by_its_heartbeat_and_one_that_was_lost_saves_nothing() {
    let app = App::start().await;
    let karim = karim(&app).await;
    let customer = app.customer("Boutique").await;
    let mine = lock(&app, &app.token, "l", &customer, None).await.ok();
    let beat =
        |seconds: i64| json!({"document_id": customer, "edit_lock_id": mine["edit_lock_id"], "seconds": seconds});
    let renewed = app.post("/v1/edit-locks/renew", "h1", &beat(900)).await.ok();
    assert_eq!((&renewed["edit_lock_id"], &renewed["since"]), (&mine["edit_lock_id"], &mine["since"]));
    assert!(renewed["until"].as_str() > mine["until"].as_str(), "{renewed}");
    // A shorter heartbeat that comes late takes nothing away; the same lock asked for again is the same.
    assert_eq!(app.post("/v1/edit-locks/renew", "h2", &beat(10)).await.ok()["until"], renewed["until"]);
    assert_eq!(of(&lock(&app, &app.token, "l2", &customer, None).await.ok()), of(&mine));

    // It ended, and nobody took it: its owner still saves, and may go on.
    let_end(&app).await;
    assert_eq!(app.get(&format!("/v1/edit-locks/{customer}")).await.ok()["items"], json!([]));
    save(&app, &customer, "s1", V1, Some(&of(&mine)), &json!({"phone": "1"})).await.ok();
    app.post("/v1/edit-locks/renew", "h3", &beat(120)).await.ok();
    // It ended, and somebody took it.
    let_end(&app).await;
    let theirs = lock(&app, &karim, "k", &customer, Some("addresses")).await.ok();
    let lost = save(&app, &customer, "s2", "\"v2\"", Some(&of(&mine)), &json!({"phone": "2"})).await;
    lost.problem(423, "edit_lock_lost");
    app.post("/v1/edit-locks/renew", "h4", &beat(120)).await.problem(423, "edit_lock_lost");
    // Under no lock, what nobody holds can be saved; under one's own, what it holds.
    save(&app, &customer, "s3", "\"v2\"", None, &json!({"phone": "2"})).await.ok();
    let store = json!({"addresses": [{"label": "Store", "street": "S", "city": "C", "country": "US"}]});
    save(&app, &customer, "s4", "\"v3\"", None, &store).await.problem(423, "edit_lock_held");
    save(&app, &customer, "s5", "\"v3\"", Some(&of(&theirs)), &store).await.ok();
    for wrong in ["", "x", "cus_0198c0de5eed70008000000000000001", &of(&mine).to_uppercase()] {
        save(&app, &customer, "s6", "\"v4\"", Some(wrong), &store).await.problem(400, "edit_lock_malformed");
    }
    app.finish().await;
}

#[tokio::test]
async fn lock_04_an_administrator_takes_a_lock_away_with_a_reason_that_is_kept() {
    let app = App::start().await;
    let karim = karim(&app).await;
    let customer = app.customer("Boutique").await;
    let theirs = lock(&app, &karim, "k", &customer, Some("phone")).await.ok();
    let body = json!({"document_id": customer, "edit_lock_id": theirs["edit_lock_id"], "reason": "gone home, the customer waits"});
    app.post_as(&karim, "/v1/edit-locks/break", "b", &body).await.problem(403, "permission_missing");
    let mut none = body.clone();
    none["reason"] = json!("");
    let told = app.post("/v1/edit-locks/break", "b", &none).await.problem(422, "invalid_value");
    assert_eq!(told["errors"][0]["field"], "reason");
    app.post("/v1/edit-locks/break", "b", &body).await.ok();
    let log = app.get("/v1/broken-edit-locks").await.ok();
    let line = &log["items"][0];
    assert_eq!(
        (&line["edit_lock_id"], &line["owner_name"], &line["broken_by_name"], &line["reason"], &line["part"]),
        (&theirs["edit_lock_id"], &json!("Karim"), &json!("test"), &body["reason"], &json!("phone"))
    );
    app.get_as(&karim, "/v1/broken-edit-locks").await.problem(403, "permission_missing");
    // Whoever lost it is told so, and saves nothing under it.
    save(&app, &customer, "s", V1, Some(&of(&theirs)), &json!({"phone": "1"})).await.problem(423, "edit_lock_lost");
    lock(&app, &app.token, "l", &customer, None).await.ok();
    app.finish().await;
}

#[tokio::test]
async fn lock_05_parts_of_a_document_are_locked_and_saved_apart() {
    let app = App::start().await;
    let karim = karim(&app).await;
    let customer = app.customer("Boutique").await;
    let area = |code: &str, who: &str| json!({"code": code, "responsible": who});
    let areas = |areas: &[Value]| json!({"sales_areas": areas});
    save(&app, &customer, "s0", V1, None, &areas(&[area("US-N", "A"), area("US-S", "A")])).await.ok();
    let north = lock(&app, &app.token, "n", &customer, Some("sales_areas/US-N")).await.ok();
    let south = lock(&app, &karim, "s", &customer, Some("sales_areas/US-S")).await.ok();
    for (part, status) in [("sales_areas", 423), ("sales_areas/US-N", 423), ("sales_areas/US-S", 201)] {
        let reply = lock(&app, &karim, part, &customer, Some(part)).await;
        assert_eq!(reply.status, status, "{part}: {}", reply.text());
    }
    lock(&app, &karim, "whole", &customer, None).await.problem(423, "edit_lock_held");
    // Each saves the own part, by a list that holds the other's as it is.
    let mine = areas(&[area("US-N", "Ruth"), area("US-S", "A")]);
    save(&app, &customer, "s1", "\"v2\"", Some(&of(&north)), &mine).await.ok();
    let theirs = areas(&[area("US-N", "A"), area("US-S", "Karim")]);
    let told = save(&app, &customer, "s2", "\"v2\"", Some(&of(&south)), &theirs).await.problem(409, "version_conflict");
    let changed = json!([{"field": "sales_areas/US-N", "base": area("US-N", "A"), "current": area("US-N", "Ruth")}]);
    assert_eq!((&told["changed_fields"], &told["disjoint"]), (&changed, &json!(true)), "{told}");
    // Over the new version, with the other's entry as it is now.
    let rebased = areas(&[area("US-N", "Ruth"), area("US-S", "Karim")]);
    save(&app, &customer, "s3", "\"v3\"", Some(&of(&south)), &rebased).await.ok();
    // What the other holds cannot be changed under one's own.
    let both = areas(&[area("US-N", "Karim"), area("US-S", "Karim")]);
    save(&app, &customer, "s4", "\"v4\"", Some(&of(&south)), &both).await.problem(423, "edit_lock_held");
    save(&app, &customer, "s5", "\"v4\"", Some(&of(&south)), &areas(&[area("US-S", "Karim")]))
        .await
        .problem(423, "edit_lock_held");

    for (part, field) in
        [("nothing", "part"), ("sales_areas/", "part"), ("", "part"), ("/", "part"), (" phone", "part")]
    {
        let told = lock(&app, &app.token, "bad", &customer, Some(part)).await.problem(422, "invalid_value");
        assert_eq!(told["errors"][0]["field"], field, "{part:?}: {told}");
    }
    for (body, field) in [
        (json!({"document_id": customer, "seconds": 9}), "seconds"),
        (json!({"document_id": customer, "seconds": 901}), "seconds"),
        (json!({"document_id": "sku_0198c0de5eed70008000000000000001"}), "document_id"),
        (json!({}), "document_id"),
    ] {
        let told = app.post("/v1/edit-locks", "bad", &body).await.problem(422, "invalid_value");
        assert_eq!(told["errors"][0]["field"], field, "{body}: {told}");
    }
    let nobody = json!({"document_id": "cgr_0198c0de5eed70008000000000000001"});
    app.post("/v1/edit-locks", "bad", &nobody).await.problem(404, "document_missing");
    app.get("/v1/edit-locks/cgr_0198c0de5eed70008000000000000001").await.problem(404, "not_found");
    app.get("/v1/edit-locks/x").await.problem(404, "not_found");
    app.finish().await;
}

#[tokio::test]
async fn edit_lock_held() {
    // Two people press "edit" in the same instant, on two replicas, where there was no lock before and
    // where there was one.
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let karim = karim(&app).await;
    let customer = app.customer("Boutique").await;
    for round in ["new", "old"] {
        let mut gate = gate::hold("batch.decided");
        let send = |app: &Arc<App>, token: &str, part: &'static str| {
            let (app, token, customer) = (app.clone(), token.to_owned(), customer.clone());
            tokio::spawn(async move { lock(&app, &token, &format!("{round}{part}"), &customer, Some(part)).await })
        };
        let first = send(&app, &app.token, "sales_areas");
        let go = gate.reached().await;
        let second = send(&twin, &karim, "sales_areas/US-S");
        if round == "old" {
            app.database.wait_for_lock_wait_or_end("edit_lock_load", &second).await;
        } else {
            app.database.wait_for_lock_wait_or_end("edit_lock_insert", &second).await;
        }
        drop(go);
        let (first, second) = (first.await.expect("first"), second.await.expect("second"));
        let (won, lost) = if first.status == 201 { (first, second) } else { (second, first) };
        lost.problem(423, "edit_lock_held");
        let back = json!({"document_id": customer, "edit_lock_id": won.ok()["edit_lock_id"]});
        let owner = if won.ok()["owner_name"] == "Karim" { &karim } else { &app.token };
        app.post_as(owner, "/v1/edit-locks/release", round, &back).await.ok();
    }
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn edit_lock_token() {
    let app = App::start().await;
    let karim = karim(&app).await;
    let customer = app.customer("Boutique").await;
    let mine = lock(&app, &app.token, "l", &customer, Some("phone")).await.ok();
    let_end(&app).await;
    let theirs = lock(&app, &karim, "k", &customer, Some("phone")).await.ok();
    let back = json!({"document_id": customer, "edit_lock_id": theirs["edit_lock_id"]});
    app.post_as(&karim, "/v1/edit-locks/release", "r", &back).await.ok();
    // Nobody holds it now, and nobody saved; but it was another's in between.
    save(&app, &customer, "s", V1, Some(&of(&mine)), &json!({"phone": "1"})).await.problem(423, "edit_lock_lost");
    app.finish().await;
}

#[tokio::test]
async fn a_lock_waits_for_the_save_that_is_under_way() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let karim = karim(&app).await;
    let customer = app.customer("Boutique").await;
    let mine = lock(&app, &app.token, "l", &customer, Some("phone")).await.ok();
    let mut gate = gate::hold("batch.decided");
    let saving = tokio::spawn({
        let (app, customer, mine) = (app.clone(), customer.clone(), of(&mine));
        async move { save(&app, &customer, "s", V1, Some(&mine), &json!({"phone": "1", "email": "a@b.example"})).await }
    });
    let go = gate.reached().await;
    let taking = tokio::spawn({
        let customer = customer.clone();
        async move { lock(&twin, &karim, "k", &customer, Some("email")).await }
    });
    app.database.wait_for_lock_wait_or_end("edit_lock_load", &taking).await;
    drop(go);
    assert_eq!(saving.await.expect("the save").ok()["version"], 2);
    taking.await.expect("the lock").ok();
    testkit::app::sweep(app.engine()).await;
}
