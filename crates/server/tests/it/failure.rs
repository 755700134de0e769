//! Broken connections, killed and frozen processes, deadlocks.

use crate::process::Process;
use engine::gate;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use testkit::{
    App,
    app::{Stock, sweep},
    proxy::Proxy,
};

#[tokio::test]
async fn idem_12_case_061_case_063_case_069_test_04_killed_at_every_step_it_runs_once_and_nothing_sticks() {
    let app = App::start().await;
    let stock = app.stock("100").await;
    // Every point of the pipeline of a two-round-trip and of a three-round-trip command. The nth
    // answer of the database in a batch is where its round trip ends.
    let steps = [
        "batch.loaded:kill",
        "batch.decided:kill",
        "batch.storing:kill",
        "batch.committed:kill",
        "batch.rank_loaded:kill",
    ];
    let mut taken = 0;
    for (round, step) in steps.iter().enumerate() {
        let needs_ranks = *step == "batch.rank_loaded:kill";
        let key = format!("k{round}");
        let promise = app.allocate(&format!("for{round}"), &stock, "3").await.ok()["lines"][0]["promise_id"].clone();
        let (path, body) = if needs_ranks {
            ("/v1/promises/release", json!({"lines": [{"promise_id": promise}]}))
        } else {
            ("/v1/stock/allocate", stock.lines(&["2"]))
        };
        let before = app.position(&stock).await["sequence"].as_i64().expect("a sequence");
        let process = Process::over(&app.database, Some(step));
        assert!(process.post(&app.token, path, &key, &body).await.is_none(), "{step}: it was to be killed there");
        drop(process);
        let again = Process::over(&app.database, None);
        let reply = again.post(&app.token, path, &key, &body).await.expect("an answer");
        assert_eq!(reply.status, 200, "{step}: {}", reply.text());
        assert_eq!(reply.replayed(), *step == "batch.committed:kill", "{step}");
        let once_more = again.post(&app.token, path, &key, &body).await.expect("an answer");
        assert_eq!((once_more.replayed(), &once_more.bytes), (true, &reply.bytes), "{step}");
        let after = app.position(&stock).await["sequence"].as_i64().expect("a sequence");
        assert_eq!(after, before + 1, "{step}: the work ran once");
        taken += if needs_ranks { 0 } else { 5 };
        sweep(app.engine()).await;
    }
    assert_eq!(app.position(&stock).await["allocated"], taken.to_string());
    app.finish().await;
}

#[tokio::test]
async fn idem_12_killed_at_every_answer_of_the_database() {
    let app = App::start().await;
    let stock = app.stock("1000").await;
    let promise = app.allocate("a", &stock, "500").await.ok()["lines"][0]["promise_id"].clone();
    // The nth round trip of the whole process, start-up and credential included, until one run is
    // over before its kill comes.
    let mut survived = false;
    for nth in 1..40 {
        let process = Process::over(&app.database, Some(&format!("tx.answered:kill:{nth}")));
        let key = format!("k{nth}");
        let body = json!({"lines": [{"promise_id": promise, "quantity": "1"}]});
        let before = app.position(&stock).await["sequence"].as_i64().expect("a sequence");
        let first = process.post(&app.token, "/v1/promises/ship", &key, &body).await;
        drop(process);
        let retry = app.post("/v1/promises/ship", &key, &body).await;
        retry.ok();
        if let Some(first) = &first {
            assert_eq!((retry.replayed(), &retry.bytes), (true, &first.bytes), "{nth}");
        }
        let after = app.position(&stock).await["sequence"].as_i64().expect("a sequence");
        assert_eq!(after, before + 1, "round trip {nth}: the work ran once");
        if first.is_some() {
            survived = true;
            break;
        }
    }
    assert!(survived, "more round trips than expected");
    app.finish().await;
}

#[tokio::test]
async fn idem_12_killed_inside_commit_the_effect_is_there_once_whichever_way_it_went() {
    let app = App::start().await;
    let stock = app.stock("100").await;
    let uuid = app.tenant.uuid();
    for (round, commits) in [(0, true), (1, false)] {
        let key = format!("inside-{round}");
        // An uncommitted answer under the same key: the batch blocks in its last round trip, with
        // everything written and COMMIT already sent.
        let stall = app.database.raw_admin().await;
        stall
            .batch_execute(&format!(
                "BEGIN; INSERT INTO answer (tenant_id, key, fingerprint, command, status, content_type, sealed, body, at)
                 VALUES ('{uuid}', '{key}', sha256(''), 'stall', 200, '', false, '', now())"
            ))
            .await
            .expect("the stall stands");
        let process = Arc::new(Process::over(&app.database, None));
        let (caller, token, body, sent) = (process.clone(), app.token.clone(), stock.lines(&["7"]), key.clone());
        let call = tokio::spawn(async move { caller.post(&token, "/v1/stock/allocate", &sent, &body).await });
        app.database.wait_for_lock_wait("answer_store").await;
        process.signal("-KILL");
        assert!(call.await.expect("the caller ends").is_none(), "no answer came");
        if !commits {
            // The backend finds its client gone only when it writes; ending it rolls it back.
            stall
                .batch_execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE wait_event_type = 'Lock' AND datname = current_database()",
                )
                .await
                .expect("ended");
        }
        stall.batch_execute("ROLLBACK").await.expect("the stall ends");
        drop(process);
        let retry = app.allocate(&key, &stock, "7").await;
        retry.ok();
        assert_eq!(app.position(&stock).await["allocated"], (7 * (round + 1)).to_string());
        let again = app.allocate(&key, &stock, "7").await;
        assert_eq!((again.replayed(), &again.bytes), (true, &retry.bytes));
    }
    app.finish().await;
}

#[tokio::test]
async fn idem_13_a_commit_whose_answer_was_lost_is_settled_by_the_server_itself() {
    let app = App::start().await;
    let stock = app.stock("100").await;
    let proxy = Proxy::start(&app.database.server(), "COMMIT").await;
    let behind = app.replica_with(|config| config.database = proxy.config(&config.database)).await;
    behind.allocate("warm", &stock, "1").await.ok();
    proxy.cut_next(1);
    let reply = behind.allocate("cut", &stock, "5").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(proxy.cuts_left(), 0, "the answer to COMMIT was cut");
    assert_eq!(app.position(&stock).await["allocated"], "6", "it ran once");
    let again = app.allocate("cut", &stock, "5").await;
    assert_eq!((again.replayed(), &again.bytes), (true, &reply.bytes));
    behind.finish().await;
}

#[tokio::test]
async fn test_03_a_frozen_process_that_holds_a_hot_row_delays_others_no_longer_than_the_time_out() {
    let app = App::start().await;
    let stock = app.stock("100").await;
    let frozen = Arc::new(Process::over(&app.database, Some("batch.loaded:stop")));
    let (caller, token, body) = (frozen.clone(), app.token.clone(), stock.lines(&["1"]));
    let call = tokio::spawn(async move { caller.post(&token, "/v1/stock/allocate", "frozen", &body).await });
    // It has the row.
    let admin = app.database.raw_admin().await;
    let free = "SELECT FROM stock_position FOR UPDATE SKIP LOCKED";
    while admin.query_opt(free, &[]).await.expect("the position").is_some() {
        tokio::task::yield_now().await;
    }
    // A neighbour on another row of the same batch is not made to pay for the held one.
    let other = Stock { sku: app.sku("OTHER").await, ..stock.clone() };
    app.post("/v1/stock/receive", "o", &other.lines(&["5"])).await.ok();
    let timeouts = app.engine().config().timeouts;
    let bound = Duration::from_millis(u64::from(timeouts.lock_ms * 2 + timeouts.idle_ms) + 2_000);
    let bounded = tokio::time::timeout(bound, async {
        let held = app.send_any(app.write("/v1/stock/allocate", "held", &stock.lines(&["1"]))).await;
        if held.status != 200 {
            held.problem(503, "row_held");
            assert!(held.header("retry-after").is_some());
        }
        // The server ends the frozen transaction; then the row is free, and the key unused.
        loop {
            let retry = app.send_any(app.write("/v1/stock/allocate", "held", &stock.lines(&["1"]))).await;
            if retry.status == 200 {
                break;
            }
            retry.problem(503, "row_held");
        }
    });
    bounded.await.expect("no longer than the time-outs");
    frozen.signal("-CONT");
    let late = call.await.expect("it ends").expect("it lives on and answers");
    assert_eq!(late.status, 200, "thawed, it finds its transaction gone and runs it again: {}", late.text());
    assert_eq!(app.position(&stock).await["allocated"], "2");
    app.finish().await;
}

#[tokio::test]
async fn a_held_row_costs_only_those_who_need_it() {
    let app = Arc::new(App::start_with(|config| (config.lanes, config.timeouts.lock_ms) = (1, 200)).await);
    let stock = app.stock("100").await;
    let other = Stock { sku: app.sku("OTHER").await, ..stock.clone() };
    app.post("/v1/stock/receive", "o", &other.lines(&["5"])).await.ok();
    // One batch of both: they queue while another batch is committed and not yet answered.
    let mut gate = gate::hold("batch.committed");
    let (first, beside) = (app.clone(), stock.clone());
    let first = tokio::spawn(async move { first.allocate("first", &beside, "1").await });
    let go = gate.reached().await;
    let spawn = |key: &'static str, stock: &Stock| {
        let (app, stock) = (app.clone(), stock.clone());
        tokio::spawn(async move { app.send_any(app.write("/v1/stock/allocate", key, &stock.lines(&["1"]))).await })
    };
    let (held, free) = (spawn("held", &stock), spawn("free", &other));
    while app.engine().waiting()[0] < 2 {
        tokio::task::yield_now().await;
    }
    let holder = app.database.raw_admin().await;
    let lock = format!("BEGIN; SELECT FROM stock_position WHERE sku_id = '{}' FOR UPDATE", &stock.sku[4..]);
    holder.batch_execute(&lock).await.expect("the row");
    drop(go);
    first.await.expect("first").ok();
    let free = free.await.expect("free");
    assert_eq!(free.status, 200, "{}", free.text());
    held.await.expect("held").problem(503, "row_held");
    holder.batch_execute("ROLLBACK").await.expect("let go");
    app.allocate("held", &stock, "1").await.ok();
    sweep(app.engine()).await;
}

#[tokio::test]
async fn a_held_row_of_an_early_rank_is_503_and_never_taken_for_missing() {
    let app = App::start_with(|config| config.timeouts.lock_ms = 200).await;
    let stock = app.stock("10").await;
    let promise = app.allocate("a", &stock, "4").await.ok()["lines"][0]["promise_id"].clone();
    let body = json!({"lines": [{"promise_id": promise}]});
    let holder = app.database.raw_admin().await;
    holder.batch_execute("BEGIN; SELECT FROM promise FOR UPDATE").await.expect("the promise is held");
    for path in ["/v1/promises/ship", "/v1/promises/release"] {
        let held = app.send_any(app.write(path, path, &body)).await;
        held.problem(503, "row_held");
        assert!(held.header("retry-after").is_some());
    }
    holder.batch_execute("ROLLBACK").await.expect("let go");
    app.post("/v1/promises/ship", "/v1/promises/ship", &body).await.ok();
    app.finish().await;
}

#[tokio::test]
async fn dead_02_dead_03_a_deadlock_is_retried_and_logged_with_both_statements() {
    let app = Arc::new(App::start().await);
    let warehouse = app.warehouse("MAIN").await;
    let mut stocks = Vec::new();
    for code in ["A", "B"] {
        let stock = Stock { sku: app.sku(code).await, warehouse: warehouse.clone() };
        app.post("/v1/stock/receive", code, &stock.lines(&["10"])).await.ok();
        stocks.push(stock);
    }
    stocks.sort_by(|a, b| a.sku.cmp(&b.sku));
    // A stranger with the server's role locks in the wrong order: B, and then, while we hold A and
    // wait for B, A. PostgreSQL gives the deadlock to one of the two; the stranger waits longer.
    let stranger = app.database.raw().await;
    let lock = |stock: &Stock| {
        format!("/* stranger_lock */ SELECT FROM stock_position WHERE sku_id = '{}' FOR UPDATE", &stock.sku[4..])
    };
    let tenant = app.tenant.uuid();
    let begin = format!("BEGIN; SET LOCAL tallyhold.tenant_id = '{tenant}'; SET LOCAL deadlock_timeout = '1s'");
    if stranger.batch_execute(&begin).await.is_err() {
        // deadlock_timeout is a superuser's setting: without it either may be the victim.
        stranger.batch_execute("ROLLBACK").await.expect("an end");
        let begin = format!("BEGIN; SET LOCAL tallyhold.tenant_id = '{tenant}'");
        stranger.batch_execute(&begin).await.expect("a transaction");
    }
    stranger.batch_execute(&lock(&stocks[1])).await.expect("B");
    let mut lines = stocks[0].lines(&["1"]);
    let second = stocks[1].lines(&["1"])["lines"][0].clone();
    lines["lines"].as_array_mut().expect("lines").push(second);
    let (writer, body) = (app.clone(), lines.clone());
    let write = tokio::spawn(async move { writer.send_any(writer.write("/v1/stock/allocate", "dead", &body)).await });
    app.database.wait_for_lock_wait("position_load").await;
    // We began to wait first, so our deadlock check comes first, and we are the victim.
    let crossed = stranger.batch_execute(&lock(&stocks[0])).await;
    crossed.expect("the stranger got its lock: we were the victim");
    let entry = loop {
        if let Some(entry) = app.get("/v1/deadlocks").await.ok()["items"].as_array().and_then(|items| items.first()) {
            break entry.clone();
        }
    };
    stranger.batch_execute("ROLLBACK").await.expect("the stranger goes");
    let reply = write.await.expect("it ends");
    assert_eq!(reply.status, 200, "the retry gets through: {}", reply.text());
    assert_eq!(entry["statement"], "position_load", "{entry}");
    assert_eq!(entry["other_statement"], "stranger_lock", "{entry}");
    assert!(entry["detail"].as_str().is_some_and(|text| text.contains("blocked by process")), "{entry}");
    sweep(app.engine()).await;
}

#[tokio::test]
async fn case_059_case_062_a_caller_that_hangs_up_changes_nothing_about_its_call() {
    let app = Arc::new(App::start().await);
    let stock = app.stock("10").await;
    let mut gate = gate::hold("batch.storing");
    let (caller, beside) = (app.clone(), stock.clone());
    let call = tokio::spawn(async move { caller.allocate("gone", &beside, "4").await });
    let go = gate.reached().await;
    call.abort();
    assert!(call.await.is_err(), "the caller is gone");
    drop(go);
    let retry = loop {
        let retry = app.send_any(app.write("/v1/stock/allocate", "gone", &stock.lines(&["4"]))).await;
        if retry.status != 409 {
            break retry;
        }
    };
    assert_eq!((retry.status, retry.replayed()), (200, true));
    assert_eq!(app.position(&stock).await["allocated"], "4");
    sweep(app.engine()).await;
}

#[tokio::test]
async fn case_098_nothing_of_a_session_outlives_its_transaction() {
    let app = App::start_with(|config| config.named = false).await;
    let stock = app.stock("10").await;
    app.allocate("a", &stock, "1").await.ok();
    let admin = app.database.raw_admin().await;
    let locks = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(admin.query_one(locks, &[]).await.expect("locks").get::<_, i64>(0), 0);
    // Unnamed statements leave none behind either, as a transaction pooler needs.
    let raw = app.database.raw().await;
    let setting = raw.query_one("SELECT current_setting('tallyhold.tenant_id', true)", &[]).await.expect("a setting");
    assert!(setting.get::<_, Option<String>>(0).unwrap_or_default().is_empty());
    app.finish().await;
}
