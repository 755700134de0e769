//! Credentials seen lately. Reading one from the database on every request would cost more than the
//! request.

use engine::error::StepError;
use moka::future::Cache;
use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How long a replica may go on with what another one changed.
const LASTS: Duration = Duration::from_secs(5);
/// Rows kept, and misses: bounded, whatever strangers send.
const ROWS_MAX: u64 = 10_000;

/// What was read under a key, and in which generation.
pub struct Found<V> {
    generation: u64,
    row: Option<V>,
}

impl<V> Found<V> {
    pub fn row(&self) -> Option<&V> {
        self.row.as_ref()
    }
}

pub struct Seen<K, V> {
    rows: Cache<K, Arc<Found<V>>>,
    /// Counts what this process changed: what was read before the latest change is not taken.
    generation: AtomicU64,
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Send + Sync + 'static> Default for Seen<K, V> {
    fn default() -> Self {
        let rows = Cache::builder().max_capacity(ROWS_MAX).time_to_live(LASTS).build();
        Self { rows, generation: AtomicU64::new(0) }
    }
}

impl<K: Hash + Eq + Copy + Send + Sync + 'static, V: Send + Sync + 'static> Seen<K, V> {
    /// The row, read at most once in five seconds, and by one of those who ask at once.
    pub async fn find<F>(&self, key: K, load: impl Fn() -> F) -> Result<Arc<Found<V>>, Arc<StepError>>
    where
        F: Future<Output = Result<Option<V>, StepError>>,
    {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let read = async { Ok::<_, StepError>(Arc::new(Found { generation, row: load().await? })) };
            let found = self.rows.try_get_with(key, read).await?;
            // GUARD(read_before): a read that was on its way when the change came in would stay for five
            // seconds, after the changer was told that it holds at once.
            if found.generation >= generation {
                return Ok(found);
            }
            self.rows.invalidate(&key).await;
        }
    }

    /// After a change: this process reads anew, at once.
    pub fn forget(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }
}
