//! What pages and API show of customers and their groups.

use super::{
    CustomerGroupView, CustomerView,
    model::fold_tax_id,
    sql::{self, read_customer, read_customer_group},
};
use crate::Engine;
use engine::{
    error::StepError,
    sql::{Row, param},
};
use kernel::{
    id::{CustomerGroupId, CustomerId, TenantId},
    page::{Limit, Page},
    text::fold,
};
use uuid::Uuid;

fn customer_view(row: &Row) -> CustomerView {
    read_customer(row).view(row.get::<_, Uuid>("customer_id").into())
}

fn customer_group_view(row: &Row) -> CustomerGroupView {
    read_customer_group(row).view(row.get::<_, Uuid>("customer_group_id").into())
}

pub async fn customer(engine: &Engine, tenant: TenantId, id: CustomerId) -> Result<Option<CustomerView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::CUSTOMER_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(customer_view))
}

/// Customers by id; with `name` or `tax_id`, the one that has it as people compare them.
pub async fn customers(
    engine: &Engine,
    tenant: TenantId,
    name: Option<&str>,
    tax_id: Option<&str>,
    after: Option<CustomerId>,
    limit: Limit,
) -> Result<Page<CustomerView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let params = vec![param(after), param(name.map(fold)), param(tax_id.map(fold_tax_id)), param(limit.probe())];
    let rows = engine.read(tenant, vec![(sql::CUSTOMER_LIST, params)]).await?;
    Ok(Page::of(rows[0].iter().map(customer_view).collect(), limit, |of| of.customer_id.to_string()))
}

pub async fn customer_group(
    engine: &Engine,
    tenant: TenantId,
    id: CustomerGroupId,
) -> Result<Option<CustomerGroupView>, StepError> {
    let rows = engine.read(tenant, vec![(sql::CUSTOMER_GROUP_FIND, vec![param(id.uuid())])]).await?;
    Ok(rows[0].first().map(customer_group_view))
}

/// Groups by id; with `name`, the one that has it as people compare names.
pub async fn customer_groups(
    engine: &Engine,
    tenant: TenantId,
    name: Option<&str>,
    after: Option<CustomerGroupId>,
    limit: Limit,
) -> Result<Page<CustomerGroupView>, StepError> {
    let after = after.map_or(Uuid::nil(), |id| id.uuid());
    let params = vec![param(after), param(name.map(fold)), param(limit.probe())];
    let rows = engine.read(tenant, vec![(sql::CUSTOMER_GROUP_LIST, params)]).await?;
    Ok(Page::of(rows[0].iter().map(customer_group_view).collect(), limit, |of| of.customer_group_id.to_string()))
}
