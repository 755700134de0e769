//! Texts people type: bounded, without control characters, compared as people compare them.
//!
//! Invariant: what is stored was not altered, only checked; [`fold`] makes the form that unique
//! names are compared in.
//! Never takes a NUL or another control character: PostgreSQL cannot store the first, and the
//! others, as characters that nobody sees, let two names look alike.

use caseless::Caseless;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{borrow::Cow, fmt, ops::Deref, str::FromStr};
use unicode_normalization::UnicodeNormalization;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, schema::Type};

/// The form in which unique names are compared: NFKC, case folded, trimmed, runs of white space
/// as one space.
pub fn fold(text: &str) -> String {
    let folded: String = text.nfkc().default_case_fold().nfkc().collect();
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Why a text was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrongText {
    Empty,
    TooLong { chars_max: usize },
    Control,
    Invisible(char),
    Edges,
    NoAddress,
}

impl fmt::Display for WrongText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("must not be empty"),
            Self::TooLong { chars_max } => write!(f, "has at most {chars_max} characters"),
            Self::Control => f.write_str("must not hold control characters"),
            Self::Invisible(c) => write!(f, "must not hold the invisible character U+{:04X}", u32::from(*c)),
            Self::Edges => f.write_str("must not begin or end with white space"),
            Self::NoAddress => f.write_str("must be an e-mail address, as `mira@kestrel.example`"),
        }
    }
}

impl std::error::Error for WrongText {}

/// Formatting that leaves no mark: widths, directions, separators, tags. The joiners (U+200C, U+200D)
/// are letters' business in some scripts and stay.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn check(text: &str, chars_max: usize) -> Result<(), WrongText> {
    if text.is_empty() {
        return Err(WrongText::Empty);
    }
    if text.chars().count() > chars_max {
        return Err(WrongText::TooLong { chars_max });
    }
    if text.chars().any(char::is_control) {
        return Err(WrongText::Control);
    }
    if let Some(invisible) = text.chars().find(|c| is_invisible(*c)) {
        return Err(WrongText::Invisible(invisible));
    }
    if text.trim() != text {
        return Err(WrongText::Edges);
    }
    // A name of invisible characters only would fold to nothing and clash with every other such.
    if fold(text).is_empty() { Err(WrongText::Empty) } else { Ok(()) }
}

/// Whether mail could be sent there: something before one `@`, and a domain of several labels behind
/// it. Only a mail that arrives tells more.
fn is_address(text: &str) -> Result<(), WrongText> {
    let is_label = |label: &str| {
        let fits = !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
        fits && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let fits = text.split_once('@').is_some_and(|(local, domain)| {
        let local_fits = (1..=64).contains(&local.chars().count());
        local_fits && domain.contains('.') && domain.split('.').all(is_label)
    });
    let odd = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | ',' | ';' | ':' | '"' | '(' | ')' | '\\');
    if fits && !text.contains(odd) { Ok(()) } else { Err(WrongText::NoAddress) }
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident $chars_max:literal $example:literal $(where $form:ident)?;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub const CHARS_MAX: usize = $chars_max;

            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = WrongText;
            fn from_str(text: &str) -> Result<Self, WrongText> {
                check(text, Self::CHARS_MAX)?;
                $($form(text)?;)?
                Ok(Self(text.to_owned()))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1))
                    .max_length(Some($chars_max))
                    .examples([$example])
                    .into()
            }
        }
        impl utoipa::ToSchema for $name {}
    )*};
}

texts! {
    /// A short name that people type and scan: of a SKU, of a warehouse.
    Code 64 "KESTREL-OS-IND-M";
    /// A name for people.
    Name 200 "Kestrel Overshirt, Washed Indigo, M";
    /// The unit a SKU is counted in.
    Unit 16 "piece";
    /// A number that a tax office gave.
    TaxId 40 "GB 123 4567 89";
    /// An e-mail address: what people write to, and who a user is at the login.
    Email 254 "mira@kestrel.example" where is_address;
    Phone 40 "+1 512 555 0100";
    /// A line of an address.
    Line 100 "1100 South Congress Avenue";
    /// A part of a document: a field, or a field and what tells one entry of its list.
    Part 200 "sales_areas/US-S";
    /// Why somebody did it, in their own words.
    Reason 500 "two units water damaged";
    /// The business event a movement stands for, in the caller's own terms.
    Source 200 "shop|order-1001|line-1";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_people_do() {
        for (a, b, same) in [
            ("85123a", "85123A", true),
            ("Straße", "STRASSE", true),
            ("  Boutique   Austin ", "boutique austin", true),
            ("ﬁne", "FINE", true),
            ("Ｔｏｋｙｏ", "tokyo", true),
            ("Café", "Cafe\u{301}", true),
            ("İ", "i\u{307}", true),
            ("Austin", "Austen", false),
            ("o", "ö", false),
        ] {
            assert_eq!(fold(a) == fold(b), same, "{a:?} {b:?}");
        }
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for text in ["ΑΣ", "ß", "ﬃ", "Å", "ǰ", "\u{1e9e}", "ͅ"] {
            assert_eq!(fold(&fold(text)), fold(text), "{text:?}");
        }
    }

    #[test]
    fn texts_are_bounded_and_clean() {
        for (text, ok) in [
            ("A", true),
            (&"x".repeat(64), true),
            (&"é".repeat(64), true),
            (&"x".repeat(65), false),
            ("", false),
            (" ", false),
            (" A", false),
            ("A\u{a0}", false),
            ("A\u{0}B", false),
            ("A\nB", false),
            ("A\u{7f}", false),
            ("A\u{200b}B", false),
            ("\u{202e}A", false),
            ("A\u{feff}", false),
            ("\u{645}\u{6cc}\u{200c}\u{62e}", true),
        ] {
            assert_eq!(text.parse::<Code>().is_ok(), ok, "{text:?}");
        }
    }

    #[test]
    fn an_address_has_one_at_and_a_domain() {
        for (text, ok) in [
            ("mira@kestrel.example", true),
            ("mira+stock@mail.kestrel.example", true),
            ("o'neil_1@kestrel.example", true),
            ("mira@bücher.example", true),
            ("mira", false),
            ("@kestrel.example", false),
            ("mira@", false),
            ("mira@kestrel", false),
            ("mira@kestrel..example", false),
            ("mira@-kestrel.example", false),
            ("mira@kestrel.example.", false),
            ("mira@heron@kestrel.example", false),
            ("mi ra@kestrel.example", false),
            ("Mira <mira@kestrel.example>", false),
            ("mira@kestrel.example,heron@kestrel.example", false),
            (&format!("{}@kestrel.example", "m".repeat(65)), false),
            (&format!("m@{}.example", "k".repeat(250)), false),
        ] {
            assert_eq!(text.parse::<Email>().is_ok(), ok, "{text:?}");
        }
    }
}
