//! The wall between tenants.

use domain::registry::PERMISSIONS;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testkit::{App, Reply, app::PASSWORD};

/// One row of everything, at the tenant of `token`.
async fn one_of_each(app: &App, token: &str, tag: &str) -> BTreeMap<&'static str, String> {
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let sku = app.post_as(token, "/v1/skus", tag, &json!({"code": tag, "name": tag, "unit": "piece"})).await.ok();
    let place = format!("{tag}-w");
    let warehouse = app.post_as(token, "/v1/warehouses", &place, &json!({"code": tag, "name": tag})).await.ok();
    let line = json!({"sku_id": sku["sku_id"], "warehouse_id": warehouse["warehouse_id"], "quantity": "9"});
    let lines = json!({"lines": [line]});
    app.post_as(token, "/v1/stock/receive", &format!("{tag}-r"), &lines).await.ok();
    let promise = app.post_as(token, "/v1/stock/allocate", &format!("{tag}-a"), &lines).await.ok();
    let key = json!({"name": tag, "permissions": ["inventory.read"]});
    let key = app.post_as(token, "/v1/api-keys", &format!("{tag}-k"), &key).await.ok();
    let group = app.post_as(token, "/v1/customer-groups", &format!("{tag}-g"), &json!({"name": tag})).await.ok();
    let customer = json!({"name": tag, "currency": "EUR"});
    let customer = app.post_as(token, "/v1/customers", &format!("{tag}-c"), &customer).await.ok();
    let lock = json!({"document_id": customer["customer_id"], "part": "name"});
    let lock = app.post_as(token, "/v1/edit-locks", &format!("{tag}-l"), &lock).await.ok();
    let document = customer["customer_id"].clone();
    // One that was taken away, too.
    let phone = json!({"document_id": document, "part": "phone"});
    let phone = app.post_as(token, "/v1/edit-locks", &format!("{tag}-p"), &phone).await.ok();
    let broken = json!({"document_id": document, "edit_lock_id": phone["edit_lock_id"], "reason": "gone"});
    app.post_as(token, "/v1/edit-locks/break", &format!("{tag}-b"), &broken).await.ok();
    let role = json!({"name": tag, "permissions": ["tenancy.manage"]});
    let role = app.post_as(token, "/v1/roles", &format!("{tag}-o"), &role).await.ok();
    let user = json!({"email": format!("{tag}@x.example"), "name": tag, "role_id": role["role_id"]});
    let user = app.post_as(token, "/v1/users", &format!("{tag}-u"), &user).await.ok();
    app.set_password(&user["token"], PASSWORD).await.ok();
    BTreeMap::from([
        ("document_id", text(&document)),
        ("edit_lock_id", text(&lock["edit_lock_id"])),
        ("broken_id", text(&phone["edit_lock_id"])),
        ("customer_id", text(&customer["customer_id"])),
        ("customer_group_id", text(&group["customer_group_id"])),
        ("role_id", text(&role["role_id"])),
        ("user_id", text(&user["user_id"])),
        ("sku_id", text(&sku["sku_id"])),
        ("warehouse_id", text(&warehouse["warehouse_id"])),
        ("promise_id", text(&promise["lines"][0]["promise_id"])),
        ("position_id", text(&promise["lines"][0]["position_id"])),
        ("api_key_id", text(&key["api_key_id"])),
    ])
}

/// What a body of each write would be, naming the rows of `ids`.
fn body(path: &str, ids: &BTreeMap<&'static str, String>) -> Option<Value> {
    let of_position = json!({"sku_id": ids["sku_id"], "warehouse_id": ids["warehouse_id"], "quantity": "1"});
    let of_promise = json!({"promise_id": ids["promise_id"], "quantity": "1"});
    Some(match path {
        "/v1/stock/receive" | "/v1/stock/allocate" => json!({"lines": [of_position]}),
        "/v1/stock/adjust" => {
            let mut line = of_position;
            line["reason"] = json!("count");
            json!({"lines": [line]})
        }
        "/v1/promises/ship" | "/v1/promises/release" | "/v1/promises/return" => json!({"lines": [of_promise]}),
        "/v1/users" => json!({"email": "new@x.example", "name": "New", "role_id": ids["role_id"]}),
        "/v1/users/{user_id}" => json!({"disabled": true}),
        "/v1/roles/{role_id}" => json!({"permissions": []}),
        // They name no row of anybody.
        "/v1/skus" | "/v1/warehouses" | "/v1/api-keys" | "/v1/roles" | "/v1/customer-groups" => return None,
        "/v1/customers" => {
            json!({"name": "elsewhere", "currency": "EUR", "customer_group_id": ids["customer_group_id"]})
        }
        "/v1/edit-locks" => json!({"document_id": ids["document_id"], "part": "phone"}),
        "/v1/edit-locks/renew" | "/v1/edit-locks/release" => {
            json!({"document_id": ids["document_id"], "edit_lock_id": ids["edit_lock_id"]})
        }
        "/v1/edit-locks/break" => {
            json!({"document_id": ids["document_id"], "edit_lock_id": ids["edit_lock_id"], "reason": "x"})
        }
        "/v1/customers/{customer_id}" => json!({"blocked": true}),
        "/v1/customer-groups/{customer_group_id}" => json!({"name": "elsewhere"}),
        "/v1/api-keys/{api_key_id}" | "/v1/users/{user_id}/token" => Value::Null,
        other => panic!("{other} is a new write route: say here what it names of another tenant"),
    })
}

/// Logs in somebody of the tenant whom [`one_of_each`] made.
async fn open(app: &App, tenant: &str, tag: &str) -> Value {
    app.login_in(tenant, &format!("{tag}@x.example"), PASSWORD).await.ok()
}

/// What one of us sends to a route that takes no credential but its body's, to get in elsewhere.
async fn get_in(app: &App, path: &str, ours: &Value, theirs: &BTreeMap<&'static str, String>, tenant: &str) -> Reply {
    let secret = "ab".repeat(32);
    let post = app.request(Method::POST, path);
    app.send(match path {
        "/v1/auth/login" => post.json(&json!({"tenant": "heron", "email": "OURS@x.example", "password": PASSWORD})),
        "/v1/auth/refresh" => {
            let mut parts: Vec<_> = ours["refresh_token"].as_str().expect("a token").split('_').collect();
            parts[1] = tenant;
            post.json(&json!({"refresh_token": parts.join("_")}))
        }
        "/v1/auth/logout" => {
            let session = &ours["session_id"].as_str().expect("an id")[4..];
            post.header("cookie", format!("tallyhold_session=ths_{tenant}_{session}_{secret}"))
        }
        "/v1/auth/password" => {
            let token = format!("tht_{tenant}_{}_{secret}", &theirs["user_id"][4..]);
            post.json(&json!({"token": token, "password": PASSWORD}))
        }
        other => panic!("{other} is a new route without a credential: say here how one would get in elsewhere"),
    })
    .await
}

#[tokio::test]
async fn ten_01_ten_03_test_07_no_route_shows_or_touches_another_tenants_rows() {
    let app = App::start().await;
    let (other, heron) = app.other_tenant("heron").await;
    let theirs = one_of_each(&app, &heron, "THEIRS").await;
    // The user in question may do all that a user may.
    let role = json!({"name": "All", "permissions": PERMISSIONS.iter().map(|known| known.0).collect::<Vec<_>>()});
    let own = one_of_each(&app, &app.token, "OURS").await;
    let role = app.post("/v1/roles", "all", &role).await.ok();
    app.change(&format!("/v1/users/{}", own["user_id"]), "all-of-them", &json!({"role_id": role["role_id"]}))
        .await
        .ok();
    let (ours, theirs_in) = (open(&app, "kestrel", "OURS").await, open(&app, "heron", "THEIRS").await);
    let access = ours["access_token"].as_str().expect("a token").to_owned();
    let fill =
        |path: &str| theirs.iter().fold(path.to_owned(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id));
    let before = app.get_as(&heron, &fill("/v1/stock-positions/{position_id}")).await.ok();

    let description = serde_json::to_value(server::api::openapi()).expect("JSON");
    let mut seen = 0;
    for (path, item) in description["paths"].as_object().expect("paths") {
        if !path.starts_with("/v1/") {
            continue;
        }
        for method in ["get", "post", "put", "patch", "delete"] {
            if item.get(method).is_none() {
                continue;
            }
            seen += 1;
            if path.starts_with("/v1/auth/") {
                let tenant = other.uuid().simple().to_string();
                let reply = get_in(&app, path, &ours, &theirs, &tenant).await;
                assert_eq!(reply.status, 401, "{path}: {}", reply.text());
                continue;
            }
            let url = fill(path);
            assert!(!url.contains('{'), "{path} has an id this suite does not know");
            for (credential, token) in [("key", &app.token), ("session", &access)] {
                if method == "get" {
                    let reply = app.get_as(token, &url).await;
                    if path.contains('{') {
                        assert_eq!(reply.status, 404, "{path}: {}", reply.text());
                    } else {
                        let text = reply.text();
                        assert_eq!(reply.status, 200, "{path}: {text}");
                        for id in theirs.values() {
                            assert!(!text.contains(id), "{path} shows {id}: {text}");
                        }
                    }
                } else if let Some(body) = body(path, &theirs) {
                    let verb: Method = method.to_uppercase().parse().expect("a method");
                    let request = app.request(verb, &url).bearer_auth(token);
                    let request = request.header("idempotency-key", format!("{credential}|{path}"));
                    let request = request.header("if-match", "\"v1\"");
                    let reply = app.send(if body.is_null() { request } else { request.json(&body) }).await;
                    assert_eq!(reply.status, 404, "{path}: {}", reply.text());
                }
            }
        }
    }
    assert!(seen >= 35, "{seen} operations");
    let after = app.get_as(&heron, &fill("/v1/stock-positions/{position_id}")).await.ok();
    assert_eq!(before, after);
    // Theirs is still open, and theirs alone.
    let seen = app.get_as(theirs_in["access_token"].as_str().expect("a token"), "/v1/tenant").await.ok();
    assert_eq!(seen["slug"], "heron");
    app.finish().await;
}

#[tokio::test]
async fn ten_01_case_095_the_credential_alone_decides_the_tenant() {
    let app = App::start().await;
    let (other, heron) = app.other_tenant("heron").await;
    for query in [format!("?org={other}"), format!("?tenant={other}"), format!("?tenant_id={other}")] {
        let request = app.request(Method::GET, &format!("/v1/tenant{query}")).bearer_auth(&app.token);
        let request = request.header("x-tenant-id", other.to_string()).header("x-org-id", "heron");
        assert_eq!(app.send(request).await.ok()["slug"], "kestrel");
    }
    assert_eq!(app.get_as(&heron, "/v1/tenant").await.ok()["slug"], "heron");
    // Our key's secret under the other tenant's name opens nothing.
    let mut parts: Vec<_> = app.token.split('_').map(str::to_owned).collect();
    parts[1] = other.uuid().simple().to_string();
    app.get_as(&parts.join("_"), "/v1/tenant").await.problem(401, "unauthorized");
    // No tenant in it: refused, not everybody's data.
    app.get_as(&format!("thk__{}_{}", parts[2], parts[3]), "/v1/tenant").await.problem(401, "unauthorized");
    app.finish().await;
}

#[tokio::test]
async fn ten_02_case_096_a_query_that_forgets_its_tenant_filter_finds_nothing_of_others() {
    let app = App::start().await;
    let (_, heron) = app.other_tenant("heron").await;
    one_of_each(&app, &heron, "THEIRS").await;
    one_of_each(&app, &app.token, "OURS").await;
    for (tenant, token, tag) in [("kestrel", &app.token, "OURS"), ("heron", &heron, "THEIRS")] {
        open(&app, tenant, tag).await;
        app.get_as(token, "/v1/skus/sku_0").await.problem(404, "not_found");
    }
    app.flush().await;
    let server = app.database.raw().await;
    let admin = app.database.raw_admin().await;
    let tables = admin
        .query(
            "SELECT c.relname::text FROM pg_class c
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                 AND c.relname <> 'tenant_slug'",
            &[],
        )
        .await
        .expect("the catalog");
    assert!(tables.len() >= 17, "{}", tables.len());
    for table in tables {
        let table: String = table.get(0);
        let everything: i64 =
            admin.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.expect("superuser").get(0);
        // Without a tenant: nothing at all.
        let none = server.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.expect("a count");
        assert_eq!(none.get::<_, i64>(0), 0, "{table} without a tenant");
        // With one, and no filter: its own rows only.
        server
            .batch_execute(&format!("BEGIN; SET LOCAL tallyhold.tenant_id = '{}'", app.tenant.uuid()))
            .await
            .expect("a transaction");
        let others = format!("SELECT count(*) FROM {table} WHERE tenant_id <> $1");
        let found = server.query_one(&others, &[&app.tenant.uuid()]).await.expect("a count");
        assert_eq!(found.get::<_, i64>(0), 0, "{table} shows others");
        let own: i64 = server.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.expect("a count").get(0);
        assert!(own < everything || everything == 0, "{table}: {own} of {everything}");
        server.batch_execute("ROLLBACK").await.expect("an end");
        // Both walls: the policy is there, and forced on the owner too.
        let wall = "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = $1::text::regclass";
        assert!(admin.query_one(wall, &[&table]).await.expect("the catalog").get::<_, bool>(0), "{table}");
    }
    // Nor can a row be written into another tenant.
    server
        .batch_execute(&format!("BEGIN; SET LOCAL tallyhold.tenant_id = '{}'", app.tenant.uuid()))
        .await
        .expect("a transaction");
    let error = server
        .batch_execute("INSERT INTO deadlock VALUES (gen_random_uuid(), gen_random_uuid(), '', '', '', now())")
        .await
        .expect_err("the wall");
    assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("42501"));
    app.finish().await;
}

#[tokio::test]
async fn ten_02_serving_as_a_role_that_no_wall_binds_is_refused() {
    let app = App::start().await;
    let strong = testkit::app::config(app.database.admin());
    let error = domain::Engine::start(strong).await.err().expect("a superuser is refused");
    assert!(error.to_string().contains("superuser") && error.to_string().contains("tallyhold_server"), "{error}");
    let admin = app.database.raw_admin().await;
    let role = format!("bypass_{}", app.database.name);
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN BYPASSRLS")).await.expect("a role");
    let mut config = app.database.server();
    config.user(&role);
    let error = domain::Engine::start(testkit::app::config(config)).await.err().expect("BYPASSRLS is refused");
    assert!(error.to_string().contains("BYPASSRLS"), "{error}");
    let mut config = app.database.server();
    admin
        .batch_execute(&format!("ALTER ROLE {role} NOBYPASSRLS; GRANT tallyhold_owner TO {role}"))
        .await
        .expect("a grant");
    config.user(&role);
    let error =
        domain::Engine::start(testkit::app::config(config)).await.err().expect("a member of the owner is refused");
    assert!(error.to_string().contains("tallyhold_owner"), "{error}");
    admin.batch_execute(&format!("DROP ROLE {role}")).await.expect("cleaned up");
    app.finish().await;
}

#[tokio::test]
async fn case_094_lists_counts_and_audit_of_a_new_tenant_are_empty() {
    let app = App::start().await;
    one_of_each(&app, &app.token, "OURS").await;
    let (_, heron) = app.other_tenant("heron").await;
    for path in ["/v1/skus", "/v1/warehouses", "/v1/stock-positions", "/v1/promises", "/v1/deadlocks"] {
        assert_eq!(app.get_as(&heron, path).await.ok()["items"], json!([]), "{path}");
    }
    let audit = app.get_as(&heron, "/v1/audit").await.ok();
    let commands: Vec<_> = audit["items"].as_array().expect("rows").iter().map(|row| row["command"].clone()).collect();
    assert_eq!(commands, ["tenancy.create_tenant", "tenancy.create_api_key"]);
    app.finish().await;
}

#[tokio::test]
async fn ten_01_the_tenant_leads_every_primary_and_unique_key() {
    let app = App::start().await;
    let admin = app.database.raw_admin().await;
    let loose = admin
        .query(
            "SELECT c.relname::text, i.indexrelid::regclass::text
             FROM pg_index i
             JOIN pg_class c ON c.oid = i.indrelid
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
                 AND i.indisunique AND a.attname <> 'tenant_id'
                 AND c.relname NOT IN ('tenant_slug', 'migration')",
            &[],
        )
        .await
        .expect("the catalog");
    let loose: Vec<String> = loose.iter().map(|row| row.get(1)).collect();
    assert!(loose.is_empty(), "{loose:?}");
    app.finish().await;
}

#[tokio::test]
async fn a_key_does_what_its_permissions_say_until_it_is_revoked() {
    let app = App::start().await;
    let stock = app.stock("5").await;
    let made = app.post("/v1/api-keys", "k1", &json!({"name": "shop", "permissions": ["inventory.read"]})).await.ok();
    let (reader, id) = (made["secret"].as_str().expect("a secret"), made["api_key_id"].as_str().expect("an id"));
    app.get_as(reader, "/v1/stock-positions").await.ok();
    app.get_as(reader, "/v1/skus").await.problem(403, "permission_missing");
    app.post_as(reader, "/v1/stock/receive", "r", &stock.lines(&["1"])).await.problem(403, "permission_missing");
    app.get_as(reader, "/v1/api-keys").await.problem(403, "permission_missing");
    // A key cannot grant what its maker lacks.
    let manager = app.key_with(&["tenancy.manage"]).await;
    let more = json!({"name": "more", "permissions": ["inventory.write"]});
    app.post_as(&manager, "/v1/api-keys", "m", &more).await.problem(422, "permission_exceeded");
    let odd = json!({"name": "odd", "permissions": ["everything"]});
    app.post("/v1/api-keys", "odd", &odd).await.problem(422, "permission_unknown");
    let operator = json!({"name": "op", "permissions": ["operator"]});
    app.post("/v1/api-keys", "op", &operator).await.problem(422, "permission_unknown");
    let revoke = |key: &str| {
        app.request(Method::DELETE, &format!("/v1/api-keys/{id}"))
            .bearer_auth(&app.token)
            .header("idempotency-key", key)
    };
    let first = app.send(revoke("x1")).await.ok();
    app.get_as(reader, "/v1/stock-positions").await.problem(401, "unauthorized");
    let second = app.send(revoke("x2")).await.ok();
    assert_eq!(first["revoked_at"], second["revoked_at"], "revoking twice is revoking once");
    // A wrong secret of a known key.
    let wrong = format!("{}0", &app.token[..app.token.len() - 1]);
    let wrong = if wrong == app.token { format!("{}1", &app.token[..app.token.len() - 1]) } else { wrong };
    app.get_as(&wrong, "/v1/tenant").await.problem(401, "unauthorized");
    app.finish().await;
}
