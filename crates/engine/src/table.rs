//! The rows a batch works on: what was locked and read, what commands made of it, what is stored.
//!
//! Owns the overlay: each row is held as loaded, as current (all commands so far) and as draft
//! (the command being decided). [`Rows::keep`] makes drafts current, [`Rows::discard`] forgets
//! them, so a command that refuses or panics leaves no trace.
//! Never decides anything, and never sends a statement: it only says which.

use crate::{
    number::Numbers,
    sql::{Param, Row, Sql, Write},
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    hash::Hash,
};

/// How strongly a row is wanted. The strongest per key is taken, once: asking for more of a row
/// already locked would be a lock upgrade, and two batches upgrading towards each other deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// As of the statement; others may change it before we commit.
    Read,
    /// Nobody changes it before we commit (`FOR SHARE`).
    Share,
    /// We change it (`FOR NO KEY UPDATE`: inserts that refer to it by foreign key go on).
    Change,
    /// As `Change`; where it is missing it is created first, so that there is a row to lock.
    Ensure,
}

impl Mode {
    pub const ALL: [Self; 4] = [Self::Read, Self::Share, Self::Change, Self::Ensure];

    const fn clause(self) -> &'static str {
        match self {
            Self::Read => "",
            Self::Share => "\nFOR SHARE OF t",
            // GUARD(change_lock): two that read the same row both spend what it holds.
            // GUARD(no_key_lock): without NO KEY every insert that refers to the row waits for us.
            Self::Change | Self::Ensure => "\nFOR NO KEY UPDATE OF t",
        }
    }
}

/// A table the working set can hold.
///
/// `LOAD` goes from the keys to the rows, one by one in the keys' order, which is sorted: that is
/// the order of the locks. It looks each row up in a LATERAL sub-select named `t`, which the engine
/// locks by the clause it appends, and whose OFFSET 0 keeps it one: written as a join, or as
/// `= ANY`, a plan made while the table was small reads all rows of the tenant and filters them.
pub trait Table: 'static {
    type Key: Ord + Hash + Clone + Debug + Send + Sync;
    type Row: Clone + PartialEq + Debug + Send + Sync;
    const NAME: &'static str;
    const LOAD: Sql;
    /// Creates the missing rows of [`Mode::Ensure`], where their references exist.
    const ENSURE: Option<Sql> = None;

    /// The parameters (`$2` and on) of `LOAD`.
    fn keys(keys: &[Self::Key]) -> Vec<Param>;
    fn ensure(keys: &[Self::Key]) -> Vec<Param> {
        Self::keys(keys)
    }
    fn read(row: &Row) -> (Self::Key, Self::Row);
    /// One statement for all inserts, one for all updates; `changes` come sorted by key.
    fn store(changes: &[Change<'_, Self>], numbers: &Numbers) -> Vec<Write>;
    /// Whether its rows may be locked. False for what is only ever inserted: the server has no
    /// right to lock there either.
    const LOCKED: bool = true;
    /// Whether its rows carry human numbers, and so are stored after the ranges returned them.
    const NUMBERED: bool = false;
    fn statements() -> Vec<Sql>;
}

/// A row that a batch changed.
pub struct Change<'a, T: Table + ?Sized> {
    pub key: T::Key,
    pub before: Option<&'a T::Row>,
    pub after: &'a T::Row,
}

/// A table that is only ever appended to: a ledger.
pub trait Log: 'static {
    type Line: Send + Sync;
    const NAME: &'static str;
    fn store(lines: &[Self::Line], at: jiff::Timestamp) -> Vec<Write>;
    fn statements() -> Vec<Sql>;
}

/// The keys of one table that commands asked for since the last load.
pub struct Want<T: Table>(Vec<(T::Key, Mode)>);

impl<T: Table> Default for Want<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Table> Want<T> {
    pub fn read(&mut self, key: T::Key) {
        self.0.push((key, Mode::Read));
    }
    pub fn share(&mut self, key: T::Key) {
        self.0.push((key, Mode::Share));
    }
    pub fn change(&mut self, key: T::Key) {
        self.0.push((key, Mode::Change));
    }
    /// As [`Want::change`], and creates the row where it is missing.
    pub fn ensure(&mut self, key: T::Key) {
        self.0.push((key, Mode::Ensure));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct Slot<R> {
    mode: Mode,
    loaded: Option<R>,
    current: Option<R>,
    draft: Option<R>,
    /// Another transaction held it when we asked with SKIP LOCKED: it may not be decided over.
    held: bool,
}

/// What a look at a row tells.
#[derive(Debug, PartialEq, Eq)]
pub enum Look<'a, R> {
    /// The command never asked for it: a bug of the command.
    Unasked,
    /// There is no such row, for this tenant.
    Missing,
    Row(&'a R),
}

/// The loaded rows of one table.
pub struct Rows<T: Table> {
    slots: HashMap<T::Key, Slot<T::Row>>,
    /// Asked for and not loaded yet.
    ///
    /// GUARD(lock_order): sorted, which is the order of the locks. Two batches that lock the same
    /// rows in different orders deadlock.
    wanted: BTreeMap<T::Key, Mode>,
    touched: Vec<T::Key>,
    closed: bool,
}

impl<T: Table> Default for Rows<T> {
    fn default() -> Self {
        Self { slots: HashMap::new(), wanted: BTreeMap::new(), touched: Vec::new(), closed: false }
    }
}

impl<T: Table> Rows<T> {
    pub fn look(&self, key: &T::Key) -> Look<'_, T::Row> {
        match self.slots.get(key) {
            None => Look::Unasked,
            Some(slot) => match slot.draft.as_ref().or(slot.current.as_ref()) {
                None => Look::Missing,
                Some(row) => Look::Row(row),
            },
        }
    }

    /// The row, or `None` where there is none.
    ///
    /// # Panics
    /// When the command did not ask for it; that fails the command alone.
    pub fn get(&self, key: &T::Key) -> Option<&T::Row> {
        match self.look(key) {
            Look::Row(row) => Some(row),
            Look::Missing => None,
            Look::Unasked => panic!("{} {key:?} was decided over without being asked for", T::NAME),
        }
    }

    /// The row to change, or `None` where there is none.
    ///
    /// # Panics
    /// When the command did not ask to change it; that fails the command alone.
    pub fn edit(&mut self, key: &T::Key) -> Option<&mut T::Row> {
        let slot = self
            .slots
            .get_mut(key)
            .unwrap_or_else(|| panic!("{} {key:?} was changed without being asked for", T::NAME));
        assert!(slot.mode >= Mode::Change, "{} {key:?} was asked for as {:?} only", T::NAME, slot.mode);
        if slot.draft.is_none() {
            slot.draft.clone_from(&slot.current);
            if slot.draft.is_some() {
                self.touched.push(key.clone());
            }
        }
        slot.draft.as_mut()
    }

    /// Adds a row under a key that is free: one just minted, or one asked for and missing.
    ///
    /// # Panics
    /// When a row with that key is there; that fails the command alone.
    pub fn insert(&mut self, key: T::Key, row: T::Row) {
        let slot = self.slots.entry(key.clone()).or_insert(Slot {
            mode: Mode::Change,
            loaded: None,
            current: None,
            draft: None,
            held: false,
        });
        assert!(slot.current.is_none() && slot.draft.is_none(), "{} {key:?} is there already", T::NAME);
        slot.draft = Some(row);
        self.touched.push(key);
    }

    #[doc(hidden)]
    pub fn take(&mut self, want: &Want<T>) {
        for (key, mode) in &want.0 {
            let (key, mode) = (key.clone(), *mode);
            assert!(T::LOCKED || mode == Mode::Read, "{} is only ever inserted and read", T::NAME);
            match self.slots.get(&key) {
                Some(slot) => assert!(
                    slot.mode >= mode,
                    "{} {key:?} was locked as {:?} and then asked for as {mode:?}",
                    T::NAME,
                    slot.mode
                ),
                None => {
                    // GUARD(closed_table): a lock taken against the order is a deadlock to come. A
                    // read takes none.
                    assert!(!self.closed || mode == Mode::Read, "{} {key:?} was asked for after its turn", T::NAME);
                    let entry = self.wanted.entry(key).or_insert(mode);
                    *entry = mode.max(*entry);
                }
            }
        }
    }

    #[doc(hidden)]
    pub fn any_held(&self, want: &Want<T>) -> bool {
        want.0.iter().any(|(key, _)| self.slots.get(key).is_some_and(|slot| slot.held))
    }
}

/// One statement of a load, and what to do with its rows.
pub struct Load {
    pub sql: Sql,
    pub suffix: String,
    pub params: Vec<Param>,
    /// `None`: the rows are of no interest (an ENSURE).
    pub mode: Option<Mode>,
    /// The plain read that tells a held row from a missing one.
    pub probe: bool,
}

/// A [`Rows`] of whatever table.
pub trait AnyRows: Send {
    fn name(&self) -> &'static str;
    fn loads(&mut self, skip_locked: bool) -> Vec<Load>;
    fn loaded(&mut self, load: &Load, rows: &[Row]);
    fn close(&mut self);
    fn keep(&mut self);
    fn discard(&mut self);
    fn writes(&self, numbers: &Numbers, numbered: bool) -> Vec<Write>;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Table> AnyRows for Rows<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn loads(&mut self, skip_locked: bool) -> Vec<Load> {
        let wanted = std::mem::take(&mut self.wanted);
        let mut loads = Vec::new();
        let ensured: Vec<_> =
            wanted.iter().filter(|(_, mode)| **mode == Mode::Ensure).map(|(key, _)| key.clone()).collect();
        if let (Some(sql), false) = (T::ENSURE, ensured.is_empty()) {
            loads.push(Load { sql, suffix: String::new(), params: T::ensure(&ensured), mode: None, probe: false });
        }
        // A table whose rows are wanted in several modes is asked once, in the strongest: two
        // statements over one table would lock its keys out of order.
        if let Some(mode) = wanted.values().max().copied() {
            let keys: Vec<_> = wanted.keys().cloned().collect();
            let skips = skip_locked && mode != Mode::Read;
            loads.push(Load {
                sql: T::LOAD,
                suffix: format!("{}{}", mode.clause(), if skips { " SKIP LOCKED" } else { "" }),
                params: T::keys(&keys),
                mode: Some(mode),
                probe: false,
            });
            if skips {
                loads.push(Load {
                    sql: T::LOAD,
                    suffix: String::new(),
                    params: T::keys(&keys),
                    mode: Some(mode),
                    probe: true,
                });
            }
            for key in keys {
                self.slots.insert(key, Slot { mode, loaded: None, current: None, draft: None, held: false });
            }
        }
        loads
    }

    fn loaded(&mut self, load: &Load, rows: &[Row]) {
        if load.mode.is_none() {
            return;
        }
        for row in rows {
            let (key, row) = T::read(row);
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            if load.probe {
                slot.held = slot.loaded.is_none();
            } else {
                slot.loaded = Some(row.clone());
                slot.current = Some(row);
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn keep(&mut self) {
        for key in self.touched.drain(..) {
            if let Some(slot) = self.slots.get_mut(&key)
                && let Some(draft) = slot.draft.take()
            {
                slot.current = Some(draft);
            }
        }
    }

    fn discard(&mut self) {
        for key in self.touched.drain(..) {
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.draft = None;
            }
        }
    }

    fn writes(&self, numbers: &Numbers, numbered: bool) -> Vec<Write> {
        if T::NUMBERED != numbered {
            return Vec::new();
        }
        let mut changes: Vec<_> = self
            .slots
            .iter()
            .filter_map(|(key, slot)| {
                let after = slot.current.as_ref()?;
                let same = slot.loaded.as_ref() == Some(after);
                (!same).then_some(Change { key: key.clone(), before: slot.loaded.as_ref(), after })
            })
            .collect();
        if changes.is_empty() {
            return Vec::new();
        }
        changes.sort_unstable_by(|a: &Change<'_, T>, b| a.key.cmp(&b.key));
        T::store(&changes, numbers)
    }

    fn len(&self) -> usize {
        self.slots.len() + self.wanted.len()
    }
}

/// The lines one batch appends to a log.
pub struct Lines<L: Log> {
    lines: Vec<L::Line>,
    kept: usize,
}

impl<L: Log> Default for Lines<L> {
    fn default() -> Self {
        Self { lines: Vec::new(), kept: 0 }
    }
}

impl<L: Log> Lines<L> {
    pub fn push(&mut self, line: L::Line) {
        self.lines.push(line);
    }
}

/// A [`Lines`] of whatever log.
pub trait AnyLines: Send {
    fn keep(&mut self);
    fn discard(&mut self);
    fn writes(&self, at: jiff::Timestamp) -> Vec<Write>;
}

impl<L: Log> AnyLines for Lines<L> {
    fn keep(&mut self) {
        self.kept = self.lines.len();
    }
    fn discard(&mut self) {
        self.lines.truncate(self.kept);
    }
    fn writes(&self, at: jiff::Timestamp) -> Vec<Write> {
        if self.lines.is_empty() { Vec::new() } else { L::store(&self.lines, at) }
    }
}

/// All tables a command may name; the order of the fields is the lock order.
pub trait TableSet: Default + Send + 'static {
    type Wants: Default + Send;
    fn tables(&mut self) -> Vec<&mut dyn AnyRows>;
    fn logs(&mut self) -> Vec<&mut dyn AnyLines>;
    /// Notes what was asked, to be loaded.
    fn take(&mut self, wants: &Self::Wants);
    /// Whether a row asked for is held by another transaction.
    fn any_held(&self, wants: &Self::Wants) -> bool;
    /// Every statement the set can send, for the test that prepares them all.
    fn statements() -> Vec<(Sql, String)>;
}

/// Declares a [`TableSet`] and the struct that commands ask with.
#[macro_export]
macro_rules! table_set {
    ($(#[$doc:meta])* $vis:vis struct $set:ident asked by $wants:ident {
        tables { $($(#[$tdoc:meta])* $table:ident: $Table:ty,)* }
        logs { $($(#[$ldoc:meta])* $log:ident: $Log:ty,)* }
    }) => {
        $(#[$doc])*
        #[derive(Default)]
        $vis struct $set {
            $($(#[$tdoc])* pub $table: $crate::table::Rows<$Table>,)*
            $($(#[$ldoc])* pub $log: $crate::table::Lines<$Log>,)*
        }

        /// What commands ask of the tables of the working set.
        #[derive(Default)]
        $vis struct $wants {
            $(pub $table: $crate::table::Want<$Table>,)*
        }

        impl $crate::table::TableSet for $set {
            type Wants = $wants;
            fn tables(&mut self) -> Vec<&mut dyn $crate::table::AnyRows> {
                vec![$(&mut self.$table,)*]
            }
            fn logs(&mut self) -> Vec<&mut dyn $crate::table::AnyLines> {
                vec![$(&mut self.$log,)*]
            }
            fn take(&mut self, wants: &$wants) {
                $(self.$table.take(&wants.$table);)*
            }
            fn any_held(&self, wants: &$wants) -> bool {
                false $(|| self.$table.any_held(&wants.$table))*
            }
            fn statements() -> Vec<($crate::sql::Sql, String)> {
                let mut all = Vec::new();
                $(all.extend($crate::table::spellings::<$Table>());)*
                $(all.extend(<$Log as $crate::table::Log>::statements().into_iter().map(|sql| {
                    let text = sql.spelled("");
                    (sql, text)
                }));)*
                all
            }
        }
    };
}

#[doc(hidden)]
pub fn spellings<T: Table>() -> Vec<(Sql, String)> {
    let modes = if T::LOCKED { &Mode::ALL[..] } else { &[Mode::Read] };
    let loads = modes.iter().map(|mode| (T::LOAD, T::LOAD.spelled(mode.clause())));
    let others = T::ENSURE.into_iter().chain(T::statements()).map(|sql| (sql, sql.spelled("")));
    loads.chain(others).collect()
}
