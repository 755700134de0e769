//! Users: invited, changed, given a token, and their own passwords.

use super::{
    MANAGE,
    model::{Credential, Handed, Headcount, State, Token, User},
    refusal::PeopleRefusal,
    rules::{count, exceeding, keeps_manager},
    sql::Users,
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, command::Permission, table::Look};
use jiff::{SignedDuration, Timestamp};
use kernel::{
    id::{RoleId, UserId},
    text::{Email, Name, fold},
};
use serde::Serialize;

/// How long an invitation may be accepted.
pub const INVITATION_LASTS: SignedDuration = SignedDuration::from_hours(72);
/// How long leave to set another password may be used.
pub const RESET_LASTS: SignedDuration = SignedDuration::from_hours(1);

/// A secret on its way to somebody, minted at the door: a decision has no random source.
#[derive(Debug)]
pub struct Handing {
    pub token: Credential<Token>,
    pub hash: [u8; 32],
}

#[derive(Debug)]
pub struct InviteUser {
    pub email: Email,
    pub name: Name,
    pub role: RoleId,
    /// What the inviter may do; `None` for whoever runs the server.
    pub within: Option<Vec<String>>,
    /// Names the new user, too.
    pub handing: Handing,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct UserInvited {
    pub user_id: UserId,
    pub email: String,
    /// To be handed to them; with it they set their password. It is shown only here.
    pub token: String,
    #[schema(value_type = String, format = DateTime)]
    pub token_expires_at: Timestamp,
}

/// With a user goes their role: nobody lets others into what they may not themselves.
fn within(permissions: &[String], within: Option<&[String]>) -> Result<(), PeopleRefusal> {
    let exceeds = |permission: &String| Err(PeopleRefusal::RoleExceeds { permission: permission.clone() });
    exceeding(permissions, within).map_or(Ok(()), exceeds)
}

fn people(cx: &Cx<'_>) -> Headcount {
    *cx.set.headcount.get(&()).expect("made with the tenant")
}

impl Command<WorkingSet> for InviteUser {
    const NAME: &'static str = "tenancy.invite_user";
    const NEEDS: Permission = MANAGE;
    const SEALED: bool = true;
    type Done = UserInvited;
    type Reject = PeopleRefusal;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        wants.user_email.read(fold(&self.email));
        wants.role.change(self.role);
        wants.headcount.change(());
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<UserInvited, PeopleRefusal> {
        let (user_id, email_folded) = (self.handing.token.of, fold(&self.email));
        if let Some(existing) = cx.set.user_email.get(&email_folded) {
            return Err(PeopleRefusal::EmailTaken { email: self.email.to_string(), existing: *existing });
        }
        let before = people(cx);
        let mut after = before;
        let role = cx.set.role.edit(&self.role).ok_or(PeopleRefusal::RoleMissing { role: self.role })?;
        within(&role.permissions, self.within.as_deref())?;
        count(&mut after, role, State::Invited, 1);
        if !keeps_manager(&before, &after) {
            return Err(PeopleRefusal::ManagerFirst);
        }
        *cx.set.headcount.edit(&()).expect("made with the tenant") = after;
        let expires_at = cx.at + INVITATION_LASTS;
        let user = User {
            email: self.email.to_string(),
            email_folded: email_folded.clone(),
            name: self.name.to_string(),
            role: self.role,
            disabled: false,
            password_hash: None,
            token: Some(Handed { hash: self.handing.hash, expires_at }),
            epoch: 1,
            version: 1,
            created_at: cx.at,
        };
        cx.set.user_email.insert(email_folded, user_id);
        cx.set.tenant_user.insert(user_id, user);
        Ok(UserInvited {
            user_id,
            email: self.email.to_string(),
            token: self.handing.token.to_string(),
            token_expires_at: expires_at,
        })
    }
}

/// Another name or role; disabled, or enabled again.
#[derive(Debug)]
pub struct ChangeUser {
    pub user: UserId,
    pub name: Option<Name>,
    pub role: Option<RoleId>,
    pub disabled: Option<bool>,
    /// What the changer may do; `None` for whoever runs the server.
    pub within: Option<Vec<String>>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct UserChanged {
    pub user_id: UserId,
    pub name: String,
    pub role_id: RoleId,
    pub state: State,
    pub version: i64,
}

impl Command<WorkingSet> for ChangeUser {
    const NAME: &'static str = "tenancy.change_user";
    const NEEDS: Permission = MANAGE;
    const CRITICAL: bool = true;
    type Done = UserChanged;
    type Reject = PeopleRefusal;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        match set.tenant_user.look(&self.user) {
            Look::Unasked => {
                wants.tenant_user.change(self.user);
                return Next::after::<Users>();
            }
            Look::Missing => {}
            Look::Row(user) => {
                wants.role.change(user.role);
                if let Some(role) = self.role {
                    wants.role.change(role);
                }
                wants.headcount.change(());
            }
        }
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<UserChanged, PeopleRefusal> {
        let missing = PeopleRefusal::UserMissing { user: self.user };
        let old = cx.set.tenant_user.get(&self.user).cloned().ok_or(missing)?;
        let mut user = old.clone();
        if let Some(name) = &self.name {
            user.name = name.to_string();
        }
        user.role = self.role.unwrap_or(old.role);
        user.disabled = self.disabled.unwrap_or(old.disabled);
        if user.disabled && !old.disabled {
            // GUARD(epoch_ends): whoever is disabled would go on with the session they have.
            user.epoch += 1;
            user.token = None;
        }
        let before = people(cx);
        let mut after = before;
        count(&mut after, cx.set.role.edit(&old.role).expect("tenant_user_role_fkey"), old.state(), -1);
        let missing = PeopleRefusal::RoleMissing { role: user.role };
        let role = cx.set.role.edit(&user.role).ok_or(missing)?;
        count(&mut after, role, user.state(), 1);
        if user.role != old.role || (old.disabled && !user.disabled) {
            within(&role.permissions, self.within.as_deref())?;
        }
        // GUARD(manager_kept): nobody could let anybody in any more.
        if !keeps_manager(&before, &after) {
            return Err(PeopleRefusal::ManagerLast);
        }
        *cx.set.headcount.edit(&()).expect("made with the tenant") = after;
        if user != old {
            user.version += 1;
        }
        let done = UserChanged {
            user_id: self.user,
            name: user.name.clone(),
            role_id: user.role,
            state: user.state(),
            version: user.version,
        };
        *cx.set.tenant_user.edit(&self.user).expect("it is there") = user;
        Ok(done)
    }
}

/// Another invitation for who has not come yet, or leave to set another password. Only the latest
/// of a user's tokens is good.
#[derive(Debug)]
pub struct CreateUserToken {
    pub user: UserId,
    /// What the maker may do: with the token comes the user's role.
    pub within: Option<Vec<String>>,
    pub handing: Handing,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct UserTokenCreated {
    pub user_id: UserId,
    /// To be handed to them; with it they set a password. It is shown only here.
    pub token: String,
    #[schema(value_type = String, format = DateTime)]
    pub token_expires_at: Timestamp,
}

impl Command<WorkingSet> for CreateUserToken {
    const NAME: &'static str = "tenancy.create_user_token";
    const NEEDS: Permission = MANAGE;
    const SEALED: bool = true;
    const CRITICAL: bool = true;
    type Done = UserTokenCreated;
    type Reject = PeopleRefusal;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        match set.tenant_user.look(&self.user) {
            Look::Unasked => {
                wants.tenant_user.change(self.user);
                return Next::after::<Users>();
            }
            Look::Missing => {}
            Look::Row(user) => wants.role.share(user.role),
        }
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<UserTokenCreated, PeopleRefusal> {
        let missing = PeopleRefusal::UserMissing { user: self.user };
        let role = cx.set.tenant_user.get(&self.user).ok_or(missing)?.role;
        within(&cx.set.role.get(&role).expect("tenant_user_role_fkey").permissions, self.within.as_deref())?;
        let at = cx.at;
        let user = cx.set.tenant_user.edit(&self.user).expect("it is there");
        let lasts = match user.state() {
            State::Invited => INVITATION_LASTS,
            State::Active => RESET_LASTS,
            State::Disabled => return Err(PeopleRefusal::UserDisabled { user: self.user }),
        };
        let expires_at = at + lasts;
        user.token = Some(Handed { hash: self.handing.hash, expires_at });
        Ok(UserTokenCreated { user_id: self.user, token: self.handing.token.to_string(), token_expires_at: expires_at })
    }
}
