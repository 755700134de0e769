//! Passwords: hashed slowly on purpose, and therefore few at a time.
//!
//! Never keeps, logs or compares one itself: Argon2id does, with a salt of its own each time.

use argon2::{
    Argon2,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use engine::Fault;
use serde::Deserialize;
use std::{
    fmt,
    sync::{Arc, LazyLock},
    time::Instant,
};
use tokio::sync::Semaphore;

pub const PASSWORD_CHARS_MIN: usize = 12;
pub const PASSWORD_CHARS_MAX: usize = 200;
/// Hashed at once: each takes a core and 19 MiB.
const AT_ONCE_MAX: usize = 2;
/// Waiting for their turn; beyond, callers are told to come back.
const WAITING_MAX: usize = 64;

/// As typed: it is not normalised, since what one keyboard sends it sends again.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl Password {
    /// Whether it may be chosen.
    pub fn check(&self) -> Result<(), (String, String)> {
        if (PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&self.0.chars().count()) {
            return Ok(());
        }
        let message = format!("has {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters");
        Err(("password".into(), message))
    }

    /// Whether it could be anybody's: a longer one is not worth hashing.
    pub fn check_sent(&self) -> Result<(), (String, String)> {
        if self.0.chars().count() <= PASSWORD_CHARS_MAX {
            return Ok(());
        }
        Err(("password".into(), format!("has at most {PASSWORD_CHARS_MAX} characters")))
    }
}

/// What nobody's password is held against, so that an unknown address takes as long as a known one.
static NOBODYS: LazyLock<String> = LazyLock::new(|| hash("nobody's password"));

fn hash(password: &str) -> String {
    let since = Instant::now();
    let hash = Argon2::default().hash_password(password.as_bytes()).expect("parameters and randomness are there");
    metrics::histogram!("tallyhold_password_seconds").record(since.elapsed());
    hash.to_string()
}

fn is_right(password: &str, kept: Option<&str>) -> bool {
    // GUARD(nobodys_password): the time of the answer would tell whose address is known.
    let hash = PasswordHash::new(kept.unwrap_or(&NOBODYS)).expect("a stored hash is in PHC string form");
    let since = Instant::now();
    let matches = Argon2::default().verify_password(password.as_bytes(), &hash).is_ok();
    metrics::histogram!("tallyhold_password_seconds").record(since.elapsed());
    matches && kept.is_some()
}

/// The one place where passwords are hashed.
pub struct Passwords {
    turns: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE_MAX)), waiting: Arc::new(Semaphore::new(WAITING_MAX)) }
    }
}

impl Passwords {
    pub async fn hash(&self, password: Password) -> Result<String, Fault> {
        self.run(move || hash(&password.0)).await
    }

    /// Whether it is the one whose hash is kept; with none kept, as slowly, no.
    pub async fn is_right(&self, password: Password, kept: Option<String>) -> Result<bool, Fault> {
        self.run(move || is_right(&password.0, kept.as_deref())).await
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        let _waiting = self.waiting.clone().try_acquire_owned().map_err(|_| Fault::Overloaded)?;
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| Fault::Stopping)?;
        // The turn goes along: a caller that hangs up does not stop a hash, nor let another one begin.
        let work = move || {
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| Fault::Bug(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_04_a_hash_is_argon2id_and_opens_for_its_password_alone() {
        let (kept, again) = (hash("correct horse battery"), hash("correct horse battery"));
        assert!(kept.starts_with("$argon2id$v=19$"), "{kept}");
        assert_ne!(kept, again, "each has a salt of its own");
        assert!(is_right("correct horse battery", Some(&kept)));
        assert!(!is_right("correct horse batterz", Some(&kept)));
        assert!(!is_right("nobody's password", None));
    }

    #[test]
    fn ten_04_a_password_has_12_to_200_characters() {
        for (text, chosen, sent) in [
            ("x".repeat(11), false, true),
            ("x".repeat(12), true, true),
            ("é".repeat(200), true, true),
            ("x".repeat(201), false, false),
            (String::new(), false, true),
        ] {
            let password = Password(text);
            assert_eq!((password.check().is_ok(), password.check_sent().is_ok()), (chosen, sent));
            assert!(!format!("{password:?}").contains('x'));
        }
    }
}
