//! `tallyhold demo`, as anybody runs it: the real program, its own PostgreSQL, real kills.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A folder for temporary files that PostgreSQL's user may pass through.
fn temporary() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    folder
}

/// The demo, in an environment that says other things to other verbs.
fn demo(temporary: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyhold"));
    command
        .arg("demo")
        .env("TMPDIR", temporary)
        .env("TALLYHOLD_DATA", "/nowhere/tallyhold")
        .env("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
        .env("TALLYHOLD_LISTEN", "127.0.0.1:1")
        .env("TALLYHOLD_SECRET", "weak")
        .stdin(Stdio::null());
    command
}

/// A line without what differs from run to run: times, ids, and which of the two was first.
fn alike(line: &str) -> String {
    let word = |word: &str| match word.trim_matches([',', '.']) {
        "Austin" | "Tokyo" => "SOMEBODY".to_owned(),
        key if key.contains('|') => "KEY".to_owned(),
        id if id.starts_with("prm_") => "ID".to_owned(),
        _ => word.to_owned(),
    };
    let line = line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    line.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("#")
}

fn left_behind(temporary: &Path) -> Vec<String> {
    let entries = fs::read_dir(temporary).expect("it is there");
    entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn case_022_two_checkouts_and_the_whole_story_in_one_demo() {
    let temporary = temporary();
    let output = demo(temporary.path()).output().expect("it starts");
    let told = String::from_utf8(output.stdout).expect("it is text");
    let logged = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{told}\n{logged}", output.status);

    for line in [
        // Two checkouts for the last six: one has them, the other knows how many are left.
        "200  6 promised as prm_",
        "422  insufficient_ats: 6 wanted, 0 available",
        "ok exactly one 200 and one 422",
        "ok six are promised of six, not twelve",
        // The same click twice.
        "ok exactly one of them ran",
        "ok replayed: the first answer, byte for byte",
        // The reply lost after the commit.
        "ok the answer that was lost, not a second promise",
        "ok the stock was taken once",
        // The key reused.
        "422  idempotency_key_reused",
        "ok nothing changed",
        // Killed on either side of the commit.
        "killed (kill -9) before the database could commit",
        "killed (kill -9) before it could answer",
        "ok exactly one effect",
        // The books.
        "Washed Indigo / M: on hand 6, allocated 6, available to sell 0",
        "Desert Sand / L: on hand 24, allocated 24, available to sell 0",
        "ok the position is the sum of its ledger, without a hole",
        "ok one event for each change, in order, without a hole",
        "nothing is off",
        "Six shirts, six promised:",
    ] {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
    for scene in 1..=7 {
        assert!(
            told.lines().any(|line| line.starts_with(&format!("{scene}  "))),
            "scene {scene} is missing in\n{told}"
        );
    }
    assert!(!told.contains("OFF") && !told.contains('\x1b'), "{told}");
    let readme = include_str!("../../../README.md");
    let excerpt = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the excerpt");
    let said: HashSet<String> = told.lines().map(alike).collect();
    for line in excerpt.lines().filter(|line| *line != "…") {
        assert!(said.contains(&alike(line)), "README.md shows {line:?}, which is not in\n{told}");
    }
    let widest = told.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns in\n{told}");
    assert_eq!(left_behind(temporary.path()), [] as [&str; 0]);
}

#[test]
fn test_01_an_interrupted_demo_leaves_nothing_behind() {
    let temporary = temporary();
    let mut child = demo(temporary.path()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut told = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.starts_with("3  ") {
        line.clear();
        assert_ne!(told.read_line(&mut line).expect("it is text"), 0, "it ended early");
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
    assert!(!rest.contains("OFF"), "{rest}");
    assert_eq!(left_behind(temporary.path()), [] as [&str; 0]);
}
