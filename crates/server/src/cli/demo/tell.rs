//! The story as people read it: scenes, time lines, what was checked.
//!
//! Invariant: no line is wider than [`COLUMNS`]; colour only on a terminal.

use super::{Trouble, caller::Reply};
use std::{
    env,
    io::{IsTerminal, Write, stdout},
    time::Instant,
};

const COLUMNS: usize = 100;
/// `  12345 ms  warehouse  > `
const TEXT_COLUMN: usize = 25;

#[derive(Clone, Copy)]
enum Paint {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Cyan = 36,
}

pub struct Tell {
    began: Instant,
    scene: Instant,
    paint: bool,
    /// How many checks held.
    pub held: u32,
}

impl Tell {
    pub fn new() -> Self {
        let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let paint = stdout().is_terminal() && !plain;
        Self { began: Instant::now(), scene: Instant::now(), paint, held: 0 }
    }

    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Opens a scene; its times count from here.
    pub fn scene(&mut self, number: u8, title: &str) {
        self.scene = Instant::now();
        line("");
        line(&self.painted(Paint::Bold, &format!("{number}  {title}")));
    }

    /// Something was sent, at this moment.
    pub fn sent(&self, at: Instant, who: &str, text: &str) {
        self.row(at, who, "→", text);
    }

    /// What came back.
    pub fn got(&self, who: &str, reply: &Reply) {
        self.row(reply.got, who, "←", &reply.plain());
    }

    /// Something happened now, or was seen.
    pub fn note(&self, who: &str, text: &str) {
        self.row(Instant::now(), who, "·", text);
    }

    /// Something that must hold. Where it does not, the story ends with what was found instead.
    pub fn check(&mut self, holds: bool, what: &str, found: impl FnOnce() -> String) -> Result<(), Trouble> {
        if !holds {
            return Err(Trouble::Off(format!("not so: {what}; {}", found())));
        }
        self.held += 1;
        let mut mark = self.painted(Paint::Green, "ok");
        for part in wrapped(what, COLUMNS - TEXT_COLUMN) {
            line(&format!("{:>width$}{mark} {part}", "", width = TEXT_COLUMN - 3));
            mark = "  ".into();
        }
        Ok(())
    }

    pub fn off(&self, trouble: &str) {
        line("");
        for part in wrapped(trouble, COLUMNS) {
            line(&self.painted(Paint::Red, &part));
        }
    }

    fn row(&self, at: Instant, who: &str, sign: &str, text: &str) {
        let ms = at.saturating_duration_since(self.scene).as_millis();
        let mut head = format!(
            "{} {}  {sign} ",
            self.painted(Paint::Dim, &format!("{ms:>6} ms ")),
            self.painted(Paint::Cyan, &format!("{who:<9}"))
        );
        for part in wrapped(text, COLUMNS - TEXT_COLUMN) {
            line(&format!("{head}{part}"));
            head = " ".repeat(TEXT_COLUMN);
        }
    }

    fn painted(&self, paint: Paint, text: &str) -> String {
        if self.paint { format!("\x1b[{}m{text}\x1b[0m", paint as u8) } else { text.to_owned() }
    }
}

pub fn line(text: &str) {
    // Whoever reads may have left; the story ends as it would have.
    let _ = writeln!(stdout().lock(), "{text}");
}

/// A line below the one before, in the column of the texts.
pub fn more(text: &str) {
    for part in wrapped(text, COLUMNS - TEXT_COLUMN) {
        line(&format!("{:>TEXT_COLUMN$}{part}", ""));
    }
}

/// Breaks a text between words; what has no blank is broken where it must.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut width = 0;
    for word in text.split(' ') {
        let mut chars = word.chars().count();
        let mut word = word.to_owned();
        if width > 0 && width + 1 + chars > columns {
            lines.push(String::new());
            width = 0;
        }
        while chars > columns {
            let rest = word.split_off(word.char_indices().nth(columns).map_or(word.len(), |(at, _)| at));
            lines.last_mut().expect("never empty").push_str(&word);
            lines.push(String::new());
            chars -= columns;
            word = rest;
        }
        let line = lines.last_mut().expect("never empty");
        if width > 0 || !line.is_empty() {
            line.push(' ');
            width += 1;
        }
        line.push_str(&word);
        width += chars;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_long_words_where_they_must() {
        for (text, expected) in [
            ("", &[""][..]),
            ("six", &["six"]),
            ("six of six", &["six of", "six"]),
            ("six  of", &["six  of"]),
            ("sixofsixofsix", &["sixofsi", "xofsix"]),
            ("a sixofsixofsix b", &["a", "sixofsi", "xofsix", "b"]),
            ("größer als", &["größer", "als"]),
        ] {
            assert_eq!(wrapped(text, 7), expected, "{text:?}");
        }
    }

    #[test]
    fn what_does_not_hold_ends_the_story_with_what_was_found() {
        let mut tell = Tell::new();
        assert!(tell.check(true, "six and six", String::new).is_ok());
        let Err(Trouble::Off(text)) = tell.check(false, "one got them", || "both got 200".into()) else {
            panic!("it must be off");
        };
        assert_eq!((text.as_str(), tell.held), ("not so: one got them; both got 200", 1));
    }
}
