//! P5's memory: the product's server as a process of its own, watched while it answers.

use super::{Doors, measure::fresh_key, place::Place, report::Memory, stock::Stock, way::Way};
use std::{net::SocketAddr, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    task::JoinSet,
    time::{sleep, timeout},
};

const CALLERS: u64 = 64;
const START_TIME_MAX: Duration = Duration::from_secs(30);
/// After the first of these the process has warmed up.
const FEW: u64 = 10_000;

/// The address that the server prints when it is ready.
async fn listening(child: &mut Child) -> Result<SocketAddr, String> {
    let mut lines = BufReader::new(child.stdout.take().ok_or("the server has no output")?).lines();
    let address = async {
        while let Ok(Some(line)) = lines.next_line().await {
            let found = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            if found.is_some() {
                return found;
            }
        }
        None
    };
    let address = timeout(START_TIME_MAX, address).await.ok().flatten().ok_or("the server did not start")?;
    // Read on, or a server that goes on talking would stand still.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(address)
}

fn resident_kib(child: &Child) -> Result<u64, String> {
    let pid = child.id().ok_or("the server has ended")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in its status")?;
    line.trim().trim_end_matches(" kB").parse().map_err(|_| format!("VmRSS is {line:?}"))
}

async fn send(way: &Way, stock: &Arc<Stock>, requests: u64) -> Result<(), String> {
    let mut tasks = JoinSet::new();
    for index in 0..CALLERS {
        let (mut caller, stock) = (way.caller().await?, stock.clone());
        let share = requests / CALLERS + u64::from(index < requests % CALLERS);
        tasks.spawn(async move {
            let mut random = fastrand::Rng::new();
            for _ in 0..share {
                caller.allocate(stock.pick(&mut random), &fresh_key()).await?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// Sends `requests` in all. The stock is filled, and left with all that was promised.
pub async fn measure(place: &Place, doors: &Doors, stock: &Arc<Stock>, requests: u64) -> Result<Memory, String> {
    let mut child = (doors.serve)(&place.server_url())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the server could not be started: {error}"))?;
    let way = Way::Http { address: listening(&mut child).await?, token: stock.token.clone() };
    let few = FEW.min(requests);
    send(&way, stock, few).await?;
    sleep(Duration::from_secs(1)).await;
    let few_kib = resident_kib(&child)?;
    send(&way, stock, requests - few).await?;
    sleep(Duration::from_secs(1)).await;
    let many_kib = resident_kib(&child)?;
    child.kill().await.map_err(|error| error.to_string())?;
    Ok(Memory { few, few_kib, many: requests, many_kib })
}
