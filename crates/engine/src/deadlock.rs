//! The deadlock log: which two statements met, so that the design flaw shows.
//!
//! Owns `deadlock`. Ours is the statement that failed. The other's is asked of
//! `pg_stat_activity` and believed only if it began before the last statement of our failed round
//! trip: those follow the failed one at once, sooner than the other, let go by our failure, can
//! begin its next. Else it is written down as unknown, never guessed.

use crate::{
    run::Core,
    sql::{Sql, Type, param},
    tx::{Begin, Step, Tx},
};
use kernel::id::TenantId;
use tokio_postgres::error::DbError;
use uuid::Uuid;

/// What a process was running when ours failed. The server's role sees the text of its own
/// sessions only.
const DEADLOCK_OTHER: Sql = Sql::new(
    "deadlock_other",
    &[Type::INT4_ARRAY, Type::INT4],
    "
    SELECT a.query
    FROM pg_stat_activity AS a
    JOIN pg_stat_activity AS ours ON ours.pid = $3
    WHERE a.pid = ANY($2)
        AND $1::uuid IS NOT NULL
        AND a.pid <> ours.pid
        AND a.query_start < ours.query_start
        AND a.query <> '<insufficient privilege>'
        AND a.query <> ''
    LIMIT 1",
);

const DEADLOCK_STORE: Sql = Sql::new(
    "deadlock_store",
    &[Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT],
    "
    INSERT INTO deadlock (tenant_id, deadlock_id, statement, other_statement, detail, at)
    VALUES ($1, $2, $3, $4, $5, clock_timestamp())",
);

pub(crate) const STATEMENTS: [Sql; 2] = [DEADLOCK_OTHER, DEADLOCK_STORE];

/// The name in a statement's leading comment, else its first 200 characters.
fn name(query: &str) -> String {
    let named = query.strip_prefix("/* ").and_then(|rest| rest.split_once(" */"));
    named.map_or_else(|| query.chars().take(200).collect(), |(name, _)| name.to_owned())
}

/// The processes we were blocked by, from "blocked by process N".
fn blockers(detail: &str) -> Vec<i32> {
    let texts = detail.split("blocked by process ").skip(1);
    texts.filter_map(|text| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).collect()
}

/// The process that failed, which the server names first: "Process N waits".
fn victim(detail: &str) -> Option<i32> {
    detail.strip_prefix("Process ")?.split(' ').next()?.parse().ok()
}

/// Writes the deadlock down. A failure to do so is logged and changes nothing for the batch.
pub(crate) async fn log(core: &Core, tenant: TenantId, error: &DbError, statement: &str) {
    metrics::counter!("tallyhold_deadlocks_total").increment(1);
    let detail = error.detail().unwrap_or_default().to_owned();
    let written = async {
        let config = &core.config;
        let mut tx = Tx::begin(&core.reads, tenant, Begin::Write, config.timeouts, config.named).await?;
        let ask = Step::new(DEADLOCK_OTHER, vec![param(blockers(&detail)), param(victim(&detail))]);
        let found = tx.run(vec![ask]).await?;
        let other = found[0].first().map_or_else(|| "unknown".to_owned(), |row| name(row.get(0)));
        tracing::warn!(%statement, %other, %detail, "deadlock");
        let params = vec![param(Uuid::now_v7()), param(statement.to_owned()), param(other), param(detail.clone())];
        tx.commit(vec![Step::new(DEADLOCK_STORE, params)]).await
    };
    if let Err(error) = written.await {
        tracing::error!(%error, %statement, %detail, "a deadlock could not be written down");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blockers_and_names_are_read_from_the_servers_words() {
        let detail = "Process 71 waits for ShareLock on transaction 742; blocked by process 72.\n\
                      Process 72 waits for ShareLock on transaction 741; blocked by process 71.";
        assert_eq!(blockers(detail), [72, 71]);
        assert_eq!(victim(detail), Some(71));
        assert_eq!(name("/* position_load */ SELECT 1"), "position_load");
        assert_eq!(name("UPDATE x"), "UPDATE x");
    }
}
