//! A statement as a value: named, typed, and so checkable against the schema by one test.
//!
//! Invariant: the name stands in the text as a comment, so that a log or `pg_stat_activity`
//! tells which statement it was.

pub use tokio_postgres::Row;
pub use tokio_postgres::types::{ToSql, Type};

/// One parameter of a statement.
pub type Param = Box<dyn ToSql + Sync + Send>;

/// A statement and the types of its parameters. `$1` is always the tenant, and the engine fills
/// it: a slice cannot name another one.
#[derive(Debug, Clone, Copy)]
pub struct Sql {
    pub name: &'static str,
    /// The types of `$2` and on.
    pub types: &'static [Type],
    pub text: &'static str,
}

impl Sql {
    pub const fn new(name: &'static str, types: &'static [Type], text: &'static str) -> Self {
        Self { name, types, text }
    }

    /// All parameter types, the tenant's first.
    pub fn all_types(&self) -> Vec<Type> {
        std::iter::once(Type::UUID).chain(self.types.iter().cloned()).collect()
    }

    /// The text as it is sent, with its name and what is appended to it.
    pub fn spelled(&self, suffix: &str) -> String {
        format!("/* {} */{}{suffix}", self.name, self.text)
    }
}

/// A statement with its parameters (`$2` and on), ready to be sent.
pub struct Write {
    pub sql: Sql,
    pub params: Vec<Param>,
}

/// Boxes a value as a parameter.
pub fn param(value: impl ToSql + Sync + Send + 'static) -> Param {
    Box::new(value)
}
