//! The toy domain: two tables, and commands that behave as badly as a test needs.

use bytes::Bytes;
use engine::{
    Answered, Command, Config, Cx, Encode, Engine, Fault, Head, Next, Queue, Reject,
    answer::{Answer, Fingerprint, Key},
    command::Permission,
    number::{NumberSlot, Numbers, Range},
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Table},
};
use kernel::{
    id::{CallId, TenantId},
    problem::Class,
};
use testkit::Database;

const SCHEMA: &str = "
    SET ROLE tallyhold_owner;
    CREATE TABLE counter (
        tenant_id uuid NOT NULL,
        name text NOT NULL,
        value bigint NOT NULL,
        PRIMARY KEY (tenant_id, name),
        CONSTRAINT counter_max CHECK (value <= 1000)
    );
    SELECT tenant_wall('counter');
    GRANT SELECT, INSERT, UPDATE ON counter TO tallyhold_server;
    CREATE TABLE note (
        tenant_id uuid NOT NULL,
        name text NOT NULL,
        counter text NOT NULL,
        number bigint,
        PRIMARY KEY (tenant_id, name)
    );
    SELECT tenant_wall('note');
    GRANT SELECT, INSERT, UPDATE ON note TO tallyhold_server;
    RESET ROLE";

pub struct Counters;

const COUNTER_LOAD: Sql = Sql::new(
    "counter_load",
    &[Type::TEXT_ARRAY],
    " SELECT t.name, t.value FROM counter AS t WHERE t.tenant_id = $1 AND t.name = ANY($2) ORDER BY t.name",
);
const COUNTER_ENSURE: Sql = Sql::new(
    "counter_ensure",
    &[Type::TEXT_ARRAY],
    " INSERT INTO counter (tenant_id, name, value) SELECT $1, k, 0 FROM unnest($2::text[]) AS k ORDER BY k
      ON CONFLICT (tenant_id, name) DO NOTHING",
);
const COUNTER_STORE: Sql = Sql::new(
    "counter_store",
    &[Type::TEXT_ARRAY, Type::INT8_ARRAY],
    " WITH stored AS (UPDATE counter AS t SET value = k.value
      FROM (SELECT unnest($2::text[]) AS name, unnest($3::int8[]) AS value) AS k,
        LATERAL (SELECT r.ctid FROM counter AS r WHERE r.tenant_id = $1 AND r.name = k.name OFFSET 0) AS found
      WHERE t.tenant_id = $1 AND t.ctid = found.ctid RETURNING 1)
      SELECT rows_expected(count(*), cardinality($2)) FROM stored",
);

impl Table for Counters {
    type Key = String;
    type Row = i64;
    const NAME: &'static str = "counter";
    const LOAD: Sql = COUNTER_LOAD;
    const ENSURE: Option<Sql> = Some(COUNTER_ENSURE);
    fn keys(keys: &[String]) -> Vec<Param> {
        vec![param(keys.to_vec())]
    }
    fn read(row: &Row) -> (String, i64) {
        (row.get(0), row.get(1))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let names: Vec<_> = changes.iter().map(|change| change.key.clone()).collect();
        let values: Vec<_> = changes.iter().map(|change| *change.after).collect();
        vec![Write { sql: COUNTER_STORE, params: vec![param(names), param(values)] }]
    }
    fn statements() -> Vec<Sql> {
        vec![COUNTER_STORE]
    }
}

/// A document: which counter it is about, and its number once it has one.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub counter: String,
    pub number: Option<NumberSlot>,
}

pub struct Notes;

const NOTE_LOAD: Sql = Sql::new(
    "note_load",
    &[Type::TEXT_ARRAY],
    " SELECT t.name, t.counter FROM note AS t WHERE t.tenant_id = $1 AND t.name = ANY($2) ORDER BY t.name",
);
const NOTE_STORE: Sql = Sql::new(
    "note_store",
    &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY],
    " INSERT INTO note (tenant_id, name, counter, number)
      SELECT $1, unnest($2::text[]), unnest($3::text[]), unnest($4::int8[])",
);

impl Table for Notes {
    type Key = String;
    type Row = Note;
    const NAME: &'static str = "note";
    const LOAD: Sql = NOTE_LOAD;
    const NUMBERED: bool = true;
    fn keys(keys: &[String]) -> Vec<Param> {
        vec![param(keys.to_vec())]
    }
    fn read(row: &Row) -> (String, Note) {
        (row.get(0), Note { counter: row.get(1), number: None })
    }
    fn store(changes: &[Change<'_, Self>], numbers: &Numbers) -> Vec<Write> {
        let names: Vec<_> = changes.iter().map(|change| change.key.clone()).collect();
        let counters: Vec<_> = changes.iter().map(|change| change.after.counter.clone()).collect();
        let given: Vec<_> = changes.iter().map(|change| change.after.number.map(|slot| numbers.get(slot))).collect();
        vec![Write { sql: NOTE_STORE, params: vec![param(names), param(counters), param(given)] }]
    }
    fn statements() -> Vec<Sql> {
        vec![NOTE_STORE]
    }
}

engine::table_set! {
    pub struct Set asked by Wants {
        tables {
            note: Notes,
            counter: Counters,
        }
        logs {}
    }
}

/// A no whose class the test chooses.
#[derive(Debug)]
pub struct No(pub Class);

impl Reject for No {
    fn code(&self) -> &'static str {
        "no"
    }
    fn class(&self) -> Class {
        self.0
    }
    fn detail(&self) -> String {
        "no".into()
    }
}

/// What one call does to a counter.
#[derive(Debug, Clone)]
pub enum Step {
    Add(i64),
    /// Adds to what is still 0; else a no that is not kept.
    AddFirst(i64),
    /// Adds, then says no.
    AddAndRefuse(i64),
    /// Adds, then panics.
    AddAndPanic(i64),
    /// Adds to the counter a note names: known only once the note is loaded.
    AddByNote(String, i64),
    /// Writes a note of that name with a number of the year.
    Note(String, i32),
    /// As `Note`, and then says no.
    NoteAndRefuse(String, i32),
    /// Looks at a row it never asked for.
    Peek,
    /// Asks for the counter first and for a note when that table's turn is over.
    AskBackwards,
}

#[derive(Debug, Clone)]
pub struct Do {
    pub counter: String,
    pub step: Step,
}

impl Command<Set> for Do {
    const NAME: &'static str = "toy.do";
    const NEEDS: Permission = Permission("toy");
    type Done = (i64, Option<NumberSlot>);
    type Reject = No;

    fn lane(&self) -> Queue {
        Queue::Tenant
    }

    fn wants(&self, set: &Set, wants: &mut Wants) -> Next {
        match &self.step {
            Step::AddByNote(name, _) => match set.note.look(name) {
                engine::table::Look::Unasked => {
                    wants.note.read(name.clone());
                    return Next::after::<Notes>();
                }
                engine::table::Look::Missing => {}
                engine::table::Look::Row(note) => wants.counter.ensure(note.counter.clone()),
            },
            Step::Note(name, _) | Step::NoteAndRefuse(name, _) => {
                wants.note.read(name.clone());
                wants.counter.ensure(self.counter.clone());
            }
            Step::AskBackwards => {
                if matches!(set.counter.look(&self.counter), engine::table::Look::Unasked) {
                    wants.counter.ensure(self.counter.clone());
                    return Next::after::<Counters>();
                }
                wants.note.change("late".into());
            }
            _ => wants.counter.ensure(self.counter.clone()),
        }
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_, Set>) -> Result<Self::Done, No> {
        let add = |cx: &mut Cx<'_, Set>, name: &String, amount: i64| {
            let value = cx.set.counter.edit(name).expect("it was ensured");
            *value += amount;
            *value
        };
        match &self.step {
            Step::AddFirst(_) if cx.set.counter.get(&self.counter) != Some(&0) => Err(No(Class::Conflict)),
            Step::Add(amount) | Step::AddFirst(amount) => Ok((add(cx, &self.counter, *amount), None)),
            Step::AddAndRefuse(amount) => {
                add(cx, &self.counter, *amount);
                Err(No(Class::Refused))
            }
            Step::AddAndPanic(amount) => {
                add(cx, &self.counter, *amount);
                panic!("told to panic");
            }
            Step::AddByNote(name, amount) => {
                let counter = cx.set.note.get(name).ok_or(No(Class::Missing))?.counter.clone();
                Ok((add(cx, &counter, *amount), None))
            }
            Step::Note(name, year) | Step::NoteAndRefuse(name, year) => {
                if cx.set.note.get(name).is_some() {
                    return Err(No(Class::Conflict));
                }
                let number = cx.number(Range { object: "note", fiscal_year: *year });
                cx.set.note.insert(name.clone(), Note { counter: self.counter.clone(), number: Some(number) });
                let value = add(cx, &self.counter, 1);
                if matches!(self.step, Step::NoteAndRefuse(..)) {
                    return Err(No(Class::Refused));
                }
                Ok((value, Some(number)))
            }
            Step::Peek => Ok((*cx.set.counter.get(&"never asked".to_owned()).unwrap_or(&0), None)),
            Step::AskBackwards => Ok((0, None)),
        }
    }
}

/// As [`Step::Add`], in a transaction whose reads are serializable.
pub struct Careful {
    counter: String,
    amount: i64,
}

impl Command<Set> for Careful {
    const NAME: &'static str = "toy.careful";
    const NEEDS: Permission = Permission("toy");
    const SERIALIZABLE: bool = true;
    type Done = (i64, Option<NumberSlot>);
    type Reject = No;

    fn wants(&self, _: &Set, wants: &mut Wants) -> Next {
        wants.counter.change(self.counter.clone());
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_, Set>) -> Result<Self::Done, No> {
        let value = cx.set.counter.edit(&self.counter).ok_or(No(Class::Missing))?;
        *value += self.amount;
        Ok((*value, None))
    }
}

fn encode(outcome: Result<&(i64, Option<NumberSlot>), &No>, numbers: &Numbers) -> Answer {
    match outcome {
        Ok((value, slot)) => {
            let number = slot.map_or_else(|| "null".into(), |slot| numbers.get(slot).to_string());
            Answer::json(200, Bytes::from(format!("{{\"value\":{value},\"number\":{number}}}")))
        }
        Err(No(Class::Refused)) => Answer::problem(422, Bytes::from_static(b"{\"code\":\"no\"}")),
        Err(_) => Answer::problem(404, Bytes::from_static(b"{\"code\":\"no\"}")),
    }
}

pub const ENCODE: Encode<(i64, Option<NumberSlot>), No> = encode;

/// A database with the toy schema, and an engine over it.
pub struct Toy {
    pub database: std::sync::Arc<Database>,
    pub engine: Engine<Set>,
    pub tenant: TenantId,
}

impl Toy {
    pub async fn start(tune: impl FnOnce(&mut Config)) -> Self {
        let database = Database::new().await;
        database.raw_admin().await.batch_execute(SCHEMA).await.expect("the toy schema");
        Self::over(std::sync::Arc::new(database), TenantId::mint(), tune).await
    }

    /// Another replica of this one.
    pub async fn twin(&self) -> Self {
        self.twin_with(|_| {}).await
    }

    pub async fn twin_with(&self, tune: impl FnOnce(&mut Config)) -> Self {
        Self::over(self.database.clone(), self.tenant, tune).await
    }

    async fn over(database: std::sync::Arc<Database>, tenant: TenantId, tune: impl FnOnce(&mut Config)) -> Self {
        let mut config = testkit::app::config(database.server());
        tune(&mut config);
        Self { engine: Engine::start(config).await.expect("the engine starts"), database, tenant }
    }

    pub async fn call(&self, key: &str, counter: &str, step: Step) -> Result<Answered, Fault> {
        let body = format!("{{\"counter\":\"{counter}\",\"step\":\"{}\"}}", format!("{step:?}").replace('"', "'"));
        self.engine.submit(self.head(key, &body), Do { counter: counter.into(), step }, ENCODE).await
    }

    pub async fn careful(&self, key: &str, counter: &str, amount: i64) -> Result<Answered, Fault> {
        let body = format!("{{\"counter\":\"{counter}\",\"amount\":{amount}}}");
        self.engine.submit(self.head(key, &body), Careful { counter: counter.into(), amount }, ENCODE).await
    }

    fn head(&self, key: &str, body: &str) -> Head {
        Head {
            call: CallId::mint(),
            tenant: self.tenant,
            key: Key::new(key).expect("a key"),
            fingerprint: Fingerprint::of("TOY", "do", None, body.as_bytes()).expect("JSON"),
            actor: engine::Actor::operator(),
            correlation: key.into(),
            remote: None,
        }
    }

    pub async fn value(&self, counter: &str) -> Option<i64> {
        let admin = self.database.raw_admin().await;
        let row = admin.query_opt("SELECT value FROM counter WHERE name = $1", &[&counter]).await.expect("readable");
        row.map(|row| row.get(0))
    }

    pub async fn numbers(&self) -> Vec<i64> {
        let admin = self.database.raw_admin().await;
        let rows = admin.query("SELECT number FROM note ORDER BY number", &[]).await.expect("readable");
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub async fn answers(&self) -> i64 {
        let admin = self.database.raw_admin().await;
        admin.query_one("SELECT count(*) FROM answer", &[]).await.expect("readable").get(0)
    }
}

/// The body of an answer that must be a success.
#[track_caller]
pub fn body(outcome: Result<Answered, Fault>) -> String {
    let answered = outcome.expect("an answer");
    assert_eq!(answered.answer.status, 200, "{answered:?}");
    String::from_utf8(answered.answer.body.to_vec()).expect("text")
}
