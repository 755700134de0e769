//! `tallyhold migrate`, `seed`, `tenant` and `key`.

use super::{
    fail,
    operator::{done, submit},
    with_engine,
};
use crate::{
    api::encode,
    auth,
    store::{self, Place, Store},
};
use clap::{Args, Subcommand};
use domain::{
    Engine,
    catalog::{CreateSku, CreateWarehouse},
    inventory::{Receive, ReceiveLine},
    registry::PERMISSIONS,
    tenancy::{self, CreateApiKey, CreateTenant, RevokeApiKey, model::Slug},
};
use jiff::Timestamp;
use kernel::{
    id::{ApiKeyId, TenantId},
    page::Limit,
    quantity::{Positive, Quantity},
    text::Name,
};
use serde_json::{Value, json};
use std::{net::SocketAddr, process::ExitCode};

pub async fn migrate(place: Place) -> ExitCode {
    match store::migrate(&place).await {
        Ok(applied) if applied.is_empty() => println!("The schema is up to date."),
        Ok(applied) => applied.iter().for_each(|name| println!("applied {name}")),
        Err(error) => return fail(&error),
    }
    ExitCode::SUCCESS
}

/// Makes and lists tenants.
#[derive(Debug, Args)]
pub struct TenantCommand {
    #[command(subcommand)]
    verb: TenantVerb,
}

#[derive(Debug, Subcommand)]
enum TenantVerb {
    /// Make a tenant. Its slug names it in addresses and at the login.
    Create {
        slug: Slug,
        /// Its name for people; the slug when not said.
        #[arg(long)]
        name: Option<Name>,
    },
    /// List all tenants.
    List {
        /// One JSON array instead of text.
        #[arg(long)]
        json: bool,
    },
}

impl TenantCommand {
    pub async fn run(self, place: Place) -> ExitCode {
        with_engine(Store::existing(&place).await, async |engine| {
            match self.verb {
                TenantVerb::Create { slug, name } => {
                    let name = name.unwrap_or_else(|| slug.as_str().parse().expect("a slug is a name"));
                    let made = create_tenant(engine, &slug, name).await?;
                    println!("{made}");
                }
                TenantVerb::List { json } => {
                    let tenants = tenancy::read::tenants(engine).await.map_err(|error| error.to_string())?;
                    if json {
                        let rows: Vec<_> =
                            tenants.iter().map(|(slug, id)| json!({"tenant_id": id, "slug": slug})).collect();
                        println!("{}", Value::from(rows));
                    } else {
                        for (slug, id) in tenants {
                            println!("{id}  {slug}");
                        }
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}

pub(super) async fn create_tenant(engine: &Engine, slug: &Slug, name: Name) -> Result<TenantId, String> {
    let tenant = TenantId::mint();
    let (key, intent) = (format!("operator|tenant|{slug}"), json!({"slug": slug, "name": name}));
    let command = CreateTenant { slug: slug.clone(), name };
    done(submit(engine, tenant, &key, &intent, command, encode::ok).await)?;
    Ok(tenant)
}

/// Makes, lists and revokes API keys.
#[derive(Debug, Args)]
pub struct KeyCommand {
    #[command(subcommand)]
    verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
enum KeyVerb {
    /// Make an API key. Its secret is printed once and kept nowhere.
    Create {
        /// The tenant's slug.
        tenant: String,
        /// What the key is for.
        name: Name,
        /// What it may do; all permissions when not said.
        #[arg(long = "permission", value_name = "PERMISSION")]
        permissions: Vec<String>,
        /// From when on it opens nothing, as 2027-01-31T00:00:00Z.
        #[arg(long, value_name = "INSTANT")]
        expires_at: Option<Timestamp>,
        /// One JSON object instead of the bare key.
        #[arg(long)]
        json: bool,
    },
    /// List a tenant's API keys.
    List {
        /// The tenant's slug.
        tenant: String,
    },
    /// End an API key.
    Revoke {
        /// The tenant's slug.
        tenant: String,
        api_key_id: ApiKeyId,
    },
}

pub(super) async fn tenant_of(engine: &Engine, slug: &str) -> Result<TenantId, String> {
    let found = tenancy::read::tenant_by_slug(engine, slug).await.map_err(|error| error.to_string())?;
    found.ok_or_else(|| format!("there is no tenant {slug:?}; `tallyhold tenant list` shows them"))
}

impl KeyCommand {
    pub async fn run(self, place: Place) -> ExitCode {
        with_engine(Store::existing(&place).await, async |engine| {
            match self.verb {
                KeyVerb::Create { tenant, name, permissions, expires_at, json } => {
                    let tenant = tenant_of(engine, &tenant).await?;
                    let made = create_key(engine, tenant, name, permissions, expires_at).await?;
                    if json {
                        println!("{made}");
                    } else {
                        println!("{}", made["secret"].as_str().unwrap_or_default());
                    }
                }
                KeyVerb::List { tenant } => {
                    let tenant = tenant_of(engine, &tenant).await?;
                    let mut after = None;
                    loop {
                        let page = tenancy::read::api_keys(engine, tenant, after, Limit::default()).await;
                        let page = page.map_err(|error| error.to_string())?;
                        for key in &page.items {
                            let state = key.revoked_at.map_or_else(|| "active".into(), |at| format!("revoked {at}"));
                            println!("{}  {state}  {}  {}", key.api_key_id, key.name, key.permissions.join(","));
                        }
                        match page.next {
                            Some(next) => after = next.parse().ok(),
                            None => break,
                        }
                    }
                }
                KeyVerb::Revoke { tenant, api_key_id } => {
                    let tenant = tenant_of(engine, &tenant).await?;
                    let (key, intent) = (format!("operator|key-revoke|{api_key_id}"), json!({"id": api_key_id}));
                    let command = RevokeApiKey { api_key: api_key_id };
                    let ended = done(submit(engine, tenant, &key, &intent, command, encode::ok).await)?;
                    println!("revoked at {}", ended["revoked_at"].as_str().unwrap_or_default());
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}

/// Every call makes another key: the intention is one run of the command.
pub async fn create_key(
    engine: &Engine,
    tenant: TenantId,
    name: Name,
    permissions: Vec<String>,
    expires_at: Option<Timestamp>,
) -> Result<Value, String> {
    let (credential, secret_hash) = auth::mint(tenant, ApiKeyId::mint());
    let permissions = match permissions.is_empty() {
        true => PERMISSIONS.iter().map(|permission| permission.0.to_owned()).collect(),
        false => permissions,
    };
    let key = format!("operator|key|{}", credential.of);
    let intent = json!({"name": name, "permissions": permissions, "expires_at": expires_at});
    let command = CreateApiKey { name, permissions, expires_at, within: None, credential, secret_hash };
    done(submit(engine, tenant, &key, &intent, command, encode::ok).await)
}

/// Makes the tenant `demo` with a warehouse, a few SKUs and stock, once; later runs change
/// nothing but print a new API key.
#[derive(Debug, Args)]
pub struct Seed {
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Seed {
    pub async fn run(self, place: Place) -> ExitCode {
        let store = Store::shared(&place).await;
        let served_at = store.as_ref().ok().and_then(|store| store.served_at);
        with_engine(store, async |engine| {
            let seeded = seed(engine).await?;
            if self.json {
                println!(
                    "{}",
                    json!({
                        "tenant_id": seeded.tenant, "api_key": seeded.api_key,
                        "sku_id": seeded.sku, "warehouse_id": seeded.warehouse,
                    })
                );
            } else {
                print!("{}", seeded.first_steps(served_at));
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}

/// What the seed made, as far as a first call needs it.
pub struct Seeded {
    tenant: TenantId,
    api_key: String,
    sku: String,
    warehouse: String,
}

impl Seeded {
    /// A call that works when pasted, where it is known who serves.
    pub fn first_steps(&self, served_at: Option<SocketAddr>) -> String {
        let Self { api_key, sku, warehouse, .. } = self;
        let (address, hint) = match served_at {
            Some(address) => (format!("http://{address}"), ""),
            None => ("ADDRESS".to_owned(), "For ADDRESS put the one that `tallyhold serve` prints.\n"),
        };
        format!(
            "The demonstration tenant `demo` has 24 Kestrel Overshirts. Promise six of them to a shop:\n\n\
             curl -s {address}/v1/stock/allocate \\\n\
             \x20 -H 'Authorization: Bearer {api_key}' \\\n\
             \x20 -H 'Content-Type: application/json' \\\n\
             \x20 -H 'Idempotency-Key: shop|order-1001' \\\n\
             \x20 -d '{{\"lines\":[{{\"sku_id\":\"{sku}\",\"warehouse_id\":\"{warehouse}\",\"quantity\":\"6\"}}]}}'\n\n\
             {hint}Send it twice: the second answer is the first one, and six are promised, not twelve.\n"
        )
    }
}

const SEED_SKUS: [(&str, &str, u32); 4] = [
    ("KESTREL-OS-IND-S", "Kestrel Overshirt, Washed Indigo, S", 12),
    ("KESTREL-OS-IND-M", "Kestrel Overshirt, Washed Indigo, M", 24),
    ("KESTREL-OS-IND-L", "Kestrel Overshirt, Washed Indigo, L", 18),
    ("HERON-TEE-WHT-M", "Heron Tee, White, M", 240),
];
/// The one the first call is about.
const SEED_HERO: usize = 1;

/// Every step carries the key of its own business event, so a seed that was killed goes on where
/// it stopped.
pub async fn seed(engine: &Engine) -> Result<Seeded, String> {
    let slug: Slug = "demo".parse()?;
    let existing = tenancy::read::tenant_by_slug(engine, slug.as_str()).await.map_err(|error| error.to_string())?;
    let tenant = match existing {
        Some(tenant) => tenant,
        None => create_tenant(engine, &slug, "Kestrel Goods (demonstration)".parse().expect("a name")).await?,
    };
    let text = |value: &Value, member: &str| value[member].as_str().unwrap_or_default().to_owned();

    let warehouse = json!({"code": "MAIN", "name": "Main warehouse"});
    let command: CreateWarehouse = serde_json::from_value(warehouse.clone()).map_err(|error| error.to_string())?;
    let made = done(submit(engine, tenant, "seed|warehouse|MAIN", &warehouse, command, encode::ok).await);
    let warehouse = match made {
        Ok(made) => text(&made, "warehouse_id"),
        Err(refused) => {
            let found = domain::catalog::read::warehouses(engine, tenant, Some("MAIN"), None, Limit::default()).await;
            let found = found.map_err(|error| error.to_string())?.items.pop();
            found.ok_or(refused)?.warehouse_id.to_string()
        }
    };

    let mut hero = String::new();
    for (index, (code, name, units)) in SEED_SKUS.into_iter().enumerate() {
        let sku = json!({"code": code, "name": name, "unit": "piece", "decimals": 0});
        let command: CreateSku = serde_json::from_value(sku.clone()).map_err(|error| error.to_string())?;
        let made = done(submit(engine, tenant, &format!("seed|sku|{code}"), &sku, command, encode::ok).await);
        let sku_id = match made {
            Ok(made) => text(&made, "sku_id"),
            Err(refused) => {
                let found = domain::catalog::read::skus(engine, tenant, Some(code), None, Limit::default()).await;
                let found = found.map_err(|error| error.to_string())?.items.pop();
                found.ok_or(refused)?.sku_id.to_string()
            }
        };
        let source = format!("seed|stock|{code}");
        let booked = domain::inventory::read::booked(engine, tenant, vec![source.clone()]).await;
        if booked.map_err(|error| error.to_string())?.is_empty() {
            let line = ReceiveLine {
                sku_id: sku_id.parse().map_err(|_| "no SKU id came back".to_owned())?,
                warehouse_id: warehouse.parse().map_err(|_| "no warehouse id came back".to_owned())?,
                quantity: Positive::new(Quantity::from(units)).map_err(|error| error.to_string())?,
                source: Some(source.parse().map_err(|error| format!("{error}"))?),
            };
            let intent = json!({"source": source, "units": units});
            let command = Receive { lines: vec![line] };
            done(submit(engine, tenant, &source, &intent, command, encode::ok).await)?;
        }
        if index == SEED_HERO {
            hero = sku_id;
        }
    }
    let key = create_key(engine, tenant, "demonstration".parse().expect("a name"), Vec::new(), None).await?;
    Ok(Seeded { tenant, api_key: text(&key, "secret"), sku: hero, warehouse })
}
