//! Races of the engine's own, two real transactions each. A test is named after its guard:
//! without that guard it fails (`bin/hygiene guards`).

use super::{
    batches::{call, in_one_batch, one_lane},
    toy::{Step, Toy, body},
};
use engine::{Fault, gate, postgres::migrate};
use std::sync::Arc;
use testkit::Database;

#[tokio::test]
async fn answers_after_locks() {
    let toy = Arc::new(Toy::start(|_| {}).await);
    let twin = toy.twin().await;
    body(toy.call("make", "c", Step::Add(0)).await);
    let mut gate = gate::hold("batch.decided");
    let first = {
        let toy = toy.clone();
        tokio::spawn(async move { toy.call("same", "c", Step::AddFirst(5)).await })
    };
    let go = gate.reached().await;
    // The same call on another replica. Had it looked for the answer before it got the lock, it
    // would find none, and the counter already moved.
    let second = tokio::spawn(async move { twin.call("same", "c", Step::AddFirst(5)).await });
    toy.database.wait_for_lock_wait("counter_load").await;
    drop(go);
    let first = body(first.await.expect("first"));
    let second = second.await.expect("second").expect("an answer");
    assert!(second.replayed.is_some(), "{second:?}");
    assert_eq!(body(Ok(second)), first);
}

#[tokio::test]
async fn answer_order() {
    let one_lane_each = (one_lane().await, |config: &mut engine::Config| config.lanes = 1);
    let (toy, twin) = (one_lane_each.0.clone(), Arc::new(one_lane_each.0.twin_with(one_lane_each.1).await));
    // A third writer holds the key in the middle, so that both batches stop half-way.
    let holder = toy.database.raw_admin().await;
    let tenant = toy.tenant.uuid();
    holder
        .batch_execute(&format!(
            "BEGIN; INSERT INTO answer (tenant_id, key, fingerprint, command, status, content_type, sealed, body, at)
             VALUES ('{tenant}', 'k', sha256(''), 'held', 200, '', false, '', now())"
        ))
        .await
        .expect("it is held");
    let batch = |toy: &Arc<Toy>, keys: [&str; 3], counter: &str| {
        let calls = keys.map(|key| call(key, &format!("{counter}{key}"), Step::Add(1))).to_vec();
        let toy = toy.clone();
        tokio::spawn(async move { in_one_batch(&toy, calls).await })
    };
    let up = batch(&toy, ["a", "k", "z"], "up");
    toy.database.wait_for_lock_waits("answer_store", 1).await;
    let down = batch(&twin, ["z", "k", "a"], "down");
    toy.database.wait_for_lock_waits("answer_store", 2).await;
    holder.batch_execute("ROLLBACK").await.expect("it is let go");
    for outcome in up.await.expect("up") {
        outcome.expect("the first to come stores its answers");
    }
    for outcome in down.await.expect("down") {
        assert!(matches!(outcome, Err(Fault::KeyReused { .. })), "{outcome:?}");
    }
    let met = holder.query("SELECT detail FROM deadlock", &[]).await.expect("readable");
    assert!(met.is_empty(), "{:?}", met.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>());
}

#[tokio::test]
async fn prepared_first() {
    let toy = one_lane().await;
    // This connection now knows the statement that locks, and not the one that makes the row.
    let missing = toy.careful("look", "c", 1).await.expect("an answer");
    assert_eq!(missing.answer.status, 404);
    assert_eq!(body(toy.call("make", "c", Step::Add(1)).await), r#"{"value":1,"number":null}"#);
    assert_eq!((toy.value("c").await, toy.answers().await), (Some(1), 1));
}

#[tokio::test]
async fn rows_expected() {
    let toy = Toy::start(|_| {}).await;
    body(toy.call("make", "c", Step::Add(1)).await);
    // The row goes under our hands, as a wrong policy or trigger would make it.
    let admin = toy.database.raw_admin().await;
    admin
        .batch_execute(
            "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER skip BEFORE UPDATE ON counter FOR EACH ROW EXECUTE FUNCTION skip()",
        )
        .await
        .expect("a trigger");
    let outcome = toy.call("lost", "c", Step::Add(1)).await;
    assert!(matches!(&outcome, Err(Fault::Bug(text)) if text.contains("stored 0 rows of 1")), "{outcome:?}");
    assert_eq!((toy.value("c").await, toy.answers().await), (Some(1), 1), "nobody is told of what was not stored");
}

#[tokio::test]
async fn migration_lock() {
    let database = Arc::new(Database::empty().await);
    let (holder, admin) = (database.raw_admin().await, database.admin());
    holder.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)").await.expect("a transaction");
    let start = || {
        let admin = admin.clone();
        let slow = [("V1__slow", "CREATE TABLE slow (); SELECT pg_advisory_xact_lock(7)")];
        tokio::spawn(async move { migrate(&admin, &slow).await })
    };
    // The first stands in the midst of its migration, the second comes.
    let first = start();
    database.wait_for_lock_waits("", 1).await;
    let second = start();
    database.wait_for_lock_waits("", 2).await;
    holder.batch_execute("ROLLBACK").await.expect("it is let go");
    assert_eq!(first.await.expect("first").expect("it migrates"), ["V1__slow"]);
    assert!(second.await.expect("second").expect("it finds it done").is_empty());
}
