//! Named points where a test holds, kills or freezes production code. Compiled out of release.
//!
//! A race test holds one transaction at a gate while it runs another past it; a kill test starts
//! the real program with `TALLYHOLD_GATE=name:kill` (or `:stop`, and `:kill:3` for the third
//! arrival) and is killed exactly there. No sleep decides an order.

/// Waits here when a test holds this gate.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub async fn pass(_name: &str) {}

#[cfg(debug_assertions)]
pub use staged::{Held, hold, hold_all, panic_next, pass};

#[cfg(debug_assertions)]
mod staged {
    use std::{
        collections::HashMap,
        sync::{
            LazyLock, Mutex, PoisonError,
            atomic::{AtomicUsize, Ordering},
        },
    };
    use tokio::sync::{mpsc, oneshot};

    enum Plan {
        /// The next arrival waits; later ones pass.
        HoldOne(mpsc::UnboundedSender<oneshot::Sender<()>>),
        /// Every arrival waits.
        HoldAll(mpsc::UnboundedSender<oneshot::Sender<()>>),
        Panic,
    }

    static PLANS: LazyLock<Mutex<HashMap<String, Plan>>> = LazyLock::new(Mutex::default);
    static ARRIVALS: AtomicUsize = AtomicUsize::new(0);
    static SIGNAL: LazyLock<Option<(String, String, usize)>> = LazyLock::new(|| {
        let text = std::env::var("TALLYHOLD_GATE").ok()?;
        let mut parts = text.split(':');
        let (name, what) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let nth = parts.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        Some((name, what, nth))
    });

    fn plans() -> std::sync::MutexGuard<'static, HashMap<String, Plan>> {
        PLANS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A gate that is being held. Dropping it lets everybody pass.
    pub struct Held {
        name: String,
        arrivals: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    }

    impl Held {
        /// Waits until somebody stands at the gate; sending on the answer, or dropping it, lets
        /// that one go on.
        pub async fn reached(&mut self) -> oneshot::Sender<()> {
            self.arrivals.recv().await.expect("the gate keeps its sender while it is held")
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            plans().remove(&self.name);
        }
    }

    fn plan(name: &str, make: impl FnOnce(mpsc::UnboundedSender<oneshot::Sender<()>>) -> Plan) -> Held {
        let (sender, arrivals) = mpsc::unbounded_channel();
        plans().insert(name.to_owned(), make(sender));
        Held { name: name.to_owned(), arrivals }
    }

    /// Holds the next arrival at `name`.
    pub fn hold(name: &str) -> Held {
        plan(name, Plan::HoldOne)
    }

    /// Holds every arrival at `name`, until the answer is dropped.
    pub fn hold_all(name: &str) -> Held {
        plan(name, Plan::HoldAll)
    }

    /// The next arrival at `name` panics.
    pub fn panic_next(name: &str) {
        plans().insert(name.to_owned(), Plan::Panic);
    }

    /// Waits here when a test holds this gate.
    pub async fn pass(name: &str) {
        if let Some((at, what, nth)) = &*SIGNAL
            && at == name
            && ARRIVALS.fetch_add(1, Ordering::SeqCst) + 1 == *nth
        {
            let signal = if what == "stop" { rustix::process::Signal::STOP } else { rustix::process::Signal::KILL };
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
        let waiting = {
            let mut plans = plans();
            match plans.get(name) {
                None => return,
                Some(Plan::Panic) => {
                    plans.remove(name);
                    drop(plans);
                    panic!("gate {name} was told to panic");
                }
                Some(Plan::HoldOne(sender)) => {
                    let (go, waiting) = oneshot::channel();
                    let _ = sender.send(go);
                    plans.remove(name);
                    waiting
                }
                Some(Plan::HoldAll(sender)) => {
                    let (go, waiting) = oneshot::channel();
                    let _ = sender.send(go);
                    waiting
                }
            }
        };
        let _ = waiting.await;
    }
}
