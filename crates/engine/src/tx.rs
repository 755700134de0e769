//! One transaction of one tenant: the only place of the program that begins and commits.
//!
//! Invariant: every transaction is bound to its tenant and its time-outs by its own first
//! statement, with transaction scope, so that nothing leaks into a pooled connection.
//! Invariant: COMMIT is believed only if every statement of the transaction succeeded. After a
//! failed statement the server answers COMMIT with ROLLBACK, and the driver calls that success.
//! Invariant: a connection goes back to the pool only after a confirmed end; a `Tx` dropped
//! half-way discards it (`Drop`), or its open transaction would serve the next caller.
//! Never waits for the world: there is nothing here to wait with.

use crate::{
    error::{Cause, StepError},
    gate,
    sql::{Param, Row, Sql, Type, param},
};
use deadpool_postgres::{Object, Pool};
use futures::{FutureExt, future::BoxFuture};
use kernel::id::TenantId;
use std::{pin::Pin, task::Poll, time::Duration};
use tokio_postgres::types::ToSql;

/// How long a transaction may wait, each bound by the server itself.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    pub statement_ms: u32,
    pub lock_ms: u32,
    /// A frozen process must not hold a hot row: the server ends its transaction.
    pub idle_ms: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { statement_ms: 10_000, lock_ms: 2_000, idle_ms: 3_000 }
    }
}

impl Timeouts {
    /// When the server itself is silent (frozen, network gone), we stop waiting for it.
    fn silence(self) -> Duration {
        Duration::from_millis(u64::from(self.statement_ms) + 2_000)
    }
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Read committed: sees, after a lock, what the former holder committed.
    Write,
    Serializable,
    /// One snapshot, read only, found by key like a batch.
    Snapshot,
    /// One snapshot, read only, over whole tables.
    Audit,
}

/// One statement of a round trip.
pub struct Step {
    sql: Sql,
    suffix: String,
    params: Vec<Param>,
}

impl Step {
    pub fn new(sql: Sql, params: Vec<Param>) -> Self {
        Self { sql, suffix: String::new(), params }
    }

    pub(crate) fn with_suffix(sql: Sql, suffix: String, params: Vec<Param>) -> Self {
        Self { sql, suffix, params }
    }
}

/// Binds the transaction to its tenant and its time-outs, all with transaction scope. Rows are
/// found by key only, so one generic plan serves for ever: planning anew for each batch cost a fifth
/// of it. Such a plan made while the tables were empty would hash-join and scan: those ways are off.
/// One made on a table of one row may still take an index by its tenant alone, so a connection
/// forgets its plans now and then (`PLANS_LAST`).
/// An audit reads whole tables, and what is off for it is the nested loop. One statement, since nine
/// SETs cost more than a small batch's own work.
const SETTINGS: Sql = Sql::new(
    "settings",
    &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
    "
    SELECT set_config('tallyhold.tenant_id', $2, true), set_config('statement_timeout', $3, true),
        set_config('lock_timeout', $4, true), set_config('idle_in_transaction_session_timeout', $5, true),
        set_config('enable_seqscan', $6, true), set_config('enable_hashjoin', $6, true),
        set_config('enable_mergejoin', $6, true), set_config('enable_nestloop', $7, true),
        set_config('plan_cache_mode', $8, true)
    WHERE $1::uuid IS NOT NULL",
);

pub(crate) const STATEMENTS: [Sql; 1] = [SETTINGS];

/// After so many transactions a connection forgets its plans. Until autovacuum tells it that a table
/// has grown, PostgreSQL would keep for good what it planned when the table was small.
const PLANS_LAST: usize = 64;

pub struct Tx {
    conn: Option<Object>,
    tenant: TenantId,
    timeouts: Timeouts,
    /// BEGIN and the settings, sent in front of the first round trip.
    opening: Option<(String, Step)>,
    named: bool,
}

impl Tx {
    /// Nothing is sent before the first [`Tx::run`].
    pub async fn begin(
        pool: &Pool,
        tenant: TenantId,
        begin: Begin,
        timeouts: Timeouts,
        named: bool,
    ) -> Result<Self, StepError> {
        let conn = pool
            .get()
            .await
            .map_err(|error| StepError { statement: "connect".into(), cause: Cause::Pool(error.to_string()) })?;
        let mode = match begin {
            Begin::Write => "BEGIN",
            Begin::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
            Begin::Snapshot | Begin::Audit => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        // GUARD(plans_last): after BEGIN, since a statement of its own would be a round trip of its own.
        let forget = named && Object::metrics(&conn).recycle_count % PLANS_LAST == PLANS_LAST - 1;
        let mode = format!("{mode}{}", if forget { "; DISCARD PLANS" } else { "" });
        let audit = begin == Begin::Audit;
        let text = |ms: u32| param(ms.to_string());
        let params = vec![
            param(tenant.uuid().simple().to_string()),
            text(timeouts.statement_ms),
            text(timeouts.lock_ms),
            // GUARD(idle_timeout): the server ends what a frozen process began, and its row is free again.
            text(timeouts.idle_ms),
            param(if audit { "on" } else { "off" }),
            param(if audit { "off" } else { "on" }),
            param(if audit { "auto" } else { "force_generic_plan" }),
        ];
        let opening = Some((mode, Step::new(SETTINGS, params)));
        Ok(Self { conn: Some(conn), tenant, timeouts, opening, named })
    }

    /// Sends the statements in one round trip and waits for all of them. The first real error
    /// wins; after it the transaction can only be rolled back.
    pub async fn run(&mut self, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, StepError> {
        self.round_trip(steps, None).await
    }

    /// As [`Tx::run`], and commits in the same round trip.
    pub(crate) async fn commit(&mut self, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, StepError> {
        let rows = self.round_trip(steps, Some("COMMIT")).await?;
        self.conn = None;
        Ok(rows)
    }

    pub(crate) async fn rollback(&mut self) {
        if self.round_trip(Vec::new(), Some("ROLLBACK")).await.is_ok() {
            self.conn = None;
        }
    }

    async fn round_trip(&mut self, steps: Vec<Step>, end: Option<&'static str>) -> Result<Vec<Vec<Row>>, StepError> {
        let silence = self.timeouts.silence();
        tokio::time::timeout(silence, self.pipeline(steps, end))
            .await
            .unwrap_or(Err(StepError { statement: "round trip".into(), cause: Cause::Silence }))
    }

    async fn pipeline(&mut self, mut steps: Vec<Step>, end: Option<&'static str>) -> Result<Vec<Vec<Row>>, StepError> {
        let opening = self.opening.take().map(|(begin, settings)| {
            steps.insert(0, settings);
            begin
        });
        let conn = self.conn.as_ref().expect("a transaction has its connection until it ends");
        let tenant = self.tenant.uuid();
        let texts: Vec<String> = steps.iter().map(|step| step.sql.spelled(&step.suffix)).collect();
        let types: Vec<_> = steps.iter().map(|step| step.sql.all_types()).collect();

        // GUARD(prepared_first): a statement prepared in the midst of the round trip would go out
        // after its neighbours, and the order of the statements is the order of the locks.
        let mut prepared = Vec::with_capacity(steps.len());
        if self.named {
            for (step, (text, types)) in steps.iter().zip(texts.iter().zip(&types)) {
                let statement = conn
                    .prepare_typed_cached(text, types)
                    .await
                    .map_err(|error| StepError { statement: step.sql.name.into(), cause: error.into() })?;
                prepared.push(statement);
            }
        }

        type Sent<'a> = BoxFuture<'a, Result<Vec<Row>, tokio_postgres::Error>>;
        let mut sent: Vec<(&str, Sent<'_>)> = Vec::with_capacity(steps.len() + 2);
        if let Some(begin) = &opening {
            sent.push(("begin", conn.batch_execute(begin).map(|r| r.map(|()| Vec::new())).boxed()));
        }
        for (index, step) in steps.iter().enumerate() {
            let params: Vec<&(dyn ToSql + Sync)> = std::iter::once(&tenant as &(dyn ToSql + Sync))
                .chain(step.params.iter().map(|p| p.as_ref() as &(dyn ToSql + Sync)))
                .collect();
            let (statement, text, types) = (prepared.get(index), &texts[index], &types[index]);
            let query = async move {
                match statement {
                    Some(statement) => conn.query(statement, &params).await,
                    None => {
                        let typed: Vec<_> = params.into_iter().zip(types.iter().cloned()).collect();
                        conn.query_typed(text, &typed).await
                    }
                }
            };
            sent.push((step.sql.name, query.boxed()));
        }
        if let Some(end) = end {
            sent.push((end, conn.batch_execute(end).map(|r| r.map(|()| Vec::new())).boxed()));
        }

        let answers = in_order(sent.iter_mut().map(|(_, query)| query.as_mut()).collect()).await;
        let names = sent.iter().map(|(name, _)| *name);
        let mut rows = Vec::with_capacity(steps.len());
        let mut failed: Option<StepError> = None;
        for (name, answer) in names.zip(answers) {
            match answer {
                Ok(found) => rows.push(found),
                Err(error) => {
                    let error = StepError { statement: name.into(), cause: error.into() };
                    if failed.as_ref().is_none_or(StepError::is_echo) {
                        failed = Some(error);
                    }
                }
            }
        }
        gate::pass("tx.answered").await;
        // GUARD(commit_believed): COMMIT of a failed transaction succeeds, and has rolled it back.
        if let Some(error) = failed {
            return Err(error);
        }
        if opening.is_some() {
            rows.drain(..2);
        }
        if end.is_some() {
            rows.pop();
        }
        Ok(rows)
    }
}

/// Polls all futures in their order until every one is done: the driver sends a statement when
/// its future is first polled, so this order is the order on the wire.
async fn in_order<T>(mut futures: Vec<Pin<&mut (dyn Future<Output = T> + Send + '_)>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, slot) in futures.iter_mut().zip(&mut done) {
            if slot.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *slot = Some(value),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

impl Drop for Tx {
    fn drop(&mut self) {
        // GUARD(tx_discard): the end is not confirmed, so the connection may still hold an open
        // transaction and its locks; closing it ends both.
        if let Some(conn) = self.conn.take() {
            drop(Object::take(conn));
        }
    }
}
