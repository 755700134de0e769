//! Over HTTP: a client that costs little beside the server it measures, and the servers that the
//! product's is compared with.

use super::{
    baseline::{self, Take},
    stock::Item,
};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use deadpool_postgres::Pool;
use domain::inventory::Allocate;
use std::{fmt::Write as _, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use uuid::Uuid;

const PATH: &str = "/v1/stock/allocate";
const JSON: &str = "application/json";

/// A connection that sends one request after the other.
pub struct Connection {
    stream: TcpStream,
    host: String,
    token: String,
    sent: String,
    got: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr, token: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (host, token) = (address.to_string(), token.to_owned());
        Ok(Self { stream, host, token, sent: String::new(), got: Vec::with_capacity(2048) })
    }

    pub async fn allocate(&mut self, item: &Item, key: &str) -> Result<(), String> {
        let Item { sku, warehouse, .. } = item;
        let body = format!(
            "{{\"lines\":[{{\"sku_id\":\"sku_{}\",\"warehouse_id\":\"whs_{}\",\"quantity\":\"1\"}}]}}",
            sku.simple(),
            warehouse.simple()
        );
        self.sent.clear();
        let written = write!(
            self.sent,
            "POST {PATH} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {JSON}\r\n\
             Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            self.token,
            body.len()
        );
        written.expect("a String takes all");
        self.stream.write_all(self.sent.as_bytes()).await.map_err(|error| error.to_string())?;
        self.got.clear();
        loop {
            let read = self.stream.read_buf(&mut self.got).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            if whole(&self.got) {
                break;
            }
        }
        if self.got.starts_with(b"HTTP/1.1 200 ") {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&self.got).into_owned())
    }
}

/// Whether the head and as many bytes as it announces are there.
fn whole(got: &[u8]) -> bool {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let find = |what: &[u8], within: &[u8]| within.windows(what.len()).position(|window| window == what);
    let Some(head) = find(b"\r\n\r\n", got) else { return false };
    let length = find(LENGTH, &got[..head]).map_or(0, |at| {
        let digits = got[at + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
    });
    got.len() >= head + 4 + length
}

/// A server in this process, ended when asked.
pub struct Served {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Served {
    pub async fn start(router: Router) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let (stop, stopped) = oneshot::channel::<()>();
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let done = tokio::spawn(async move {
            let serving = axum::serve(listener, service).with_graceful_shutdown(async {
                let _ = stopped.await;
            });
            if let Err(error) = serving.await {
                eprintln!("serving failed: {error}");
            }
        });
        Ok(Self { address, stop, done })
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.done.await;
    }
}

/// B1 behind the same request and answer.
pub fn lock_write(pool: Pool) -> Router {
    async fn allocate(State(pool): State<Pool>, headers: HeaderMap, body: Bytes) -> Response {
        let answer = async {
            let command: Allocate = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let line = command.lines.first().ok_or("no line")?;
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let key = header("idempotency-key").ok_or("no key")?;
            let tenant = header("authorization").and_then(|text| text.split('_').nth(1)).ok_or("no credential")?;
            let tenant = Uuid::try_parse(tenant).map_err(|error| error.to_string())?;
            let (sku, warehouse) = (line.sku_id.uuid(), line.warehouse_id.uuid());
            // The position's id is read with its lock.
            let item = Item { tenant, sku, warehouse, position: Uuid::nil() };
            baseline::by_statements(&pool, Take::LockWrite, &item, key).await
        };
        match answer.await {
            Ok(body) => ([(header::CONTENT_TYPE, JSON)], body).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
        }
    }
    Router::new().route(PATH, post(allocate)).with_state(pool)
}

/// What HTTP and JSON alone cost: reads the same command and answers at once.
pub fn trivial() -> Router {
    async fn allocate(body: Bytes) -> Response {
        match serde_json::from_slice::<Allocate>(&body) {
            Ok(command) => {
                ([(header::CONTENT_TYPE, JSON)], format!("{{\"lines\":{}}}", command.lines.len())).into_response()
            }
            Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        }
    }
    Router::new().route(PATH, post(allocate))
}
