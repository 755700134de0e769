//! `tallyhold role` and `tallyhold user`.

use super::{
    admin::tenant_of,
    operator::{done, submit},
    with_engine,
};
use crate::{
    api::encode,
    auth,
    store::{Place, Store},
};
use clap::{Args, Subcommand};
use domain::{
    registry::PERMISSIONS,
    tenancy::{self, CreateRole, InviteUser},
};
use kernel::{
    id::UserId,
    page::Limit,
    text::{Code, Email, Name},
};
use serde_json::json;
use std::process::ExitCode;

/// Makes and lists roles.
#[derive(Debug, Args)]
pub struct RoleCommand {
    #[command(subcommand)]
    verb: RoleVerb,
}

#[derive(Debug, Subcommand)]
enum RoleVerb {
    /// Make a role.
    Create {
        /// The tenant's slug.
        tenant: String,
        /// The role's name.
        name: Code,
        /// What its users may do; all permissions when not said.
        #[arg(long = "permission", value_name = "PERMISSION")]
        permissions: Vec<String>,
    },
    /// List a tenant's roles.
    List {
        /// The tenant's slug.
        tenant: String,
    },
}

impl RoleCommand {
    pub async fn run(self, place: Place) -> ExitCode {
        with_engine(Store::existing(&place).await, async |engine| {
            match self.verb {
                RoleVerb::Create { tenant, name, permissions } => {
                    let tenant = tenant_of(engine, &tenant).await?;
                    let permissions = match permissions.is_empty() {
                        true => PERMISSIONS.iter().map(|permission| permission.0.to_owned()).collect(),
                        false => permissions,
                    };
                    let (key, intent) =
                        (format!("operator|role|{name}"), json!({"name": name, "permissions": permissions}));
                    let command = CreateRole { name, permissions, within: None };
                    let made = done(submit(engine, tenant, &key, &intent, command, encode::ok).await)?;
                    println!("{}", made["role_id"].as_str().unwrap_or_default());
                }
                RoleVerb::List { tenant } => {
                    let tenant = tenant_of(engine, &tenant).await?;
                    let mut after = None;
                    loop {
                        let page = tenancy::read::roles(engine, tenant, after, Limit::default()).await;
                        let page = page.map_err(|error| error.to_string())?;
                        for role in &page.items {
                            let (users, permissions) = (role.users, role.permissions.join(","));
                            println!("{}  {users} users  {}  {permissions}", role.role_id, role.name);
                        }
                        match page.next {
                            Some(next) => after = next.parse().ok(),
                            None => break,
                        }
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}

/// Invites and lists users.
#[derive(Debug, Args)]
pub struct UserCommand {
    #[command(subcommand)]
    verb: UserVerb,
}

#[derive(Debug, Subcommand)]
enum UserVerb {
    /// Invite somebody. The token that is printed is for them: with it they set their password.
    Invite {
        /// The tenant's slug.
        tenant: String,
        /// Who they are at the login.
        email: Email,
        /// Their name for people.
        name: Name,
        /// The name of their role; `tallyhold role create` makes one.
        #[arg(long)]
        role: Code,
        /// One JSON object instead of the bare token.
        #[arg(long)]
        json: bool,
    },
    /// List a tenant's users.
    List {
        /// The tenant's slug.
        tenant: String,
    },
}

impl UserCommand {
    pub async fn run(self, place: Place) -> ExitCode {
        with_engine(Store::existing(&place).await, async |engine| {
            match self.verb {
                UserVerb::Invite { tenant, email, name, role, json } => {
                    let slug = tenant;
                    let tenant = tenant_of(engine, &slug).await?;
                    let found = tenancy::read::role_by_name(engine, tenant, &role).await;
                    let found = found.map_err(|error| error.to_string())?;
                    let found = found.ok_or_else(|| {
                        format!("there is no role {role:?}; `tallyhold role create {slug} {role}` makes it")
                    })?;
                    let handing = auth::handing(tenant, UserId::mint());
                    let key = format!("operator|user|{}", handing.token.of);
                    let intent = json!({"email": email, "name": name, "role_id": found});
                    let command = InviteUser { email, name, role: found, within: None, handing };
                    let made = done(submit(engine, tenant, &key, &intent, command, encode::ok).await)?;
                    if json {
                        println!("{made}");
                    } else {
                        println!("{}", made["token"].as_str().unwrap_or_default());
                    }
                }
                UserVerb::List { tenant } => {
                    let tenant = tenant_of(engine, &tenant).await?;
                    let mut after = None;
                    loop {
                        let page = tenancy::read::users(engine, tenant, after, Limit::default()).await;
                        let page = page.map_err(|error| error.to_string())?;
                        for user in &page.items {
                            println!(
                                "{}  {}  {}  {}  {}",
                                user.user_id,
                                user.state.as_str(),
                                user.email,
                                user.name,
                                user.role_id
                            );
                        }
                        match page.next {
                            Some(next) => after = next.parse().ok(),
                            None => break,
                        }
                    }
                }
            }
            Ok(ExitCode::SUCCESS)
        })
        .await
    }
}
