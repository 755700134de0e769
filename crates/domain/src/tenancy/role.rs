//! Roles: a new one, and another name or other permissions for one that is there.

use super::{
    MANAGE,
    model::Role,
    refusal::PeopleRefusal,
    rules::{give, keeps_manager, permit},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, command::Permission};
use kernel::{
    id::RoleId,
    text::{Code, fold},
};
use serde::Serialize;

#[derive(Debug)]
pub struct CreateRole {
    pub name: Code,
    pub permissions: Vec<String>,
    /// What the maker may do; `None` for whoever runs the server.
    pub within: Option<Vec<String>>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct RoleDone {
    pub role_id: RoleId,
    pub name: String,
    pub permissions: Vec<String>,
    pub version: i64,
}

impl RoleDone {
    fn of(role_id: RoleId, role: &Role) -> Self {
        let (name, permissions) = (role.name.clone(), role.permissions.clone());
        Self { role_id, name, permissions, version: role.version }
    }
}

impl Command<WorkingSet> for CreateRole {
    const NAME: &'static str = "tenancy.create_role";
    const NEEDS: Permission = MANAGE;
    type Done = RoleDone;
    type Reject = PeopleRefusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        wants.role_name.read(fold(&self.name));
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<RoleDone, PeopleRefusal> {
        let name_folded = fold(&self.name);
        if let Some(existing) = cx.set.role_name.get(&name_folded) {
            return Err(PeopleRefusal::NameTaken { name: self.name.to_string(), existing: *existing });
        }
        let permissions = give(&self.permissions, self.within.as_deref())?;
        let role_id = cx.id();
        let role = Role {
            name: self.name.to_string(),
            name_folded: name_folded.clone(),
            permissions,
            users_enabled: 0,
            users_active: 0,
            version: 1,
            created_at: cx.at,
        };
        let done = RoleDone::of(role_id, &role);
        cx.set.role_name.insert(name_folded, role_id);
        cx.set.role.insert(role_id, role);
        Ok(done)
    }
}

#[derive(Debug)]
pub struct ChangeRole {
    pub role: RoleId,
    pub name: Option<Code>,
    pub permissions: Option<Vec<String>>,
    /// What the changer may do: only such permissions come to the role. Others that it has may stay.
    pub within: Option<Vec<String>>,
}

impl Command<WorkingSet> for ChangeRole {
    const NAME: &'static str = "tenancy.change_role";
    const NEEDS: Permission = MANAGE;
    const CRITICAL: bool = true;
    type Done = RoleDone;
    type Reject = PeopleRefusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        if let Some(name) = &self.name {
            wants.role_name.read(fold(name));
        }
        wants.role.change(self.role);
        wants.headcount.change(());
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<RoleDone, PeopleRefusal> {
        let before = *cx.set.headcount.get(&()).expect("made with the tenant");
        let missing = PeopleRefusal::RoleMissing { role: self.role };
        let old = cx.set.role.get(&self.role).cloned().ok_or(missing)?;
        let (mut role, mut people) = (old.clone(), before);
        if let Some(name) = &self.name {
            let folded = fold(name);
            match cx.set.role_name.get(&folded) {
                // A name that the role itself gave up earlier in the batch is free again only later.
                Some(existing) if *existing != self.role => {
                    return Err(PeopleRefusal::NameTaken { name: name.to_string(), existing: *existing });
                }
                Some(_) => {}
                None => cx.set.role_name.insert(folded.clone(), self.role),
            }
            role.name = name.to_string();
            role.name_folded = folded;
        }
        if let Some(permissions) = &self.permissions {
            let within = self.within.as_ref().map(|within| [&within[..], &old.permissions[..]].concat());
            permit(&mut people, &mut role, give(permissions, within.as_deref())?);
            // See `ChangeUser`.
            if !keeps_manager(&before, &people) {
                return Err(PeopleRefusal::ManagerLast);
            }
        }
        if role != old {
            role.version += 1;
        }
        let done = RoleDone::of(self.role, &role);
        *cx.set.role.edit(&self.role).expect("it is there") = role;
        *cx.set.headcount.edit(&()).expect("it is there") = people;
        Ok(done)
    }
}
