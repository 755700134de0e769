//! The program on a PostgreSQL of its own, and what a stranger does to both.

use crate::process::{Process, program, signal};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};

/// A folder the database's user can reach, also when we are root.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("tally hold ").tempdir().expect("a folder")
}

fn seed(data: &Path) -> Value {
    let output = program().arg("--data").arg(data).args(["seed", "--json"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().expect("a text")
}

#[tokio::test]
async fn test_04_a_killed_database_server_comes_back_and_the_retry_is_the_same_call() {
    let folder = folder();
    let seeded = seed(folder.path());
    let process = Process::in_folder(folder.path());
    let lines = json!({"lines": [
        {"sku_id": seeded["sku_id"], "warehouse_id": seeded["warehouse_id"], "quantity": "6"}]});
    let token = text(&seeded, "api_key");
    let first = process.post(token, "/v1/stock/allocate", "order-1", &lines).await.expect("an answer");
    assert_eq!(first.ok()["lines"][0]["ats_after"], "18");
    let pid = std::fs::read_to_string(folder.path().join("cluster/postmaster.pid")).expect("its pid");
    signal(pid.lines().next().and_then(|line| line.parse().ok()).expect("a number"), "-KILL");
    let second = loop {
        let reply = process.post(token, "/v1/stock/allocate", "order-2", &lines).await.expect("the program lives");
        if reply.status == 200 {
            break reply;
        }
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(reply.header("retry-after").is_some());
    };
    assert_eq!(second.ok()["lines"][0]["ats_after"], "12");
    let again = process.post(token, "/v1/stock/allocate", "order-1", &lines).await.expect("an answer");
    assert_eq!((again.replayed(), &again.bytes), (true, &first.bytes));
    // A second program on the folder is refused; a verb that shares it is not.
    let output = program().arg("--data").arg(folder.path()).arg("serve").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(&folder.path().display().to_string()), "{said}");
    let verify = program().arg("--data").arg(folder.path()).arg("verify").output().expect("it runs");
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
    // A polite stop ends both with success, and everything is there afterwards.
    process.signal("-TERM");
    let (good, log) = process.wait();
    assert!(good, "{log}");
    let process = Process::in_folder(folder.path());
    let again = process.post(token, "/v1/stock/allocate", "order-2", &lines).await.expect("an answer");
    assert_eq!((again.replayed(), &again.bytes), (true, &second.bytes));
}

#[tokio::test]
async fn ops_06_the_log_is_json_and_carries_the_correlation_id_of_each_request() {
    let database = testkit::Database::new().await;
    let mut command = program();
    command.arg("--log-json").env("RUST_LOG", "info");
    command.env("DATABASE_URL", database.server_url()).env("TALLYHOLD_SECRET", testkit::app::SECRET);
    let process = Process::start(command);
    let reply = process.post("thk_none", "/v1/skus", "call-4711", &json!({})).await.expect("an answer");
    reply.problem(401, "unauthorized");
    process.signal("-TERM");
    let (good, log) = process.wait();
    assert!(good, "{log}");
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let answered =
        entries.iter().find(|entry| entry["fields"]["message"] == "answered").expect("a line of the request");
    assert_eq!(answered["span"]["correlation"], "call-4711");
    assert_eq!(answered["span"]["path"], "/v1/skus");
    assert_eq!(answered["fields"]["status"], 401);
    assert!(!log.contains("thk_none"), "a credential is no matter for the log");
}

/// Reads until the server closes.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_head_or_a_body_that_never_ends_is_given_up() {
    let app = testkit::App::start().await;
    let mut slow_head = TcpStream::connect(app.address()).expect("it listens");
    slow_head.write_all(b"POST /v1/skus HTTP/1.1\r\nHost: x\r\n").expect("sent");
    let mut slow_body = TcpStream::connect(app.address()).expect("it listens");
    let head = format!(
        "POST /v1/skus HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{\"code\":",
        app.token
    );
    slow_body.write_all(head.as_bytes()).expect("sent");
    let head = tokio::task::spawn_blocking(move || rest(slow_head));
    let body = tokio::task::spawn_blocking(move || rest(slow_body));
    let head = head.await.expect("read");
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    let body = body.await.expect("read");
    assert!(body.starts_with("HTTP/1.1 408") && body.contains("body_too_slow"), "{body}");
    app.finish().await;
}
