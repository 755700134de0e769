//! The program over HTTP on a real PostgreSQL. A test's name carries the requirement or case it
//! proves.

mod ats;
mod cases;
mod cli;
mod documents;
mod embedded;
mod failure;
mod idem;
mod import;
mod input;
mod isolation;
mod lock;
mod occ;
mod operation;
mod outbox;
mod people;
mod precheck;
mod process;
mod race;
mod session;
mod statements;
