//! The records of a CSV file (RFC 4180) as text, each with the line it begins on.
//!
//! Owns quotes, line ends and encodings. Never knows what a column means.
//! Invariant: a broken quote costs its own line only. (Two that look like one good pair, the
//! first after a comma and the second before one, cannot be told from it.) This is why the
//! `csv` crate is not used here: it takes any quote for a closing one, so that a stray quote
//! joins the head of its line to the tail of a later one, or swallows the rest of the file,
//! and both look like one record.

use std::borrow::Cow;

use super::HEADER;

/// Quoted fields may hold line breaks, but a record that runs longer has a quote that nobody
/// closed. It also bounds how often a line is read again after a broken quote. In bytes, so
/// CR LF counts twice.
const LINE_BREAKS_MAX: usize = 40;

/// One record: its fields, or why there are none.
pub struct Raw {
    pub number: u64,
    pub fields: Result<Vec<String>, String>,
    /// How many of the fields are not UTF-8.
    pub not_utf8: u64,
}

pub struct Records<'a> {
    rest: &'a [u8],
    number: u64,
}

impl<'a> Records<'a> {
    pub fn of(bytes: &'a [u8]) -> Records<'a> {
        Records { rest: bytes, number: 1 }
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.number += passed.iter().map(|&byte| u64::from(byte == b'\n')).sum::<u64>();
        self.rest = rest;
    }
}

impl Iterator for Records<'_> {
    type Item = Raw;

    /// The next record that is not an empty line.
    fn next(&mut self) -> Option<Raw> {
        self.advance(self.rest.iter().take_while(|&&byte| ends_line(byte)).count());
        if self.rest.is_empty() {
            return None;
        }
        let number = self.number;
        let mut fields = Vec::with_capacity(HEADER.len());
        let mut not_utf8 = 0;
        let mut end = 0;
        let mut breaks = 0;
        loop {
            let Some((field, length)) = field(&self.rest[end..], &mut breaks) else {
                let line = self.rest.iter().position(|&byte| ends_line(byte));
                self.advance(line.unwrap_or(self.rest.len()));
                let reason = "a quoted field does not end with its quote".to_owned();
                return Some(Raw { number, fields: Err(reason), not_utf8: 0 });
            };
            let text = std::str::from_utf8(&field);
            not_utf8 += u64::from(text.is_err());
            fields.push(text.map_or_else(|_| windows_1252(&field), str::to_owned));
            end += length;
            if self.rest.get(end) != Some(&b',') {
                break;
            }
            end += 1;
        }
        self.advance(end);
        Some(Raw { number, fields: Ok(fields), not_utf8 })
    }
}

fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The field that `rest` begins with and its length in the file. None if a quote opens that
/// is not closed before a comma, a line end or the end of the file. Adds to `breaks`.
fn field<'a>(rest: &'a [u8], breaks: &mut usize) -> Option<(Cow<'a, [u8]>, usize)> {
    let ends = |byte: u8| byte == b',' || ends_line(byte);
    if rest.first() != Some(&b'"') {
        let end = rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len());
        return Some((rest[..end].into(), end));
    }
    let mut field = Vec::new();
    let mut at = 1;
    loop {
        match (*rest.get(at)?, rest.get(at + 1)) {
            (b'"', Some(b'"')) => at += 1,
            (b'"', after) => {
                return after.is_none_or(|&byte| ends(byte)).then_some((field.into(), at + 1));
            }
            (byte, _) if ends_line(byte) => {
                *breaks += 1;
                if *breaks > LINE_BREAKS_MAX {
                    return None;
                }
            }
            _ => {}
        }
        field.push(rest[at]);
        at += 1;
    }
}

/// What is not UTF-8 is Windows-1252, which is what the year's export writes for a pound sign (0xA3).
fn windows_1252(bytes: &[u8]) -> String {
    /// 0x80 to 0x9F; the five bytes that Windows-1252 leaves free are not readable.
    const HIGH: [char; 32] = [
        '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž', '\u{fffd}',
        '\u{fffd}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{fffd}', 'ž', 'Ÿ',
    ];
    let decoded = bytes.iter().map(|&byte| match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    });
    decoded.collect()
}
