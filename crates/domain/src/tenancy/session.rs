//! Sessions: begun by a login, kept up by refreshing, ended by a logout or by an old refresh token.

use super::{
    ANYONE,
    model::{Session, State, User},
};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, Reject, command::Permission};
use jiff::{SignedDuration, Timestamp};
use kernel::{
    id::{SessionId, UserId},
    problem::Class,
};
use serde::{Deserialize, Serialize};

/// How long a session lasts, however often it is refreshed.
pub const SESSION_LASTS: SignedDuration = SignedDuration::from_hours(24 * 30);

/// A login whose password was right when it was looked at.
///
/// Run twice, as after a reply of the database that was lost, it finds the session that it began.
#[derive(Debug)]
pub struct Login {
    pub user: UserId,
    /// What the password was held against: it may be another one by now.
    pub password_hash: String,
    pub session: SessionId,
    pub family_hash: [u8; 32],
    pub refresh_hash: [u8; 32],
    pub cookie_hash: Option<[u8; 32]>,
}

/// A session as of `at`, for the door to make an access token from.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionOpen {
    pub user_id: UserId,
    pub session_id: SessionId,
    pub at: Timestamp,
    pub session_expires_at: Timestamp,
}

/// Unknown tenant or address, wrong password, invited, disabled: all in the same words.
#[derive(Debug)]
pub struct LoginRefused;

impl Reject for LoginRefused {
    fn code(&self) -> &'static str {
        "login_refused"
    }
    fn class(&self) -> Class {
        Class::Unproven
    }
    fn detail(&self) -> String {
        "tenant, email and password do not belong together".into()
    }
}

/// Ended, expired, refreshed since, never begun: all in the same words.
#[derive(Debug)]
pub struct SessionOver;

impl Reject for SessionOver {
    fn code(&self) -> &'static str {
        "session_over"
    }
    fn class(&self) -> Class {
        Class::Unproven
    }
    fn detail(&self) -> String {
        "refresh_token: its session is over; log in again".into()
    }
}

fn lasts(session: &Session, user: Option<&User>, at: Timestamp) -> bool {
    let of_user = user.is_some_and(|user| user.epoch == session.epoch && user.state() == State::Active);
    of_user && session.ended_at.is_none() && session.expires_at > at
}

impl Command<WorkingSet> for Login {
    const NAME: &'static str = "tenancy.login";
    const NEEDS: Permission = ANYONE;
    const STORED: bool = false;
    type Done = SessionOpen;
    type Reject = LoginRefused;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        // GUARD(login_lock): a user who is just being disabled would be told that they are in.
        wants.tenant_user.share(self.user);
        wants.session.change(self.session);
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<SessionOpen, LoginRefused> {
        let user = cx.set.tenant_user.get(&self.user).ok_or(LoginRefused)?;
        if user.state() != State::Active || user.password_hash.as_ref() != Some(&self.password_hash) {
            return Err(LoginRefused);
        }
        let expires_at = match cx.set.session.get(&self.session) {
            Some(begun) => begun.expires_at,
            None => {
                let expires_at = cx.at + SESSION_LASTS;
                let session = Session {
                    user: self.user,
                    epoch: user.epoch,
                    family_hash: self.family_hash,
                    refresh_hash: self.refresh_hash,
                    cookie_hash: self.cookie_hash,
                    created_at: cx.at,
                    expires_at,
                    ended_at: None,
                };
                cx.set.session.insert(self.session, session);
                expires_at
            }
        };
        Ok(SessionOpen { user_id: self.user, session_id: self.session, at: cx.at, session_expires_at: expires_at })
    }
}

/// A refresh token for the next one.
///
/// Run twice, as after a reply of the database that was lost, it finds its own next one.
#[derive(Debug)]
pub struct Refresh {
    pub session: SessionId,
    /// Whose session it is, which never changes.
    pub user: UserId,
    pub family_hash: [u8; 32],
    pub sent_hash: [u8; 32],
    pub next_hash: [u8; 32],
}

#[derive(Debug)]
pub enum Refreshed {
    Open(SessionOpen),
    /// An old token came again: two hold it, and one of them should not. The session is ended.
    Ended,
}

impl Command<WorkingSet> for Refresh {
    const NAME: &'static str = "tenancy.refresh";
    const NEEDS: Permission = ANYONE;
    const STORED: bool = false;
    type Done = Refreshed;
    type Reject = SessionOver;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        wants.tenant_user.share(self.user);
        wants.session.change(self.session);
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<Refreshed, SessionOver> {
        let at = cx.at;
        let session = cx.set.session.get(&self.session).ok_or(SessionOver)?;
        let ours = session.user == self.user && session.family_hash == self.family_hash;
        if !ours || !lasts(session, cx.set.tenant_user.get(&self.user), at) {
            return Err(SessionOver);
        }
        let session = cx.set.session.edit(&self.session).expect("it is there");
        if session.refresh_hash == self.sent_hash {
            session.refresh_hash = self.next_hash;
        } else if session.refresh_hash != self.next_hash {
            // GUARD(refresh_reuse): whoever stole a token would go on beside its owner, unseen.
            session.ended_at = Some(at);
            return Ok(Refreshed::Ended);
        }
        Ok(Refreshed::Open(SessionOpen {
            user_id: self.user,
            session_id: self.session,
            at,
            session_expires_at: session.expires_at,
        }))
    }
}

/// Ends a session. Ending twice is ending once: the first instant stays.
#[derive(Debug)]
pub struct Logout {
    pub session: SessionId,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LoggedOut {
    pub session_id: SessionId,
    #[schema(value_type = String, format = DateTime)]
    pub ended_at: Timestamp,
}

impl Command<WorkingSet> for Logout {
    const NAME: &'static str = "tenancy.logout";
    const NEEDS: Permission = ANYONE;
    const STORED: bool = false;
    type Done = LoggedOut;
    type Reject = SessionOver;

    fn wants(&self, _: &WorkingSet, wants: &mut Wants) -> Next {
        wants.session.change(self.session);
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<LoggedOut, SessionOver> {
        let session = cx.set.session.edit(&self.session).ok_or(SessionOver)?;
        let ended_at = *session.ended_at.get_or_insert(cx.at);
        Ok(LoggedOut { session_id: self.session, ended_at })
    }
}
