//! A password, set by whoever holds the token that was handed out for it.

use super::{ANYONE, model::State, rules::count, sql::Users};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Reject, command::Permission, table::Look};
use kernel::{id::UserId, problem::Class};
use serde::Serialize;

/// Its call is the user's own. Run twice, as after a reply of the database that was lost, it finds the
/// password that it set.
#[derive(Debug)]
pub struct SetPassword {
    pub user: UserId,
    pub token_hash: [u8; 32],
    /// With a salt of this call alone.
    pub password_hash: String,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PasswordSet {
    pub user_id: UserId,
    pub email: String,
}

/// Used, expired, replaced, never given: all in the same words.
#[derive(Debug)]
pub struct TokenNotValid;

impl Reject for TokenNotValid {
    fn code(&self) -> &'static str {
        "token_not_valid"
    }
    fn class(&self) -> Class {
        Class::Unproven
    }
    fn detail(&self) -> String {
        "token: it is not valid, or not any more; ask for another one".into()
    }
}

impl Command<WorkingSet> for SetPassword {
    const NAME: &'static str = "tenancy.set_password";
    const NEEDS: Permission = ANYONE;
    const STORED: bool = false;
    type Done = PasswordSet;
    type Reject = TokenNotValid;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        match set.tenant_user.look(&self.user) {
            Look::Unasked => {
                wants.tenant_user.change(self.user);
                return Next::after::<Users>();
            }
            Look::Missing => {}
            Look::Row(user) => {
                wants.role.change(user.role);
                wants.headcount.change(());
            }
        }
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<PasswordSet, TokenNotValid> {
        let old = cx.set.tenant_user.get(&self.user).cloned().ok_or(TokenNotValid)?;
        let done = PasswordSet { user_id: self.user, email: old.email.clone() };
        if old.password_hash.as_ref() == Some(&self.password_hash) {
            return Ok(done);
        }
        let good = old.token.as_ref().is_some_and(|token| token.hash == self.token_hash && token.expires_at > cx.at);
        if !good || old.state() == State::Disabled {
            return Err(TokenNotValid);
        }
        let mut people = *cx.set.headcount.get(&()).expect("made with the tenant");
        let role = cx.set.role.edit(&old.role).expect("tenant_user_role_fkey");
        count(&mut people, role, old.state(), -1);
        count(&mut people, role, State::Active, 1);
        *cx.set.headcount.edit(&()).expect("made with the tenant") = people;
        let user = cx.set.tenant_user.edit(&self.user).expect("it is there");
        user.password_hash = Some(self.password_hash.clone());
        // GUARD(token_once): whoever finds it later, in a mail box or a log, would be this user.
        user.token = None;
        // Whoever knew the old password is out.
        user.epoch += 1;
        user.version += 1;
        Ok(done)
    }
}
