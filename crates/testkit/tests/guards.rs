//! Every guard in the source can be taken away: `bin/hygiene guards` does so and demands that the
//! guard's test then fails. Here, quickly: that each `GUARD(name)` has its `guards/name.patch` and
//! each patch its guard, fits the source in one place only, and names tests that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of all files below the folder of this name in every crate.
fn in_crates(folder: &str) -> String {
    let crates = fs::read_dir(root().join("crates")).expect("crates");
    let folders = crates.map(|one| one.expect("a crate").path().join(folder)).filter(|path| path.is_dir());
    folders.flat_map(|path| files(&path)).map(|path| read(&path)).collect()
}

fn guards() -> BTreeSet<String> {
    let migrations: String = files(&root().join("migrations")).iter().map(|path| read(path)).collect();
    let text = in_crates("src") + &migrations;
    text.split("GUARD(").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

fn patches() -> Vec<(String, String)> {
    let patches = files(&root().join("guards")).into_iter().filter(|path| path.extension() == Some("patch".as_ref()));
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    patches.map(|path| (name(&path), read(&path))).collect()
}

/// The file of each hunk, and the lines it wants to find there.
fn hunks(patch: &str) -> Vec<(String, String)> {
    let mut hunks: Vec<(String, String)> = Vec::new();
    let mut file = "";
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("--- a/") {
            file = path;
        } else if line.starts_with("@@ ") {
            hunks.push((file.to_owned(), "\n".to_owned()));
        } else if let (Some((_, wanted)), Some(found)) = (hunks.last_mut(), line.strip_prefix([' ', '-'])) {
            wanted.push_str(found);
            wanted.push('\n');
        }
    }
    hunks
}

#[test]
fn test_10_every_guard_has_its_patch_and_every_patch_its_guard() {
    let patches: BTreeSet<String> = patches().into_iter().map(|(name, _)| name).collect();
    let guards = guards();
    let bare: Vec<_> = guards.difference(&patches).collect();
    assert!(bare.is_empty(), "GUARD without guards/<name>.patch (see guards/README.md): {bare:?}");
    let stray: Vec<_> = patches.difference(&guards).collect();
    assert!(stray.is_empty(), "guards/<name>.patch without a GUARD(<name>) in the source: {stray:?}");
}

#[test]
fn every_patch_fits_the_source_in_one_place() {
    for (name, patch) in patches() {
        let hunks = hunks(&patch);
        assert!(!hunks.is_empty(), "{name}: nothing is taken away");
        for hunk in patch.split("\n@@ ").skip(1) {
            let last = hunk.split("\n--- ").next().and_then(|hunk| hunk.trim_end_matches('\n').lines().last());
            let ends_well = last.is_some_and(|line| line.starts_with(' '));
            assert!(ends_well, "{name}: git takes a hunk that ends without context for the end of its file");
        }
        for (file, wanted) in hunks {
            let places = read(&root().join(&file)).matches(&wanted).count();
            assert_eq!(places, 1, "{name} fits {file} in {places} places: make guards/{name}.patch anew; {wanted}");
        }
    }
}

#[test]
fn every_patch_names_tests_that_exist() {
    let text = in_crates("tests");
    for (name, patch) in patches() {
        let tests: Vec<_> = patch.lines().filter_map(|line| line.strip_prefix("Test: ")).collect();
        assert!(!tests.is_empty(), "{name}: no line `Test: package::binary path::of_the_test`");
        for test in tests {
            let function = test.rsplit([' ', ':']).next().unwrap_or_default();
            assert!(text.contains(&format!("fn {function}(")), "{name}: there is no test {test}");
        }
    }
}
