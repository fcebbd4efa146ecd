//! Files, recognised by what they hold and not by their names: receipts, the output of `--json` with a receipt or a TCP
//! test in it, and series. They may be a stranger's, and they may be cut short.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use model::v1::Receipt;
use model::v1::probe::all::Support;
use model::v1::probe::tcp;
use pilot::series::rows::{RowError, is_head};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Deserializer;

use crate::Error;
use crate::series::{self, Series};

/// A receipt that names a thousand failures has some 200 kB, a line of progress for each second of a week 130 MB.
const JSON_BYTES_MAX: u64 = 256 << 20;
/// What tells a series is its first line.
const HEAD_BYTES_MAX: usize = 4 << 10;
/// Thirty years.
const SECONDS_MAX: f64 = 1e9;

/// The progress of a transfer at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Point {
    /// Since its start.
    pub seconds: f64,
    /// Arrived by then.
    pub bytes: u64,
}

/// One thing that a file can hold. A file may hold several.
#[derive(Debug)]
pub enum Found {
    /// A job that has ended, with the progress that its command printed.
    Receipt(Box<Receipt>, Vec<Point>),
    /// A job over time.
    Series(Box<Series>),
    /// A TCP test, with what it was a test of.
    Test(Box<tcp::Report>, String),
    /// All tests of a path.
    Support(Box<Support>, String),
    /// A command that failed.
    Failed(String, Vec<Point>),
    /// A command that was still running.
    Unfinished(Vec<Point>),
}

/// Reads a file; `-` is standard input.
///
/// # Errors
/// The file cannot be read, or holds no receipt, series or test.
pub fn read(path: &Path) -> Result<Vec<Found>, Error> {
    let shown = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |source: io::Error| Error::Read { file: shown.clone(), source };
    let wrong = |what: String| Error::Content { file: shown.clone(), what };
    let input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let mut input = BufReader::with_capacity(1 << 16, input);
    let begun = beginning(&mut input).map_err(failed)?;
    match kind(&begun) {
        Kind::Series => match series::read(begun.as_slice().chain(input)) {
            Ok(series) => Ok(vec![Found::Series(Box::new(series))]),
            Err(RowError::Io(error)) => Err(failed(error)),
            Err(error) => Err(wrong(error.to_string())),
        },
        Kind::Json => {
            let mut bytes = begun;
            input.take(JSON_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.len() as u64 >= JSON_BYTES_MAX {
                return Err(wrong("more than 256 MiB of JSON; give it the receipt (its last line) alone".into()));
            }
            objects(&bytes).map_err(wrong)
        }
        Kind::Empty => Err(wrong("is empty: neither a receipt nor a series (did the job end?)".into())),
        Kind::Other => Err(wrong("line 1: neither a receipt (JSON) nor a series (columns time_s, stream, …)".into())),
    }
}

enum Kind {
    Json,
    Series,
    Empty,
    Other,
}

/// The first line that is not empty, with the empty ones before it.
fn beginning(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut begun = Vec::new();
    while begun.iter().all(u8::is_ascii_whitespace) && begun.len() < HEAD_BYTES_MAX {
        let room = (HEAD_BYTES_MAX - begun.len()) as u64;
        if input.by_ref().take(room).read_until(b'\n', &mut begun)? == 0 {
            break;
        }
    }
    Ok(begun)
}

fn kind(begun: &[u8]) -> Kind {
    match begun.trim_ascii_start().first() {
        None if begun.len() < HEAD_BYTES_MAX => Kind::Empty,
        Some(b'{' | b'[') => Kind::Json,
        _ if is_head(&String::from_utf8_lossy(begun)) => Kind::Series,
        _ => Kind::Other,
    }
}

/// What an object says it is.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    v: Option<u64>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    test: Option<String>,
    #[serde(default)]
    receipt: Option<IgnoredAny>,
}

/// A job, as `longhaul job show --json` prints it.
#[derive(Deserialize)]
struct Shown {
    receipt: Box<Receipt>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    target: String,
    #[serde(default)]
    message: String,
}

/// What the objects of a file come to.
fn objects(bytes: &[u8]) -> Result<Vec<Found>, String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        let receipts: Vec<Receipt> = decode(bytes, 1)?;
        let found: Vec<Found> =
            receipts.into_iter().map(|receipt| Found::Receipt(Box::new(receipt), Vec::new())).collect();
        return if found.is_empty() { Err("line 1: a list of no receipts".into()) } else { Ok(found) };
    }
    let mut pile = Pile::default();
    let mut stream = Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    // Lines are counted once, not from the start for each object.
    let (mut line, mut counted) = (1, 0);
    loop {
        let from = stream.byte_offset();
        let begins = from + bytes[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        line += bytes[counted..begins].iter().filter(|byte| **byte == b'\n').count();
        counted = begins;
        match stream.next() {
            None => break,
            Some(Ok(_)) => pile.object(&bytes[begins..stream.byte_offset()], line)?,
            // A command that was killed leaves half a line.
            Some(Err(error)) if error.is_eof() && !pile.is_empty() => break,
            Some(Err(error)) => return Err(format!("line {}: {}", error.line(), without_place(&error))),
        }
    }
    pile.end()
}

/// A message without the place that it names: that place is in a part of the file only.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

/// One object, that begins on this line.
fn decode<T: DeserializeOwned>(bytes: &[u8], line: usize) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        let line = line + error.line().saturating_sub(1);
        format!("line {line}: {}", without_place(&error))
    })
}

/// What was found so far.
#[derive(Default)]
struct Pile {
    found: Vec<Found>,
    points: Vec<Point>,
    /// The first object that says nothing of a job or a test.
    other: Option<String>,
}

impl Pile {
    fn is_empty(&self) -> bool {
        self.found.is_empty() && self.points.is_empty() && self.other.is_none()
    }

    fn object(&mut self, bytes: &[u8], line: usize) -> Result<(), String> {
        if bytes.first() != Some(&b'{') {
            return Err(format!("line {line}: no object, as receipts and results are"));
        }
        let head: Head = decode(bytes, line)?;
        if let Some(v) = head.v.filter(|v| *v != 1) {
            return Err(format!("line {line}: written by a later version (v is {v}; this program reads 1)"));
        }
        let test = head.test.as_deref();
        match (head.event.as_deref(), test) {
            (Some("receipt"), _) => {
                let receipt = decode(bytes, line)?;
                self.found.push(Found::Receipt(receipt, std::mem::take(&mut self.points)));
            }
            (None, _) if head.receipt.is_some() => {
                let Shown { receipt } = decode(bytes, line)?;
                self.found.push(Found::Receipt(receipt, Vec::new()));
            }
            (Some("progress"), _) => {
                let point: Point = decode(bytes, line)?;
                if (0.0..=SECONDS_MAX).contains(&point.seconds) {
                    self.points.push(point);
                }
            }
            (Some("error"), _) => {
                let named: Named = decode(bytes, line)?;
                self.found.push(Found::Failed(named.message, std::mem::take(&mut self.points)));
            }
            (Some("result"), Some("tcp")) => {
                let named: Named = decode(bytes, line)?;
                self.found.push(Found::Test(decode(bytes, line)?, named.target));
            }
            (Some("result"), Some("all")) => {
                let named: Named = decode(bytes, line)?;
                self.found.push(Found::Support(decode(bytes, line)?, named.target));
            }
            (event, test) => {
                let what = [event, test].into_iter().flatten().collect::<Vec<_>>().join(" of ");
                let what = if what.is_empty() { "an object".to_owned() } else { format!("{what:?}") };
                self.other
                    .get_or_insert(format!("line {line}: {what} is neither a receipt nor the result of a TCP test"));
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Vec<Found>, String> {
        if !self.points.is_empty() {
            self.found.push(Found::Unfinished(self.points));
        }
        match self.other {
            Some(other) if self.found.is_empty() => Err(other),
            _ => Ok(self.found),
        }
    }
}

#[cfg(test)]
mod tests;
