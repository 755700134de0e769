//! The pre-check beside a crowded lane.

use engine::gate;
use serde_json::Value;
use std::sync::Arc;
use testkit::App;

/// A program whose lane counts as crowded as soon as one call waits.
async fn crowdable() -> Arc<App> {
    Arc::new(
        App::start_with(|config| {
            config.batch_calls_max = 1;
            config.lanes = 1;
        })
        .await,
    )
}

#[tokio::test]
async fn ats_11_a_clearly_short_call_is_refused_beside_a_held_row_and_the_refusal_is_kept() {
    let app = crowdable().await;
    let stock = app.stock("6").await;
    let first = app.allocate("first", &stock, "6").await;
    first.ok();
    // One batch holds the hot row, one call waits behind it.
    let mut gate = gate::hold("batch.loaded");
    let more = stock.lines(&["1"]);
    let (one, body) = (app.clone(), more.clone());
    let holder = tokio::spawn(async move { one.post("/v1/stock/receive", "holder", &body).await });
    let go = gate.reached().await;
    let (two, body) = (app.clone(), more.clone());
    let behind = tokio::spawn(async move { two.post("/v1/stock/receive", "behind", &body).await });
    while app.engine().waiting()[0] == 0 {
        tokio::task::yield_now().await;
    }
    // The row is still held, and yet:
    let refused = app.allocate("short", &stock, "3").await;
    let body = refused.problem(422, "insufficient_ats");
    assert_eq!((&body["shorts"][0]["wanted"], &body["shorts"][0]["available"]), (&"3".into(), &"0".into()));
    assert!(!holder.is_finished() && !behind.is_finished());
    drop(go);
    holder.await.expect("holder").ok();
    behind.await.expect("behind").ok();
    // Kept and replayed, although by now two have come.
    let again = app.allocate("short", &stock, "3").await;
    assert_eq!((again.status, again.replayed(), &again.bytes), (422, true, &refused.bytes));
    // And the call that took the last units still gets its 200.
    let again = app.allocate("first", &stock, "6").await;
    assert_eq!((again.status, again.replayed(), &again.bytes), (200, true, &first.bytes));
    testkit::app::sweep(app.engine()).await;
}

#[tokio::test]
async fn ats_11_the_retry_of_the_call_that_took_the_last_units_is_answered_beside_a_crowded_lane() {
    let app = crowdable().await;
    let stock = app.stock("6").await;
    let first = app.allocate("first", &stock, "6").await;
    let mut gate = gate::hold("batch.loaded");
    let (one, body) = (app.clone(), stock.lines(&["1"]));
    let holder = tokio::spawn(async move { one.post("/v1/stock/receive", "holder", &body).await });
    let go = gate.reached().await;
    let (two, body) = (app.clone(), stock.lines(&["1"]));
    let behind = tokio::spawn(async move { two.post("/v1/stock/receive", "behind", &body).await });
    while app.engine().waiting()[0] == 0 {
        tokio::task::yield_now().await;
    }
    // Nothing is left, so without the look at stored answers it would be refused here.
    let (retry, same) = (app.clone(), stock.clone());
    let again = tokio::spawn(async move { retry.allocate("first", &same, "6").await });
    while app.engine().waiting()[0] == 1 {
        tokio::task::yield_now().await;
    }
    drop(go);
    let again = again.await.expect("the retry");
    assert_eq!((again.status, again.replayed(), &again.bytes), (200, true, &first.bytes));
    holder.await.expect("holder").ok();
    behind.await.expect("behind").ok();
}

#[tokio::test]
async fn ats_11_the_pre_check_never_says_yes() {
    let app = crowdable().await;
    let stock = app.stock("6").await;
    let mut gate = gate::hold("batch.loaded");
    // The holder will take five; whoever reads without the lock still sees six.
    let (one, beside) = (app.clone(), stock.clone());
    let holder = tokio::spawn(async move { one.allocate("holder", &beside, "5").await });
    let go = gate.reached().await;
    let (two, beside) = (app.clone(), stock.clone());
    let behind = tokio::spawn(async move { two.allocate("behind", &beside, "1").await });
    while app.engine().waiting()[0] == 0 {
        tokio::task::yield_now().await;
    }
    let (three, beside) = (app.clone(), stock.clone());
    let asks = tokio::spawn(async move { three.allocate("asks", &beside, "6").await });
    while app.engine().waiting()[0] == 1 {
        tokio::task::yield_now().await;
    }
    drop(go);
    holder.await.expect("holder").ok();
    behind.await.expect("behind").ok();
    let body: Value = asks.await.expect("asks").problem(422, "insufficient_ats");
    assert_eq!(body["shorts"][0]["available"], "0");
    testkit::app::sweep(app.engine()).await;
}
