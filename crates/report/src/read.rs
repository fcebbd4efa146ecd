//! Reads files, recognised by their content and not by their names: receipts, the output of `--json` with a receipt or a TCP test in it,
//! and series. They may come from untrusted sources, and may be truncated.

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

/// The largest JSON, bytes: a receipt with a thousand failures has some 200 kB, a line of progress for each second of a week 130 MB.
const JSON_BYTES_MAX: u64 = 256 << 20;
/// The largest first line, bytes, by which a series is recognised.
const HEAD_BYTES_MAX: usize = 4 << 10;
/// The largest time, thirty years.
const SECONDS_MAX: f64 = 1e9;

/// The progress of a transfer at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Point {
    /// Seconds since its start.
    pub seconds: f64,
    /// Bytes that have arrived.
    pub bytes: u64,
}

/// A document in a file. A file may have several.
#[derive(Debug)]
pub enum ReportInput {
    /// A job that has ended, with the progress that its command printed.
    Receipt(Box<Receipt>, Vec<Point>),
    /// A job over time.
    Series(Box<Series>),
    /// A TCP test, with its target.
    Test(Box<tcp::Report>, String),
    /// All tests of a path, with its target.
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
pub fn read(path: &Path) -> Result<Vec<ReportInput>, Error> {
    let shown = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |source: io::Error| Error::Read { file: shown.clone(), source };
    let wrong = |what: String| Error::Content { file: shown.clone(), what };
    let input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(path).map_err(failed)?) };
    let mut input = BufReader::with_capacity(1 << 16, input);
    let head = read_head(&mut input).map_err(failed)?;
    match kind(&head) {
        FileKind::Series => match series::read(head.as_slice().chain(input)) {
            Ok(series) => Ok(vec![ReportInput::Series(Box::new(series))]),
            Err(RowError::Io(error)) => Err(failed(error)),
            Err(error) => Err(wrong(error.to_string())),
        },
        FileKind::Json => {
            let mut bytes = head;
            input.take(JSON_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.len() as u64 >= JSON_BYTES_MAX {
                return Err(wrong("more than 256 MiB of JSON; give only the receipt, its last line".into()));
            }
            objects(&bytes).map_err(wrong)
        }
        FileKind::Empty => Err(wrong("is empty: neither a receipt nor a series (did the job end?)".into())),
        FileKind::Other => {
            Err(wrong("line 1: neither a receipt (JSON) nor a series (columns time_s, stream, …)".into()))
        }
    }
}

enum FileKind {
    Json,
    Series,
    Empty,
    Other,
}

/// The first line that is not empty, with the empty ones before it.
fn read_head(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while head.iter().all(u8::is_ascii_whitespace) && head.len() < HEAD_BYTES_MAX {
        let room = (HEAD_BYTES_MAX - head.len()) as u64;
        if input.by_ref().take(room).read_until(b'\n', &mut head)? == 0 {
            break;
        }
    }
    Ok(head)
}

fn kind(head: &[u8]) -> FileKind {
    match head.trim_ascii_start().first() {
        None if head.len() < HEAD_BYTES_MAX => FileKind::Empty,
        Some(b'{' | b'[') => FileKind::Json,
        _ if is_head(&String::from_utf8_lossy(head)) => FileKind::Series,
        _ => FileKind::Other,
    }
}

/// The fields of an object that show its kind.
#[derive(Deserialize)]
struct ObjectHead {
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
struct ShownJob {
    receipt: Box<Receipt>,
}

#[derive(Deserialize)]
struct ObjectFields {
    #[serde(default)]
    target: String,
    #[serde(default)]
    message: String,
}

/// Reads all objects of a file.
fn objects(bytes: &[u8]) -> Result<Vec<ReportInput>, String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        let receipts: Vec<Receipt> = decode(bytes, 1)?;
        let found: Vec<ReportInput> =
            receipts.into_iter().map(|receipt| ReportInput::Receipt(Box::new(receipt), Vec::new())).collect();
        return if found.is_empty() { Err("line 1: an empty list of receipts".into()) } else { Ok(found) };
    }
    let mut collector = DocumentCollector::default();
    let mut stream = Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    // Each line is counted once, not again for each object.
    let mut line = 1;
    let mut counted = 0;
    loop {
        let from = stream.byte_offset();
        let begins = from + bytes[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        line += bytes[counted..begins].iter().filter(|byte| **byte == b'\n').count();
        counted = begins;
        match stream.next() {
            None => break,
            Some(Ok(_)) => collector.object(&bytes[begins..stream.byte_offset()], line)?,
            // A command that was killed leaves an incomplete line.
            Some(Err(error)) if error.is_eof() && !collector.is_empty() => break,
            Some(Err(error)) => return Err(format!("line {}: {}", error.line(), without_place(&error))),
        }
    }
    collector.end()
}

/// A message without its position, which is relative to a part of the file only.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

/// Decodes one object, which begins on this line.
fn decode<T: DeserializeOwned>(bytes: &[u8], line: usize) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        let line = line + error.line().saturating_sub(1);
        format!("line {line}: {}", without_place(&error))
    })
}

/// The documents so far.
#[derive(Default)]
struct DocumentCollector {
    found: Vec<ReportInput>,
    points: Vec<Point>,
    /// The error of the first object that belongs to no job or test.
    other: Option<String>,
}

impl DocumentCollector {
    fn is_empty(&self) -> bool {
        self.found.is_empty() && self.points.is_empty() && self.other.is_none()
    }

    fn object(&mut self, bytes: &[u8], line: usize) -> Result<(), String> {
        if bytes.first() != Some(&b'{') {
            return Err(format!("line {line}: not an object, as receipts and results are"));
        }
        let head: ObjectHead = decode(bytes, line)?;
        if let Some(v) = head.v.filter(|v| *v != 1) {
            return Err(format!("line {line}: written by a later version (v is {v}; this program reads 1)"));
        }
        let test = head.test.as_deref();
        match (head.event.as_deref(), test) {
            (Some("receipt"), _) => {
                let receipt = decode(bytes, line)?;
                self.found.push(ReportInput::Receipt(receipt, std::mem::take(&mut self.points)));
            }
            (None, _) if head.receipt.is_some() => {
                let ShownJob { receipt } = decode(bytes, line)?;
                self.found.push(ReportInput::Receipt(receipt, Vec::new()));
            }
            (Some("progress"), _) => {
                let point: Point = decode(bytes, line)?;
                if (0.0..=SECONDS_MAX).contains(&point.seconds) {
                    self.points.push(point);
                }
            }
            (Some("error"), _) => {
                let named: ObjectFields = decode(bytes, line)?;
                self.found.push(ReportInput::Failed(named.message, std::mem::take(&mut self.points)));
            }
            (Some("result"), Some("tcp")) => {
                let named: ObjectFields = decode(bytes, line)?;
                self.found.push(ReportInput::Test(decode(bytes, line)?, named.target));
            }
            (Some("result"), Some("all")) => {
                let named: ObjectFields = decode(bytes, line)?;
                self.found.push(ReportInput::Support(decode(bytes, line)?, named.target));
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

    fn end(mut self) -> Result<Vec<ReportInput>, String> {
        if !self.points.is_empty() {
            self.found.push(ReportInput::Unfinished(self.points));
        }
        match self.other {
            Some(other) if self.found.is_empty() => Err(other),
            _ => Ok(self.found),
        }
    }
}

#[cfg(test)]
mod tests;
