//! Every table a command may name. The order of the fields is the lock order, hottest last.
//!
//! SKU and warehouse rows are only ever read, so they may stand behind the promise that names
//! them; stock positions come last because everybody wants them.

use crate::{catalog::sql as catalog, inventory::sql as inventory, tenancy::sql as tenancy};

engine::table_set! {
    pub struct WorkingSet asked by Wants {
        tables {
            tenant_slug: tenancy::TenantSlugs,
            tenant: tenancy::Tenants,
            api_key: tenancy::ApiKeys,
            sku_code: catalog::SkuCodes,
            warehouse_code: catalog::WarehouseCodes,
            stock_source: inventory::StockSources,
            promise: inventory::Promises,
            sku: catalog::Skus,
            warehouse: catalog::Warehouses,
            position: inventory::Positions,
        }
        logs {
            stock_ledger: inventory::StockLedger,
        }
    }
}
