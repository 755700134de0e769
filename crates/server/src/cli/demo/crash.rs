//! The program killed in mid-commit: once before the database commits, once after it did and
//! before the program knows.
//!
//! The moment is not left to chance: `sim::stall` stops the batch inside its last round trip.
//! Both ends are right, rolled back or committed; that there is exactly one effect, and that the
//! caller learns of it, is what is checked.

use super::{Item, Level, Play, Trouble, scenes::again};
use sim::stall::Stall;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The batch gives up waiting for a lock after two seconds and tries again, so there is no hurry.
const BLOCK_LIMIT: Duration = Duration::from_secs(20);
const COMMIT_LIMIT: Duration = Duration::from_secs(5);
const DOWN_LIMIT: Duration = Duration::from_secs(5);
/// A killed program cuts its lines at once.
const CUT_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq)]
enum Moment {
    BeforeCommit,
    AfterCommit,
}

pub(super) async fn killed(play: &mut Play<'_>, item: &Item) -> Result<(), Trouble> {
    play.tell.scene(6, "Killed in mid-commit: kill -9, and a new start on the same folder");
    once(play, item, "austin|boutique|po-4473", Moment::BeforeCommit).await?;
    once(play, item, "austin|boutique|po-4474", Moment::AfterCommit).await
}

async fn once(play: &mut Play<'_>, item: &Item, key: &str, moment: Moment) -> Result<(), Trouble> {
    let broken = |error| Trouble::Stuck(format!("the way into the database: {error}"));
    let before = play.level(item).await?;
    let stall = Stall::hold(&play.stage.database(), play.tenant.uuid(), key).await.map_err(broken)?;
    play.tell.note("demo", "holds a lock in the database, so that the next commit stops half-way");
    let click = Play::commit(&play.austin, item, 6, key);
    play.tell.sent(Instant::now(), "Austin", &format!("commit 6   key {key}"));
    let (address, sent) = (play.address(), click.clone());
    let request = tokio::spawn(async move { sent.send(address).await });

    let blocked = stall.blocks(BLOCK_LIMIT).await.map_err(broken)?;
    play.tell.check(blocked, "all is written; the COMMIT is with the database and waits for that lock", || {
        format!("no batch waited after {BLOCK_LIMIT:?}")
    })?;
    match moment {
        Moment::BeforeCommit => {
            play.stage.kill().await?;
            play.tell.note("program", "killed (kill -9) before the database could commit");
            stall.outlast(DOWN_LIMIT).await;
        }
        Moment::AfterCommit => {
            play.stage.freeze();
            stall.release().await.map_err(broken)?;
            let stored = stall.stored(COMMIT_LIMIT).await.map_err(broken)?;
            let state = if stored { "commits" } else { "has not got the COMMIT" };
            play.tell
                .note("database", &format!("the lock is gone: it {state}; the program, frozen, hears nothing of it"));
            play.stage.kill().await?;
            play.tell.note("program", "killed (kill -9) before it could answer");
        }
    }
    let outcome = timeout(CUT_LIMIT, request).await;
    let cut = matches!(outcome, Ok(Ok(Err(_))));
    play.tell.note("Austin", "the line is cut: no answer. Did it happen?");
    play.tell.check(cut, "nobody was answered", || match outcome {
        Ok(Ok(Ok(reply))) => reply.plain(),
        _ => "the line still stands".into(),
    })?;

    let start = Instant::now();
    let address = play.stage.serve().await?;
    play.tell.note("program", &format!("serves again after {} ms, http://{address}", start.elapsed().as_millis()));
    let committed = happened(play, item, &before).await?;

    let reply = click.send(play.address()).await?;
    play.tell.sent(reply.sent, "Austin", &format!("tries again, as it must   key {key}"));
    play.tell.got("Austin", &reply);
    let what = match committed {
        true => "replayed: the answer was committed with the promise, before the kill",
        false => "done now, for the first time: the kill had left neither promise nor answer",
    };
    play.tell.check(reply.status == 200 && reply.replayed == committed, what, || reply.plain())?;
    again(play, &click, &reply.bytes).await?;
    let (level, right) = (play.level(item).await?, before.promised(6));
    play.tell.check(level == right, "exactly one effect", || level.plain())
}

/// Whether the unanswered commit was carried out: wholly, or not at all.
async fn happened(play: &mut Play<'_>, item: &Item, before: &Level) -> Result<bool, Trouble> {
    let level = play.level(item).await?;
    let committed = level != *before;
    let told = if committed { "it was committed" } else { "it was rolled back" };
    play.tell.note("stock", &format!("{}: {told}", level.plain()));
    let whole = !committed || level == before.promised(6);
    play.tell.check(whole, "wholly or not at all", || level.plain())?;
    Ok(committed)
}
