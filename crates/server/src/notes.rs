//! What is noted of calls beside their effect: what those who are known were refused, and which API
//! keys were used.
//!
//! Noting never waits: it counts in memory, and a task writes it down each minute and at the end. A
//! killed process loses a minute of it.
//! Invariant: bounded, whatever callers send (`REFUSALS_MAX`, a tenant's share of it, `KEYS_MAX`).
//! Never notes a stranger: those are in metrics and logs.

use crate::api::{App, Code, SharedApp};
use axum::{
    extract::{MatchedPath, Request, State},
    http::StatusCode,
    middleware::Next,
    response::Response,
};
use domain::{
    Engine,
    tenancy::read::{RefusalSeen, note},
};
use kernel::id::{ApiKeyId, TenantId};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// How often what was noted is written down.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// How long that may take: the program waits for it when it stops.
const WRITE_TIME_MAX: Duration = Duration::from_secs(5);
/// Kinds of refusals kept at once: by tenant, actor, route and code.
const REFUSALS_MAX: usize = 4_096;
/// Of them, those of one tenant: one that is flooded leaves the others their place.
const REFUSALS_PER_TENANT_MAX: usize = 256;
/// Keys whose use is kept at once.
const KEYS_MAX: usize = 10_000;

#[derive(PartialEq, Eq, Hash)]
struct Kind {
    actor: String,
    method: String,
    route: String,
    code: String,
}

struct Count {
    times: i64,
    first: Instant,
    last: Instant,
}

#[derive(Default)]
struct Noted {
    refused: HashMap<TenantId, HashMap<Kind, Count>>,
    kinds: usize,
    used: HashSet<(TenantId, ApiKeyId)>,
}

#[derive(Default)]
pub struct Notes {
    noted: Mutex<Noted>,
    /// Held while they are written down: the end waits for what is under way.
    writing: tokio::sync::Mutex<()>,
}

/// Who a request turned out to be from, for the layer around its handler.
#[derive(Debug, Clone, Default)]
pub struct Who(Arc<OnceLock<(TenantId, String)>>);

impl Who {
    pub fn is(&self, tenant: TenantId, actor: &str) {
        let _ = self.0.set((tenant, actor.to_owned()));
    }
}

impl Notes {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn used(&self, tenant: TenantId, key: ApiKeyId) {
        let mut noted = self.noted();
        if noted.used.len() < KEYS_MAX {
            noted.used.insert((tenant, key));
        }
    }

    fn refused(&self, tenant: TenantId, kind: Kind, seen: Count) {
        let mut noted = self.noted();
        let Noted { refused, kinds, .. } = &mut *noted;
        let of_tenant = refused.get(&tenant).map_or(0, HashMap::len);
        if let Some(count) = refused.get_mut(&tenant).and_then(|of_tenant| of_tenant.get_mut(&kind)) {
            count.times += seen.times;
            count.first = count.first.min(seen.first);
            count.last = count.last.max(seen.last);
        // Beyond: whoever is refused often enough would fill the memory.
        } else if *kinds < REFUSALS_MAX && of_tenant < REFUSALS_PER_TENANT_MAX {
            refused.entry(tenant).or_default().insert(kind, seen);
            *kinds += 1;
        } else {
            metrics::counter!("tallyhold_refusals_unnoted_total").increment(1);
        }
    }

    /// Writes down what was noted until now. What cannot be written is kept for the next time, within
    /// the same bounds.
    pub async fn flush(&self, engine: &Engine) {
        let deadline = tokio::time::Instant::now() + WRITE_TIME_MAX;
        let _writing = self.writing.lock().await;
        let Noted { refused, used, .. } = std::mem::take(&mut *self.noted());
        let mut keys: HashMap<TenantId, Vec<ApiKeyId>> = HashMap::new();
        for (tenant, key) in used {
            keys.entry(tenant).or_default().push(key);
        }
        let tenants: HashSet<_> = refused.keys().chain(keys.keys()).copied().collect();
        let mut refused = refused;
        for tenant in tenants {
            let kinds = refused.remove(&tenant).unwrap_or_default();
            let mut keys = keys.remove(&tenant).unwrap_or_default();
            keys.sort_unstable();
            let now = Instant::now();
            let rows: Vec<_> = kinds.iter().map(|(kind, count)| seen(kind, count, now)).collect();
            if rows.is_empty() && keys.is_empty() {
                continue;
            }
            let failed = match tokio::time::timeout_at(deadline, note(engine, tenant, &rows, &keys)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer from the database in time".to_owned(),
            };
            tracing::warn!(failed, "what was noted of calls could not be written down");
            for (kind, count) in kinds {
                self.refused(tenant, kind, count);
            }
        }
    }
}

fn seen(kind: &Kind, count: &Count, now: Instant) -> RefusalSeen {
    RefusalSeen {
        actor: kind.actor.clone(),
        method: kind.method.clone(),
        route: kind.route.clone(),
        code: kind.code.clone(),
        count: count.times,
        first_s: (now - count.first).as_secs_f64(),
        last_s: (now - count.last).as_secs_f64(),
    }
}

/// Writes down what was noted, each minute.
pub async fn keep(app: Arc<App>) {
    let mut minutes = tokio::time::interval_at(tokio::time::Instant::now() + WRITTEN_EVERY, WRITTEN_EVERY);
    loop {
        minutes.tick().await;
        app.notes.flush(&app.engine).await;
    }
}

/// Counts what is refused: of who is known by actor, route and code, of strangers by status alone.
pub async fn audit(State(app): State<SharedApp>, path: MatchedPath, mut request: Request, next: Next) -> Response {
    let (who, method) = (Who::default(), request.method().clone());
    request.extensions_mut().insert(who.clone());
    let response = next.run(request).await;
    let status = response.status();
    let refusals =
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS];
    if refusals.contains(&status) {
        let known = who.0.get();
        let labels = [("status", status.as_str().to_owned()), ("known", known.is_some().to_string())];
        metrics::counter!("tallyhold_refusals_total", &labels).increment(1);
        if let Some((tenant, actor)) = known {
            let code = response.extensions().get::<Code>().map_or_else(String::new, |code| code.0.clone().into_owned());
            let (method, route) = (method.to_string(), path.as_str().to_owned());
            let kind = Kind { actor: actor.clone(), method, route, code };
            let now = Instant::now();
            app.notes.refused(*tenant, kind, Count { times: 1, first: now, last: now });
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_bounded() {
        let (notes, flooded) = (Notes::default(), TenantId::mint());
        let refuse = |tenant: TenantId, n: usize| {
            let kind = Kind { actor: n.to_string(), method: "GET".into(), route: "/".into(), code: "not_found".into() };
            let now = Instant::now();
            notes.refused(tenant, kind, Count { times: 1, first: now, last: now });
        };
        for n in 0..100_000 {
            refuse(flooded, n % 1_000);
            notes.used(flooded, ApiKeyId::mint());
        }
        let other = TenantId::mint();
        refuse(other, 0);
        refuse(other, 0);
        {
            let noted = notes.noted();
            assert_eq!(noted.refused[&flooded].len(), REFUSALS_PER_TENANT_MAX);
            assert_eq!(noted.refused[&flooded].values().map(|count| count.times).sum::<i64>(), 25_600);
            assert_eq!(noted.refused[&other].values().map(|count| count.times).collect::<Vec<_>>(), [2]);
            assert_eq!(noted.used.len(), KEYS_MAX);
        }
        for n in 0..10_000 {
            refuse(TenantId::mint(), n);
        }
        assert_eq!(notes.noted().refused.values().map(HashMap::len).sum::<usize>(), REFUSALS_MAX);
    }
}
