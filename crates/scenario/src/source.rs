//! A scenario's text as tables whose entries know their lines and keep the order of the file.
//!
//! Does not know: which words exist, or their meaning.

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, instead};

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// In the order of the file.
    pub entries: Vec<Entry>,
}

/// A key with its value; or an item of a list, which has the list's key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The key as written.
    pub key: String,
    /// The line, from 1; 0 on a command line.
    pub line: usize,
    /// The value.
    pub value: Value,
}

/// The value of a key.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// "…"
    Text(String),
    /// An integer; if it does not fit, the nearest that does.
    Whole(i128),
    /// A number with a point or an exponent.
    Fraction(f64),
    /// true, false
    Truth(bool),
    /// A date; no word takes one.
    Date(String),
    /// […]
    List(Vec<Entry>),
    /// {…}, or a table with a header.
    Table(Table),
}

/// The offsets where lines begin. Empty for text that is no file: then every line is 0.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> LineStarts {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        // Text after the last line break is a line only if there is some.
        LineStarts(std::iter::once(0).chain(after.filter(|at| *at < text.len())).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }
}

impl Table {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Table, Problem> {
        let lines = LineStarts::of(text);
        let parsed = DeTable::parse(text).map_err(|error| {
            let line = lines.at(error.span().map_or(0, |span| span.start));
            let remedy = if error.message().contains("duplicate key") {
                "write it once"
            } else {
                "see https://toml.io; a value that is not a number is in quotes, like rate = \"1Gbit/s\""
            };
            Problem::new(line, format!("this is not TOML ({})", error.message()), remedy)
        })?;
        Ok(table(parsed.get_ref(), &lines))
    }

    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Refuses keys that are not in `known`. `place` names the table in the message.
    pub fn only(&self, known: &[&str], place: &str) -> Result<(), Problem> {
        match self.entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            Some(entry) => Err(entry.unknown(known, place)),
            None => Ok(()),
        }
    }
}

impl Entry {
    /// An entry from a command line. A value that is not TOML is a string: `rate=1Gbit/s` needs no quotes.
    pub fn typed(key: &str, text: &str) -> Entry {
        let key = key.to_owned();
        let lines = LineStarts(Vec::new());
        let value = match DeValue::parse(text) {
            Ok(parsed) => value(&key, &parsed, &lines),
            Err(_) => Value::Text(text.to_owned()),
        };
        Entry { key, line: 0, value }
    }

    /// A problem with this entry.
    pub fn problem(&self, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem::new(self.line, what, remedy)
    }

    /// The problem that the value is of no use for the key.
    pub fn wrong(&self, remedy: impl Into<String>) -> Problem {
        self.problem(format!("{} cannot be {}", self.key, self.value.show()), remedy)
    }

    /// The problem that the key is not known. `place` names the table.
    pub fn unknown(&self, known: &[&str], place: &str) -> Problem {
        self.problem(format!("{place} has no word {:?}", self.key), instead(&self.key, known.iter().copied()))
    }

    /// The value as a string.
    pub fn text(&self, remedy: &str) -> Result<&str, Problem> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(remedy)),
        }
    }

    /// The value as true or false.
    pub fn truth(&self) -> Result<bool, Problem> {
        match self.value {
            Value::Truth(truth) => Ok(truth),
            _ => Err(self.wrong("write true or false, without quotes")),
        }
    }

    /// The value as an integer within a range.
    pub fn whole<T: TryFrom<i128>>(&self, range: RangeInclusive<i128>) -> Result<T, Problem> {
        let whole = match self.value {
            Value::Whole(whole) if range.contains(&whole) => T::try_from(whole).ok(),
            _ => None,
        };
        whole.ok_or_else(|| {
            self.wrong(format!("write a whole number from {} to {}, without quotes", range.start(), range.end()))
        })
    }

    /// The value as a list.
    pub fn list(&self, remedy: &str) -> Result<&[Entry], Problem> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.wrong(remedy)),
        }
    }

    /// The value as a table.
    pub fn table(&self, remedy: &str) -> Result<&Table, Problem> {
        match &self.value {
            Value::Table(table) => Ok(table),
            _ => Err(self.wrong(remedy)),
        }
    }

    /// Whether the value is this string.
    pub fn is_text(&self, word: &str) -> bool {
        matches!(&self.value, Value::Text(text) if text == word)
    }
}

impl Value {
    /// The entry as it is shown in a message.
    pub fn show(&self) -> String {
        match self {
            Value::Text(text) => format!("{text:?}"),
            Value::Whole(whole) => whole.to_string(),
            Value::Fraction(fraction) => fraction.to_string(),
            Value::Truth(truth) => truth.to_string(),
            Value::Date(date) => format!("the date {date}"),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

/// TOML's nesting is bounded by its parser, and so is this recursion.
fn table(parsed: &DeTable<'_>, lines: &LineStarts) -> Table {
    // The parser sorts by key; the order of the file matters here.
    let mut sorted: Vec<_> = parsed.iter().collect();
    sorted.sort_by_key(|(key, _)| key.span().start);
    let entries = sorted.into_iter().map(|(key, parsed)| {
        let name = key.get_ref().to_string();
        let line = lines.at(key.span().start);
        Entry { value: value(&name, parsed, lines), key: name, line }
    });
    Table { entries: entries.collect() }
}

fn value(key: &str, parsed: &Spanned<DeValue<'_>>, lines: &LineStarts) -> Value {
    match parsed.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(digits) => {
            let nearest = if digits.as_str().starts_with('-') { i128::MIN } else { i128::MAX };
            Value::Whole(i128::from_str_radix(digits.as_str(), digits.radix()).unwrap_or(nearest))
        }
        DeValue::Float(digits) => Value::Fraction(digits.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(truth) => Value::Truth(*truth),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| {
                let line = lines.at(item.span().start);
                Entry { key: key.to_owned(), line, value: value(key, item, lines) }
            });
            Value::List(items.collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, lines)),
    }
}
