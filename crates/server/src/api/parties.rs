//! Customers and their groups: documents, saved over the version they were read at.

use super::{
    Problem, SharedApp,
    document::{Edit, IfMatch, Versioned, changed, created_document, found_document},
    found,
    problem::{EditProblems, ReadProblems, WriteProblems},
    query::{AfterSequence, PageOf, PageParams, PathId, Query},
    write::{Located, Write, WriteHeaders},
};
use crate::auth::Caller;
use axum::{Json, extract::State, response::Response};
use domain::{
    document::{self, VersionView},
    parties::{
        self, ChangeCustomer, ChangeCustomerGroup, CreateCustomer, CreateCustomerGroup, CustomerFields,
        CustomerGroupFields, CustomerGroupPatch, CustomerGroupView, CustomerPatch, CustomerView, read,
    },
};
use kernel::{
    id::{Customer, CustomerGroup, CustomerGroupId, CustomerId},
    page::Page,
    text::{Name, TaxId},
};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub fn routes() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::new()
        .routes(routes!(customers, create_customer))
        .routes(routes!(customer, change_customer))
        .routes(routes!(customer_history))
        .routes(routes!(customer_groups, create_customer_group))
        .routes(routes!(customer_group, change_customer_group))
        .routes(routes!(customer_group_history))
}

impl Located for CustomerView {
    fn location(&self) -> String {
        format!("/v1/customers/{}", self.customer_id)
    }
}

impl Versioned for CustomerView {
    fn version(&self) -> i64 {
        self.version
    }
}

impl Located for CustomerGroupView {
    fn location(&self) -> String {
        format!("/v1/customer-groups/{}", self.customer_group_id)
    }
}

impl Versioned for CustomerGroupView {
    fn version(&self) -> i64 {
        self.version
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ByNameOrTaxId {
    /// Only the one of this name, compared as people compare names.
    #[param(value_type = Option<String>)]
    name: Option<Name>,
    /// Only the one of this tax id, whatever its spaces and points.
    #[param(value_type = Option<String>)]
    tax_id: Option<TaxId>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ByName {
    /// Only the one of this name, compared as people compare names.
    #[param(value_type = Option<String>)]
    name: Option<Name>,
}

/// Makes a customer. A name or a tax id that another customer has is a 409 that names that one. Needs
/// `parties.write`.
#[utoipa::path(
    post, path = "/v1/customers", tag = "parties", operation_id = "parties.create_customer",
    security(("api_key" = [])), params(WriteHeaders), request_body = CustomerFields,
    responses((status = 201, body = CustomerView, headers(("ETag" = String))), WriteProblems)
)]
async fn create_customer(State(app): State<SharedApp>, write: Write<CreateCustomer>) -> Response {
    write.run(&app, created_document).await
}

/// Customers. Needs `parties.read`.
#[utoipa::path(
    get, path = "/v1/customers", tag = "parties", security(("api_key" = [])), params(PageParams, ByNameOrTaxId),
    responses((status = 200, body = Page<CustomerView>), ReadProblems)
)]
async fn customers(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<CustomerId>>,
    Query(by): Query<ByNameOrTaxId>,
) -> Result<Json<Page<CustomerView>>, Problem> {
    caller.may(parties::READ)?;
    let (name, tax_id) = (by.name.as_deref(), by.tax_id.as_deref());
    Ok(Json(read::customers(&app.engine, caller.tenant, name, tax_id, page.after, page.limit).await?))
}

/// One customer, with its version as `ETag`. Needs `parties.read`.
#[utoipa::path(
    get, path = "/v1/customers/{customer_id}", tag = "parties", security(("api_key" = [])),
    params(("customer_id" = CustomerId, Path)),
    responses((status = 200, body = CustomerView, headers(("ETag" = String))), ReadProblems)
)]
async fn customer(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<Customer>,
) -> Result<Response, Problem> {
    caller.may(parties::READ)?;
    found_document(read::customer(&app.engine, caller.tenant, id).await?, "customer", &id)
}

/// Saves fields of a customer over the version that `If-Match` names; those left out stay. When
/// somebody saved in between, it is a 409 `version_conflict` with what changed. Needs `parties.write`.
#[utoipa::path(
    patch, path = "/v1/customers/{customer_id}", tag = "parties", operation_id = "parties.change_customer",
    security(("api_key" = [])), params(WriteHeaders, IfMatch, ("customer_id" = CustomerId, Path)),
    request_body = CustomerPatch,
    responses((status = 200, body = CustomerView, headers(("ETag" = String))), EditProblems)
)]
async fn change_customer(
    State(app): State<SharedApp>,
    PathId(customer): PathId<Customer>,
    edit: Edit<CustomerPatch, ChangeCustomer>,
) -> Response {
    edit.run(&app, changed, |patch, base, lock| ChangeCustomer { customer, base, lock, patch }).await
}

/// The versions of a customer: who changed what, when and from where. Needs `parties.read`.
#[utoipa::path(
    get, path = "/v1/customers/{customer_id}/history", tag = "parties", security(("api_key" = [])),
    params(("customer_id" = CustomerId, Path), AfterSequence),
    responses((status = 200, body = Page<VersionView>), ReadProblems)
)]
async fn customer_history(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<Customer>,
    Query(page): Query<AfterSequence>,
) -> Result<Response, Problem> {
    caller.may(parties::READ)?;
    let (tenant, after, limit) = (caller.tenant, page.after.0, page.limit);
    let versions = document::history(&app.engine, tenant, &parties::CUSTOMER, id.uuid(), after, limit).await?;
    found(versions, "customer", &id)
}

/// Makes a group of customers. A name that another group has is a 409 that names that one. Needs
/// `parties.write`.
#[utoipa::path(
    post, path = "/v1/customer-groups", tag = "parties", operation_id = "parties.create_customer_group",
    security(("api_key" = [])), params(WriteHeaders), request_body = CustomerGroupFields,
    responses((status = 201, body = CustomerGroupView, headers(("ETag" = String))), WriteProblems)
)]
async fn create_customer_group(State(app): State<SharedApp>, write: Write<CreateCustomerGroup>) -> Response {
    write.run(&app, created_document).await
}

/// Groups of customers. Needs `parties.read`.
#[utoipa::path(
    get, path = "/v1/customer-groups", tag = "parties", security(("api_key" = [])), params(PageParams, ByName),
    responses((status = 200, body = Page<CustomerGroupView>), ReadProblems)
)]
async fn customer_groups(
    State(app): State<SharedApp>,
    caller: Caller,
    Query(page): Query<PageOf<CustomerGroupId>>,
    Query(by): Query<ByName>,
) -> Result<Json<Page<CustomerGroupView>>, Problem> {
    caller.may(parties::READ)?;
    Ok(Json(read::customer_groups(&app.engine, caller.tenant, by.name.as_deref(), page.after, page.limit).await?))
}

/// One group of customers, with its version as `ETag`. Needs `parties.read`.
#[utoipa::path(
    get, path = "/v1/customer-groups/{customer_group_id}", tag = "parties", security(("api_key" = [])),
    params(("customer_group_id" = CustomerGroupId, Path)),
    responses((status = 200, body = CustomerGroupView, headers(("ETag" = String))), ReadProblems)
)]
async fn customer_group(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<CustomerGroup>,
) -> Result<Response, Problem> {
    caller.may(parties::READ)?;
    found_document(read::customer_group(&app.engine, caller.tenant, id).await?, "customer group", &id)
}

/// Saves fields of a group over the version that `If-Match` names. Needs `parties.write`.
#[utoipa::path(
    patch, path = "/v1/customer-groups/{customer_group_id}", tag = "parties",
    operation_id = "parties.change_customer_group", security(("api_key" = [])),
    params(WriteHeaders, IfMatch, ("customer_group_id" = CustomerGroupId, Path)),
    request_body = CustomerGroupPatch,
    responses((status = 200, body = CustomerGroupView, headers(("ETag" = String))), EditProblems)
)]
async fn change_customer_group(
    State(app): State<SharedApp>,
    PathId(group): PathId<CustomerGroup>,
    edit: Edit<CustomerGroupPatch, ChangeCustomerGroup>,
) -> Response {
    edit.run(&app, changed, |patch, base, lock| ChangeCustomerGroup { group, base, lock, patch }).await
}

/// The versions of a group: who changed what, when and from where. Needs `parties.read`.
#[utoipa::path(
    get, path = "/v1/customer-groups/{customer_group_id}/history", tag = "parties", security(("api_key" = [])),
    params(("customer_group_id" = CustomerGroupId, Path), AfterSequence),
    responses((status = 200, body = Page<VersionView>), ReadProblems)
)]
async fn customer_group_history(
    State(app): State<SharedApp>,
    caller: Caller,
    PathId(id): PathId<CustomerGroup>,
    Query(page): Query<AfterSequence>,
) -> Result<Response, Problem> {
    caller.may(parties::READ)?;
    let (tenant, after, limit) = (caller.tenant, page.after.0, page.limit);
    let versions = document::history(&app.engine, tenant, &parties::CUSTOMER_GROUP, id.uuid(), after, limit).await?;
    found(versions, "customer group", &id)
}
