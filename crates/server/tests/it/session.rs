//! Logins, sessions, access tokens, and API keys that expire.

use domain::tenancy::model::{Credential, Refresh};
use engine::gate;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use testkit::{
    App, Reply,
    app::{PASSWORD, SECRET},
};

const MIRA: &str = "mira@kestrel.example";

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

async fn with_cookie(app: &App, method: Method, path: &str, cookie: &str) -> Reply {
    app.send(app.request(method, path).header("cookie", cookie)).await
}

async fn logout(app: &App, access: &Value) -> Reply {
    app.send(app.request(Method::POST, "/v1/auth/logout").bearer_auth(text(access))).await
}

#[tokio::test]
async fn ten_04_a_login_opens_what_the_users_role_permits_until_the_logout() {
    let app = App::start().await;
    let mira = app.person(MIRA, &["tenancy.manage", "tenancy.audit"]).await;
    let reply = app.login_in("kestrel", "MIRA@kestrel.example", PASSWORD).await;
    let opened = reply.ok();
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
    for part in ["tallyhold_session=ths_", "; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=2592000"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "there is no TLS here: {cookie}");
    let cookie = cookie.split(';').next().expect("its value").to_owned();
    let access = text(&opened["access_token"]);
    app.get_as(access, "/v1/users").await.ok();
    app.get_as(access, "/v1/skus").await.problem(403, "permission_missing");
    assert_eq!(with_cookie(&app, Method::GET, "/v1/tenant", &format!("a=b; {cookie}")).await.ok()["slug"], "kestrel");
    // A write by the user is audited as theirs.
    app.post_as(access, "/v1/roles", "r", &json!({"name": "R", "permissions": []})).await.ok();
    let audit = app.get_as(access, "/v1/audit?limit=200").await.ok();
    let rows = audit["items"].as_array().expect("rows");
    let of = |key: &str| rows.iter().find(|row| row["command"] == key).expect("an audit line")["actor"].clone();
    assert_eq!(rows.last().expect("a row")["actor"], mira);
    assert_eq!(of("tenancy.login"), mira);
    // A cookie says nothing beside an Authorization, and nothing from a page of another host.
    let both = app.request(Method::GET, "/v1/tenant").header("cookie", &cookie).bearer_auth("thk_nonsense");
    app.send(both).await.problem(401, "unauthorized");
    let ours = format!("http://{}", app.address());
    for (origin, good) in [(ours.as_str(), true), ("http://evil.example", false), ("null", false)] {
        let request = app.request(Method::GET, "/v1/tenant").header("cookie", &cookie).header("origin", origin);
        let reply = app.send(request).await;
        if good { drop(reply.ok()) } else { drop(reply.problem(403, "origin_foreign")) }
    }
    let ended = logout(&app, &opened["access_token"]).await;
    assert!(ended.header("set-cookie").is_some_and(|cookie| cookie.contains("Max-Age=0")));
    assert_eq!(ended.ok()["session_id"], opened["session_id"]);
    app.get_as(access, "/v1/users").await.problem(401, "unauthorized");
    with_cookie(&app, Method::GET, "/v1/tenant", &cookie).await.problem(401, "unauthorized");
    app.refresh(&opened["refresh_token"]).await.problem(401, "session_over");
    logout(&app, &opened["access_token"]).await.problem(401, "unauthorized");
    logout(&app, &json!(app.token)).await.problem(401, "unauthorized");
    // Where TLS ends in front of us, the cookie stays on it.
    let body = json!({"tenant": "kestrel", "email": MIRA, "password": PASSWORD, "cookie": true});
    let request = app.request(Method::POST, "/v1/auth/login").header("x-forwarded-proto", "https").json(&body);
    assert!(app.send(request).await.header("set-cookie").is_some_and(|cookie| cookie.ends_with("; Secure")));
    let none = json!({"tenant": "kestrel", "email": MIRA, "password": PASSWORD});
    let reply = app.send(app.request(Method::POST, "/v1/auth/login").json(&none)).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (200, None));
    app.finish().await;
}

#[tokio::test]
async fn ten_03_whatever_does_not_belong_together_is_a_401_in_the_same_words_and_costs_the_same() {
    let app = App::start().await;
    let (_, heron) = app.other_tenant("heron").await;
    app.person(MIRA, &["tenancy.manage"]).await;
    let small = app.role("Small", &[]).await;
    app.invite("invited@kestrel.example", &small).await;
    let gone = app.person("gone@kestrel.example", &[]).await;
    app.change(&format!("/v1/users/{gone}"), "d", &json!({"disabled": true})).await.ok();
    // Somebody of the same address at the other tenant, with another password.
    let role = json!({"name": "M", "permissions": ["tenancy.manage"]});
    let role = app.post_as(&heron, "/v1/roles", "r", &role).await.ok()["role_id"].clone();
    let twin = json!({"email": "twin@kestrel.example", "name": "Twin", "role_id": role});
    let twin = app.post_as(&heron, "/v1/users", "u", &twin).await.ok();
    app.set_password(&twin["token"], "their own long password").await.ok();
    app.person("twin@kestrel.example", &[]).await;
    let wrong = app.login_in("kestrel", MIRA, "not the right password").await;
    wrong.problem(401, "login_refused");
    let hashed = async || {
        let metrics = app.send(app.request(Method::GET, "/metrics")).await.text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("tallyhold_password_seconds_count "));
        line.expect("it is measured").parse::<u64>().expect("a number")
    };
    for (tenant, email, password) in [
        ("heron", MIRA, PASSWORD),
        ("nobody", MIRA, PASSWORD),
        ("kestrel", "unknown@kestrel.example", PASSWORD),
        ("kestrel", "invited@kestrel.example", PASSWORD),
        ("kestrel", "gone@kestrel.example", PASSWORD),
        ("heron", "twin@kestrel.example", PASSWORD),
        ("kestrel", "twin@kestrel.example", "their own long password"),
        ("kestrel", MIRA, ""),
        ("kestrel", MIRA, "nobody's password"),
        ("kestrel", "unknown@kestrel.example", "nobody's password"),
    ] {
        let before = hashed().await;
        let reply = app.login_in(tenant, email, password).await;
        assert_eq!((reply.status, &reply.bytes), (401, &wrong.bytes), "{tenant} {email} {password}");
        assert_eq!(reply.headers.len(), wrong.headers.len());
        assert_eq!(hashed().await, before + 1, "one hash, whoever it is: {tenant} {email} {password}");
    }
    for (body, field) in [
        (json!({"tenant": "Kestrel!", "email": MIRA, "password": PASSWORD}), "tenant"),
        (json!({"tenant": "kestrel", "email": "mira\u{0}@kestrel.example", "password": PASSWORD}), "email"),
        (json!({"tenant": "kestrel", "email": MIRA, "password": "x".repeat(201)}), "password"),
        (json!({"tenant": "kestrel", "email": MIRA}), "password"),
        (json!({"tenant": "kestrel", "email": MIRA, "password": PASSWORD, "cookie": 1}), "cookie"),
    ] {
        let reply = app.send(app.request(Method::POST, "/v1/auth/login").json(&body)).await;
        assert_eq!(reply.problem(422, "invalid_value")["errors"][0]["field"], field, "{body}");
    }
    app.finish().await;
}

#[tokio::test]
async fn case_095_ten_03_a_token_without_its_tenant_or_of_another_opens_nothing() {
    let app = App::start().await;
    let (other, _) = app.other_tenant("heron").await;
    let mira = app.person(MIRA, &["tenancy.manage"]).await;
    let ivo = app.person("ivo@kestrel.example", &["tenancy.manage"]).await;
    let opened = app.login(MIRA).await;
    let key: [u8; 32] = Sha256::digest([b"tallyhold access token v1".as_slice(), SECRET.as_bytes()].concat()).into();
    let key = EncodingKey::from_secret(&key).expect("a key");
    let now = jiff::Timestamp::now().as_second();
    let claims = json!({
        "sub": mira, "org": app.tenant, "sid": opened["session_id"], "iat": now, "exp": now + 60,
    });
    let sign = |claims: &Value| encode(&Header::new(Algorithm::HS256), claims, &key).expect("it is signed");
    app.get_as(&sign(&claims), "/v1/tenant").await.ok();
    let unknown = app.get_as("thk_nonsense", "/v1/tenant").await;
    for (claim, value) in [
        ("org", Value::Null),
        ("org", json!(other)),
        ("org", json!("kestrel")),
        ("sub", json!(ivo)),
        ("sid", json!("ses_0198c0de5eed70008000000000000001")),
        ("exp", json!(now - 1)),
    ] {
        let mut claims = claims.clone();
        claims[claim] = value.clone();
        if value.is_null() {
            claims.as_object_mut().expect("an object").remove(claim);
        }
        for query in ["", "?org=kestrel", &format!("?org={}", app.tenant)] {
            let request = app.request(Method::GET, &format!("/v1/tenant{query}")).bearer_auth(sign(&claims));
            let reply = app.send(request.header("x-tenant-id", app.tenant.to_string())).await;
            assert_eq!((reply.status, &reply.bytes), (401, &unknown.bytes), "{claim} {value}");
        }
    }
    // Nor does the token say how it is to be checked.
    let other_algorithm = encode(&Header::new(Algorithm::HS512), &claims, &key).expect("it is signed");
    app.get_as(&other_algorithm, "/v1/tenant").await.problem(401, "unauthorized");
    // A refresh token and a cookie carry their tenant, and are nobody's at another.
    let moved = |token: &str| {
        let mut parts: Vec<_> = token.split('_').map(str::to_owned).collect();
        let tenant = parts.len() - 3;
        parts[tenant] = other.uuid().simple().to_string();
        parts.join("_")
    };
    app.refresh(&json!(moved(text(&opened["refresh_token"])))).await.problem(401, "session_over");
    let cookie = app.login_in("kestrel", MIRA, PASSWORD).await.header("set-cookie").expect("a cookie").to_owned();
    let cookie = cookie.split(';').next().expect("its value");
    with_cookie(&app, Method::GET, "/v1/tenant", &moved(cookie)).await.problem(401, "unauthorized");
    with_cookie(&app, Method::GET, "/v1/tenant", cookie).await.ok();
    app.finish().await;
}

#[tokio::test]
async fn refresh_reuse() {
    let app = App::start().await;
    app.person(MIRA, &["tenancy.manage"]).await;
    let first = app.login(MIRA).await;
    let second = app.refresh(&first["refresh_token"]).await.ok();
    assert_eq!(second["session_id"], first["session_id"]);
    assert_eq!(second["session_expires_at"], first["session_expires_at"], "a session lasts 30 days from its login");
    let third = app.refresh(&second["refresh_token"]).await.ok();
    app.get_as(text(&third["access_token"]), "/v1/tenant").await.ok();
    // One that was made up ends nothing.
    let mut made_up: Credential<Refresh> = text(&third["refresh_token"]).parse().expect("one of ours");
    made_up.secret = made_up.secret.chars().rev().collect();
    app.refresh(&json!(made_up.to_string())).await.problem(401, "session_over");
    app.get_as(text(&third["access_token"]), "/v1/tenant").await.ok();
    // An old one that comes again does.
    app.refresh(&first["refresh_token"]).await.problem(401, "session_over");
    app.refresh(&third["refresh_token"]).await.problem(401, "session_over");
    app.get_as(text(&third["access_token"]), "/v1/tenant").await.problem(401, "unauthorized");
    app.finish().await;
}

#[tokio::test]
async fn ten_04_a_refresh_at_once_with_itself_gives_one_token_and_ends_the_session() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    app.person(MIRA, &["tenancy.manage"]).await;
    let opened = app.login(MIRA).await;
    let mut gate = gate::hold("batch.decided");
    let spawn = |app: &Arc<App>| {
        let (app, token) = (app.clone(), opened["refresh_token"].clone());
        tokio::spawn(async move { app.refresh(&token).await })
    };
    let first = spawn(&app);
    let go = gate.reached().await;
    let second = spawn(&twin);
    app.database.wait_for_lock_wait("session_load").await;
    drop(go);
    let won = first.await.expect("first").ok();
    second.await.expect("second").problem(401, "session_over");
    twin.refresh(&won["refresh_token"]).await.problem(401, "session_over");
    twin.get_as(text(&won["access_token"]), "/v1/tenant").await.problem(401, "unauthorized");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn login_lock() {
    let app = Arc::new(App::start().await);
    let twin = app.replica().await;
    app.person(MIRA, &["tenancy.manage"]).await;
    let ivo = app.person("ivo@kestrel.example", &[]).await;
    // The user is being disabled on one server, and logs in on another.
    let mut gate = gate::hold("batch.decided");
    let (at, path) = (app.clone(), format!("/v1/users/{ivo}"));
    let disabling = tokio::spawn(async move { at.change(&path, "d", &json!({"disabled": true})).await });
    let go = gate.reached().await;
    let login = tokio::spawn(async move {
        let reply = twin.login_in("kestrel", "ivo@kestrel.example", PASSWORD).await;
        (twin, reply)
    });
    app.database.wait_for_lock_wait_or_end("tenant_user_load", &login).await;
    drop(go);
    disabling.await.expect("it ends").ok();
    let (twin, reply) = login.await.expect("it ends");
    reply.problem(401, "login_refused");
    twin.finish().await;
}

#[tokio::test]
async fn ten_04_disabling_a_role_change_and_a_new_password_hold_at_once_here_and_soon_elsewhere() {
    let app = App::start().await;
    let twin = app.replica().await;
    app.person(MIRA, &["tenancy.manage"]).await;
    let ivo = app.person("ivo@kestrel.example", &["inventory.read"]).await;
    let path = format!("/v1/users/{ivo}");
    let role = app.get(&path).await.ok()["role_id"].clone();
    let opened = app.login("ivo@kestrel.example").await;
    let access = text(&opened["access_token"]);
    app.get_as(access, "/v1/promises").await.ok();
    twin.get_as(access, "/v1/promises").await.ok();
    let role = format!("/v1/roles/{}", text(&role));
    app.change(&role, "c", &json!({"permissions": ["catalog.read"]})).await.ok();
    app.get_as(access, "/v1/promises").await.problem(403, "permission_missing");
    app.get_as(access, "/v1/skus").await.ok();
    app.change(&path, "d", &json!({"disabled": true})).await.ok();
    let since = Instant::now();
    app.get_as(access, "/v1/skus").await.problem(401, "unauthorized");
    while twin.get_as(access, "/v1/promises").await.status != 401 {
        assert!(since.elapsed() < Duration::from_secs(7), "a replica goes on for five seconds");
    }
    app.refresh(&opened["refresh_token"]).await.problem(401, "session_over");
    // Enabled again, they log in anew; the old session stays over.
    app.change(&path, "e", &json!({"disabled": false})).await.ok();
    app.get_as(access, "/v1/skus").await.problem(401, "unauthorized");
    let again = app.login("ivo@kestrel.example").await;
    app.get_as(text(&again["access_token"]), "/v1/skus").await.ok();
    let reset = app.post(&format!("{path}/token"), "t", &Value::Null).await.ok();
    app.get_as(text(&again["access_token"]), "/v1/skus").await.ok();
    app.set_password(&reset["token"], "another good password").await.ok();
    app.get_as(text(&again["access_token"]), "/v1/skus").await.problem(401, "unauthorized");
    app.refresh(&again["refresh_token"]).await.problem(401, "session_over");
    app.login_in("kestrel", "ivo@kestrel.example", PASSWORD).await.problem(401, "login_refused");
    app.login_in("kestrel", "ivo@kestrel.example", "another good password").await.ok();
    twin.finish().await;
}

#[tokio::test]
async fn ten_04_logins_are_limited_for_a_user_and_tell_when_to_come_back() {
    let app = App::start().await;
    app.person(MIRA, &["tenancy.manage"]).await;
    for _ in 0..10 {
        app.login_in("kestrel", MIRA, "a wrong password").await.problem(401, "login_refused");
    }
    let reply = app.login_in("kestrel", "MIRA@kestrel.example", PASSWORD).await;
    reply.problem(429, "too_many_logins");
    let wait: u64 = reply.header("retry-after").expect("when").parse().expect("seconds");
    assert!((1..=7).contains(&wait), "{wait}");
    app.login_in("kestrel", "other@kestrel.example", PASSWORD).await.problem(401, "login_refused");
    app.finish().await;
}

#[tokio::test]
async fn ten_04_a_session_and_its_secrets_are_kept_as_hashes_only() {
    let app = App::start().await;
    app.person(MIRA, &["tenancy.manage"]).await;
    let reply = app.login_in("kestrel", MIRA, PASSWORD).await;
    let opened = reply.ok();
    let next = app.refresh(&opened["refresh_token"]).await.ok();
    let cookie = reply.header("set-cookie").expect("a cookie").split(';').next().expect("its value").to_owned();
    let admin = app.database.raw_admin().await;
    let tables = admin
        .query(
            "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'",
            &[],
        )
        .await
        .expect("the catalog");
    for secret in [PASSWORD, text(&opened["refresh_token"]), text(&next["refresh_token"]), &cookie] {
        let end = &secret[secret.len().saturating_sub(20)..];
        for table in &tables {
            let table: String = table.get(0);
            let found = format!("SELECT count(*) FROM \"{table}\" AS t WHERE t::text LIKE '%' || $1 || '%'");
            let found: i64 = admin.query_one(&found, &[&end]).await.expect("a count").get(0);
            assert_eq!(found, 0, "{table} has {end}");
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn ten_04_an_expired_key_is_a_401_in_the_same_words() {
    let app = App::start().await;
    let unknown = app.get_as("thk_nonsense", "/v1/tenant").await;
    let make = async |key: &str, expires_at: Value| {
        let body = json!({"name": "shop", "permissions": ["inventory.read"], "expires_at": expires_at});
        app.post("/v1/api-keys", key, &body).await
    };
    let body = make("past", json!("2020-01-01T00:00:00Z")).await.problem(422, "expiry_past");
    assert_eq!(body["errors"][0]["field"], "expires_at");
    for (n, odd) in [json!("tomorrow"), json!(5), json!("2030-02-30T00:00:00Z")].into_iter().enumerate() {
        let body = make(&format!("odd{n}"), odd).await.problem(422, "invalid_value");
        assert_eq!(body["errors"][0]["field"], "expires_at");
    }
    let soon = jiff::Timestamp::now() + Duration::from_secs(2);
    let made = make("soon", json!(soon.to_string())).await.ok();
    let key = text(&made["secret"]);
    app.get_as(key, "/v1/stock-positions").await.ok();
    // It ends when it says, not when this server looks again.
    while jiff::Timestamp::now() <= soon {
        tokio::task::yield_now().await;
    }
    let reply = app.get_as(key, "/v1/stock-positions").await;
    assert_eq!((reply.status, &reply.bytes), (401, &unknown.bytes));
    make("never", Value::Null).await.ok();
    app.finish().await;
}

#[tokio::test]
async fn ten_04_a_keys_last_use_is_written_beside_the_requests_and_once_a_minute() {
    let app = App::start().await;
    let used = async || app.get("/v1/api-keys").await.ok()["items"][0]["last_used_at"].clone();
    app.get("/v1/tenant").await.ok();
    assert_eq!(used().await, Value::Null, "no request writes it");
    app.flush().await;
    let first = used().await;
    assert!(first.is_string());
    app.flush().await;
    assert_eq!(used().await, first, "not twice in a minute");
    let admin = app.database.raw_admin().await;
    let past = "UPDATE api_key SET last_used_at = last_used_at - interval '2 minutes'";
    admin.batch_execute(past).await.expect("moved back");
    let moved = used().await;
    app.flush().await;
    assert_ne!(used().await, moved);
    app.finish().await;
}

#[tokio::test]
async fn read_before() {
    let app = Arc::new(App::start().await);
    let made = app.post("/v1/api-keys", "k", &json!({"name": "shop", "permissions": ["inventory.read"]})).await.ok();
    let (key, id) = (text(&made["secret"]).to_owned(), text(&made["api_key_id"]).to_owned());
    // The key is being looked up for its first use, and revoked before the look-up is done.
    let mut gate = gate::hold("tx.answered");
    let (at, used) = (app.clone(), key.clone());
    let using = tokio::spawn(async move { at.get_as(&used, "/v1/stock-positions").await });
    let go = gate.reached().await;
    drop(gate);
    let revoke = app.request(Method::DELETE, &format!("/v1/api-keys/{id}")).bearer_auth(&app.token);
    app.send(revoke.header("idempotency-key", "x")).await.ok();
    drop(go);
    using.await.expect("it ends");
    app.get_as(&key, "/v1/stock-positions").await.problem(401, "unauthorized");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn ten_04_refusals_of_who_is_known_are_audited_and_summed_up() {
    let app = App::start().await;
    let (_, heron) = app.other_tenant("heron").await;
    let sku = app.sku("OURS").await;
    app.person(MIRA, &["tenancy.manage"]).await;
    let opened = app.login(MIRA).await;
    let access = text(&opened["access_token"]);
    for _ in 0..3 {
        app.get_as(access, "/v1/skus").await.problem(403, "permission_missing");
    }
    for _ in 0..2 {
        app.get_as(&heron, &format!("/v1/skus/{sku}")).await.problem(404, "not_found");
    }
    let lines = json!({"lines": [{"promise_id": "prm_0198c0de5eed70008000000000000001", "quantity": "1"}]});
    app.post("/v1/promises/ship", "s", &lines).await.problem(404, "promise_missing");
    logout(&app, &opened["access_token"]).await.ok();
    app.get_as(access, "/v1/users").await.problem(401, "unauthorized");
    // Strangers are nobody's: a made-up key, a login that fails.
    app.get_as("thk_nonsense", "/v1/users").await.problem(401, "unauthorized");
    app.login_in("kestrel", MIRA, "a wrong password").await.problem(401, "login_refused");
    assert_eq!(app.get("/v1/refusals").await.ok()["items"], json!([]), "it is written once a minute");
    app.flush().await;
    let rows = |page: Value| {
        let rows = page["items"].as_array().cloned().expect("rows");
        let mut rows: Vec<_> = rows
            .iter()
            .map(|row| {
                let name = |member: &str| text(&row[member]).to_owned();
                (name("code"), name("method"), name("route"), name("actor"), row["count"].as_i64().expect("a count"))
            })
            .collect();
        rows.sort();
        rows
    };
    let row = |code: &str, method: &str, route: &str, actor: &Value, count: i64| {
        (code.to_owned(), method.to_owned(), route.to_owned(), text(actor).to_owned(), count)
    };
    let mira = &opened["user_id"];
    let key = &app.get("/v1/api-keys").await.ok()["items"][0]["api_key_id"];
    let expected = [
        row("permission_missing", "GET", "/v1/skus", mira, 3),
        row("promise_missing", "POST", "/v1/promises/ship", key, 1),
        row("unauthorized", "GET", "/v1/users", mira, 1),
    ];
    let page = app.get("/v1/refusals").await.ok();
    let (first, last) = (text(&page["items"][0]["first_at"]), text(&page["items"][0]["last_at"]));
    assert!(first.parse::<jiff::Timestamp>().expect("an instant") <= last.parse().expect("an instant"));
    assert_eq!(rows(page), expected);
    let theirs = rows(app.get_as(&heron, "/v1/refusals").await.ok());
    let key = &app.get_as(&heron, "/v1/api-keys").await.ok()["items"][0]["api_key_id"];
    assert_eq!(theirs, [row("not_found", "GET", "/v1/skus/{sku_id}", key, 2)]);
    let metrics = app.send(app.request(Method::GET, "/metrics")).await.text();
    assert!(metrics.contains("tallyhold_refusals_total{status=\"401\",known=\"false\"} 2"), "{metrics}");
    let reader = app.key_with(&["inventory.read"]).await;
    app.get_as(&reader, "/v1/refusals").await.problem(403, "permission_missing");
    app.finish().await;
}

#[tokio::test]
async fn ten_04_what_was_noted_is_written_when_the_program_stops_and_kept_while_it_cannot_be() {
    let app = App::start().await;
    let reader = app.key_with(&["inventory.read"]).await;
    app.get_as(&reader, "/v1/skus").await.problem(403, "permission_missing");
    let admin = app.database.raw_admin().await;
    admin.batch_execute("ALTER TABLE refusal RENAME TO away").await.expect("it is away");
    app.flush().await;
    admin.batch_execute("ALTER TABLE away RENAME TO refusal").await.expect("it is back");
    let count = "SELECT count(*) FROM refusal";
    assert_eq!(admin.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 0);
    let database = app.database.clone();
    app.finish().await;
    assert_eq!(admin.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 1);
    drop(database);
}
