//! The people of the story, each at a desk of their own: plain HTTP, as any stranger would.

use super::Trouble;
use bytes::Bytes;
use reqwest::{Client, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    fmt::{self, Write as _},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Above the program's own bound, so that its answer comes first.
const REPLY_LIMIT: Duration = Duration::from_secs(35);
/// Attempts while the program says 503: a busy machine is no flaw.
const BUSY_TRIES: u32 = 10;

/// Somebody with a connection and a credential of their own.
#[derive(Clone)]
pub struct Caller {
    pub who: &'static str,
    http: Client,
    bearer: Arc<str>,
}

/// A write somebody may send more than once: the same path, key and body every time.
#[derive(Clone)]
pub struct Click {
    pub caller: Caller,
    pub path: &'static str,
    pub key: String,
    pub body: Value,
}

/// What came back, with its times.
pub struct Reply {
    pub sent: Instant,
    pub got: Instant,
    pub status: u16,
    pub replayed: bool,
    pub retry_after_s: Option<u64>,
    pub bytes: Bytes,
    pub body: Value,
}

/// No reply came, for whatever reason: did it happen or not?
#[derive(Debug)]
pub struct Lost(String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<reqwest::Error> for Lost {
    fn from(error: reqwest::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        Self(text)
    }
}

impl From<Lost> for Trouble {
    fn from(lost: Lost) -> Self {
        Self::Stuck(format!("a request got no reply: {lost}"))
    }
}

impl Caller {
    pub fn new(who: &'static str, bearer: &Arc<str>) -> Result<Self, Trouble> {
        // A proxy of the environment knows nothing of this machine's loopback.
        let http = Client::builder().no_proxy().timeout(REPLY_LIMIT).build();
        let http = http.map_err(|error| Trouble::Stuck(error.to_string()))?;
        Ok(Self { who, http, bearer: bearer.clone() })
    }

    pub async fn get<T: DeserializeOwned>(&self, address: SocketAddr, path: &str) -> Result<T, Trouble> {
        let send = || self.http.get(format!("http://{address}{path}")).bearer_auth(&self.bearer);
        let reply = patiently(send).await?;
        if reply.status != 200 {
            return Err(Trouble::Off(format!("GET {path} got {}", reply.plain())));
        }
        serde_json::from_value(reply.body).map_err(|error| Trouble::Off(format!("GET {path}: {error}")))
    }
}

impl Click {
    pub async fn send(&self, address: SocketAddr) -> Result<Reply, Lost> {
        patiently(|| {
            let request = self.caller.http.post(format!("http://{address}{}", self.path));
            request.bearer_auth(&self.caller.bearer).header("Idempotency-Key", &self.key).json(&self.body)
        })
        .await
    }

    /// The same request as it goes over the wire.
    pub fn wire(&self, address: SocketAddr) -> Vec<u8> {
        let body = self.body.to_string();
        format!(
            "POST {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.path,
            self.caller.bearer,
            self.key,
            body.len()
        )
        .into_bytes()
    }
}

/// Sends, and again with the same key where the program asks to come back.
async fn patiently(request: impl Fn() -> reqwest::RequestBuilder) -> Result<Reply, Lost> {
    let mut tries = 1;
    loop {
        let sent = Instant::now();
        let reply = read(sent, request().send().await?).await?;
        if reply.status != 503 || tries == BUSY_TRIES {
            return Ok(reply);
        }
        tries += 1;
        tokio::time::sleep(Duration::from_secs(reply.retry_after_s.unwrap_or(1))).await;
    }
}

async fn read(sent: Instant, response: Response) -> Result<Reply, Lost> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (replayed, retry_after) = (header("idempotent-replayed"), header("retry-after"));
    let status = response.status().as_u16();
    let bytes = response.bytes().await?;
    Ok(Reply {
        sent,
        got: Instant::now(),
        status,
        replayed: replayed.as_deref() == Some("true"),
        retry_after_s: retry_after.and_then(|text| text.parse().ok()),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        bytes,
    })
}

impl Reply {
    /// A text member of the body, wherever it stands; empty where there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The essential part in plain words.
    pub fn plain(&self) -> String {
        let quantity = self.text("/lines/0/quantity");
        let left = self.text("/lines/0/ats_after");
        let mut text = match (self.status, self.text("/code")) {
            (200, _) if !self.text("/lines/0/promise_id").is_empty() => {
                format!("{quantity} promised as {}, ats_after {left}", short(self.text("/lines/0/promise_id")))
            }
            (200, _) if !quantity.is_empty() => format!("{quantity} booked, ats_after {left}"),
            (201, _) => "made".to_owned(),
            (_, "insufficient_ats") => format!(
                "insufficient_ats: {} wanted, {} available",
                self.text("/shorts/0/wanted"),
                self.text("/shorts/0/available")
            ),
            (_, "") => String::from_utf8_lossy(&self.bytes).into_owned(),
            (_, code) => format!("{code}: {}", self.text("/detail")),
        };
        if let Some(seconds) = self.retry_after_s {
            let _ = write!(text, "; Retry-After: {seconds}");
        }
        if self.replayed {
            text.push_str("; Idempotent-Replayed: true");
        }
        format!("{}  {text}", self.status)
    }
}

/// An id as people compare it: its kind and its last, random digits.
fn short(id: &str) -> String {
    let (kind, digits) = id.split_once('_').unwrap_or(("", id));
    let tail = digits.get(digits.len().saturating_sub(8)..).unwrap_or(digits);
    format!("{kind}_…{tail}")
}
