//! Reads the filters of `dids/search`: a list of dictionaries as Python writes it. Values are texts, numbers, True, False and None.

use serde_json::{Map, Number, Value};

use super::errors::RucioError;

/// The longest text, bytes.
const BYTES_MAX: usize = 16 << 10;

fn wrong(why: &str) -> RucioError {
    RucioError::new(400, "DIDFilterSyntaxError", format!("the filters cannot be read: {why}"))
}

/// Reads a list of dictionaries. A name is found if it matches any of them.
pub(super) fn read(text: &str) -> Result<Vec<Map<String, Value>>, RucioError> {
    if text.len() > BYTES_MAX {
        return Err(wrong("they are too long"));
    }
    let mut reader = Reader { rest: text };
    let filters = reader.list()?;
    if reader.skip().is_empty() { Ok(filters) } else { Err(wrong("something follows the list")) }
}

struct Reader<'a> {
    /// The text that has not been read yet.
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Skips white space; returns the rest.
    fn skip(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn take(&mut self, token: char) -> bool {
        match self.skip().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: char) -> Result<(), RucioError> {
        if self.take(token) { Ok(()) } else { Err(wrong(&format!("{token:?} is expected"))) }
    }

    fn list(&mut self) -> Result<Vec<Map<String, Value>>, RucioError> {
        self.need('[')?;
        let mut all = Vec::new();
        while !self.take(']') {
            all.push(self.dictionary()?);
            if !self.take(',') {
                self.need(']')?;
                break;
            }
        }
        Ok(all)
    }

    fn dictionary(&mut self) -> Result<Map<String, Value>, RucioError> {
        self.need('{')?;
        let mut all = Map::new();
        while !self.take('}') {
            let word = self.text()?;
            self.need(':')?;
            let value = self.value()?;
            all.insert(word, value);
            if !self.take(',') {
                self.need('}')?;
                break;
            }
        }
        Ok(all)
    }

    fn value(&mut self) -> Result<Value, RucioError> {
        let rest = self.skip();
        if rest.starts_with(['\'', '"']) {
            return self.text().map(Value::String);
        }
        let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        match word.trim() {
            "True" => Ok(true.into()),
            "False" => Ok(false.into()),
            "None" => Ok(Value::Null),
            word => {
                let whole = word.parse::<i64>().ok().map(Number::from);
                let number = whole.or_else(|| Number::from_f64(word.parse().ok()?));
                number.map(Value::Number).ok_or_else(|| wrong(&format!("{word:?} is no value")))
            }
        }
    }

    /// A text in quotes of either kind, with the escapes that Python's repr writes for quotes and backslashes.
    fn text(&mut self) -> Result<String, RucioError> {
        let rest = self.skip();
        let quote =
            rest.chars().next().filter(|c| matches!(c, '\'' | '"')).ok_or_else(|| wrong("a text is expected"))?;
        let mut text = String::new();
        let mut chars = rest[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = &rest[1 + at + 1..];
                    return Ok(text);
                }
                '\\' => text.push(chars.next().ok_or_else(|| wrong("a text has no end"))?.1),
                c => text.push(c),
            }
        }
        Err(wrong("a text has no end"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_of_dictionaries_as_python_writes_them_are_read() {
        let read = read("[{'name': 'run*', 'length.gt': 3, 'ok': True, 'x': None}, {'type': \"it's\"}]").unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(
            (&read[0]["name"], &read[0]["length.gt"], &read[0]["ok"]),
            (&"run*".into(), &3.into(), &true.into())
        );
        assert_eq!(read[1]["type"], "it's");
        assert!(super::read("[]").unwrap().is_empty());
        for wrong in ["", "{}", "[{]", "[{'a'}]", "[{'a': b}]", "[{'a': 1}] + 1", "[{'a': 'x}]"] {
            assert!(super::read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[\\[\\]{}:,'\"\\\\a1TN ]{0,30}") {
            let _ = read(&text);
        }
    }
}
