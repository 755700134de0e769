//! Failures that are not the business saying no: what the caller hears, what the batch does next.
//!
//! Owns the one reading of SQLSTATEs. A [`Fault`] is never stored as an answer: after it, the
//! same call with the same key really runs.

use thiserror::Error;
use tokio_postgres::error::{DbError, SqlState};

/// Why a call got no answer of its own.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum Fault {
    #[error("the key was used before with another request (stored {stored}, sent {sent})")]
    KeyReused { stored: String, sent: String },
    #[error("a request with this key is still running")]
    InFlight,
    #[error("too many requests are waiting")]
    Overloaded,
    #[error("the request waited longer than its deadline; if it runs after all, the same key tells")]
    Deadline,
    #[error("a row it needs is held by another transaction")]
    RowHeld,
    #[error("the database cannot take it now: {0}")]
    Unavailable(String),
    #[error("the server is stopping")]
    Stopping,
    #[error("a defect of the program: {0}")]
    Bug(String),
}

/// How one attempt of a batch failed, and so what is done with it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another replica stored an answer to one of our keys: look again.
    AnswerTaken,
    /// 40P01 and 40001: the whole batch again.
    Serialization { deadlock: Option<Box<DbError>>, statement: String },
    /// 55P03: once more with SKIP LOCKED.
    LockTimeout,
    /// The data of one command; `natural_key` when a unique constraint stopped it.
    Data { natural_key: bool, message: String },
    /// Connection lost, shutdown, read only, out of resources: once more, then 503.
    Unavailable { message: String },
}

/// What went wrong with one statement.
#[derive(Debug, Error)]
#[error("{statement}: {cause}")]
pub struct StepError {
    pub statement: String,
    pub cause: Cause,
}

#[derive(Debug, Error)]
pub enum Cause {
    #[error("{}", describe(.0))]
    Database(#[from] tokio_postgres::Error),
    #[error("no answer from the database in time")]
    Silence,
    #[error("no connection to the database: {0}")]
    Pool(String),
}

fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => error.to_string(),
    }
}

impl StepError {
    pub fn db(&self) -> Option<&DbError> {
        match &self.cause {
            Cause::Database(error) => error.as_db_error(),
            Cause::Silence | Cause::Pool(_) => None,
        }
    }

    /// The transaction was already failed: not the cause, only its echo.
    pub(crate) fn is_echo(&self) -> bool {
        self.db().is_some_and(|db| *db.code() == SqlState::IN_FAILED_SQL_TRANSACTION)
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        let message = error.to_string();
        let Some(db) = error.db() else { return Self::Unavailable { message } };
        let code = db.code();
        if *code == SqlState::T_R_DEADLOCK_DETECTED {
            return Self::Serialization { deadlock: Some(Box::new(db.clone())), statement: error.statement };
        }
        if *code == SqlState::T_R_SERIALIZATION_FAILURE {
            return Self::Serialization { deadlock: None, statement: error.statement };
        }
        if *code == SqlState::LOCK_NOT_AVAILABLE {
            return Self::LockTimeout;
        }
        if *code == SqlState::UNIQUE_VIOLATION {
            // GUARD(answer_taken): the loser looks again, and its batch is not taken for poisoned.
            if db.constraint() == Some("answer_pkey") {
                return Self::AnswerTaken;
            }
            return Self::Data { natural_key: true, message };
        }
        let class = &code.code()[..2];
        // 0A000 is "cached plan must not change result type", after a migration beneath us.
        let transient =
            matches!(class, "08" | "53" | "57" | "58") || matches!(code.code(), "25006" | "25P03" | "0A000");
        if transient { Self::Unavailable { message } } else { Self::Data { natural_key: false, message } }
    }
}
