//! The life of the serving program: start, listen, stop without losing anything.

use crate::{
    api::{self, App, METRICS},
    notes,
    store::{Place, Store, StoreError},
};
use axum::{Router, extract::ConnectInfo, http::Request};
use domain::Engine;
use engine::postgres::{ConnectError, embedded::EmbeddedError};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{Semaphore, oneshot},
};
use tower::ServiceExt;

/// How long requests that were being answered may go on after the stop was asked.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(20);
/// How long the head of a request may take to arrive, and a connection may wait for its next one.
const HEAD_TIME_MAX: Duration = Duration::from_secs(20);
const CONNECTIONS_MAX: usize = 8_192;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the partitions of the months ahead are looked after.
const PARTITION_CHECK: Duration = Duration::from_secs(3600);
/// How often what was measured is summed up: until then every measurement is kept by itself, and
/// nobody may ever ask for `/metrics`.
const MEASUREMENTS_SUMMED: Duration = Duration::from_secs(5);
/// Ports tried after the one asked for.
const PORTS_TRIED: u16 = 20;

#[derive(Debug, Error)]
pub enum ServeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("the embedded PostgreSQL was given up: {0}")]
    Embedded(EmbeddedError),
    #[error("serving failed: {0}")]
    Serve(std::io::Error),
}

/// The engine over a place, checked and ready.
pub async fn start_engine(store: &Store) -> Result<Engine, ConnectError> {
    let engine = Engine::start(store.config.clone()).await?;
    engine.ready(domain::SCHEMA_VERSION).await?;
    engine.ensure_partitions().await?;
    Ok(engine)
}

/// Installs the recorder of metrics, once a process.
pub fn install_metrics() {
    METRICS.get_or_init(|| {
        let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
        let calls = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
        PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &seconds)
            .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_calls".into()), &calls))
            .and_then(PrometheusBuilder::install_recorder)
            .expect("the buckets are not empty and no other recorder is installed")
    });
}

/// Listens on the address asked for; with `move_on`, on the next free port where it is taken.
pub async fn listen(address: SocketAddr, move_on: bool) -> Result<TcpListener, ServeError> {
    let mut last = None;
    for offset in 0..=if move_on { PORTS_TRIED } else { 0 } {
        let Some(port) = address.port().checked_add(offset) else { break };
        match TcpListener::bind(SocketAddr::new(address.ip(), port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => last = Some(error),
            Err(error) => return Err(ServeError::Listen(address, error)),
        }
    }
    Err(ServeError::Listen(address, last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into())))
}

/// A server that runs until it is told to stop.
pub struct Running {
    pub address: SocketAddr,
    pub app: Arc<App>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
    noting: tokio::task::JoinHandle<()>,
}

/// Serves connections until told to stop, then waits for those that are in a request. Bounded:
/// so many connections, and so long for a request's head to arrive, however slowly it is sent.
async fn accept(listener: TcpListener, router: Router, mut stopped: oneshot::Receiver<()>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (place, (stream, remote)) = tokio::select! {
            _ = &mut stopped => break,
            (place, accepted) = async { (places.clone().acquire_owned().await, listener.accept().await) } => match accepted {
                Ok(accepted) => (place, accepted),
                Err(error) => {
                    // Out of file descriptors, most likely: they come back as connections end.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        // An answer is one small write; waiting to fill a packet only delays it.
        let _ = stream.set_nodelay(true);
        let service = router.clone().map_request(move |mut request: Request<_>| {
            request.extensions_mut().insert(ConnectInfo(remote));
            request
        });
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A caller that breaks off, or is too slow, ends its connection and nothing else.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

impl Running {
    pub fn start(engine: Engine, listener: TcpListener) -> std::io::Result<Self> {
        install_metrics();
        let address = listener.local_addr()?;
        let app = Arc::new(App::new(Arc::new(engine)));
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(accept(listener, api::router(app.clone()), stopped));
        let noting = tokio::spawn(notes::keep(app.clone()));
        Ok(Self { address, app, stop, served, noting })
    }

    /// No new connection; requests that run get their answer; then the engine answers what waits
    /// and ends. Nothing that was acknowledged is lost, and nothing is acknowledged twice.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let mut served = self.served;
        if tokio::time::timeout(DRAIN_TIME_MAX, &mut served).await.is_err() {
            tracing::warn!("connections were still open after {DRAIN_TIME_MAX:?} and are closed");
            served.abort();
        }
        self.app.notes.flush(&self.app.engine).await;
        self.noting.abort();
        self.app.engine.shutdown().await;
    }
}

/// What serving needs to know.
pub struct Serving {
    pub place: Place,
    pub address: SocketAddr,
    /// The address was not asked for by name, so another port will do.
    pub move_on: bool,
}

/// Serves until SIGINT or SIGTERM. `ready` is called once with the address and the store's label.
pub async fn serve(serving: Serving, ready: impl AsyncFnOnce(SocketAddr, &App, &str)) -> Result<(), ServeError> {
    let listener = listen(serving.address, serving.move_on).await?;
    let store = Store::own(&serving.place).await?;
    let result = run(&store, listener, ready).await;
    store.close().await?;
    result
}

async fn run(
    store: &Store,
    listener: TcpListener,
    ready: impl AsyncFnOnce(SocketAddr, &App, &str),
) -> Result<(), ServeError> {
    let engine = start_engine(store).await?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Serve)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Serve)?;
    let address = listener.local_addr().map_err(ServeError::Serve)?;
    let _noted = store.note_address(address)?;
    let running = Running::start(engine, listener).map_err(ServeError::Serve)?;
    ready(running.address, &running.app, &store.label).await;
    let app = running.app.clone();
    let upkeep = tokio::spawn(async move {
        let mut months = tokio::time::interval(PARTITION_CHECK);
        let mut measurements = tokio::time::interval(MEASUREMENTS_SUMMED);
        loop {
            tokio::select! {
                _ = measurements.tick() => METRICS.get().into_iter().for_each(PrometheusHandle::run_upkeep),
                _ = months.tick() => if let Err(error) = app.engine.ensure_partitions().await {
                    tracing::error!(%error, "the partitions of the months ahead could not be made");
                },
            }
        }
    });
    let failed = tokio::select! {
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        error = store.failed() => Some(ServeError::Embedded(error)),
    };
    tracing::info!("stopping: no new requests, answering those that run");
    upkeep.abort();
    running.stop().await;
    failed.map_or(Ok(()), Err)
}
