//! Groups of customers: a new one, and a save of one.

use super::{
    CUSTOMER_GROUP, CustomerGroupFields, CustomerGroupView, Refusal, WRITE, model::CustomerGroup,
    sql::CustomerGroupNames,
};
use crate::{
    Cx, Wants, WorkingSet,
    document::{self, Parts},
    edit_lock, patch,
};
use engine::{Command, Next, command::Permission, table::Look};
use kernel::{
    id::{CustomerGroupId, EditLockId},
    text::{Name, fold},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a new group is described.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct CreateCustomerGroup(pub CustomerGroupFields);

/// The fields to change; those left out stay.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomerGroupPatch {
    #[serde(default, deserialize_with = "document::given", skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

patch!(CustomerGroupPatch => CustomerGroupFields { name });

#[derive(Debug, Clone)]
pub struct ChangeCustomerGroup {
    pub group: CustomerGroupId,
    /// The version the caller began from.
    pub base: i64,
    /// The edit lock it saves under.
    pub lock: Option<EditLockId>,
    pub patch: CustomerGroupPatch,
}

/// Wants whoever has the name; the holder's own row goes into the refusal.
fn want_name(name: &Name, set: &WorkingSet, wants: &mut Wants) -> Next {
    let name = fold(name);
    match set.customer_group_name.look(&name) {
        Look::Unasked => {
            wants.customer_group_name.read(name);
            return Next::after::<CustomerGroupNames>();
        }
        Look::Row(holder) => wants.customer_group.read(*holder),
        Look::Missing => {}
    }
    Next::Complete
}

fn take_name(cx: &mut Cx<'_>, name: &Name, own: CustomerGroupId) -> Result<(), Refusal> {
    let folded = fold(name);
    match cx.set.customer_group_name.get(&folded).copied() {
        None => cx.set.customer_group_name.insert(folded, own),
        Some(holder) if holder == own => {}
        Some(existing) => {
            let name = cx.set.customer_group.get(&existing).map(|of| of.fields.name.to_string()).unwrap_or_default();
            return Err(Refusal::GroupNameTaken { name, existing });
        }
    }
    Ok(())
}

impl Command<WorkingSet> for CreateCustomerGroup {
    const NAME: &'static str = "parties.create_customer_group";
    const NEEDS: Permission = WRITE;
    type Done = CustomerGroupView;
    type Reject = Refusal;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        want_name(&self.0.name, set, wants)
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<CustomerGroupView, Refusal> {
        let id: CustomerGroupId = cx.id();
        take_name(cx, &self.0.name, id)?;
        let group = CustomerGroup { version: 1, fields: self.0.clone(), created_at: cx.at };
        let view = group.view(id);
        cx.set.customer_group.insert(id, group);
        document::record(cx, &CUSTOMER_GROUP, id.uuid(), 1, &self.0);
        Ok(view)
    }
}

impl Command<WorkingSet> for ChangeCustomerGroup {
    const NAME: &'static str = "parties.change_customer_group";
    const NEEDS: Permission = WRITE;
    type Done = CustomerGroupView;
    type Reject = Refusal;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        let found = match set.customer_group.look(&self.group) {
            Look::Unasked => {
                edit_lock::want_shared(self.group.uuid(), set, wants);
                wants.customer_group.change(self.group);
                None
            }
            Look::Missing => return Next::Complete,
            Look::Row(group) => Some(group.version),
        };
        document::want_versions(self.group.uuid(), self.base, found, wants);
        match self.patch.name.as_ref().map_or(Next::Complete, |name| want_name(name, set, wants)) {
            Next::Complete => Next::Locked,
            next => next,
        }
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<CustomerGroupView, Refusal> {
        let Self { group: id, base, lock, patch } = self;
        let group = cx.set.customer_group.get(id).ok_or(Refusal::GroupMissing(*id))?;
        document::check_version(cx, id.uuid(), *base, group.version, &group.fields, patch, || group.view(*id))?;
        let fields = patch.over(&group.fields);
        if fields == group.fields {
            return Ok(group.view(*id));
        }
        edit_lock::check_save(cx, id.uuid(), *lock, &Parts::changed(&group.fields, &fields))?;
        take_name(cx, &fields.name, *id)?;
        let group = cx.set.customer_group.edit(id).expect("looked at above");
        group.fields = fields.clone();
        group.version += 1;
        let (version, view) = (group.version, group.view(*id));
        document::record(cx, &CUSTOMER_GROUP, id.uuid(), version, &fields);
        Ok(view)
    }
}
