//! What a command is: a value that names the rows it needs and decides over them.
//!
//! Owns the contract between slices and engine. A command never sees SQL, a clock, a random
//! source or another command: everything it may know comes through [`Cx`].

use crate::{
    answer::{Answer, Fingerprint, Key},
    event::Event,
    number::{NumberSlot, Numbers, Range},
    table::{Table, TableSet},
};
use jiff::Timestamp;
use kernel::{
    id::{CallId, Id, Kind, TenantId},
    problem::Class,
};
use uuid::Uuid;

/// A right a credential may carry, `inventory.write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permission(pub &'static str);

/// Whom a call queues with, so that a process seldom waits for its own locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Queue {
    /// With its tenant's other calls.
    Tenant,
    /// With those that name the same single row up front, by a hash of its key.
    Row(u64),
    /// With those that name no row at all, and so need not wait behind a held one.
    Aside,
}

/// Whether a command has named all its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Complete,
    /// All that it locks is named. Ask once more when that is loaded: a missing row may need others
    /// read, to tell why it is missing. Costs a round trip only where it does.
    Locked,
    /// Ask again once the table of this name is loaded: its rows yield keys of later ones.
    After(&'static str),
}

impl Next {
    pub const fn after<T: Table>() -> Self {
        Self::After(T::NAME)
    }
}

/// The business saying no.
pub trait Reject: Send + Sync + 'static {
    /// Stable, noun then state: `promise_missing`.
    fn code(&self) -> &'static str;
    fn class(&self) -> Class;
    /// What is wrong, with which value, and the way out.
    fn detail(&self) -> String;
    /// Members of the problem document beside the standard ones.
    fn more(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}

/// A change, as a value. See the crate's head for how it is run.
pub trait Command<S: TableSet>: Send + Sync + 'static {
    const NAME: &'static str;
    const NEEDS: Permission;
    /// An assistant may only propose it.
    const CRITICAL: bool = false;
    /// Its checks are over rows that cannot all be named. SERIALIZABLE protects only among its
    /// own, so every writer of what it reads must be one too, or update the same row.
    const SERIALIZABLE: bool = false;
    /// Its answer carries a secret and is stored encrypted.
    const SEALED: bool = false;
    /// Its answer is kept for its key. False where the answer holds what must rest nowhere, and the key
    /// is the door's own. Such a command finds out by its rows that it ran before: after a COMMIT whose
    /// reply was lost it is decided once more.
    const STORED: bool = true;
    type Done: Send + Sync + 'static;
    type Reject: Reject;

    /// Whom it queues with.
    fn lane(&self) -> Queue {
        Queue::Tenant
    }
    /// How many rows it will touch, roughly: what bounds a batch.
    fn weight(&self) -> usize {
        1
    }
    /// Names the rows it needs, each with its mode. Never fails: a missing row ends it, and
    /// `decide` says so.
    fn wants(&self, set: &S, wants: &mut S::Wants) -> Next;
    /// Pure. Whatever it did before it refuses or panics is forgotten.
    ///
    /// # Errors
    /// When the business says no.
    fn decide(&self, cx: &mut Cx<'_, S>) -> Result<Self::Done, Self::Reject>;
}

/// Makes the bytes of the answer, before the commit and without looking anything up.
pub type Encode<D, R> = fn(Result<&D, &R>, &Numbers) -> Answer;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// For the audit: an API key's id, `operator`.
    pub id: String,
    /// For people who are told who it was.
    pub name: String,
}

impl Actor {
    /// Whoever runs the server.
    pub fn operator() -> Self {
        Self { id: "operator".into(), name: "the operator".into() }
    }
}

/// Everything about a call but the command.
#[derive(Debug, Clone)]
pub struct Head {
    pub call: CallId,
    pub tenant: TenantId,
    pub key: Key,
    pub fingerprint: Fingerprint,
    pub actor: Actor,
    pub correlation: String,
    pub remote: Option<String>,
}

/// What a command decides with.
pub struct Cx<'a, S: TableSet> {
    pub set: &'a mut S,
    pub tenant: TenantId,
    /// The database's clock after the last lock: one instant for the whole batch.
    pub at: Timestamp,
    pub(crate) ids: &'a mut Ids,
    pub(crate) events: &'a mut Vec<(Event, String)>,
    pub(crate) numbers: &'a mut Numbers,
    pub(crate) head: &'a Head,
}

impl<S: TableSet> Cx<'_, S> {
    /// A fresh id. A rerun of the call gets the same ones in the same order.
    pub fn id<K: Kind>(&mut self) -> Id<K> {
        Id::from(self.ids.next())
    }

    /// Who asks, from where, under which correlation id.
    pub fn head(&self) -> &'_ Head {
        self.head
    }

    pub fn event(&mut self, event: Event) {
        self.events.push((event, self.head.correlation.clone()));
    }

    /// A gapless number, known only when the answer is encoded.
    pub fn number(&mut self, range: Range) -> NumberSlot {
        self.numbers.ask(range)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ids {
    minted: Vec<Uuid>,
    used: usize,
}

impl Ids {
    fn next(&mut self) -> Uuid {
        if self.used == self.minted.len() {
            self.minted.push(Uuid::now_v7());
        }
        self.used += 1;
        self.minted[self.used - 1]
    }
}

/// How a decision ended.
pub(crate) enum Verdict {
    Done,
    Rejected { code: &'static str, stored: bool },
}

/// A call of whatever command over the set `S`, so that kinds mix in a batch.
pub(crate) trait AnyCall<S: TableSet>: Send + Sync {
    fn head(&self) -> &Head;
    fn name(&self) -> &'static str;
    fn sealed(&self) -> bool;
    fn stored(&self) -> bool;
    fn serializable(&self) -> bool;
    fn weight(&self) -> usize;
    fn wants(&self, set: &S, wants: &mut S::Wants) -> Next;
    fn decide(&mut self, batch: Deciding<'_, S>) -> Verdict;
    fn encode(&self, numbers: &Numbers) -> Answer;
}

/// What the batch lends to a decision.
pub(crate) struct Deciding<'a, S: TableSet> {
    pub set: &'a mut S,
    pub at: Timestamp,
    pub events: &'a mut Vec<(Event, String)>,
    pub numbers: &'a mut Numbers,
}

/// A command on its way, with the head of its call and the encoder of its answer.
pub struct Call<S: TableSet, C: Command<S>> {
    head: Head,
    command: C,
    encode: Encode<C::Done, C::Reject>,
    ids: Ids,
    outcome: Option<Result<C::Done, C::Reject>>,
}

impl<S: TableSet, C: Command<S>> Call<S, C> {
    pub fn new(head: Head, command: C, encode: Encode<C::Done, C::Reject>) -> Self {
        Self { head, command, encode, ids: Ids::default(), outcome: None }
    }
}

impl<S: TableSet, C: Command<S>> AnyCall<S> for Call<S, C> {
    fn head(&self) -> &Head {
        &self.head
    }
    fn name(&self) -> &'static str {
        C::NAME
    }
    fn sealed(&self) -> bool {
        C::SEALED
    }
    fn stored(&self) -> bool {
        C::STORED
    }
    fn serializable(&self) -> bool {
        C::SERIALIZABLE
    }
    fn weight(&self) -> usize {
        self.command.weight()
    }
    fn wants(&self, set: &S, wants: &mut S::Wants) -> Next {
        self.command.wants(set, wants)
    }

    fn decide(&mut self, batch: Deciding<'_, S>) -> Verdict {
        self.ids.used = 0;
        let outcome = self.command.decide(&mut Cx {
            set: batch.set,
            tenant: self.head.tenant,
            at: batch.at,
            ids: &mut self.ids,
            events: batch.events,
            numbers: batch.numbers,
            head: &self.head,
        });
        let verdict = match &outcome {
            Ok(_) => Verdict::Done,
            Err(reject) => Verdict::Rejected { code: reject.code(), stored: reject.class().is_stored() },
        };
        self.outcome = Some(outcome);
        verdict
    }

    fn encode(&self, numbers: &Numbers) -> Answer {
        let outcome = self.outcome.as_ref().expect("a call is encoded after it was decided");
        (self.encode)(outcome.as_ref(), numbers)
    }
}
