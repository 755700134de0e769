//! A new tenant, by whoever runs the server.

use super::{
    OPERATE,
    model::{Headcount, Slug, Tenant},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Reject, command::Permission};
use kernel::{id::TenantId, problem::Class, text::Name};
use serde::Serialize;

/// The call is bound to the new tenant's id: that is the tenant whose wall it is made behind.
#[derive(Debug)]
pub struct CreateTenant {
    pub slug: Slug,
    pub name: Name,
}

#[derive(Debug, Serialize)]
pub struct TenantCreated {
    pub tenant_id: TenantId,
    pub slug: Slug,
}

#[derive(Debug)]
pub struct TenantRefusal {
    slug: Slug,
    existing: TenantId,
}

impl Reject for TenantRefusal {
    fn code(&self) -> &'static str {
        "slug_taken"
    }
    fn class(&self) -> Class {
        Class::Conflict
    }
    fn detail(&self) -> String {
        format!("the slug {} names tenant {} already; choose another", self.slug, self.existing)
    }
}

impl Command<WorkingSet> for CreateTenant {
    const NAME: &'static str = "tenancy.create_tenant";
    const NEEDS: Permission = OPERATE;
    type Done = TenantCreated;
    type Reject = TenantRefusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        wants.tenant_slug.read(self.slug.clone());
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<TenantCreated, TenantRefusal> {
        if let Some(existing) = cx.set.tenant_slug.get(&self.slug) {
            return Err(TenantRefusal { slug: self.slug.clone(), existing: *existing });
        }
        cx.set.tenant_slug.insert(self.slug.clone(), cx.tenant);
        cx.set.tenant.insert(cx.tenant, Tenant { name: self.name.clone(), created_at: cx.at });
        cx.set.headcount.insert((), Headcount::default());
        Ok(TenantCreated { tenant_id: cx.tenant, slug: self.slug.clone() })
    }
}
