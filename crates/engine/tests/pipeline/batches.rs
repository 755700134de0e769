//! Batches: who is answered what when calls mix, and when some of them are poison.

use super::toy::{Step, Toy, body};
use engine::{Fault, gate};
use kernel::id::TenantId;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Queues calls behind a held batch, so that they form one batch of their own, and gives their
/// outcomes in order.
pub async fn in_one_batch(toy: &Arc<Toy>, calls: Vec<(String, String, Step)>) -> Vec<Result<String, Fault>> {
    let mut gate = gate::hold("batch.decided");
    let first = {
        let toy = toy.clone();
        tokio::spawn(async move { toy.call("opens the gate", "gate", Step::Add(0)).await })
    };
    let go = gate.reached().await;
    let mut tasks = Vec::new();
    for (index, (key, counter, step)) in calls.into_iter().enumerate() {
        let toy_of = toy.clone();
        tasks.push(tokio::spawn(async move { toy_of.call(&key, &counter, step).await }));
        // One after the other into the queue: the order of the calls is the order of the decisions.
        while toy.engine.waiting()[0] <= index {
            tokio::task::yield_now().await;
        }
    }
    drop(go);
    first.await.expect("first").expect("an answer");
    let mut outcomes = Vec::new();
    for task in tasks {
        let outcome = task.await.expect("it ends");
        outcomes.push(outcome.map(|answered| String::from_utf8_lossy(&answered.answer.body).into_owned()));
    }
    outcomes
}

pub async fn one_lane() -> Arc<Toy> {
    Arc::new(Toy::start(|config| config.lanes = 1).await)
}

pub fn call(key: &str, counter: &str, step: Step) -> (String, String, Step) {
    (key.into(), counter.into(), step)
}

#[tokio::test]
async fn a_refusal_and_a_panic_in_the_midst_of_a_batch_leave_the_others_untouched() {
    let toy = one_lane().await;
    let calls = vec![
        call("a", "c", Step::Add(1)),
        call("b", "c", Step::AddAndRefuse(10)),
        call("c", "c", Step::AddAndPanic(100)),
        call("d", "c", Step::Peek),
        call("e", "c", Step::AskBackwards),
        call("f", "c", Step::Add(2)),
    ];
    let outcomes = in_one_batch(&toy, calls).await;
    assert_eq!(outcomes[0].as_deref(), Ok(r#"{"value":1,"number":null}"#));
    assert_eq!(outcomes[1].as_deref(), Ok(r#"{"code":"no"}"#));
    assert!(matches!(&outcomes[2], Err(Fault::Bug(text)) if text.contains("told to panic")), "{outcomes:?}");
    assert!(matches!(&outcomes[3], Err(Fault::Bug(text)) if text.contains("without being asked")), "{outcomes:?}");
    assert!(matches!(&outcomes[4], Err(Fault::Bug(text)) if text.contains("after its turn")), "{outcomes:?}");
    assert_eq!(outcomes[5].as_deref(), Ok(r#"{"value":3,"number":null}"#));
    assert_eq!(toy.value("c").await, Some(3));
    assert_eq!(toy.answers().await, 4, "gate, a, b and f: faults are not kept");
}

#[tokio::test]
async fn a_call_whose_rows_are_named_by_other_rows_is_asked_again_once_those_are_loaded() {
    let toy = one_lane().await;
    body(toy.call("n", "named", Step::Note("note".into(), 2026)).await);
    let calls = vec![
        call("a", "", Step::AddByNote("note".into(), 5)),
        call("b", "other", Step::Add(1)),
        call("c", "", Step::AddByNote("missing".into(), 5)),
        call("d", "", Step::AddByNote("note".into(), 7)),
    ];
    let outcomes = in_one_batch(&toy, calls).await;
    assert_eq!(outcomes[0].as_deref(), Ok(r#"{"value":6,"number":null}"#));
    assert_eq!(outcomes[1].as_deref(), Ok(r#"{"value":1,"number":null}"#));
    assert_eq!(outcomes[2].as_deref(), Ok(r#"{"code":"no"}"#));
    assert_eq!(outcomes[3].as_deref(), Ok(r#"{"value":13,"number":null}"#));
}

#[tokio::test]
async fn dead_02_case_027_a_serialization_failure_is_retried_and_never_shown_as_a_refusal() {
    let toy = Arc::new(Toy::start(|_| {}).await);
    let twin = Arc::new(toy.twin().await);
    body(toy.call("make", "c", Step::Add(1)).await);
    // Both are serializable; the second takes its snapshot, and waits for the row the first holds.
    let mut gate = gate::hold("batch.decided");
    let one = {
        let toy = toy.clone();
        tokio::spawn(async move { toy.careful("one", "c", 10).await })
    };
    let go = gate.reached().await;
    let two = tokio::spawn(async move { twin.careful("two", "c", 100).await });
    toy.database.wait_for_lock_wait("counter_load").await;
    drop(go);
    assert_eq!(body(one.await.expect("one")), r#"{"value":11,"number":null}"#);
    assert_eq!(body(two.await.expect("two")), r#"{"value":111,"number":null}"#);
    assert_eq!(toy.value("c").await, Some(111));
}

#[tokio::test]
async fn a_poisoned_call_fails_alone_and_the_rest_of_its_batch_is_answered() {
    let toy = one_lane().await;
    // The rule of the toy lets through what the CHECK of the table does not: value <= 1000.
    let calls = (0..16).map(|n| match n {
        5 => call("k5", "c5", Step::Add(1001)),
        11 => call("k11", "c11", Step::Add(5000)),
        n => call(&format!("k{n}"), &format!("c{n}"), Step::Add(n)),
    });
    let outcomes = in_one_batch(&toy, calls.collect()).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        if [5, 11].contains(&n) {
            assert!(matches!(outcome, Err(Fault::Bug(text)) if text.contains("counter_max")), "{n}: {outcome:?}");
        } else {
            assert_eq!(outcome.as_deref(), Ok(format!(r#"{{"value":{n},"number":null}}"#).as_str()));
        }
    }
    assert_eq!(toy.value("c5").await, None, "nothing of it is left, not even its ensured row");
    assert_eq!(toy.value("c15").await, Some(15));
}

#[tokio::test]
async fn a_natural_key_taken_by_another_replica_is_seen_on_the_second_look_and_refused_in_the_ordinary_way() {
    let toy = Arc::new(Toy::start(|_| {}).await);
    let twin = Arc::new(toy.twin().await);
    let mut gate = gate::hold_all("batch.decided");
    let one = {
        let toy = toy.clone();
        tokio::spawn(async move { toy.call("a", "x", Step::Note("same".into(), 2026)).await })
    };
    let two = tokio::spawn(async move { twin.call("b", "y", Step::Note("same".into(), 2026)).await });
    let both = (gate.reached().await, gate.reached().await);
    drop(gate);
    drop(both);
    let mut statuses = Vec::new();
    for task in [one, two] {
        statuses.push(task.await.expect("it ends").expect("an answer, no fault").answer.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404], "one made it, the other is told in its own words");
    assert_eq!(toy.numbers().await, [1], "and took no number");
}

#[tokio::test]
async fn a_batch_that_dies_answers_its_callers_and_the_lane_goes_on() {
    let toy = one_lane().await;
    for gate in ["batch.loaded", "batch.storing"] {
        gate::panic_next(gate);
        let died = toy.call(gate, "c", Step::Add(1)).await;
        assert!(matches!(died, Err(Fault::Bug(_))), "{died:?}");
    }
    assert_eq!(body(toy.call("next", "c", Step::Add(1)).await), r#"{"value":1,"number":null}"#);
}

#[tokio::test]
async fn more_calls_than_a_lane_holds_are_told_to_come_back() {
    let toy = Arc::new(
        Toy::start(|config| {
            config.lanes = 1;
            config.waiting_max = 2;
        })
        .await,
    );
    let mut gate = gate::hold("batch.decided");
    let spawn = |key: &'static str| {
        let toy = toy.clone();
        tokio::spawn(async move { toy.call(key, "c", Step::Add(1)).await })
    };
    let first = spawn("first");
    let go = gate.reached().await;
    let waiting = [spawn("second"), spawn("third")];
    while toy.engine.waiting()[0] < 2 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(toy.call("fourth", "c", Step::Add(1)).await, Err(Fault::Overloaded)));
    drop(go);
    body(first.await.expect("first"));
    for task in waiting {
        body(task.await.expect("it ends"));
    }
    assert_eq!(body(toy.call("fourth", "c", Step::Add(1)).await), r#"{"value":4,"number":null}"#);
}

#[tokio::test]
async fn a_caller_waits_no_longer_than_its_deadline_and_its_key_tells_later_what_became_of_it() {
    let toy = Arc::new(
        Toy::start(|config| {
            config.lanes = 1;
            config.deadline = Duration::from_millis(300);
        })
        .await,
    );
    let mut gate = gate::hold("batch.storing");
    let held = {
        let toy = toy.clone();
        tokio::spawn(async move { toy.call("held", "c", Step::Add(1)).await })
    };
    let go = gate.reached().await;
    // It queues behind the held one, and its deadline passes there.
    assert!(matches!(toy.call("behind", "c", Step::Add(10)).await, Err(Fault::Deadline)));
    assert!(matches!(held.await.expect("held"), Err(Fault::Deadline)));
    assert!(matches!(toy.call("held", "c", Step::Add(1)).await, Err(Fault::InFlight)));
    drop(go);
    // The held one ran after all; the one whose deadline passed in the queue did not.
    let answered = loop {
        match toy.call("held", "c", Step::Add(1)).await {
            Err(Fault::InFlight) => tokio::task::yield_now().await,
            other => break other.expect("an answer"),
        }
    };
    assert!(answered.replayed.is_some());
    assert_eq!(body(toy.call("behind", "c", Step::Add(10)).await), r#"{"value":11,"number":null}"#);
}

#[tokio::test]
async fn tenants_take_turns_in_a_lane() {
    let toy = one_lane().await;
    let other = Toy { database: toy.database.clone(), engine: toy.twin().await.engine, tenant: TenantId::mint() };
    // Another tenant on the engine of the first.
    let calls = (0..3).map(|n| call(&format!("k{n}"), "c", Step::Add(1))).collect();
    let outcomes = in_one_batch(&toy, calls).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(body(other.call("k0", "d", Step::Add(5)).await), r#"{"value":5,"number":null}"#);
    assert_eq!(toy.value("c").await, Some(3));
}

/// The serial run of the model: value per counter, and whether each call went through.
fn serial(steps: &[(u8, Step)]) -> BTreeMap<String, i64> {
    let mut values = BTreeMap::new();
    for (counter, step) in steps {
        if let Step::Add(amount) = step {
            *values.entry(format!("c{counter}")).or_insert(0) += amount;
        }
    }
    values
}

#[tokio::test]
async fn test_09_the_same_commands_in_random_batches_equal_the_serial_run() {
    let mut runner = TestRunner::deterministic();
    let step = prop_oneof![
        4 => (1i64..5).prop_map(Step::Add),
        1 => (1i64..5).prop_map(Step::AddAndRefuse),
        1 => (1i64..5).prop_map(Step::AddAndPanic),
    ];
    let plan = prop::collection::vec(((0u8..4), step), 40..60);
    for round in 0..4 {
        let steps = plan.new_tree(&mut runner).expect("a plan").current();
        let toy = Arc::new(
            Toy::start(|config| {
                config.lanes = 1 + round % 3;
                config.batch_calls_max = [1, 3, 16, 256][round];
            })
            .await,
        );
        let calls: Vec<_> = steps
            .iter()
            .cloned()
            .enumerate()
            .map(|(n, (counter, step))| {
                let toy = toy.clone();
                tokio::spawn(async move { toy.call(&format!("k{n}"), &format!("c{counter}"), step).await })
            })
            .collect();
        for (call, (_, step)) in calls.into_iter().zip(&steps) {
            let outcome = call.await.expect("it ends");
            match step {
                Step::Add(_) => assert_eq!(outcome.expect("an answer").answer.status, 200),
                Step::AddAndRefuse(_) => assert_eq!(outcome.expect("an answer").answer.status, 422),
                _ => assert!(matches!(outcome, Err(Fault::Bug(_)))),
            }
        }
        for (counter, value) in serial(&steps) {
            assert_eq!(toy.value(&counter).await, Some(value), "round {round}");
        }
    }
}
