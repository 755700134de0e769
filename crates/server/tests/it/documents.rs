//! What the documents say, held against the program.

use clap::CommandFactory;
use engine::table::TableSet;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder with this ending.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
}

fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root().join("docs"), "md", &mut found);
    for name in ["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        found.push(root().join(name));
    }
    found
}

/// The sources that are shipped, as one text.
fn sources() -> String {
    let mut found = Vec::new();
    for name in ["kernel", "engine", "domain", "server", "sim"] {
        files(&root().join("crates").join(name).join("src"), "rs", &mut found);
    }
    found.iter().map(text).collect()
}

/// The first cell of each row of the tables, if it is one name in back ticks.
fn first_cells(document: &str) -> BTreeSet<String> {
    let cell = |line: &str| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned());
    document.lines().filter_map(cell).collect()
}

fn is_code(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// The literals that stand right behind one of `marks`.
fn literals(source: &str, marks: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for mark in marks {
        for (at, _) in source.match_indices(mark) {
            let rest = source[at + mark.len()..].trim_start();
            if let Some((literal, _)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
                found.insert(literal.to_owned());
            }
        }
    }
    found
}

#[test]
fn every_error_code_is_documented_and_every_documented_one_exists() {
    let sources = sources();
    let mut codes = BTreeSet::new();
    // What the rules refuse with: the arms of `fn code`.
    for (at, _) in sources.match_indices("fn code(&self) -> &'static str {") {
        let body = &sources[at..];
        codes.extend(literals(&body[..body.find("\n    }\n").expect("it ends")], &["=>", "{\n"]));
    }
    // What the door refuses with.
    let door = text("crates/server/src/api/problem.rs");
    let statuses: Vec<String> = door
        .match_indices("StatusCode::")
        .map(|(at, _)| door[at..].split_inclusive(',').next().unwrap_or_default().to_owned())
        .filter(|mark| mark.ends_with(','))
        .collect();
    codes.extend(literals(&door, &statuses.iter().map(String::as_str).collect::<Vec<_>>()));
    codes.extend(literals(
        &door,
        &["Fault::Overloaded =>", "Fault::Deadline =>", "Fault::RowHeld =>", "Fault::Stopping =>"],
    ));
    codes.extend(literals(&sources, &["Problem::malformed("]));
    codes.retain(|code| is_code(code));
    assert!(codes.len() > 30, "{codes:?}");
    assert_eq!(first_cells(&text("docs/reference/errors.md")), codes);
}

#[test]
fn every_metric_is_documented_and_every_documented_one_exists() {
    let marks = ["histogram!(", "counter!(", "gauge!("];
    let mut measured = literals(&sources(), &marks);
    measured.retain(|name| name.starts_with("tallyhold_"));
    let mut documented = first_cells(&text("docs/operating/running.md"));
    documented.retain(|name| name.starts_with("tallyhold_"));
    assert_eq!(documented, measured);
}

#[test]
fn the_readme_lists_every_verb() {
    let told: BTreeSet<String> = text("README.md")
        .split("## The verbs")
        .nth(1)
        .expect("the section")
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once(" |").map(|(cell, _)| cell.to_owned()))
        .flat_map(|cell| {
            let verbs = cell.split('`').filter(|part| !part.trim_matches([',', ' ']).is_empty());
            let names = verbs.map(|verb| verb.split(' ').filter(|word| word.starts_with(char::is_lowercase)));
            names.map(|words| words.collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        })
        .collect();
    let mut real = BTreeSet::new();
    for verb in server::cli::Cli::command().get_subcommands() {
        let name = verb.get_name();
        let deeper: Vec<_> = verb.get_subcommands().map(|sub| format!("{name} {}", sub.get_name())).collect();
        if deeper.is_empty() { real.extend([name.to_owned()]) } else { real.extend(deeper) }
    }
    assert_eq!(told, real);
}

#[test]
fn the_documented_lock_order_is_the_programs() {
    let mut set = domain::WorkingSet::default();
    let order: Vec<_> = set.tables().iter().map(|table| table.name()).collect();
    let document = text("ARCHITECTURE.md");
    let told = document.split("## Lock order").nth(1).expect("the section");
    let told = told.lines().find_map(|line| line.strip_prefix("    ")).expect("the list");
    assert_eq!(told.split(" · ").collect::<Vec<_>>(), order);
}

#[test]
fn every_link_and_every_named_file_exists() {
    let mut off = Vec::new();
    for document in documents() {
        let content = text(&document);
        let folder = document.parent().expect("a folder");
        for link in content.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let target = if path.is_empty() { document.clone() } else { folder.join(path) };
            let is_there = target.exists()
                && (heading.is_empty() || text(&target).lines().any(|line| anchor(line).as_deref() == Some(heading)));
            if !is_there {
                off.push(format!("{}: ({link})", document.display()));
            }
        }
        for named in content.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "docs/", "migrations/", "guards/", "bin/"].iter().any(|at| named.starts_with(at));
            if is_path && !named.contains(['<', '*', ' ', '…']) && !root().join(named).exists() {
                off.push(format!("{}: `{named}`", document.display()));
            }
        }
    }
    assert_eq!(off, [] as [&str; 0]);
}

/// How a heading is linked to.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .collect::<String>();
    Some(kept.replace(' ', "-"))
}
