//! The program in the test's own process, over real HTTP, on a database of the test's own.

use crate::database::Database;
use domain::{
    Engine,
    tenancy::{CreateTenant, model::Slug},
    verify::verify,
};
use engine::{Config, postgres::ConnectConfig};
use kernel::id::TenantId;
use reqwest::Method;
use serde_json::{Value, json};
use server::{
    api::encode,
    cli::{admin::create_key, operator},
    serve::Running,
};
use std::{net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

pub const SECRET: &str = "a test secret of more than 32 characters";

/// What every [`App::person`] logs in with.
pub const PASSWORD: &str = "correct horse battery";

/// One serving replica.
pub struct Replica {
    running: Running,
    http: reqwest::Client,
}

/// A database, one or more replicas over it, and one tenant with a key.
pub struct App {
    pub database: Arc<Database>,
    replica: Replica,
    pub tenant: TenantId,
    pub token: String,
}

/// What came back, read whole.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub bytes: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The body of an answer that must be a success.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        self.json()
    }

    /// Asserts a problem document of this status and code, and gives its body.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status, "{body}");
        body
    }
}

impl Replica {
    pub async fn start(config: Config) -> Self {
        let engine = Engine::start(config).await.expect("the engine starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let running = Running::start(engine, listener).expect("it listens");
        Self { running, http: reqwest::Client::builder().pool_max_idle_per_host(256).build().expect("a client") }
    }

    pub fn engine(&self) -> &Engine {
        &self.running.app.engine
    }

    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    pub async fn stop(self) {
        self.running.stop().await;
    }
}

/// The engine's configuration over a database, with the bounds tests expect.
pub fn config(database: ConnectConfig) -> Config {
    Config::new(database, SECRET.as_bytes().to_vec())
}

impl App {
    /// A program with the tenant `kestrel` and a key that may do everything.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(tune: impl FnOnce(&mut Config)) -> Self {
        let database = Arc::new(Database::new().await);
        let mut config = config(database.server());
        tune(&mut config);
        let replica = Replica::start(config).await;
        let (tenant, token) = make_tenant(replica.engine(), "kestrel").await;
        Self { database, replica, tenant, token }
    }

    /// Another replica over the same database, with the same tenant.
    pub async fn replica(&self) -> Self {
        self.replica_with(|_| {}).await
    }

    pub async fn replica_with(&self, tune: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(self.database.server());
        tune(&mut config);
        let replica = Replica::start(config).await;
        Self { database: self.database.clone(), replica, tenant: self.tenant, token: self.token.clone() }
    }

    /// Another tenant on the same server: its id and its key.
    pub async fn other_tenant(&self, slug: &str) -> (TenantId, String) {
        make_tenant(self.engine(), slug).await
    }

    pub fn engine(&self) -> &Engine {
        self.replica.engine()
    }

    pub fn address(&self) -> SocketAddr {
        self.replica.address()
    }

    /// A key of this tenant with these permissions.
    pub async fn key_with(&self, permissions: &[&str]) -> String {
        let permissions = permissions.iter().map(|&p| p.to_owned()).collect();
        let name = "limited".parse().expect("a name");
        let made = create_key(self.engine(), self.tenant, name, permissions, None).await.expect("a key is made");
        made["secret"].as_str().expect("a secret").to_owned()
    }

    /// A role of this tenant with these permissions; its id.
    pub async fn role(&self, name: &str, permissions: &[&str]) -> String {
        let body = json!({"name": name, "permissions": permissions});
        let made = self.post("/v1/roles", &format!("role|{name}"), &body).await.ok();
        made["role_id"].as_str().expect("a role id").to_owned()
    }

    /// Somebody invited; what the invitation says.
    pub async fn invite(&self, email: &str, role: &str) -> Value {
        let body = json!({"email": email, "name": email, "role_id": role});
        self.post("/v1/users", &format!("user|{email}"), &body).await.ok()
    }

    /// Somebody who has a role of their own with these permissions, and a password; their id.
    pub async fn person(&self, email: &str, permissions: &[&str]) -> String {
        let role = self.role(email.split('@').next().expect("a name"), permissions).await;
        let invited = self.invite(email, &role).await;
        self.set_password(&invited["token"], PASSWORD).await.ok();
        invited["user_id"].as_str().expect("a user id").to_owned()
    }

    pub async fn set_password(&self, token: &Value, password: &str) -> Reply {
        let body = json!({"token": token, "password": password});
        self.send(self.request(Method::POST, "/v1/auth/password").json(&body)).await
    }

    /// A login of somebody in a tenant.
    pub async fn login_in(&self, tenant: &str, email: &str, password: &str) -> Reply {
        let body = json!({"tenant": tenant, "email": email, "password": password, "cookie": true});
        self.send(self.request(Method::POST, "/v1/auth/login").json(&body)).await
    }

    /// A login of one of our [`App::person`]s: the tokens.
    pub async fn login(&self, email: &str) -> Value {
        self.login_in("kestrel", email, PASSWORD).await.ok()
    }

    pub async fn refresh(&self, token: &Value) -> Reply {
        self.send(self.request(Method::POST, "/v1/auth/refresh").json(&json!({"refresh_token": token}))).await
    }

    /// Writes down what was noted of calls, which else happens once a minute.
    pub async fn flush(&self) {
        self.replica.running.app.notes.flush(self.engine()).await;
    }

    /// Changes a part of something.
    pub async fn change(&self, path: &str, key: &str, body: &Value) -> Reply {
        let request = self.request(Method::PATCH, path).bearer_auth(&self.token);
        self.send(request.header("idempotency-key", key).json(body)).await
    }

    /// A request with nothing but what is said here.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.replica.http.request(method, format!("http://{}{path}", self.address()))
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Reply {
        let reply = self.send_any(request).await;
        assert!(reply.status != 500, "a 500 is never an answer to what a caller can send: {}", reply.text());
        reply
    }

    /// As [`App::send`], where the test itself broke the program.
    pub async fn send_any(&self, request: reqwest::RequestBuilder) -> Reply {
        let response = request.send().await.expect("the server answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.expect("the body arrives whole").to_vec();
        Reply { status, headers, bytes }
    }

    /// A write, ready to be sent.
    pub fn write(&self, path: &str, key: &str, body: &Value) -> reqwest::RequestBuilder {
        self.request(Method::POST, path).bearer_auth(&self.token).header("idempotency-key", key).json(body)
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.get_as(&self.token, path).await
    }

    pub async fn get_as(&self, token: &str, path: &str) -> Reply {
        self.send(self.request(Method::GET, path).bearer_auth(token)).await
    }

    pub async fn post(&self, path: &str, key: &str, body: &Value) -> Reply {
        self.post_as(&self.token, path, key, body).await
    }

    pub async fn post_as(&self, token: &str, path: &str, key: &str, body: &Value) -> Reply {
        let request = self.request(Method::POST, path).bearer_auth(token).header("idempotency-key", key);
        self.send(request.json(body)).await
    }

    /// A save over the version that `etag` names.
    pub async fn patch(&self, path: &str, key: &str, etag: &str, body: &Value) -> Reply {
        self.send(self.save(path, key, etag, body)).await
    }

    /// A save, ready to be sent.
    pub fn save(&self, path: &str, key: &str, etag: &str, body: &Value) -> reqwest::RequestBuilder {
        let request = self.request(Method::PATCH, path).bearer_auth(&self.token).header("idempotency-key", key);
        request.header("if-match", etag).json(body)
    }

    /// Bytes as they are, said to be JSON.
    pub async fn post_bytes(&self, path: &str, key: &str, bytes: impl Into<Vec<u8>>) -> Reply {
        let request = self.request(Method::POST, path).bearer_auth(&self.token).header("idempotency-key", key);
        self.send(request.header("content-type", "application/json").body(bytes.into())).await
    }

    /// Until so many calls wait in the lanes.
    pub async fn until_waiting(&self, calls: usize) {
        while self.engine().waiting().iter().sum::<usize>() < calls {
            tokio::task::yield_now().await;
        }
    }

    /// A SKU of whole pieces; its id.
    pub async fn sku(&self, code: &str) -> String {
        self.sku_with(code, 0).await
    }

    pub async fn sku_with(&self, code: &str, decimals: u8) -> String {
        let body = json!({"code": code, "name": code, "unit": "piece", "decimals": decimals});
        let made = self.post("/v1/skus", &format!("sku|{code}"), &body).await.ok();
        made["sku_id"].as_str().expect("a SKU id").to_owned()
    }

    pub async fn warehouse(&self, code: &str) -> String {
        let body = json!({"code": code, "name": code});
        let made = self.post("/v1/warehouses", &format!("warehouse|{code}"), &body).await.ok();
        made["warehouse_id"].as_str().expect("a warehouse id").to_owned()
    }

    /// A customer who pays in euros; its id.
    pub async fn customer(&self, name: &str) -> String {
        let body = json!({"name": name, "currency": "EUR"});
        let made = self.post("/v1/customers", &format!("customer|{name}"), &body).await.ok();
        made["customer_id"].as_str().expect("a customer id").to_owned()
    }

    /// A SKU and a warehouse with `quantity` units in it.
    pub async fn stock(&self, quantity: &str) -> Stock {
        let sku = self.sku("KESTREL-M").await;
        let warehouse = self.warehouse("MAIN").await;
        let stock = Stock { sku, warehouse };
        self.post("/v1/stock/receive", "stock|opening", &stock.lines(&[quantity])).await.ok();
        stock
    }

    pub async fn allocate(&self, key: &str, stock: &Stock, quantity: &str) -> Reply {
        self.post("/v1/stock/allocate", key, &stock.lines(&[quantity])).await
    }

    /// The position of a stock, as the API shows it.
    pub async fn position(&self, stock: &Stock) -> Value {
        let path = format!("/v1/stock-positions?sku_id={}&warehouse_id={}", stock.sku, stock.warehouse);
        self.get(&path).await.ok()["items"][0].clone()
    }

    /// Stops the program and sweeps every invariant; panics with what is off.
    pub async fn finish(self) {
        sweep(self.engine()).await;
        self.replica.stop().await;
    }
}

/// Fails the test when any invariant is off.
pub async fn sweep(engine: &Engine) {
    let report = verify(engine, None).await.expect("the database can be verified");
    assert!(report.findings.is_empty(), "verify found {:#?}", report.findings);
}

/// One SKU in one warehouse.
#[derive(Debug, Clone)]
pub struct Stock {
    pub sku: String,
    pub warehouse: String,
}

impl Stock {
    /// A body with one line for each quantity.
    pub fn lines(&self, quantities: &[&str]) -> Value {
        let line = |quantity: &&str| json!({"sku_id": self.sku, "warehouse_id": self.warehouse, "quantity": quantity});
        json!({"lines": quantities.iter().map(line).collect::<Vec<_>>()})
    }

    /// A body with one line that carries its source.
    pub fn line_from(&self, quantity: &str, source: &str) -> Value {
        let (sku, warehouse) = (&self.sku, &self.warehouse);
        json!({"lines": [{"sku_id": sku, "warehouse_id": warehouse, "quantity": quantity, "source": source}]})
    }
}

async fn make_tenant(engine: &Engine, slug: &str) -> (TenantId, String) {
    let tenant = TenantId::mint();
    let slug: Slug = slug.parse().expect("a slug");
    let name = slug.as_str().parse().expect("a name");
    let intent = json!({"slug": slug});
    let command = CreateTenant { slug, name };
    let made = operator::submit(engine, tenant, "test|tenant", &intent, command, encode::ok).await;
    operator::done(made).expect("the tenant is made");
    let key =
        create_key(engine, tenant, "test".parse().expect("a name"), Vec::new(), None).await.expect("a key is made");
    (tenant, key["secret"].as_str().expect("a secret").to_owned())
}
