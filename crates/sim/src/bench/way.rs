//! Every way an allocation is asked for, behind one face for the callers.

use super::{
    baseline::{self, Take},
    http::Connection,
    stock::Item,
};
use deadpool_postgres::Pool;
use domain::{
    Engine,
    inventory::{Allocate, AllocateLine, Priority, Promised, Refusal},
};
use engine::{
    Actor, Encode, Head,
    answer::{Fingerprint, Key},
};
use kernel::{
    id::CallId,
    quantity::{Positive, Quantity},
};
use std::{net::SocketAddr, sync::Arc};

/// The encoder of the API's answer.
pub type Encoder = Encode<Promised, Refusal>;

#[derive(Clone)]
pub enum Way {
    Engine { engine: Arc<Engine>, encode: Encoder, fingerprint: Fingerprint },
    Statements { pool: Pool, take: Take },
    OneCall { pool: Pool },
    Http { address: SocketAddr, token: String },
}

/// One caller, which waits for each answer before it asks again.
pub struct Caller {
    way: Way,
    /// A caller over HTTP keeps its connection.
    connection: Option<Connection>,
}

impl Way {
    pub fn engine(engine: Arc<Engine>, encode: Encoder) -> Self {
        let fingerprint = Fingerprint::of("POST", "/v1/stock/allocate", None, b"");
        Self::Engine { engine, encode, fingerprint: fingerprint.expect("no body is no JSON that could be wrong") }
    }

    pub async fn caller(&self) -> Result<Caller, String> {
        let connection = match self {
            Self::Http { address, token } => Some(Connection::open(*address, token).await?),
            _ => None,
        };
        Ok(Caller { way: self.clone(), connection })
    }
}

/// The command: one line, one unit.
pub fn allocate(item: &Item) -> Allocate {
    let line = AllocateLine {
        sku_id: item.sku.into(),
        warehouse_id: item.warehouse.into(),
        quantity: Positive::new(Quantity::ONE).expect("1 is above 0"),
        source: None,
        priority: Priority(0),
        promised_for: None,
    };
    Allocate { lines: vec![line], seen_short: Vec::new() }
}

impl Caller {
    /// Allocates one unit under a fresh key; anything but a success is an error.
    pub async fn allocate(&mut self, item: &Item, key: &str) -> Result<(), String> {
        match &self.way {
            Way::Engine { engine, encode, fingerprint } => {
                let call = CallId::mint();
                let head = Head {
                    call,
                    tenant: item.tenant.into(),
                    key: Key::new(key).ok_or("no key")?,
                    fingerprint: *fingerprint,
                    actor: Actor { id: "bench".into(), name: "bench".into() },
                    correlation: call.uuid().simple().to_string(),
                    remote: Some("127.0.0.1".into()),
                };
                let answered = engine.submit(head, allocate(item), *encode).await.map_err(|fault| fault.to_string())?;
                match answered.answer.status {
                    200 => Ok(()),
                    _ => Err(String::from_utf8_lossy(&answered.answer.body).into_owned()),
                }
            }
            Way::Statements { pool, take } => baseline::by_statements(pool, *take, item, key).await.map(drop),
            Way::OneCall { pool } => baseline::by_one_call(pool, item, key).await.map(drop),
            Way::Http { .. } => self.connection.as_mut().ok_or("no connection")?.allocate(item, key).await,
        }
    }
}
