//! A save of a customer, over the version it began from.

use super::{
    CUSTOMER, CustomerFields, CustomerView, Refusal, WRITE,
    create_customer::{check_names, take_names, want_names},
    model::{Address, PaymentTerms, SalesArea},
};
use crate::{
    Cx, Wants, WorkingSet,
    document::{self, Parts},
    edit_lock, patch,
};
use engine::{Command, Next, command::Permission, table::Look};
use kernel::{
    id::{CustomerGroupId, CustomerId, EditLockId},
    money::{Amount, Currency},
    text::{Email, Name, Phone, TaxId},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The fields to change; those left out stay. `null` empties what may be empty. A list is replaced
/// whole.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomerPatch {
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub tax_id: Option<Option<TaxId>>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub customer_group_id: Option<Option<CustomerGroupId>>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub currency: Option<Currency>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 365)]
    pub payment_terms_days: Option<PaymentTerms>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub credit_limit: Option<Option<Amount>>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub email: Option<Option<Email>>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub phone: Option<Option<Phone>>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 50)]
    pub addresses: Option<Vec<Address>>,
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 50)]
    pub sales_areas: Option<Vec<SalesArea>>,
}

patch!(CustomerPatch => CustomerFields {
    name, tax_id, customer_group_id, currency, payment_terms_days, credit_limit, email, phone, blocked, addresses,
    sales_areas,
});

#[derive(Debug, Clone)]
pub struct ChangeCustomer {
    pub customer: CustomerId,
    /// The version the caller began from.
    pub base: i64,
    /// The edit lock it saves under.
    pub lock: Option<EditLockId>,
    pub patch: CustomerPatch,
}

impl ChangeCustomer {
    /// What of the change could be another's, or not there.
    fn named(&self) -> (Option<&Name>, Option<&TaxId>, Option<CustomerGroupId>) {
        let CustomerPatch { name, tax_id, customer_group_id, .. } = &self.patch;
        (name.as_ref(), tax_id.as_ref().and_then(Option::as_ref), customer_group_id.flatten())
    }
}

impl Command<WorkingSet> for ChangeCustomer {
    const NAME: &'static str = "parties.change_customer";
    const NEEDS: Permission = WRITE;
    type Done = CustomerView;
    type Reject = Refusal;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        let found = match set.customer.look(&self.customer) {
            Look::Unasked => {
                edit_lock::want_shared(self.customer.uuid(), set, wants);
                wants.customer.change(self.customer);
                None
            }
            Look::Missing => return Next::Complete,
            Look::Row(customer) => Some(customer.version),
        };
        document::want_versions(self.customer.uuid(), self.base, found, wants);
        let (name, tax_id, group) = self.named();
        match want_names(name, tax_id, group, set, wants) {
            Next::Complete => Next::Locked,
            next => next,
        }
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<CustomerView, Refusal> {
        let Self { customer: id, base, lock, patch } = self;
        let customer = cx.set.customer.get(id).ok_or(Refusal::CustomerMissing(*id))?;
        document::check_version(cx, id.uuid(), *base, customer.version, &customer.fields, patch, || {
            customer.view(*id)
        })?;
        let fields = patch.over(&customer.fields);
        if fields == customer.fields {
            return Ok(customer.view(*id));
        }
        edit_lock::check_save(cx, id.uuid(), *lock, &Parts::changed(&customer.fields, &fields))?;
        fields.check().map_err(Refusal::invalid)?;
        let (name, tax_id, group) = self.named();
        check_names(cx, name, tax_id, group, Some(*id))?;
        take_names(cx, name, tax_id, *id);
        let customer = cx.set.customer.edit(id).expect("looked at above");
        customer.fields = fields.clone();
        customer.version += 1;
        let (version, view) = (customer.version, customer.view(*id));
        document::record(cx, &CUSTOMER, id.uuid(), version, &fields);
        Ok(view)
    }
}
