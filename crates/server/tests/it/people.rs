//! Roles, users, invitations and passwords.

use engine::gate;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::{App, app::PASSWORD, proxy::Proxy};

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[tokio::test]
async fn ten_04_the_permission_matrix_is_made_from_the_registry() {
    let app = App::start().await;
    let reader = app.key_with(&["inventory.read"]).await;
    let matrix = app.get_as(&reader, "/v1/permissions").await.ok();
    let rows = matrix["permissions"].as_array().expect("rows");
    let named: Vec<_> = rows.iter().map(|row| text(&row["permission"])).collect();
    assert_eq!(named, domain::registry::PERMISSIONS.iter().map(|known| known.0).collect::<Vec<_>>());
    for entry in domain::registry::COMMANDS {
        let row = rows.iter().find(|row| row["permission"] == entry.needs.0);
        let of = row.and_then(|row| row["commands"].as_array()?.iter().find(|of| of["command"] == entry.name));
        let given = ![domain::tenancy::OPERATE, domain::tenancy::ANYONE].contains(&entry.needs);
        assert_eq!(of.map(|of| &of["critical"]), given.then_some(&json!(entry.critical)), "{}", entry.name);
    }
    app.finish().await;
}

#[tokio::test]
async fn ten_04_roles_are_made_and_changed_and_nobody_gives_what_they_lack() {
    let app = App::start().await;
    let body = json!({"name": "Clerk", "permissions": ["inventory.write", "inventory.read", "inventory.read"]});
    let made = app.post("/v1/roles", "r1", &body).await;
    let role = made.ok();
    assert_eq!((made.status, &role["version"]), (201, &json!(1)));
    assert_eq!(role["permissions"], json!(["inventory.read", "inventory.write"]));
    let path = made.header("location").expect("where it is").to_owned();
    assert_eq!(app.get(&path).await.ok()["name"], "Clerk");
    let taken = app.post("/v1/roles", "r2", &json!({"name": "CLERK", "permissions": []})).await;
    assert_eq!(taken.problem(409, "role_name_taken")["existing_id"], role["role_id"]);
    let changed = app.change(&path, "c1", &json!({"name": "clerk", "permissions": ["catalog.read"]})).await.ok();
    assert_eq!((&changed["name"], &changed["version"]), (&json!("clerk"), &json!(2)));
    let same = app.change(&path, "c2", &json!({"name": "clerk"})).await.ok();
    assert_eq!((&same["version"], &same["permissions"]), (&json!(2), &json!(["catalog.read"])), "nothing changed");
    app.change(&path, "c3", &json!({"permissions": ["operator"]})).await.problem(422, "permission_unknown");

    let manager = app.key_with(&["tenancy.manage", "inventory.read"]).await;
    let more = json!({"name": "More", "permissions": ["tenancy.audit"]});
    let body = app.post_as(&manager, "/v1/roles", "r3", &more).await.problem(422, "permission_exceeded");
    assert_eq!(body["errors"][0]["field"], "permissions");
    let patch = async |body: Value, key: &str| {
        let request = app.request(Method::PATCH, &path).bearer_auth(&manager).header("idempotency-key", key);
        app.send(request.json(&body)).await
    };
    // What the role has may stay; what comes must be the giver's own.
    patch(json!({"permissions": ["catalog.read", "inventory.read"]}), "c4").await.ok();
    patch(json!({"permissions": ["catalog.write"]}), "c5").await.problem(422, "permission_exceeded");
    // Nor does a manager hand out the rights of others: by inviting into their role, by a token to them.
    let full = app.role("Full", &["tenancy.manage", "tenancy.audit"]).await;
    let invited = app.invite("mira@kestrel.example", &full).await;
    let other = json!({"email": "other@kestrel.example", "name": "Other", "role_id": full});
    let body = app.post_as(&manager, "/v1/users", "u1", &other).await.problem(422, "permission_exceeded");
    assert_eq!(body["errors"][0]["field"], "role_id");
    let user = format!("/v1/users/{}", text(&invited["user_id"]));
    app.post_as(&manager, &format!("{user}/token"), "t1", &Value::Null).await.problem(422, "permission_exceeded");
    let small = app.role("Small", &["inventory.read"]).await;
    let clerk = app.invite("clerk@kestrel.example", &small).await;
    let raise = app.request(Method::PATCH, &format!("/v1/users/{}", text(&clerk["user_id"]))).bearer_auth(&manager);
    let raise = raise.header("idempotency-key", "raise").json(&json!({"role_id": full}));
    app.send(raise).await.problem(422, "permission_exceeded");
    app.finish().await;
}

#[tokio::test]
async fn ten_04_bad_roles_and_users_are_refused_with_the_field() {
    let app = App::start().await;
    let role = app.role("Manager", &["tenancy.manage"]).await;
    let many = vec!["inventory.read"; 33];
    let unknown = "rol_0198c0de5eed70008000000000000001";
    let user = |email: &str, name: &str, role: &str| json!({"email": email, "name": name, "role_id": role});
    for (n, (path, body, status, field)) in [
        ("/v1/roles", json!({"name": "", "permissions": []}), 422, "name"),
        ("/v1/roles", json!({"name": "x".repeat(65), "permissions": []}), 422, "name"),
        ("/v1/roles", json!({"name": "R"}), 422, "permissions"),
        ("/v1/roles", json!({"name": "R", "permissions": many}), 422, "permissions"),
        ("/v1/roles", json!({"name": "R", "permissions": [5]}), 422, "permissions[0]"),
        ("/v1/roles", json!({"name": "R", "permissions": ["\u{0}"]}), 422, "permissions"),
        ("/v1/users", user("mira", "Mira", &role), 422, "email"),
        ("/v1/users", user("a@b@kestrel.example", "Mira", &role), 422, "email"),
        ("/v1/users", user(&format!("{}@kestrel.example", "m".repeat(250)), "Mira", &role), 422, "email"),
        ("/v1/users", user("mira@kestrel.example", "", &role), 422, "name"),
        ("/v1/users", user("mira@kestrel.example", "Mira", "manager"), 422, "role_id"),
        ("/v1/users", user("mira@kestrel.example", "Mira", unknown), 404, "role_id"),
    ]
    .into_iter()
    .enumerate()
    {
        let reply = app.post(path, &format!("b{n}"), &body).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text());
        assert_eq!(reply.json()["errors"][0]["field"], field, "{body}: {}", reply.text());
    }
    let mira = app.invite("mira@kestrel.example", &role).await;
    for path in [format!("/v1/roles/{role}"), format!("/v1/users/{}", text(&mira["user_id"]))] {
        app.change(&path, "p", &json!({})).await.problem(422, "invalid_value");
        app.change(&path, "p", &json!({"email": "x@y.example"})).await.problem(422, "invalid_value");
    }
    app.change("/v1/users/usr_0198c0de5eed70008000000000000001", "p", &json!({"name": "N"}))
        .await
        .problem(404, "user_missing");
    app.change(&format!("/v1/roles/{unknown}"), "p", &json!({"name": "N"})).await.problem(404, "role_missing");
    app.change("/v1/roles/rol_1", "p", &json!({"name": "N"})).await.problem(404, "not_found");
    app.finish().await;
}

#[tokio::test]
async fn ten_04_the_last_manager_stays_one() {
    let app = App::start().await;
    let clerks = app.role("Clerk", &["inventory.read"]).await;
    let managers = app.role("Manager", &["tenancy.manage"]).await;
    let first = json!({"email": "clerk@kestrel.example", "name": "Clerk", "role_id": clerks});
    app.post("/v1/users", "first", &first).await.problem(422, "manager_first");
    let mira = app.invite("mira@kestrel.example", &managers).await;
    app.set_password(&mira["token"], PASSWORD).await.ok();
    let ivo = app.invite("ivo@kestrel.example", &managers).await;
    let of = |user: &Value| format!("/v1/users/{}", text(&user["user_id"]));
    // The other one has no password yet.
    for (n, body) in [json!({"disabled": true}), json!({"role_id": clerks})].iter().enumerate() {
        app.change(&of(&mira), &format!("m{n}"), body).await.problem(422, "manager_last");
    }
    let fewer = json!({"permissions": ["inventory.read"]});
    app.change(&format!("/v1/roles/{managers}"), "f", &fewer).await.problem(422, "manager_last");
    app.set_password(&ivo["token"], PASSWORD).await.ok();
    assert_eq!(app.change(&of(&mira), "d", &json!({"disabled": true})).await.ok()["state"], "disabled");
    app.change(&of(&ivo), "d2", &json!({"disabled": true})).await.problem(422, "manager_last");
    assert_eq!(app.change(&of(&mira), "e", &json!({"disabled": false})).await.ok()["state"], "active");
    app.change(&of(&ivo), "d3", &json!({"role_id": clerks})).await.ok();
    let users = app.get(&format!("/v1/roles/{managers}")).await.ok()["users"].clone();
    assert_eq!(users, 1);
    app.finish().await;
}

#[tokio::test]
async fn manager_kept() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let mira = app.person("mira@kestrel.example", &["tenancy.manage"]).await;
    let ivo = app.person("ivo@kestrel.example", &["tenancy.manage"]).await;
    // Two managers disable each other at once, on two replicas.
    let mut gate = gate::hold("batch.decided");
    let spawn = |app: &Arc<App>, user: String| {
        let app = app.clone();
        let path = format!("/v1/users/{user}");
        tokio::spawn(async move {
            let request = app.request(Method::PATCH, &path).bearer_auth(&app.token);
            app.send_any(request.header("idempotency-key", &path).json(&json!({"disabled": true}))).await
        })
    };
    let first = spawn(&app, mira);
    let go = gate.reached().await;
    let second = spawn(&twin, ivo);
    app.database.wait_for_lock_wait_or_end("headcount_load", &second).await;
    drop(go);
    first.await.expect("first").ok();
    second.await.expect("second").problem(422, "manager_last");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn email_arbiter() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    app.person("mira@kestrel.example", &["tenancy.manage"]).await;
    let (one, two) = (app.role("One", &[]).await, app.role("Two", &[]).await);
    let spawn = |app: &Arc<App>, email: &'static str, role: String| {
        let app = app.clone();
        tokio::spawn(async move {
            let body = json!({"email": email, "name": "Ivo", "role_id": role});
            app.send_any(app.write("/v1/users", email, &body)).await
        })
    };
    let mut gate = gate::hold("batch.storing");
    let first = spawn(&app, "ivo@kestrel.example", one);
    let go = gate.reached().await;
    let second = spawn(&twin, "IVO@kestrel.example", two);
    app.database.wait_for_lock_wait_or_end("headcount_load", &second).await;
    // Both have found the address free.
    drop(go);
    let made = first.await.expect("first").ok();
    let taken = second.await.expect("second").problem(409, "email_taken");
    assert_eq!(taken["existing_id"], made["user_id"]);
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn ten_04_an_invitation_is_good_once_and_its_answer_is_sealed() {
    let app = App::start().await;
    let role = app.role("Manager", &["tenancy.manage"]).await;
    let invited = app.invite("mira@kestrel.example", &role).await;
    let again = app.invite("mira@kestrel.example", &role).await;
    assert_eq!(invited, again, "a retry replays the same token");
    let token = &invited["token"];
    let admin = app.database.raw_admin().await;
    let row = admin.query_one("SELECT body, sealed FROM answer WHERE command = 'tenancy.invite_user'", &[]).await;
    let row = row.expect("the answer");
    let stored: Vec<u8> = row.get(0);
    assert!(row.get::<_, bool>(1) && !String::from_utf8_lossy(&stored).contains(&text(token)[80..]));
    let path = format!("/v1/users/{}", text(&invited["user_id"]));
    assert_eq!(app.get(&path).await.ok()["state"], "invited");
    // A password that may not be chosen leaves the token good.
    for password in ["short", "x".repeat(201).as_str()] {
        let body = app.set_password(token, password).await.problem(422, "invalid_value");
        assert_eq!(body["errors"][0]["field"], "password");
    }
    let set = app.set_password(token, PASSWORD).await;
    assert_eq!(set.ok(), json!({"user_id": invited["user_id"], "email": "mira@kestrel.example"}));
    assert_eq!(set.header("cache-control"), Some("no-store"));
    assert_eq!(app.get(&path).await.ok()["state"], "active");
    // Used, wrong, another's, nonsense: all in the same words.
    let (head, secret) = text(token).rsplit_once('_').expect("its parts");
    let wrong = format!("{head}_{}", secret.chars().rev().collect::<String>());
    let unknown = wrong.replace(&text(&invited["user_id"])[4..], "0198c0de5eed70008000000000000001");
    let refused = app.set_password(token, PASSWORD).await;
    refused.problem(401, "token_not_valid");
    for token in [wrong, unknown, "tht_".into(), String::new(), app.token.clone()] {
        let reply = app.set_password(&json!(token), PASSWORD).await;
        assert_eq!((reply.status, &reply.bytes), (401, &refused.bytes), "{token}");
    }
    let kept: (String, Option<Vec<u8>>) = {
        let row = admin.query_one("SELECT password_hash, token_hash FROM tenant_user", &[]).await.expect("the user");
        (row.get(0), row.get(1))
    };
    assert!(kept.0.starts_with("$argon2id$") && kept.1.is_none());
    // Neither password nor token rests in an answer or in the audit.
    let audit = app.get("/v1/audit?limit=200").await.ok();
    let rows = audit["items"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["command"] == "tenancy.set_password").expect("it is audited");
    assert_eq!((&row["actor"], &row["outcome"]), (&invited["user_id"], &json!("done")));
    let answers = "SELECT count(*) FROM answer WHERE command = 'tenancy.set_password'";
    assert_eq!(admin.query_one(answers, &[]).await.expect("a count").get::<_, i64>(0), 0);
    app.finish().await;
}

#[tokio::test]
async fn ten_04_only_the_latest_token_of_a_user_is_good_and_only_until_it_expires() {
    let app = App::start().await;
    let role = app.role("Manager", &["tenancy.manage"]).await;
    let invited = app.invite("mira@kestrel.example", &role).await;
    let path = format!("/v1/users/{}", text(&invited["user_id"]));
    let token = async |key: &str| app.post(&format!("{path}/token"), key, &Value::Null).await;
    let lasts = |answer: &Value, now: jiff::Timestamp| {
        let until: jiff::Timestamp = text(&answer["token_expires_at"]).parse().expect("an instant");
        until.duration_since(now).as_secs()
    };
    let now = jiff::Timestamp::now();
    let second = token("t1").await.ok();
    assert!((259_190..=259_210).contains(&lasts(&second, now)), "{second}");
    app.set_password(&invited["token"], PASSWORD).await.problem(401, "token_not_valid");
    app.set_password(&second["token"], PASSWORD).await.ok();
    let reset = token("t2").await.ok();
    assert!((3_590..=3_610).contains(&lasts(&reset, now)), "{reset}");
    let admin = app.database.raw_admin().await;
    let expire = "UPDATE tenant_user SET token_expires_at = clock_timestamp()";
    admin.batch_execute(expire).await.expect("it is over");
    app.set_password(&reset["token"], "another good password").await.problem(401, "token_not_valid");
    let reset = token("t3").await.ok();
    app.set_password(&reset["token"], "another good password").await.ok();
    // Disabling takes back what was handed out.
    app.person("ivo@kestrel.example", &["tenancy.manage"]).await;
    let reset = token("t4").await.ok();
    app.change(&path, "d", &json!({"disabled": true})).await.ok();
    token("t5").await.problem(422, "user_disabled");
    app.change(&path, "e", &json!({"disabled": false})).await.ok();
    app.set_password(&reset["token"], PASSWORD).await.problem(401, "token_not_valid");
    app.finish().await;
}

#[tokio::test]
async fn token_once() {
    let app = Arc::new(App::start().await);
    let twin = Arc::new(app.replica().await);
    let role = app.role("Manager", &["tenancy.manage"]).await;
    let token = app.invite("mira@kestrel.example", &role).await["token"].clone();
    let mut gate = gate::hold("batch.decided");
    let spawn = |app: &Arc<App>, password: &'static str| {
        let (app, token) = (app.clone(), token.clone());
        tokio::spawn(async move { app.set_password(&token, password).await })
    };
    let first = spawn(&app, PASSWORD);
    let go = gate.reached().await;
    let second = spawn(&twin, "somebody else's password");
    app.database.wait_for_lock_wait_or_end("tenant_user_load", &second).await;
    drop(go);
    first.await.expect("first").ok();
    second.await.expect("second").problem(401, "token_not_valid");
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn ten_04_passwords_logins_and_refreshes_whose_commit_was_not_answered_are_settled() {
    let app = App::start().await;
    let role = app.role("Manager", &["tenancy.manage"]).await;
    let invited = app.invite("mira@kestrel.example", &role).await;
    // Only a command's transaction has an audit line, and only unnamed statements show their text.
    let proxy = Proxy::start(&app.database.server(), "audit_store").await;
    let behind = app.replica_with(|config| {
        config.database = proxy.config(&config.database);
        config.named = false;
    });
    let behind = behind.await;
    let lost = async || {
        assert_eq!(proxy.cuts_left(), 0, "the reply to COMMIT was lost");
        proxy.cut_next(1);
    };
    lost().await;
    behind.set_password(&invited["token"], PASSWORD).await.ok();
    lost().await;
    let first = behind.login("mira@kestrel.example").await;
    lost().await;
    let second = behind.refresh(&first["refresh_token"]).await.ok();
    assert_eq!(proxy.cuts_left(), 0, "the reply to COMMIT was lost");
    // What was answered is what is kept.
    app.refresh(&second["refresh_token"]).await.ok();
    let admin = app.database.raw_admin().await;
    let sessions = admin.query_one("SELECT count(*) FROM session", &[]).await.expect("a count");
    assert_eq!(sessions.get::<_, i64>(0), 1);
    behind.finish().await;
}
