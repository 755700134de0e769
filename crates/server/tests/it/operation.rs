//! Running it: health, metrics, description, configuration, shutdown.

use crate::process::program;
use engine::gate;
use reqwest::Method;
use serde_json::json;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::Stdio,
    sync::Arc,
};
use testkit::{App, Database};

#[tokio::test]
async fn ops_01_live_and_ready_tell_process_from_database() {
    let app = App::start().await;
    let get = |path: &str| app.send(app.request(Method::GET, path));
    assert_eq!(get("/health/live").await.ok(), json!({"status": "live"}));
    assert_eq!(get("/health/ready").await.ok(), json!({"status": "ready"}));
    // A schema older than this program: alive, not ready.
    let admin = app.database.raw_admin().await;
    admin.batch_execute("UPDATE migration SET version = version - 100").await.expect("moved back");
    let body = get("/health/ready").await.problem(503, "unavailable");
    assert!(body["detail"].as_str().is_some_and(|text| text.contains("tallyhold migrate")), "{body}");
    admin.batch_execute("UPDATE migration SET version = version + 100").await.expect("moved forth");
    assert_eq!(get("/health/ready").await.status, 200);
    // No database: alive, not ready.
    let close = format!("ALTER DATABASE \"{0}\" ALLOW_CONNECTIONS false", app.database.name);
    let outside = app.database.raw_outside().await;
    outside.batch_execute(&close).await.expect("closed");
    admin
        .batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await
        .expect("cut");
    assert_eq!(get("/health/live").await.status, 200);
    get("/health/ready").await.problem(503, "unavailable");
    let allow = format!("ALTER DATABASE \"{0}\" ALLOW_CONNECTIONS true", app.database.name);
    outside.batch_execute(&allow).await.expect("open");
    assert_eq!(get("/health/ready").await.status, 200, "it finds back by itself");
    app.finish().await;
}

#[tokio::test]
async fn ops_02_the_description_is_complete_and_true() {
    let app = App::start().await;
    let description = app.send(app.request(Method::GET, "/openapi.json")).await.ok();
    let page = app.send(app.request(Method::GET, "/docs/")).await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("swagger-ui"));
    // Every command is a route of its name, but those that only whoever runs the server may send.
    let mut described = BTreeSet::new();
    for (path, item) in description["paths"].as_object().expect("paths") {
        for method in ["post", "put", "patch", "delete"] {
            let Some(operation) = item.get(method) else { continue };
            described.insert(operation["operationId"].as_str().expect("an id").to_owned());
            let open = path.starts_with("/v1/auth/");
            let statuses: &[&str] = if open {
                &["400", "401", "422", "429", "503"]
            } else {
                &["400", "401", "403", "404", "409", "422", "503"]
            };
            for status in statuses {
                assert!(operation["responses"].get(status).is_some(), "{path} says nothing of {status}");
            }
        }
        for method in ["get", "post", "put", "patch", "delete"] {
            let Some(operation) = item.get(method) else { continue };
            if path.starts_with("/v1/auth/") {
                // Whoever asks has no credential yet.
                let own = json!([{"access_token": []}, {"session": []}]);
                let asked = if path.ends_with("/logout") { own } else { json!([{}]) };
                assert_eq!(operation["security"], asked, "{path}");
            } else if path.starts_with("/v1/") {
                assert_eq!(
                    operation["security"],
                    json!([{"api_key": []}, {"access_token": []}, {"session": []}]),
                    "{path}"
                );
                // What it describes is there: without a credential it is a 401, not a 404.
                let url = path.replace(['{', '}'], "");
                let request = app.request(method.to_uppercase().parse().expect("a method"), &url);
                assert_eq!(app.send(request).await.status, 401, "{method} {path}");
            }
        }
    }
    let commands: BTreeSet<String> = domain::registry::COMMANDS
        .iter()
        .filter(|command| command.needs != domain::tenancy::OPERATE)
        .map(|command| command.name.to_owned())
        .collect();
    assert_eq!(described, commands);
    app.finish().await;
}

/// The program with an environment of its own: what it printed, and how it ended.
fn run(arguments: &[&str], environment: &[(&str, &str)]) -> (bool, String, String) {
    let output = program().args(arguments).envs(environment.iter().copied()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn ops_03_weak_or_missing_configuration_is_refused_at_start_with_the_way_out() {
    let database = Database::new().await;
    let url = database.server_url();
    let strong = "0123456789abcdef0123456789abcdef";
    for (environment, says) in [
        (vec![("DATABASE_URL", url.as_str())], "TALLYHOLD_SECRET is missing"),
        (vec![("DATABASE_URL", &url), ("TALLYHOLD_SECRET", "0123456789abcdef0123456789abcde")], "fewer than 32"),
        (vec![("DATABASE_URL", "nonsense"), ("TALLYHOLD_SECRET", strong)], "no PostgreSQL URL"),
        (vec![("DATABASE_URL", "postgres://127.0.0.1:1/x?user=u"), ("TALLYHOLD_SECRET", strong)], "cannot reach"),
    ] {
        let (ok, _, stderr) = run(&["serve", "--listen", "127.0.0.1:0"], &environment);
        assert!(!ok && stderr.contains(says), "{environment:?}: {stderr}");
    }
    let admin = database.admin_url();
    let (ok, _, stderr) = run(&["serve"], &[("DATABASE_URL", &admin), ("TALLYHOLD_SECRET", strong)]);
    assert!(!ok && stderr.contains("superuser"), "{stderr}");
    let (ok, _, stderr) = run(&["serve", "--listen", "here"], &[]);
    assert!(!ok && stderr.contains("--listen"), "{stderr}");
}

#[tokio::test]
async fn ops_05_migrate_brings_an_empty_database_up_twice_and_at_once() {
    let database = Database::new().await;
    let admin = database.raw_admin().await;
    let fresh = format!("{}_fresh", database.name);
    admin.batch_execute(&format!("CREATE DATABASE \"{fresh}\"")).await.expect("an empty database");
    let url = database.admin_url().replace(&database.name, &fresh);
    let strong = ("TALLYHOLD_SECRET", "0123456789abcdef0123456789abcdef");
    let (one, two) = std::thread::scope(|scope| {
        let start = || run(&["migrate"], &[("DATABASE_URL", &url)]);
        let (one, two) = (scope.spawn(start), scope.spawn(start));
        (one.join().expect("one"), two.join().expect("two"))
    });
    assert!(one.0 && two.0, "{one:?} {two:?}");
    let applied = [&one.1, &two.1].iter().filter(|text| text.contains("V1__tenancy")).count();
    assert_eq!(applied, 1, "{one:?} {two:?}");
    let (ok, stdout, _) = run(&["migrate"], &[("DATABASE_URL", &url)]);
    assert!(ok && stdout.contains("up to date"), "{stdout}");
    let server = database.server_url().replace(&database.name, &fresh);
    let environment = [("DATABASE_URL", server.as_str()), strong];
    for _ in 0..2 {
        let (ok, stdout, stderr) = run(&["seed", "--json"], &environment);
        assert!(ok && stdout.contains("api_key"), "{stdout} {stderr}");
    }
    let (ok, stdout, _) = run(&["verify", "--json"], &environment);
    assert!(ok && stdout.contains("\"findings\":[]"), "{stdout}");
    let (ok, stdout, _) = run(&["tenant", "list"], &environment);
    assert!(ok && stdout.contains("demo"), "{stdout}");
    admin.batch_execute(&format!("DROP DATABASE \"{fresh}\" WITH (FORCE)")).await.expect("cleaned up");
}

#[tokio::test]
async fn ops_06_metrics_tell_commands_lanes_replays_and_pools() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    app.allocate("a", &stock, "1").await.ok();
    app.allocate("a", &stock, "1").await.ok();
    app.allocate("b", &stock, "100").await.problem(422, "insufficient_ats");
    let text = app.send(app.request(Method::GET, "/metrics")).await.text();
    for line in [
        "tallyhold_command_seconds_count{command=\"inventory.allocate\",outcome=\"done\"} 1",
        "tallyhold_command_seconds_count{command=\"inventory.allocate\",outcome=\"replayed\"} 1",
        "tallyhold_command_seconds_count{command=\"inventory.allocate\",outcome=\"rejected\"} 1",
        "tallyhold_lane_waiting_calls{lane=\"0\"} 0",
        "tallyhold_batch_calls_count",
        "tallyhold_pool_connections{pool=\"lanes\",state=\"open\"}",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains(&app.tenant.to_string()) && !text.contains("kestrel"));
    app.finish().await;
}

#[tokio::test]
async fn ops_06_a_graceful_stop_answers_what_waits_and_loses_nothing() {
    let app = Arc::new(App::start().await);
    let stock = app.stock("100").await;
    let mut gate = gate::hold("batch.loaded");
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let (app, stock) = (app.clone(), stock.clone());
            tokio::spawn(async move { app.allocate(&format!("o{n}"), &stock, "1").await })
        })
        .collect();
    let go = gate.reached().await;
    while app.engine().waiting().iter().sum::<usize>() < 19 {
        tokio::task::yield_now().await;
    }
    let stopping = app.clone();
    let stopped = tokio::spawn(async move { stopping.engine().shutdown().await });
    // Whoever comes now is told to come back; whoever waited is answered.
    loop {
        let late = app.send_any(app.write("/v1/stock/allocate", "late", &stock.lines(&["1"]))).await;
        if late.status == 503 {
            late.problem(503, "stopping");
            assert!(late.header("retry-after").is_some());
            break;
        }
    }
    drop(go);
    for call in calls {
        call.await.expect("it ends").ok();
    }
    stopped.await.expect("it stops");
    let next = app.replica().await;
    assert_eq!(next.position(&stock).await["allocated"], "20");
    next.allocate("late", &stock, "1").await.ok();
    next.finish().await;
}

#[tokio::test]
async fn what_serve_prints_works_when_pasted() {
    let database = Database::new().await;
    let mut child = program()
        .env("DATABASE_URL", database.server_url())
        .env("TALLYHOLD_SECRET", testkit::app::SECRET)
        .args(["serve", "--demo-tenant", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let printed: Vec<String> =
        lines.map(|line| line.expect("text")).take_while(|line| !line.starts_with("Stop with")).collect();
    let printed = printed.join("\n");
    assert!(printed.lines().any(|line| line.trim_start().starts_with("see the demo") && line.ends_with(" demo")));
    let (_, call) = printed.split_once("curl -s ").expect("a call");
    let quoted = |option: &str| {
        let parts = call.split(&format!("{option} '")).skip(1).collect::<Vec<_>>();
        parts.into_iter().filter_map(|part| part.split_once('\'').map(|(text, _)| text.to_owned())).collect::<Vec<_>>()
    };
    let url = call.split_whitespace().next().expect("an address");
    let send = || {
        let mut request = reqwest::Client::new().post(url).body(quoted("-d").remove(0));
        for header in quoted("-H") {
            let (name, value) = header.split_once(": ").expect("a header");
            request = request.header(name, value);
        }
        async move { request.send().await.expect("it serves").text().await.expect("text") }
    };
    let first = send().await;
    assert!(first.contains(r#""quantity":"6","ats_after":"18""#), "{first}");
    assert_eq!(send().await, first, "six are promised, not twelve");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
