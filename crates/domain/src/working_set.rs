//! Every table a command may name. The order of the fields is the lock order, hottest last.
//!
//! Stock positions come last because everybody wants them.

use crate::{catalog::sql as catalog, inventory::sql as inventory, parties::sql as parties, tenancy::sql as tenancy};

engine::table_set! {
    pub struct WorkingSet asked by Wants {
        tables {
            tenant_slug: tenancy::TenantSlugs,
            tenant: tenancy::Tenants,
            role_name: tenancy::RoleNames,
            user_email: tenancy::UserEmails,
            tenant_user: tenancy::Users,
            role: tenancy::Roles,
            headcount: tenancy::Headcounts,
            session: tenancy::Sessions,
            api_key: tenancy::ApiKeys,
            sku_code: catalog::SkuCodes,
            warehouse_code: catalog::WarehouseCodes,
            edit_lock: engine::edit_lock::EditLocks,
            customer_group_name: parties::CustomerGroupNames,
            customer_name: parties::CustomerNames,
            customer_tax_id: parties::CustomerTaxIds,
            customer_group: parties::CustomerGroups,
            customer: parties::Customers,
            document_version: engine::history::Versions,
            sku: catalog::Skus,
            warehouse: catalog::Warehouses,
            stock_source: inventory::StockSources,
            promise: inventory::Promises,
            position: inventory::Positions,
        }
        logs {
            edit_lock_broken: engine::edit_lock::BrokenLocks,
            stock_ledger: inventory::StockLedger,
        }
    }
}
