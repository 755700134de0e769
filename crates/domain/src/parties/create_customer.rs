//! A new customer.

use super::{
    CUSTOMER, CustomerFields, CustomerView, Refusal, WRITE,
    model::{Customer, fold_tax_id},
    sql::CustomerTaxIds,
};
use crate::{Cx, Wants, WorkingSet, document};
use engine::{Command, Next, command::Permission, table::Look};
use kernel::{
    id::{CustomerGroupId, CustomerId},
    text::{Name, TaxId, fold},
};

/// How a new customer is described.
#[derive(Debug, Clone, serde::Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct CreateCustomer(pub CustomerFields);

/// Wants whoever has the name or the tax id, and the group. The holder's own row goes into the refusal.
pub(super) fn want_names(
    name: Option<&Name>,
    tax_id: Option<&TaxId>,
    group: Option<CustomerGroupId>,
    set: &WorkingSet,
    wants: &mut Wants,
) -> Next {
    let mut next = Next::Complete;
    if let Some(name) = name.map(|name| fold(name)) {
        match set.customer_name.look(&name) {
            Look::Unasked => {
                wants.customer_name.read(name);
                next = Next::after::<CustomerTaxIds>();
            }
            Look::Row(holder) => wants.customer.read(*holder),
            Look::Missing => {}
        }
    }
    if let Some(tax_id) = tax_id.map(|id| fold_tax_id(id)) {
        match set.customer_tax_id.look(&tax_id) {
            Look::Unasked => {
                wants.customer_tax_id.read(tax_id);
                next = Next::after::<CustomerTaxIds>();
            }
            Look::Row(holder) => wants.customer.read(*holder),
            Look::Missing => {}
        }
    }
    if let Some(group) = group {
        wants.customer_group.read(group);
    }
    next
}

/// Refuses what cannot be right beside other rows: another's name or tax id, no such group.
pub(super) fn check_names(
    cx: &Cx<'_>,
    name: Option<&Name>,
    tax_id: Option<&TaxId>,
    group: Option<CustomerGroupId>,
    own: Option<CustomerId>,
) -> Result<(), Refusal> {
    let others = |holder: Option<&CustomerId>| holder.copied().filter(|holder| Some(*holder) != own);
    if let Some(name) = name
        && let Some(existing) = others(cx.set.customer_name.get(&fold(name)))
    {
        let name = cx.set.customer.get(&existing).map(|of| of.fields.name.to_string()).unwrap_or_default();
        return Err(Refusal::NameTaken { name, existing });
    }
    if let Some(tax_id) = tax_id.map(|id| fold_tax_id(id))
        && let Some(existing) = others(cx.set.customer_tax_id.get(&tax_id))
    {
        let tax_id = cx.set.customer.get(&existing).and_then(|of| of.fields.tax_id.as_deref().map(str::to_owned));
        return Err(Refusal::TaxIdTaken { tax_id: tax_id.unwrap_or_default(), existing });
    }
    match group {
        Some(group) if cx.set.customer_group.get(&group).is_none() => Err(Refusal::NoSuchGroup(group)),
        _ => Ok(()),
    }
}

/// Lets later commands of the batch see the names that are taken now.
pub(super) fn take_names(cx: &mut Cx<'_>, name: Option<&Name>, tax_id: Option<&TaxId>, own: CustomerId) {
    if let Some(name) = name.map(|name| fold(name))
        && cx.set.customer_name.get(&name).is_none()
    {
        cx.set.customer_name.insert(name, own);
    }
    if let Some(tax_id) = tax_id.map(|id| fold_tax_id(id))
        && cx.set.customer_tax_id.get(&tax_id).is_none()
    {
        cx.set.customer_tax_id.insert(tax_id, own);
    }
}

impl Command<WorkingSet> for CreateCustomer {
    const NAME: &'static str = "parties.create_customer";
    const NEEDS: Permission = WRITE;
    type Done = CustomerView;
    type Reject = Refusal;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        let CustomerFields { name, tax_id, customer_group_id, .. } = &self.0;
        want_names(Some(name), tax_id.as_ref(), *customer_group_id, set, wants)
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<CustomerView, Refusal> {
        let CustomerFields { name, tax_id, customer_group_id, .. } = &self.0;
        check_names(cx, Some(name), tax_id.as_ref(), *customer_group_id, None)?;
        let id: CustomerId = cx.id();
        let customer = Customer { version: 1, fields: self.0.clone(), created_at: cx.at };
        let view = customer.view(id);
        take_names(cx, Some(name), tax_id.as_ref(), id);
        cx.set.customer.insert(id, customer);
        document::record(cx, &CUSTOMER, id.uuid(), 1, &self.0);
        Ok(view)
    }
}
