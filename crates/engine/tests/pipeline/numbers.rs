//! Gapless numbers.

use super::toy::{Step, Toy, body};
use engine::gate;
use std::sync::Arc;

#[tokio::test]
async fn num_01_case_026_case_033_numbers_run_from_one_without_gap_from_two_replicas_at_once() {
    let toy = Arc::new(Toy::start(|_| {}).await);
    let twin = Arc::new(toy.twin().await);
    let calls: Vec<_> = (0..50)
        .map(|n| {
            let toy = if n % 2 == 0 { toy.clone() } else { twin.clone() };
            tokio::spawn(async move {
                let (key, counter) = (format!("k{n}"), format!("c{n}"));
                // Every fifth is refused after it asked for its number.
                let step = if n % 5 == 4 {
                    Step::NoteAndRefuse(format!("n{n}"), 2026)
                } else {
                    Step::Note(format!("n{n}"), 2026)
                };
                toy.call(&key, &counter, step).await.expect("an answer").answer.status
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.expect("it ends"));
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 40);
    assert_eq!(toy.numbers().await, (1..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn num_01_case_032_a_rolled_back_batch_gives_its_numbers_back() {
    let toy = Toy::start(|_| {}).await;
    assert_eq!(body(toy.call("a", "c", Step::Note("a".into(), 2026)).await), r#"{"value":1,"number":1}"#);
    gate::panic_next("batch.storing");
    assert!(toy.call("b", "c", Step::Note("b".into(), 2026)).await.is_err());
    assert_eq!(body(toy.call("c", "c", Step::Note("c".into(), 2026)).await), r#"{"value":2,"number":2}"#);
    assert_eq!(body(toy.call("d", "c", Step::Note("d".into(), 2027)).await), r#"{"value":3,"number":1}"#);
}

#[tokio::test]
async fn num_01_two_first_documents_of_a_year_at_once_get_one_and_two() {
    let toy = Arc::new(Toy::start(|_| {}).await);
    let twin = Arc::new(toy.twin().await);
    // Both have decided and found no row of the year.
    let mut gate = gate::hold_all("batch.decided");
    let one = {
        let toy = toy.clone();
        tokio::spawn(async move { toy.call("a", "x", Step::Note("a".into(), 2030)).await })
    };
    let two = tokio::spawn(async move { twin.call("b", "y", Step::Note("b".into(), 2030)).await });
    let both = (gate.reached().await, gate.reached().await);
    drop(gate);
    drop(both);
    body(one.await.expect("one"));
    body(two.await.expect("two"));
    assert_eq!(toy.numbers().await, [1, 2]);
}

#[tokio::test]
async fn num_02_a_range_is_locked_only_at_the_very_end() {
    let toy = Arc::new(Toy::start(|_| {}).await);
    let twin = toy.twin().await;
    body(toy.call("first", "x", Step::Note("first".into(), 2026)).await);
    // A long document: everything is loaded and decided, and the number not yet taken.
    let mut gate = gate::hold("batch.decided");
    let slow = {
        let toy = toy.clone();
        tokio::spawn(async move { toy.call("slow", "x", Step::Note("slow".into(), 2026)).await })
    };
    let go = gate.reached().await;
    let quick = body(twin.call("quick", "y", Step::Note("quick".into(), 2026)).await);
    assert_eq!(quick, r#"{"value":1,"number":2}"#, "it did not wait for the slow one");
    drop(go);
    assert_eq!(body(slow.await.expect("slow")), r#"{"value":2,"number":3}"#);
}
