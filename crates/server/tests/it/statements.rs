//! Every statement against the migrated schema, under the server's role.

use domain::WorkingSet;
use engine::sql::{Sql, Type};
use serde_json::json;
use testkit::{App, Database};

fn all() -> Vec<(Sql, String)> {
    let queries = domain::registry::queries().into_iter().map(|sql| (sql, sql.spelled("")));
    engine::statements::<WorkingSet>().into_iter().chain(queries).collect()
}

#[tokio::test]
async fn every_statement_prepares_and_its_parameters_are_of_the_types_it_says() {
    let database = Database::new().await;
    let server = database.raw().await;
    let statements = all();
    assert!(statements.len() >= 90, "{}", statements.len());
    for (sql, text) in statements {
        let free = server.prepare(&text).await.unwrap_or_else(|error| panic!("{}: {error:?}", sql.name));
        let said = sql.all_types();
        let wanted = free.params();
        assert_eq!(said.len(), wanted.len(), "{}", sql.name);
        for (index, (said, wanted)) in said.iter().zip(wanted).enumerate() {
            assert_eq!(said, wanted, "{} ${}", sql.name, index + 1);
        }
        assert!(text.starts_with(&format!("/* {} */", sql.name)), "{text}");
    }
}

/// Plans that would scan a table that grows: told by the server itself, as it would run them for
/// any parameters, under row-level security and with the settings of a batch.
async fn scans(app: &App) -> Vec<String> {
    let server = app.database.raw().await;
    let tenant = app.tenant.uuid();
    let mut found = Vec::new();
    for (sql, text) in all() {
        // A check of `verify` reads whole tables; that is its task. The catalog's own are small.
        if sql.name.starts_with("verify_")
            || sql.name.starts_with("deadlock_other")
            || sql.name.starts_with("tenant_slug")
        {
            continue;
        }
        let types: Vec<String> = sql.all_types().iter().map(name).collect();
        let nulls = vec!["NULL"; types.len()].join(", ");
        let settings =
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;";
        server
            .batch_execute(&format!(
                "BEGIN; SET LOCAL tallyhold.tenant_id = '{tenant}'; SET LOCAL plan_cache_mode = force_generic_plan; {settings}
                 PREPARE probe ({}) AS {text}",
                types.join(", ")
            ))
            .await
            .unwrap_or_else(|error| panic!("{}: {error:?}", sql.name));
        let plan = server.simple_query(&format!("EXPLAIN EXECUTE probe ({nulls})")).await.expect("a plan");
        let lines: Vec<String> = plan
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .collect();
        server.batch_execute("ROLLBACK; DEALLOCATE probe").await.expect("an end");
        if lines.iter().any(|line| line.contains("Seq Scan on ")) {
            found.push(format!("{}:\n{}", sql.name, lines.join("\n")));
        }
    }
    found
}

fn name(kind: &Type) -> String {
    match kind.name().strip_prefix('_') {
        Some(element) => format!("{element}[]"),
        None => kind.name().to_owned(),
    }
}

#[tokio::test]
async fn test_11_generic_plans_use_the_keys_on_empty_and_on_large_tables() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    app.allocate("a", &stock, "1").await.ok();
    app.person("mira@kestrel.example", &["tenancy.manage"]).await;
    app.login("mira@kestrel.example").await;
    let admin = app.database.raw_admin().await;
    // Statistics of nearly empty tables, which mislead a planner most.
    admin.batch_execute("ANALYZE").await.expect("analysed");
    let found = scans(&app).await;
    assert!(found.is_empty(), "on small tables:\n{}", found.join("\n\n"));
    admin
        .batch_execute(
            // Without foreign-key triggers: this connection planned them when the tables were empty.
            "SET session_replication_role = replica;
             INSERT INTO sku (tenant_id, sku_id, code, code_folded, name, unit, decimals, created_at)
                 SELECT s.tenant_id, gen_random_uuid(), 'x' || n, 'x' || n, 'x', 'piece', 0, now()
                 FROM sku s, generate_series(1, 5000) n;
             INSERT INTO stock_position (tenant_id, sku_id, warehouse_id, position_id, decimals, on_hand, allocated)
                 SELECT s.tenant_id, s.sku_id, w.warehouse_id, gen_random_uuid(), s.decimals, 10, 1
                 FROM sku s, warehouse w ON CONFLICT DO NOTHING;
             INSERT INTO promise (tenant_id, promise_id, sku_id, warehouse_id, quantity, state, priority, created_at)
                 SELECT tenant_id, gen_random_uuid(), sku_id, warehouse_id, 1, 'open', 0, now() FROM stock_position;
             INSERT INTO stock_ledger (tenant_id, position_id, sequence, kind, on_hand, on_order, allocated, reserved, at)
                 SELECT tenant_id, position_id, n, 'receive', 1, 0, 0, 0, now()
                 FROM stock_position, generate_series(10, 12) n;
             INSERT INTO event (tenant_id, event_id, kind, aggregate, aggregate_id, sequence, schema_version, data, correlation_id, at)
                 SELECT tenant_id, gen_random_uuid(), 'k', 'stock_position', position_id, sequence, 1, '{}', '', at FROM stock_ledger WHERE sequence >= 10;
             INSERT INTO answer (tenant_id, key, fingerprint, command, status, content_type, sealed, body, at)
                 SELECT tenant_id, code, sha256(''), 'x', 200, 'application/json', false, '{}', now() FROM sku ON CONFLICT DO NOTHING;
             INSERT INTO tenant_user (tenant_id, user_id, email, email_folded, name, role_id, state, epoch, version, created_at)
                 SELECT tenant_id, gen_random_uuid(), n::text, n::text, 'x', role_id, 'invited', 1, 1, now()
                 FROM tenant_user, generate_series(1, 3000) n;
             INSERT INTO session (tenant_id, session_id, user_id, epoch, family_hash, refresh_hash, created_at, expires_at)
                 SELECT tenant_id, gen_random_uuid(), user_id, 1, sha256(''), sha256(''), now(), now() FROM tenant_user;
             INSERT INTO refusal (tenant_id, refusal_id, actor, method, route, code, count, first_at, last_at)
                 SELECT tenant_id, gen_random_uuid(), 'a', 'GET', '/', 'c', 1, now(), now() FROM tenant_user;
             ANALYZE",
        )
        .await
        .expect("a large database");
    let found = scans(&app).await;
    assert!(found.is_empty(), "on large tables:\n{}", found.join("\n\n"));
}

#[tokio::test]
async fn ops_07_verify_finds_what_is_off_and_names_it() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let promise = app.post("/v1/stock/allocate", "a", &stock.line_from("4", "order-1")).await.ok();
    let customer = app.customer("Boutique").await;
    app.patch(&format!("/v1/customers/{customer}"), "c", "\"v1\"", &json!({"blocked": true})).await.ok();
    app.post("/v1/edit-locks", "l", &json!({"document_id": customer, "seconds": 900})).await.ok();
    let admin = app.database.raw_admin().await;
    app.person("mira@kestrel.example", &["tenancy.manage"]).await;
    app.login("mira@kestrel.example").await;
    let id = promise["lines"][0]["position_id"].as_str().expect("an id")[4..].to_owned();
    for (spoil, check) in [
        ("UPDATE stock_position SET on_hand = on_hand + 1", "verify_position_ledger"),
        ("UPDATE stock_position SET allocated = allocated - 1", "verify_position_promise"),
        ("ALTER TABLE stock_position DROP CONSTRAINT stock_position_no_oversell; UPDATE stock_position SET allocated = 99",
            "verify_position_sold"),
        ("UPDATE promise SET shipped = 1", "verify_promise_ledger"),
        ("ALTER TABLE promise DROP CONSTRAINT promise_state_true; UPDATE promise SET state = 'closed'", "verify_promise_state"),
        ("DELETE FROM stock_ledger WHERE sequence = 1", "verify_ledger_sequence"),
        ("DELETE FROM event WHERE sequence = 1", "verify_ledger_event"),
        ("INSERT INTO event SELECT tenant_id, gen_random_uuid(), kind, aggregate, aggregate_id, 9, 1, '{}', '', at FROM event
            WHERE sequence = 1", "verify_ledger_event"),
        ("UPDATE event SET event_id = '00000000-0000-0000-0000-000000000001'", "verify_event_id"),
        ("DELETE FROM document_version WHERE version = 1", "verify_document_version"),
        ("UPDATE customer SET version = 3", "verify_document_version"),
        ("UPDATE customer SET name = 'Other'", "verify_document_version"),
        ("DELETE FROM customer", "verify_document_version"),
        ("DELETE FROM event WHERE aggregate = 'customer' AND sequence = 2", "verify_document_event"),
        ("DELETE FROM document_version WHERE version = 2", "verify_document_event"),
        ("UPDATE edit_lock SET locks = json_build_array(locks -> 0, locks -> 0)", "verify_edit_lock"),
        ("DELETE FROM stock_source", "verify_source_ledger"),
        ("ALTER TABLE stock_ledger DROP CONSTRAINT stock_ledger_not_empty;
          DELETE FROM stock_position", "verify_ledger_position"),
        ("DELETE FROM stock_position", "verify_promise_position"),
        ("UPDATE headcount SET users_enabled = users_enabled + 1", "verify_headcount"),
        ("UPDATE role SET users_enabled = users_enabled + 1", "verify_role_users"),
        ("UPDATE role SET permissions = '{}'", "verify_user_manager"),
        ("UPDATE tenant_user SET state = 'disabled'", "verify_session_user"),
        ("UPDATE answer SET body = 'x' WHERE NOT sealed", "verify_answer_form"),
        ("DELETE FROM audit", "verify_answer_audit"),
    ] {
        admin.batch_execute("BEGIN").await.expect("a transaction");
        admin.batch_execute(spoil).await.unwrap_or_else(|error| panic!("{spoil}: {error:?}"));
        let sql = &domain::verify::CHECKS.iter().find(|one| one.sql.name == check).expect("a check").sql;
        let rows = admin.query(&sql.spelled(""), &[&app.tenant.uuid(), &100i64]).await;
        let rows = rows.unwrap_or_else(|error| panic!("{check}: {error:?}"));
        assert!(!rows.is_empty(), "{check} does not see: {spoil}");
        let key: String = rows[0].get(0);
        assert!(!key.is_empty() && (key.contains('-') || !check.contains("position") || key.contains(&id)), "{key}");
        admin.batch_execute("ROLLBACK").await.expect("undone");
    }
    app.finish().await;
}

#[tokio::test]
async fn test_11_a_plan_made_on_a_small_table_does_not_outlive_its_growth() {
    let app = App::start_with(|config| config.lanes = 1).await;
    let stock = app.stock("1000").await;
    let admin = app.database.raw_admin().await;
    // On one row every index looks alike, and nobody will tell of the growth.
    admin
        .batch_execute("ALTER TABLE stock_position SET (autovacuum_enabled = false); ANALYZE")
        .await
        .expect("analysed");
    app.allocate("plan", &stock, "1").await.ok();
    admin
        .batch_execute(
            "SET session_replication_role = replica;
             INSERT INTO stock_position (tenant_id, sku_id, warehouse_id, position_id, decimals)
                 SELECT p.tenant_id, gen_random_uuid(), p.warehouse_id, gen_random_uuid(), 0
                 FROM stock_position AS p, generate_series(1, 10000)",
        )
        .await
        .expect("a large table");
    for call in 0..200 {
        app.allocate(&format!("call-{call}"), &stock, "1").await.ok();
    }
    app.engine().shutdown().await;
    // Its connections tell what they read when they are closed.
    let database = app.database.clone();
    drop(app);
    let told = "SELECT n_tup_upd >= 201, (SELECT sum(idx_tup_read)::int8 FROM pg_stat_user_indexes
                    WHERE relname = 'stock_position')
                FROM pg_stat_user_tables WHERE relname = 'stock_position'";
    let read: i64 = loop {
        let row = admin.query_one(told, &[]).await.expect("statistics");
        if row.get(0) {
            break row.get(1);
        }
    };
    // A load and a store a call; 2 x 200 x 10,000 were the plans kept for good.
    assert!(read < 2_000_000, "{read} index entries were read for 201 allocations; {}", database.name);
}
