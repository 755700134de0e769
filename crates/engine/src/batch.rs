//! One batch: the commands of one tenant that waited together, in one transaction.
//!
//! Owns the order of the steps (begin, load by rank, stored answers, decide, store, commit,
//! answer) and what is done when one of them fails.
//! Invariant: nobody is answered before the commit is confirmed, and then everybody is.
//! Invariant: a rerun decides from freshly loaded rows; nothing of a failed attempt is kept but
//! the ids its calls minted.
//!
//! Killed before COMMIT: the server rolls back, the retry runs. Killed inside it or after: the
//! answer is there with the effect, the retry replays it. Connection lost in COMMIT: the same
//! batch runs again on a new connection, waits for the locks of the old transaction if it still
//! lives, and then finds its own answers.

use crate::{
    answer::{self, Answer, Fresh, Running, Stored},
    audit,
    command::{AnyCall, Deciding, Next, Verdict},
    deadlock,
    error::{Failure, Fault},
    event, gate,
    number::Numbers,
    run::{Answered, Core},
    sql::{Row, param},
    table::{Load, TableSet},
    tx::{Begin, Step, Tx},
};
use kernel::id::TenantId;
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// A call in a queue: whom to answer, until when, and the guard of its key.
pub(crate) struct Waiting<S> {
    pub call: Box<dyn AnyCall<S>>,
    pub reply: oneshot::Sender<Result<Answered, Fault>>,
    pub running: Running,
    pub deadline: Instant,
    pub since: Instant,
}

impl<S: TableSet> Waiting<S> {
    /// Frees the key before the caller can hear the answer, or its next request with the same key
    /// would be told that this one still runs.
    pub fn answer(self, outcome: Result<Answered, Fault>) {
        let label = match &outcome {
            Ok(answered) if answered.replayed.is_some() => "replayed",
            Ok(answered) if answered.answer.status < 400 => "done",
            Ok(_) => "rejected",
            Err(_) => "fault",
        };
        metrics::histogram!("tallyhold_command_seconds", "command" => self.call.name(), "outcome" => label)
            .record(self.since.elapsed());
        drop(self.running);
        // The caller may have hung up; its answer is stored for its retry.
        let _ = self.reply.send(outcome);
    }
}

/// Attempts after deadlocks and serialization failures.
const SERIALIZATION_TRIES: u32 = 3;
/// Attempts after an answer that another replica stored first; each one finds it.
const ANSWER_TRIES: u32 = 3;

/// What was tried already with one set of calls.
#[derive(Default)]
struct Tried {
    serialization: u32,
    answers: u32,
    unavailable: bool,
    skip_locked: bool,
    natural_key: bool,
}

/// Runs the calls, all of one tenant, until each has its answer or fault.
pub(crate) async fn run<S: TableSet>(core: &Core, calls: Vec<Waiting<S>>) {
    metrics::histogram!("tallyhold_batch_calls").record(calls.len() as f64);
    let mut parts = vec![calls];
    while let Some(mut calls) = parts.pop() {
        let mut tried = Tried::default();
        loop {
            match attempt(core, &mut calls, tried.skip_locked).await {
                Ok(outcomes) => {
                    gate::pass("batch.committed").await;
                    for (waiting, outcome) in calls.into_iter().zip(outcomes) {
                        waiting.answer(outcome);
                    }
                    break;
                }
                Err(failure) => match next(&failure, &mut tried, calls.len()).await {
                    Then::Again => {}
                    Then::Bisect => {
                        metrics::counter!("tallyhold_batch_bisections_total").increment(1);
                        let later = calls.split_off(calls.len() / 2);
                        parts.push(later);
                        parts.push(calls);
                        break;
                    }
                    Then::Fail(fault) => {
                        for waiting in calls {
                            waiting.answer(Err(fault.clone()));
                        }
                        break;
                    }
                },
            }
        }
    }
}

fn tenant<S: TableSet>(calls: &[Waiting<S>]) -> TenantId {
    calls[0].call.head().tenant
}

enum Then {
    Again,
    Bisect,
    Fail(Fault),
}

/// What follows a failed attempt: see ARCHITECTURE.md, "When things fail".
async fn next(failure: &Failure, tried: &mut Tried, calls: usize) -> Then {
    match failure {
        Failure::AnswerTaken => {
            tried.answers += 1;
            match tried.answers > ANSWER_TRIES {
                false => Then::Again,
                true if calls > 1 => Then::Bisect,
                true => Then::Fail(Fault::Unavailable("its key is being used on another server".into())),
            }
        }
        // GUARD(serialization_retry): an expected outcome of running at once with others.
        Failure::Serialization { .. } => {
            metrics::counter!("tallyhold_batch_retries_total").increment(1);
            tried.serialization += 1;
            if tried.serialization > SERIALIZATION_TRIES {
                return Then::Fail(Fault::Unavailable("it kept colliding with other transactions".into()));
            }
            // Jitter, or the two that collided collide again in step.
            let base_ms = 5u64 << tried.serialization;
            tokio::time::sleep(Duration::from_millis(base_ms + fastrand::u64(0..=base_ms))).await;
            Then::Again
        }
        // GUARD(skip_locked_once): only commands whose own rows are held pay for them; bisecting
        // would wait the time-out again at each level. Nothing is decided over a skipped row.
        Failure::LockTimeout if !tried.skip_locked => {
            tried.skip_locked = true;
            Then::Again
        }
        // GUARD(bisection): one poisoned command must not fail, or slow, the rest.
        Failure::Data { .. } | Failure::LockTimeout if calls > 1 => Then::Bisect,
        Failure::LockTimeout => Then::Fail(Fault::RowHeld),
        // GUARD(natural_key_retry): the row that came first is seen now, and refused over in words.
        Failure::Data { natural_key: true, .. } if !tried.natural_key => {
            tried.natural_key = true;
            Then::Again
        }
        Failure::Data { message, .. } => {
            tracing::error!(%message, "a constraint stopped what the rules let through");
            Then::Fail(Fault::Bug(message.clone()))
        }
        Failure::Unavailable { message } if tried.unavailable => {
            tracing::warn!(%message, "the database failed a batch twice");
            Then::Fail(Fault::Unavailable(message.clone()))
        }
        // GUARD(commit_settlement): this is also how a COMMIT whose answer was lost is settled.
        Failure::Unavailable { message } => {
            tracing::info!(%message, "the database failed a batch; once more");
            metrics::counter!("tallyhold_batch_retries_total").increment(1);
            tried.unavailable = true;
            Then::Again
        }
    }
}

type Outcome = Option<Result<Answered, Fault>>;

/// One transaction over all calls. Ok: it is committed, and each call has its outcome.
async fn attempt<S: TableSet>(
    core: &Core,
    calls: &mut [Waiting<S>],
    skip_locked: bool,
) -> Result<Vec<Result<Answered, Fault>>, Failure> {
    let begin = if calls[0].call.serializable() { Begin::Serializable } else { Begin::Write };
    let mut tx = Tx::begin(&core.pool, tenant(calls), begin, core.config.timeouts, core.config.named).await?;
    let result = attempt_in(core, &mut tx, calls, skip_locked).await;
    if let Err(Failure::Serialization { deadlock: Some(error), statement }) = &result {
        // While our connection still stands: the log asks the server about it.
        deadlock::log(core, tenant(calls), error, statement).await;
    }
    result
}

async fn attempt_in<S: TableSet>(
    core: &Core,
    tx: &mut Tx,
    calls: &mut [Waiting<S>],
    skip_locked: bool,
) -> Result<Vec<Result<Answered, Fault>>, Failure> {
    let tenant = tenant(calls);
    let mut set = S::default();
    let mut outcomes: Vec<Outcome> = calls.iter().map(|_| None).collect();

    let (known, at) = load(core, tx, &mut set, calls, &mut outcomes, skip_locked).await?;
    gate::pass("batch.loaded").await;

    for (waiting, outcome) in calls.iter().zip(&mut outcomes) {
        let head = waiting.call.head();
        if outcome.is_none()
            && let Some(stored) = known.get(head.key.as_str())
        {
            *outcome = Some(stored.replay(head.fingerprint));
        }
    }

    let mut events = Vec::new();
    let mut numbers = Numbers::default();
    let verdicts = decide(&mut set, calls, &mut outcomes, at, &mut events, &mut numbers);
    gate::pass("batch.decided").await;

    let writes = |set: &mut S, numbers: &Numbers, numbered| -> Vec<Step> {
        let tables = set.tables();
        let all = tables.iter().flat_map(|table| table.writes(numbers, numbered));
        all.map(|write| Step::new(write.sql, write.params)).collect()
    };
    let mut steps = writes(&mut set, &numbers, false);
    if let Some(take) = numbers.write() {
        steps.push(Step::new(take.sql, take.params));
        let rows = tx.run(std::mem::take(&mut steps)).await?;
        numbers.fill(rows.last().map_or(&[], Vec::as_slice));
        gate::pass("batch.numbered").await;
    }
    steps.extend(writes(&mut set, &numbers, true));
    for log in set.logs() {
        steps.extend(log.writes(at).into_iter().map(|write| Step::new(write.sql, write.params)));
    }
    if !events.is_empty() {
        let write = event::store(events, at);
        steps.push(Step::new(write.sql, write.params));
    }
    let encoded: Vec<Option<Answer>> =
        calls.iter().zip(&verdicts).map(|(w, verdict)| verdict.as_ref().map(|_| w.call.encode(&numbers))).collect();
    steps.extend(records(core, tenant, calls, &verdicts, &encoded, at));

    if steps.is_empty() {
        tx.rollback().await;
    } else {
        gate::pass("batch.storing").await;
        tx.commit(steps).await?;
    }
    Ok(outcomes
        .into_iter()
        .zip(encoded)
        .map(|(outcome, answer)| match (outcome, answer) {
            (Some(outcome), _) => outcome,
            (None, Some(answer)) => Ok(Answered { answer, replayed: None }),
            (None, None) => Err(Fault::Bug("a call was neither decided nor refused".into())),
        })
        .collect())
}

type Known = HashMap<String, Stored>;

/// Locks and reads what the calls name, table by table in lock order; stored answers and the
/// clock travel with the last locks.
async fn load<S: TableSet>(
    core: &Core,
    tx: &mut Tx,
    set: &mut S,
    calls: &[Waiting<S>],
    outcomes: &mut [Outcome],
    skip_locked: bool,
) -> Result<(Known, jiff::Timestamp), Failure> {
    let tenant = tenant(calls);
    let names: Vec<&'static str> = set.tables().iter().map(|table| table.name()).collect();
    // Who is still asking, and after which table; who asks once more when all is locked.
    let mut asking: Vec<(usize, Option<usize>)> = (0..calls.len()).map(|index| (index, None)).collect();
    let mut locked: Vec<usize> = Vec::new();
    let mut named: Vec<(usize, S::Wants)> = Vec::new();
    let mut closed = 0;
    loop {
        let mut still = Vec::new();
        for (index, after) in asking {
            if after.is_some_and(|rank| rank >= closed) {
                still.push((index, after));
                continue;
            }
            match ask(set, &calls[index], &mut outcomes[index]) {
                None => {}
                Some((next, wants)) => {
                    match next {
                        Next::Complete => {}
                        Next::Locked => locked.push(index),
                        Next::After(name) => match names.iter().position(|n| *n == name) {
                            Some(rank) if rank >= closed => still.push((index, Some(rank))),
                            _ => outcomes[index] = Some(Err(Fault::Bug(format!("{name} is loaded or unknown")))),
                        },
                    }
                    // Kept as asked: once a row it named turns out to be held, a call names no more by it.
                    if skip_locked {
                        named.push((index, wants));
                    }
                }
            }
        }
        asking = still;

        let upto = asking.iter().filter_map(|(_, after)| *after).min().map_or(names.len(), |rank| rank + 1);
        let find = asking.is_empty().then(|| {
            let keys: Vec<_> = calls.iter().map(|w| w.call.head().key.as_str().to_owned()).collect();
            Step::new(answer::ANSWER_FIND, vec![param(keys)])
        });
        let last = find.is_some();
        let mut found = fetch(tx, set, upto, skip_locked, find).await?;
        set.tables().into_iter().take(upto).for_each(|table| table.close());
        closed = upto;
        if last {
            let found = found.pop().unwrap_or_default();
            for (index, wants) in &named {
                if outcomes[*index].is_none() && set.any_held(wants) {
                    outcomes[*index] = Some(Err(Fault::RowHeld));
                }
            }
            gate::pass("batch.locked").await;
            for index in locked {
                if outcomes[index].is_none() {
                    ask(set, &calls[index], &mut outcomes[index]);
                }
            }
            fetch(tx, set, names.len(), skip_locked, None).await?;
            let answers = found.iter().filter_map(|row| answer::read(row, tenant, &core.seal));
            let known = answers.map(|(key, stored)| (key.as_str().to_owned(), stored)).collect();
            return Ok((known, found[0].get("now")));
        }
        gate::pass("batch.rank_loaded").await;
    }
}

/// What a call names next. Where it panics, that is its outcome.
fn ask<S: TableSet>(set: &mut S, waiting: &Waiting<S>, outcome: &mut Outcome) -> Option<(Next, S::Wants)> {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let mut wants = S::Wants::default();
        let next = waiting.call.wants(set, &mut wants);
        set.take(&wants);
        (next, wants)
    }));
    asked.map_err(|panic| *outcome = Some(Err(bug(&*waiting.call, &*panic)))).ok()
}

/// Loads what was asked for of the first `upto` tables, with one more statement where there is one;
/// its rows are returned. Nothing asked, nothing sent.
async fn fetch<S: TableSet>(
    tx: &mut Tx,
    set: &mut S,
    upto: usize,
    skip_locked: bool,
    more: Option<Step>,
) -> Result<Vec<Vec<Row>>, Failure> {
    let mut loads: Vec<(usize, Load)> = Vec::new();
    for (rank, table) in set.tables().into_iter().enumerate().take(upto) {
        loads.extend(table.loads(skip_locked).into_iter().map(|load| (rank, load)));
    }
    let mut steps: Vec<Step> = loads
        .iter_mut()
        .map(|(_, load)| {
            Step::with_suffix(load.sql, std::mem::take(&mut load.suffix), std::mem::take(&mut load.params))
        })
        .collect();
    // GUARD(answers_after_locks): whoever waited for a lock finds the answer that its former holder
    // stored, and does not decide the same call over again.
    steps.extend(more);
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let mut results = tx.run(steps).await?;
    let found = results.split_off(loads.len());
    let mut tables = set.tables();
    for ((rank, load), rows) in loads.iter().zip(&results) {
        tables[*rank].loaded(load, rows);
    }
    Ok(found)
}

/// Decides in arrival order over the same rows, so that the result equals running one by one.
fn decide<S: TableSet>(
    set: &mut S,
    calls: &mut [Waiting<S>],
    outcomes: &mut [Outcome],
    at: jiff::Timestamp,
    events: &mut Vec<(event::Event, String)>,
    numbers: &mut Numbers,
) -> Vec<Option<Verdict>> {
    let mut verdicts = Vec::with_capacity(calls.len());
    for (waiting, outcome) in calls.iter_mut().zip(outcomes) {
        if outcome.is_some() {
            verdicts.push(None);
            continue;
        }
        let kept = events.len();
        let call = &mut waiting.call;
        let decided = catch_unwind(AssertUnwindSafe(|| {
            call.decide(Deciding { set: &mut *set, at, events: &mut *events, numbers: &mut *numbers })
        }));
        // GUARD(overlay): what a refused or panicking command drafted is forgotten.
        if let Ok(Verdict::Done) = decided {
            set.tables().into_iter().for_each(|table| table.keep());
            set.logs().into_iter().for_each(|log| log.keep());
            numbers.keep();
        } else {
            set.tables().into_iter().for_each(|table| table.discard());
            set.logs().into_iter().for_each(|log| log.discard());
            numbers.discard();
            events.truncate(kept);
        }
        match decided {
            Ok(verdict) => verdicts.push(Some(verdict)),
            Err(panic) => {
                *outcome = Some(Err(bug(&*waiting.call, &*panic)));
                verdicts.push(None);
            }
        }
    }
    verdicts
}

/// Audit rows and answers of what was decided for good.
fn records<S: TableSet>(
    core: &Core,
    tenant: TenantId,
    calls: &[Waiting<S>],
    verdicts: &[Option<Verdict>],
    encoded: &[Option<Answer>],
    at: jiff::Timestamp,
) -> Vec<Step> {
    let mut entries = Vec::new();
    let mut fresh = Vec::new();
    for ((waiting, verdict), answer) in calls.iter().zip(verdicts).zip(encoded) {
        let outcome = match verdict {
            Some(Verdict::Done) => "done",
            Some(Verdict::Rejected { code, stored: true }) => code,
            Some(Verdict::Rejected { stored: false, .. }) | None => continue,
        };
        let Some(answer) = answer else { continue };
        let (call, head) = (&waiting.call, waiting.call.head());
        entries.push(audit::Entry { head, command: call.name(), outcome });
        if call.stored() {
            fresh.push(Fresh {
                key: &head.key,
                fingerprint: head.fingerprint,
                command: call.name(),
                sealed: call.sealed(),
                answer,
            });
        }
    }
    let audit = (!entries.is_empty()).then(|| audit::store(entries, at));
    let answers = (!fresh.is_empty()).then(|| answer::store(fresh, tenant, &core.seal, at));
    audit.into_iter().chain(answers).map(|write| Step::new(write.sql, write.params)).collect()
}

fn bug<S: TableSet>(call: &dyn AnyCall<S>, panic: &(dyn std::any::Any + Send)) -> Fault {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "panicked".into());
    let (command, correlation) = (call.name(), &call.head().correlation);
    tracing::error!(command, correlation, panic = %text, "a command panicked; it alone is rolled back");
    Fault::Bug(text)
}
