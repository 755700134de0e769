//! The scenes over a program that lives: the drop, the same instant, the double click, the lost
//! reply, the reused key.

use super::{
    Bearer, Item, Level, Play, Trouble,
    caller::{Caller, Click, Reply},
    stage::Stage,
    tell::Tell,
};
use kernel::quantity::Quantity;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Barrier, time::sleep};

const EFFECT_LIMIT: Duration = Duration::from_secs(20);
const LOOK_PAUSE: Duration = Duration::from_millis(3);

/// The program and its tenant, in front of the first scene's people.
pub(super) async fn opening<'a>(stage: &'a mut Stage, tell: &'a mut Tell) -> Result<Play<'a>, Trouble> {
    tell.scene(1, "The drop: six Kestrel Overshirts in Washed Indigo / M");
    let address = stage.serve().await?;
    tell.note("program", &format!("serves http://{address} with a new PostgreSQL of its own"));
    let tenant = printed(stage, &["tenant", "create", "kestrel", "--name", "Kestrel Goods"]).await?;
    let bearer: Bearer = printed(stage, &["key", "create", "kestrel", "demo"]).await?.into();
    let tenant = tenant.parse().map_err(|_| Trouble::Off(format!("{tenant:?} is no tenant id")))?;
    tell.note("operator", "made the tenant `kestrel` and an API key, with the program's own verbs");
    Ok(Play {
        austin: Caller::new("Austin", &bearer)?,
        tokyo: Caller::new("Tokyo", &bearer)?,
        warehouse: Caller::new("warehouse", &bearer)?,
        stage,
        tell,
        tenant,
    })
}

async fn printed(stage: &Stage, verb: &[&str]) -> Result<String, Trouble> {
    match stage.run(verb).await? {
        (true, text) => Ok(text),
        (false, text) => Err(Trouble::Off(format!("`tallyhold {}` failed: {text}", verb.join(" ")))),
    }
}

/// Warehouse, SKUs and goods: six shirts for the contest, 24 of another for the accidents.
pub(super) async fn drop(play: &mut Play<'_>) -> Result<(Item, Item), Trouble> {
    let place = json!({"code": "MAIN", "name": "Main warehouse"});
    let made = make(play, "/v1/warehouses", "setup|warehouse|MAIN", place).await?;
    let warehouse = made.text("/warehouse_id").to_owned();
    let mut items = Vec::new();
    for (code, name, units) in
        [("KESTREL-OS-IND-M", "Washed Indigo / M", 6), ("KESTREL-OS-SAN-L", "Desert Sand / L", 24)]
    {
        let sku = json!({"code": code, "name": format!("Kestrel Overshirt, {name}"), "unit": "piece", "decimals": 0});
        let made = make(play, "/v1/skus", &format!("setup|sku|{code}"), sku).await?;
        let key = format!("asn-2201|{units}");
        let line = json!({
            "sku_id": made.text("/sku_id"), "warehouse_id": warehouse, "quantity": units.to_string(), "source": key,
        });
        let booked = make(play, "/v1/stock/receive", &key, json!({"lines": [line]})).await?;
        play.tell.sent(booked.sent, "warehouse", &format!("receive {units} in {name}   key {key}"));
        play.tell.got("warehouse", &booked);
        let item = Item {
            name,
            sku: made.text("/sku_id").into(),
            warehouse: warehouse.clone(),
            position: booked.text("/lines/0/position_id").into(),
        };
        let (level, all) = (play.level(&item).await?, Quantity::from(units));
        let right = Level { on_hand: all, allocated: Quantity::ZERO, ats: all, sequence: 1 };
        let what = format!("{units} on hand, none allocated, {units} available to sell");
        play.tell.check(level == right, &what, || level.plain())?;
        items.push(item);
    }
    let sand = items.pop().expect("two were made");
    let indigo = items.pop().expect("two were made");
    Ok((indigo, sand))
}

async fn make(play: &Play<'_>, path: &'static str, key: &str, body: Value) -> Result<Reply, Trouble> {
    let click = Click { caller: play.warehouse.clone(), path, key: key.into(), body };
    let reply = click.send(play.address()).await?;
    match reply.status {
        200 | 201 => Ok(reply),
        _ => Err(Trouble::Off(format!("POST {path} got {}", reply.plain()))),
    }
}

/// Sends both at once, from two tasks and on two connections.
async fn at_once(address: SocketAddr, clicks: [Click; 2]) -> Result<[Reply; 2], Trouble> {
    let start = Arc::new(Barrier::new(2));
    let [one, two] = clicks.map(|click| {
        let start = start.clone();
        tokio::spawn(async move {
            start.wait().await;
            click.send(address).await
        })
    });
    let (one, two) = tokio::join!(one, two);
    Ok([one.expect("it does not panic")?, two.expect("it does not panic")?])
}

/// Two account managers see six and commit six. Returns who got them.
pub(super) async fn same_instant(play: &mut Play<'_>, item: &Item) -> Result<&'static str, Trouble> {
    play.tell.scene(2, "The same instant: both see 6 available, both commit 6");
    for caller in [play.austin.clone(), play.tokyo.clone()] {
        let asked = Instant::now();
        let path = format!("/v1/stock-positions/{}", item.position);
        let level: Level = caller.get(play.address(), &path).await?;
        play.tell.sent(asked, caller.who, "on the order screen: how many are left?");
        play.tell.note(caller.who, &format!("sees {} available to sell", level.ats));
    }
    let clicks = [
        Play::commit(&play.austin, item, 6, "austin|boutique|po-4471"),
        Play::commit(&play.tokyo, item, 6, "tokyo|distributor|fax-0312"),
    ];
    let replies = at_once(play.address(), clicks.clone()).await?;
    let mut pairs: Vec<_> = clicks.iter().zip(&replies).collect();
    pairs.sort_by_key(|(_, reply)| reply.sent);
    for (click, reply) in &pairs {
        play.tell.sent(reply.sent, click.caller.who, &format!("commit 6   key {}", click.key));
    }
    pairs.sort_by_key(|(_, reply)| reply.got);
    for (click, reply) in &pairs {
        play.tell.got(click.caller.who, reply);
    }
    let told = || replies.iter().map(Reply::plain).collect::<Vec<_>>().join(" and ");
    pairs.sort_by_key(|(_, reply)| reply.status);
    let (winner, loser) = (pairs[0].0.caller.who, pairs[1].0.caller.who);
    let (yes, no) = (pairs[0].1, pairs[1].1);
    let one_each = yes.status == 200 && no.status == 422;
    play.tell.check(one_each, "exactly one 200 and one 422", told)?;
    let none_left = yes.text("/lines/0/ats_after") == "0";
    play.tell.check(none_left, &format!("{winner} has the six, and the yes says that none are left"), told)?;
    let honest = no.text("/code") == "insufficient_ats" && no.text("/shorts/0/available") == "0";
    play.tell.check(honest, &format!("{loser} knows at once, and how many could be had: 0"), told)?;
    let level = play.level(item).await?;
    let six = Quantity::from(6);
    let right = Level { on_hand: six, allocated: six, ats: Quantity::ZERO, sequence: 2 };
    play.tell.check(level == right, "six are promised of six, not twelve", || level.plain())?;
    Ok(winner)
}

/// One intention, clicked twice: one key, two connections.
pub(super) async fn double_click(play: &mut Play<'_>, item: &Item) -> Result<(), Trouble> {
    play.tell.scene(3, "The same click twice: a frozen spinner, one key, two requests at once");
    let before = play.level(item).await?;
    let click = Play::commit(&play.austin, item, 6, "austin|boutique|po-4472");
    let mut replies = at_once(play.address(), [click.clone(), click.clone()]).await?;
    replies.sort_by_key(|reply| reply.sent);
    for reply in &replies {
        play.tell.sent(reply.sent, "Austin", &format!("commit 6   key {}", click.key));
    }
    replies.sort_by_key(|reply| reply.got);
    for reply in &replies {
        play.tell.got("Austin", reply);
    }
    let told = || replies.iter().map(Reply::plain).collect::<Vec<_>>().join(" and ");

    let ran: Vec<_> = replies.iter().filter(|reply| reply.status == 200 && !reply.replayed).collect();
    play.tell.check(ran.len() == 1, "exactly one of them ran", told)?;
    let first = ran[0].bytes.clone();
    let other = replies.iter().find(|reply| reply.status != 200 || reply.replayed);
    let other = other.expect("only one ran");
    let in_flight = other.status == 409 && other.text("/code") == "request_in_flight";
    if in_flight {
        play.tell.check(
            other.retry_after_s.is_some(),
            "the other is told that it runs, and when to come back",
            told,
        )?;
        sleep(Duration::from_secs(other.retry_after_s.unwrap_or(1))).await;
    } else {
        let same = other.status == 200 && other.bytes == first;
        play.tell.check(same, "the other got the answer of the first", told)?;
    }
    again(play, &click, &first).await?;
    let (level, right) = (play.level(item).await?, before.promised(6));
    play.tell.check(level == right, "six left the shelf once", || level.plain())
}

/// The same click once more: the stored answer, to the byte.
pub(super) async fn again(play: &mut Play<'_>, click: &Click, first: &[u8]) -> Result<(), Trouble> {
    let who = click.caller.who;
    let reply = click.send(play.address()).await?;
    play.tell.sent(reply.sent, who, &format!("the same again   key {}", click.key));
    play.tell.got(who, &reply);
    let same = reply.status == 200 && reply.replayed && reply.bytes == first;
    play.tell.check(same, "replayed: the first answer, byte for byte", || reply.plain())
}

/// The commit is done, the connection dies, the caller knows nothing. Returns the click and how
/// the stock stands after it.
pub(super) async fn reply_lost(play: &mut Play<'_>, item: &Item) -> Result<(Click, Level), Trouble> {
    play.tell.scene(4, "The reply lost: committed, but the line to Tokyo is cut before the answer is read");
    let before = play.level(item).await?;
    let click = Play::commit(&play.tokyo, item, 6, "tokyo|distributor|fax-0313");
    let broken = |error: std::io::Error| Trouble::Stuck(format!("a connection to the program: {error}"));
    let mut line = TcpStream::connect(play.address()).await.map_err(broken)?;
    play.tell.sent(Instant::now(), "Tokyo", &format!("commit 6   key {}", click.key));
    line.write_all(&click.wire(play.address())).await.map_err(broken)?;
    let deadline = Instant::now() + EFFECT_LIMIT;
    let mut level = before.clone();
    while level == before && Instant::now() < deadline {
        sleep(LOOK_PAUSE).await;
        level = play.level(item).await?;
    }
    play.tell.note("stock", &format!("moved: {}", level.plain()));
    // Closed with the answer unread.
    std::mem::drop(line);
    play.tell.note("Tokyo", "the line is cut: no answer. Did it happen?");
    let right = before.promised(6);
    play.tell.check(level == right, "it happened", || level.plain())?;

    let reply = click.send(play.address()).await?;
    play.tell.sent(reply.sent, "Tokyo", &format!("tries again, as it must   key {}", click.key));
    play.tell.got("Tokyo", &reply);
    let answered = reply.status == 200 && reply.replayed;
    play.tell.check(answered, "the answer that was lost, not a second promise", || reply.plain())?;
    let level = play.level(item).await?;
    play.tell.check(level == right, "the stock was taken once", || level.plain())?;
    Ok((click, level))
}

/// Another intention under a key that has its answer.
pub(super) async fn key_reused(
    play: &mut Play<'_>,
    item: &Item,
    (known, before): (Click, Level),
) -> Result<(), Trouble> {
    play.tell.scene(5, "The key reused: Tokyo's program sends another order under the key of the last one");
    let click = Play::commit(&known.caller, item, 12, &known.key);
    let reply = click.send(play.address()).await?;
    play.tell.sent(reply.sent, "Tokyo", &format!("commit 12   key {}", click.key));
    play.tell.got("Tokyo", &reply);
    let refused = reply.status == 422 && reply.text("/code") == "idempotency_key_reused";
    play.tell
        .check(refused, "refused: neither twelve promised, nor the old answer for a new question", || reply.plain())?;
    let level = play.level(item).await?;
    play.tell.check(level == before, "nothing changed", || level.plain())
}
