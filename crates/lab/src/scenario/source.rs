//! A scenario's text as tables whose entries know their lines and keep the order of the file.
//!
//! Does not know: which words there are, or what they mean.

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

/// A key with its value; or an item of a list, which goes by the list's key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// As written.
    pub key: String,
    /// From 1; 0 on a command line.
    pub line: usize,
    /// What it is set to.
    pub value: Value,
}

/// What a key is set to.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// "…"
    Text(String),
    /// The nearest there is, where it does not fit.
    Whole(i128),
    /// With a point or an exponent.
    Fraction(f64),
    /// true, false
    Truth(bool),
    /// Nothing here has a use for one.
    Date(String),
    /// […]
    List(Vec<Entry>),
    /// {…}, or with a header of its own.
    Table(Table),
}

/// Where lines begin. Empty for what is no file: then every line is 0.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        // What follows the last line break is a line only if there is something.
        Lines(std::iter::once(0).chain(after.filter(|at| *at < text.len())).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }
}

impl Table {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Table, Problem> {
        let lines = Lines::of(text);
        let parsed = DeTable::parse(text).map_err(|error| {
            let line = lines.at(error.span().map_or(0, |span| span.start));
            let remedy = match error.message().contains("duplicate key") {
                true => "say it once",
                false => "see https://toml.io; what is not a number stands in quotes, like rate = \"1Gbit/s\"",
            };
            Problem::new(line, format!("this is not TOML ({})", error.message()), remedy)
        })?;
        Ok(table(parsed.get_ref(), &lines))
    }

    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Refuses keys that are not among these. `place` says whose they are.
    pub fn only(&self, known: &[&str], place: &str) -> Result<(), Problem> {
        match self.entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            Some(entry) => Err(entry.unknown(known, place)),
            None => Ok(()),
        }
    }
}

impl Entry {
    /// An entry from a command line. A value that is no TOML is a string: `rate=1Gbit/s` needs no quotes.
    pub fn typed(key: &str, text: &str) -> Entry {
        let (key, lines) = (key.to_owned(), Lines(Vec::new()));
        let value = match DeValue::parse(text) {
            Ok(parsed) => value(&key, &parsed, &lines),
            Err(_) => Value::Text(text.to_owned()),
        };
        Entry { key, line: 0, value }
    }

    /// Something is wrong with this entry.
    pub fn problem(&self, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem::new(self.line, what, remedy)
    }

    /// The value is of no use for the key.
    pub fn wrong(&self, remedy: impl Into<String>) -> Problem {
        self.problem(format!("{} cannot be {}", self.key, self.value.show()), remedy)
    }

    /// The key is not known. `place` says where.
    pub fn unknown(&self, known: &[&str], place: &str) -> Problem {
        self.problem(format!("{place} has no word {:?}", self.key), instead(&self.key, known.iter().copied()))
    }

    /// A string.
    pub fn text(&self, remedy: &str) -> Result<&str, Problem> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(remedy)),
        }
    }

    /// true or false.
    pub fn truth(&self) -> Result<bool, Problem> {
        match self.value {
            Value::Truth(truth) => Ok(truth),
            _ => Err(self.wrong("write true or false, without quotes")),
        }
    }

    /// An integer within a range.
    pub fn whole<T: TryFrom<i128>>(&self, range: RangeInclusive<i128>) -> Result<T, Problem> {
        let whole = match self.value {
            Value::Whole(whole) if range.contains(&whole) => T::try_from(whole).ok(),
            _ => None,
        };
        whole.ok_or_else(|| {
            self.wrong(format!("write a whole number from {} to {}, without quotes", range.start(), range.end()))
        })
    }

    /// A list.
    pub fn list(&self, remedy: &str) -> Result<&[Entry], Problem> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.wrong(remedy)),
        }
    }

    /// A table.
    pub fn table(&self, remedy: &str) -> Result<&Table, Problem> {
        match &self.value {
            Value::Table(table) => Ok(table),
            _ => Err(self.wrong(remedy)),
        }
    }

    /// Whether the value is this string.
    pub fn says(&self, word: &str) -> bool {
        matches!(&self.value, Value::Text(text) if text == word)
    }
}

impl Value {
    /// As in a message.
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
fn table(parsed: &DeTable<'_>, lines: &Lines) -> Table {
    // The parser sorts by key; whoever reads a scenario counts from its top.
    let mut sorted: Vec<_> = parsed.iter().collect();
    sorted.sort_by_key(|(key, _)| key.span().start);
    let entries = sorted.into_iter().map(|(key, parsed)| {
        let (name, line) = (key.get_ref().to_string(), lines.at(key.span().start));
        Entry { value: value(&name, parsed, lines), key: name, line }
    });
    Table { entries: entries.collect() }
}

fn value(key: &str, parsed: &Spanned<DeValue<'_>>, lines: &Lines) -> Value {
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
