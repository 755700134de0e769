//! The working set without a database: what a refusal leaves behind.

use super::toy::{Note, Set, Wants};
use engine::table::{Look, TableSet};
use proptest::prelude::*;

/// What a command did to the set before it was kept or discarded.
#[derive(Debug, Clone)]
enum Touch {
    Insert(u8, String),
    Edit(u8, String),
}

fn touch() -> impl Strategy<Value = Touch> {
    let text = "[a-z]{1,3}";
    prop_oneof![
        (0u8..6, text).prop_map(|(k, v)| Touch::Insert(k, v)),
        (0u8..6, text).prop_map(|(k, v)| Touch::Edit(k, v))
    ]
}

fn look(set: &Set) -> Vec<Option<Note>> {
    let one = |key: u8| match set.note.look(&key.to_string()) {
        Look::Row(note) => Some(note.clone()),
        Look::Missing | Look::Unasked => None,
    };
    (0..6).map(one).collect()
}

fn apply(set: &mut Set, touches: &[Touch]) {
    for touch in touches {
        match touch {
            Touch::Insert(key, text) => {
                let key = key.to_string();
                if !matches!(set.note.look(&key), Look::Row(_)) {
                    set.note.insert(key, Note { counter: text.clone(), number: None });
                }
            }
            Touch::Edit(key, text) => {
                let key = key.to_string();
                if matches!(set.note.look(&key), Look::Row(_)) {
                    set.note.edit(&key).expect("it is there").counter.clone_from(text);
                }
            }
        }
    }
}

proptest! {
    /// After a command that refused or panicked, the set is what it was; and what was kept is
    /// what running only the kept commands gives.
    #[test]
    fn a_discarded_command_leaves_no_trace(commands in prop::collection::vec((any::<bool>(), prop::collection::vec(touch(), 0..8)), 0..12)) {
        let mut set = Set::default();
        let mut only_kept = Set::default();
        for (keep, touches) in &commands {
            let before = look(&set);
            apply(&mut set, touches);
            if *keep {
                set.tables().into_iter().for_each(|table| table.keep());
                apply(&mut only_kept, touches);
                only_kept.tables().into_iter().for_each(|table| table.keep());
            } else {
                set.tables().into_iter().for_each(|table| table.discard());
                prop_assert_eq!(look(&set), before);
            }
        }
        prop_assert_eq!(look(&set), look(&only_kept));
    }
}

#[test]
fn dead_01_the_wanted_keys_of_a_table_are_loaded_in_one_statement_sorted_and_in_the_strongest_mode() {
    let mut set = Set::default();
    for (key, change) in [("c", false), ("a", true), ("b", false), ("a", false), ("c", true)] {
        let mut wants = Wants::default();
        if change {
            wants.note.change(key.into());
        } else {
            wants.note.read(key.into());
        }
        set.take(&wants);
    }
    let mut tables = set.tables();
    let names: Vec<_> = tables.iter().map(|table| table.name()).collect();
    assert_eq!(names, ["note", "counter"], "the order of the fields is the order of the locks");
    let loads = tables[0].loads(false);
    assert_eq!(loads.len(), 1);
    assert!(loads[0].suffix.contains("FOR NO KEY UPDATE"), "{}", loads[0].suffix);
    assert!(format!("{:?}", loads[0].params[0]).contains(r#"["a", "b", "c"]"#), "{:?}", loads[0].params[0]);
}

#[test]
#[should_panic(expected = "was asked for after its turn")]
fn dead_01_a_key_asked_for_when_its_tables_turn_is_over_is_a_bug_not_a_lock() {
    let mut set = Set::default();
    set.tables()[0].close();
    let mut wants = Wants::default();
    wants.note.change("late".into());
    set.take(&wants);
}

#[test]
#[should_panic(expected = "was locked as Read and then asked for as Change")]
fn dead_01_a_lock_is_never_upgraded() {
    let mut set = Set::default();
    let mut wants = Wants::default();
    wants.note.read("a".into());
    set.take(&wants);
    let _ = set.tables()[0].loads(false);
    let mut wants = Wants::default();
    wants.note.change("a".into());
    set.take(&wants);
}

#[test]
#[should_panic(expected = "without being asked for")]
fn a_row_nobody_asked_for_is_a_bug_told_apart_from_a_missing_one() {
    let _ = Set::default().note.get(&"never".to_owned());
}
