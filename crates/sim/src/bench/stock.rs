//! What is allocated from: tenants, SKUs and positions with stock, loaded in bulk, and the check
//! that a round left them as it says.

use super::place::said;
use tokio_postgres::Client;
use uuid::Uuid;

/// Units received into each position: more than any round takes.
const UNITS: i64 = 100_000_000;

/// One position, with what names it.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    pub tenant: Uuid,
    pub sku: Uuid,
    pub warehouse: Uuid,
    pub position: Uuid,
}

/// How much stock, and which of it callers want.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    pub tenants: usize,
    pub skus_each: usize,
    /// The exponent of a Zipf distribution; 0 is uniform.
    pub skew: f64,
}

/// The API key of the first tenant: a throw-away server's secret is no secret.
const API_KEY_SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub struct Stock {
    items: Vec<Item>,
    /// Of a Zipf distribution: the share of the items up to each one.
    up_to: Vec<f64>,
    pub token: String,
}

const TENANTS: &str = "
    WITH slugs AS (
        INSERT INTO tenant_slug (slug, tenant_id)
        SELECT 'b' || replace(id::text, '-', ''), id FROM unnest($1::uuid[]) AS t (id))
    INSERT INTO tenant (tenant_id, name, created_at)
    SELECT id, 'Bench', now() FROM unnest($1::uuid[]) AS t (id)";
const API_KEY: &str = "
    INSERT INTO api_key (tenant_id, api_key_id, name, secret_hash, permissions, created_at)
    VALUES ($1, $2, 'bench', sha256(convert_to($3, 'UTF8')), ARRAY['inventory.write'], now())";
const WAREHOUSES: &str = "
    INSERT INTO warehouse (tenant_id, warehouse_id, code, code_folded, name, created_at)
    SELECT t.tenant, t.id, 'MAIN', 'main', 'Main', now() FROM unnest($1::uuid[], $2::uuid[]) AS t (tenant, id)";
const SKUS: &str = "
    INSERT INTO sku (tenant_id, sku_id, code, code_folded, name, unit, decimals, created_at)
    SELECT t.tenant, t.id, 'SKU-' || t.n, 'sku-' || t.n, 'SKU ' || t.n, 'piece', 0, now()
    FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS t (tenant, id, n)";

const EMPTY: &str = "TRUNCATE stock_position, promise, stock_ledger, stock_source, event, audit, answer";
const POSITIONS: &str = "
    INSERT INTO stock_position (tenant_id, sku_id, warehouse_id, position_id, decimals, on_hand, sequence)
    SELECT t.tenant, t.sku, t.warehouse, t.position, 0, $5::int8, 1
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[]) AS t (tenant, sku, warehouse, position)";
const LEDGER: &str = "
    INSERT INTO stock_ledger (tenant_id, position_id, sequence, kind, on_hand, on_order, allocated, reserved, at)
    SELECT t.tenant, t.position, 1, 'receive', $3::int8, 0, 0, 0, now()
    FROM unnest($1::uuid[], $2::uuid[]) AS t (tenant, position)";
const EVENTS: &str = "
    INSERT INTO event (tenant_id, event_id, kind, aggregate, aggregate_id, sequence, schema_version, data, correlation_id, at)
    SELECT t.tenant, gen_random_uuid(), 'inventory.stock_received', 'stock_position', t.position, 1, 1, '{}', 'bench', now()
    FROM unnest($1::uuid[], $2::uuid[]) AS t (tenant, position)";
const SETTLE: [&str; 2] = ["VACUUM (ANALYZE) stock_position, sku, warehouse", "CHECKPOINT"];

/// Each of these must be the number of allocations that succeeded.
const SUMS: &str = "
    SELECT unnest(ARRAY['positions'' allocated', 'positions'' sequences', 'ledger lines', 'ledger''s allocated',
            'promises', 'promised', 'events', 'audit lines', 'answers']),
        unnest(ARRAY[p.allocated, p.sequence, l.lines, l.allocated, r.promises, r.promised, e.events, a.audits,
            w.answers])
    FROM (SELECT sum(allocated)::int8 AS allocated, sum(sequence - 1)::int8 AS sequence FROM stock_position) AS p,
        (SELECT count(*) FILTER (WHERE kind = 'allocate') AS lines, sum(allocated)::int8 AS allocated
            FROM stock_ledger) AS l,
        (SELECT count(*) AS promises, coalesce(sum(quantity), 0)::int8 AS promised FROM promise) AS r,
        (SELECT count(*) FILTER (WHERE kind = 'inventory.stock_allocated') AS events FROM event) AS e,
        (SELECT count(*) AS audits FROM audit WHERE command = 'inventory.allocate' AND outcome = 'done') AS a,
        (SELECT count(*) AS answers FROM answer WHERE status = 200) AS w";

impl Stock {
    /// Makes tenants and SKUs; their positions come with [`Stock::fill`].
    pub async fn make(admin: &Client, shape: Shape) -> Result<Self, String> {
        let ids = |many: usize| (0..many).map(|_| Uuid::now_v7()).collect::<Vec<_>>();
        let (tenants, warehouses) = (ids(shape.tenants), ids(shape.tenants));
        let mut items = Vec::with_capacity(shape.tenants * shape.skus_each);
        for (tenant, warehouse) in tenants.iter().zip(&warehouses) {
            for _ in 0..shape.skus_each {
                let (sku, position) = (Uuid::now_v7(), Uuid::now_v7());
                items.push(Item { tenant: *tenant, sku, warehouse: *warehouse, position });
            }
        }
        let api_key = Uuid::now_v7();
        let token = format!("thk_{}_{}_{API_KEY_SECRET}", tenants[0].simple(), api_key.simple());
        let mut up_to = Vec::new();
        if shape.skew > 0.0 {
            let mut sum = 0.0;
            for rank in 1..=items.len() {
                sum += (rank as f64).powf(-shape.skew);
                up_to.push(sum);
            }
            for share in &mut up_to {
                *share /= sum;
            }
            // Or the most wanted would lie side by side on the same pages.
            fastrand::Rng::with_seed(1).shuffle(&mut items);
        }
        let stock = Self { items, up_to, token };
        let run = async {
            admin.execute(TENANTS, &[&tenants]).await?;
            admin.execute(API_KEY, &[&tenants[0], &api_key, &API_KEY_SECRET]).await?;
            admin.execute(WAREHOUSES, &[&tenants, &warehouses]).await?;
            admin.execute(SKUS, &[&stock.each(|i| i.tenant), &stock.each(|i| i.sku)]).await
        };
        run.await.map_err(|error| said(&error))?;
        Ok(stock)
    }

    fn each(&self, f: fn(&Item) -> Uuid) -> Vec<Uuid> {
        self.items.iter().map(f).collect()
    }

    /// Empties what the round before wrote and receives stock anew, as the product would have
    /// booked it; then no round inherits another's dead rows or unwritten pages.
    pub async fn fill(&self, admin: &Client) -> Result<(), String> {
        let (tenants, positions) = (self.each(|i| i.tenant), self.each(|i| i.position));
        let (skus, warehouses) = (self.each(|i| i.sku), self.each(|i| i.warehouse));
        let run = async {
            admin.execute(EMPTY, &[]).await?;
            admin.execute(POSITIONS, &[&tenants, &skus, &warehouses, &positions, &UNITS]).await?;
            admin.execute(LEDGER, &[&tenants, &positions, &UNITS]).await?;
            admin.execute(EVENTS, &[&tenants, &positions]).await?;
            for statement in SETTLE {
                admin.execute(statement, &[]).await?;
            }
            Ok(())
        };
        run.await.map_err(|error: tokio_postgres::Error| said(&error))
    }

    /// That every sum over the tables is the number of allocations answered with success.
    pub async fn check(&self, admin: &Client, succeeded: u64) -> Result<(), String> {
        let rows = admin.query(SUMS, &[]).await.map_err(|error| said(&error))?;
        for row in rows {
            let (what, found): (&str, i64) = (row.get(0), row.get(1));
            if found.cast_unsigned() != succeeded {
                return Err(format!("{succeeded} allocations succeeded, but {what}: {found}"));
            }
        }
        Ok(())
    }

    pub fn pick(&self, random: &mut fastrand::Rng) -> &Item {
        if self.up_to.is_empty() {
            return &self.items[random.usize(..self.items.len())];
        }
        let at = random.f64();
        let index = self.up_to.partition_point(|share| *share < at);
        &self.items[index.min(self.items.len() - 1)]
    }
}
