//! The program over HTTP on a real PostgreSQL. A test's name carries the requirement or case it
//! proves.

mod import;
