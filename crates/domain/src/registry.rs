//! The list of commands. Doors, the permission matrix and the generic tests are made from it or
//! checked against it.

use crate::{WorkingSet, catalog, document, edit_lock, inventory, parties, tenancy};
use engine::{Command, command::Permission};

/// What is known of a command without a value of it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub needs: Permission,
    pub critical: bool,
    pub serializable: bool,
    /// Its answer is kept, and so its caller brings a key. The few that need none stand in the test
    /// `idem_01_only_these_routes_need_no_key`.
    pub stored: bool,
}

const fn entry<C: Command<WorkingSet>>() -> Entry {
    let (name, needs, critical) = (C::NAME, C::NEEDS, C::CRITICAL);
    Entry { name, needs, critical, serializable: C::SERIALIZABLE, stored: C::STORED }
}

pub const COMMANDS: &[Entry] = &[
    entry::<tenancy::CreateTenant>(),
    entry::<tenancy::CreateApiKey>(),
    entry::<tenancy::RevokeApiKey>(),
    entry::<tenancy::CreateRole>(),
    entry::<tenancy::ChangeRole>(),
    entry::<tenancy::InviteUser>(),
    entry::<tenancy::ChangeUser>(),
    entry::<tenancy::CreateUserToken>(),
    entry::<tenancy::SetPassword>(),
    entry::<tenancy::Login>(),
    entry::<tenancy::Refresh>(),
    entry::<tenancy::Logout>(),
    entry::<catalog::CreateSku>(),
    entry::<catalog::CreateWarehouse>(),
    entry::<parties::CreateCustomer>(),
    entry::<parties::ChangeCustomer>(),
    entry::<parties::CreateCustomerGroup>(),
    entry::<parties::ChangeCustomerGroup>(),
    entry::<edit_lock::AcquireEditLock>(),
    entry::<edit_lock::RenewEditLock>(),
    entry::<edit_lock::ReleaseEditLock>(),
    entry::<edit_lock::BreakEditLock>(),
    entry::<inventory::Receive>(),
    entry::<inventory::Adjust>(),
    entry::<inventory::Allocate>(),
    entry::<inventory::Release>(),
    entry::<inventory::Ship>(),
    entry::<inventory::Return>(),
];

/// Every permission an API key or a role may carry.
pub const PERMISSIONS: &[Permission] = &[
    tenancy::MANAGE,
    tenancy::AUDIT,
    catalog::READ,
    catalog::WRITE,
    parties::READ,
    parties::WRITE,
    edit_lock::USE,
    edit_lock::BREAK,
    inventory::READ,
    inventory::WRITE,
];

/// What a request's value must be before it is queued, as far as no data is needed to tell.
pub trait Checked {
    /// # Errors
    /// The field, and what is wrong with it.
    fn check(&self) -> Result<(), (String, String)> {
        Ok(())
    }
}

impl Checked for catalog::CreateSku {}
impl Checked for catalog::CreateWarehouse {}
impl Checked for parties::CreateCustomerGroup {}
impl Checked for edit_lock::AcquireEditLock {}
impl Checked for edit_lock::RenewEditLock {}
impl Checked for edit_lock::ReleaseEditLock {}
impl Checked for edit_lock::BreakEditLock {}

impl Checked for parties::CreateCustomer {
    fn check(&self) -> Result<(), (String, String)> {
        self.0.check()
    }
}

macro_rules! checked_patches {
    ($($patch:ty),*) => {$(
        impl Checked for $patch {
            fn check(&self) -> Result<(), (String, String)> {
                match self.is_empty() {
                    true => Err(("body".into(), "a change names at least one field".into())),
                    false => Ok(()),
                }
            }
        }
    )*};
}

checked_patches!(parties::CustomerPatch, parties::CustomerGroupPatch);

macro_rules! checked_lines {
    ($($command:ty),*) => {$(
        impl Checked for $command {
            fn check(&self) -> Result<(), (String, String)> {
                let sources = self.lines.iter().map(|line| line.source.as_deref());
                inventory::check_lines(self.lines.len(), sources)
            }
        }
    )*};
}

checked_lines!(
    inventory::Receive,
    inventory::Adjust,
    inventory::Allocate,
    inventory::Release,
    inventory::Ship,
    inventory::Return
);

/// Every statement of every slice, for the test that prepares them all.
pub fn queries() -> Vec<engine::sql::Sql> {
    let slices = [
        tenancy::sql::QUERIES,
        tenancy::sql::people::QUERIES,
        tenancy::sql::session::QUERIES,
        tenancy::sql::note::QUERIES,
        catalog::sql::QUERIES,
        parties::sql::QUERIES,
        document::QUERIES,
        edit_lock::QUERIES,
        inventory::sql::QUERIES,
    ];
    let checks = crate::verify::CHECKS.iter().map(|check| check.sql);
    slices.into_iter().flatten().copied().chain(checks).collect()
}
