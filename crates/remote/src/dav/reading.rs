//! A file of a server, read over several connections, or over one where the server knows no ranges.
//!
//! Every answer is held against what was known when the file was opened: a file that changes while it is read is not put
//! together from two.

mod piece;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Fault;
use model::name::RelPath;
use parking_lot::Mutex;
use store::{Error, Result};
use web::range::ContentRange;
use web::{ClientError, Headers, Method};

use super::Dav;
use super::facts::of_response;
use crate::ahead::{CHUNK_BYTES, Fetch, File};
use crate::failed::Failed;
use crate::known::{Facts, Told};
use crate::server::{Asked, Begun};

/// Chunks that are kept for readers that lag, where the file comes over one connection, in order.
const SPARE_MAX: usize = 16;

/// A file, opened to be read.
pub(super) fn open(dav: &Dav, path: &RelPath, facts: Facts) -> File {
    let (stat, no_ranges) = (facts.stat(dav.host(), path), AtomicBool::new(false));
    File::new(Fetching { dav: dav.clone(), path: path.clone(), facts, no_ranges, flow: Mutex::default() }, stat)
}

struct Fetching {
    dav: Dav,
    path: RelPath,
    facts: Facts,
    no_ranges: AtomicBool,
    flow: Mutex<Flow>,
}

/// A file that comes in order.
#[derive(Default)]
struct Flow {
    line: Option<Begun>,
    /// The next byte that comes.
    at: u64,
    /// What came before somebody asked for it.
    spare: BTreeMap<u64, Vec<u8>>,
}

/// What the answer to a range was.
enum Got {
    Bytes(Vec<u8>),
    /// All of the file, although a part was asked for.
    All(Box<Begun>),
}

impl Fetch for Fetching {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        let fetched = match self.no_ranges.load(Ordering::Relaxed) {
            true => self.in_order(&span),
            false => match self.range(&span) {
                Ok(Got::Bytes(bytes)) => Ok(bytes),
                Ok(Got::All(line)) => self.becomes_flow(*line).and_then(|()| self.in_order(&span)),
                Err(failed) => Err(failed),
            },
        };
        fetched.map_err(|failed| match failed.status {
            Some(404 | 410 | 412 | 416) => {
                self.dav.0.known.forget(&self.path);
                self.changed()
            }
            _ => failed.doing("read", &self.path),
        })
    }

    fn is_random(&self) -> bool {
        !self.no_ranges.load(Ordering::Relaxed)
    }
}

impl Fetching {
    fn changed(&self) -> Error {
        let why = format!(
            "it changed on {} while it was being read; run the same command again when it is at rest",
            self.dav.host()
        );
        Failed { fault: Fault::Storage, ..Failed::peer(why) }.doing("read", &self.path)
    }

    fn is_whole(&self, span: &Range<u64>) -> bool {
        *span == (0..self.facts.size)
    }

    /// Asks for a range: tried again where the line breaks, refused where the server lies.
    fn range(&self, span: &Range<u64>) -> std::result::Result<Got, Failed> {
        let url = self.dav.url(&self.path, false)?;
        let mut headers = Headers::new().with("Accept-Encoding", "identity");
        if !self.is_whole(span) {
            headers.add("Range", format!("bytes={}-{}", span.start, span.end - 1));
        }
        let method = Method::Get;
        let most = (span.end - span.start) as usize;
        let asked = Asked::plain(&method, &url, &headers);
        let mut broken = 0;
        loop {
            let mut begun = self.dav.0.server.begin(&asked)?;
            match begun.response.status {
                206 if !self.is_whole(span) => self.check_range(&begun, span)?,
                200 if self.is_whole(span) => {}
                200 => {
                    self.check_facts(&begun, begun.body.length())?;
                    return Ok(Got::All(Box::new(begun)));
                }
                status if (200..300).contains(&status) => {
                    return Err(Failed::peer(format!("{} answered {status} to a GET", self.dav.host())));
                }
                _ => return Err(begun.refusal()),
            }
            let length = begun.body.length().filter(|length| *length != most as u64);
            if let Some(length) = length {
                let why = format!("{} sends {length} bytes where {most} were due", self.dav.host());
                return Err(if self.is_whole(span) { self.changed_to(&why) } else { Failed::peer(why) });
            }
            if self.is_whole(span) {
                self.check_facts(&begun, Some(self.facts.size))?;
            }
            match begun.client.read_all(&mut begun.body, most) {
                Ok(bytes) if bytes.len() == most => {
                    if !begun.body.ends_with_line() {
                        self.dav.0.server.keep(&begun.url, &begun.response, begun.client);
                    }
                    return Ok(Got::Bytes(bytes));
                }
                Ok(bytes) => {
                    let why = format!("{} ended after {} of {most} bytes", self.dav.host(), bytes.len());
                    again(&mut broken, Failed::peer(why))?;
                }
                Err(ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::FileTooLarge => {
                    let why = format!("{} sends more than the {most} bytes that were due", self.dav.host());
                    return Err(Failed::peer(why));
                }
                Err(error) => {
                    let broke = Failed::from(error);
                    // Whoever answers and breaks off, again and again, does so with this file.
                    again(&mut broken, Failed { fault: Fault::Peer, general: false, ..broke })?;
                }
            }
        }
    }

    fn check_range(&self, begun: &Begun, span: &Range<u64>) -> std::result::Result<(), Failed> {
        let told = begun.response.headers.get("content-range").unwrap_or("no range");
        match ContentRange::parse(told) {
            Some(ContentRange::Part(part, size)) if part.start == span.start && part.end() == span.end => {
                self.check_facts(begun, size)
            }
            _ => {
                let told: String = told.chars().filter(|c| !c.is_control()).take(60).collect();
                let (host, last) = (self.dav.host(), span.end - 1);
                Err(Failed::peer(format!("{host} answered {told:?} when asked for bytes {}-{last}", span.start)))
            }
        }
    }

    /// Whether the answer speaks of the file that was opened.
    fn check_facts(&self, begun: &Begun, size: Option<u64>) -> std::result::Result<(), Failed> {
        let mut now = of_response(&begun.response, size.unwrap_or(self.facts.size));
        // Who keeps the bytes may tag and date them otherwise than who keeps the names.
        if begun.url.authority() != self.dav.host() {
            (now.etag, now.mtime) = (None, None);
        }
        match now.agrees(&self.facts) {
            true => Ok(()),
            false => Err(self.changed_to("it answers with another")),
        }
    }

    fn changed_to(&self, why: &str) -> Failed {
        Failed { status: Some(412), ..Failed::peer(why) }
    }

    fn becomes_flow(&self, line: Begun) -> std::result::Result<(), Failed> {
        let mut flow = self.flow.lock();
        if !self.no_ranges.swap(true, Ordering::Relaxed) {
            *flow = Flow { line: Some(line), ..Flow::default() };
        }
        Ok(())
    }

    /// A span of a file that comes in order, from its beginning where that has passed.
    fn in_order(&self, span: &Range<u64>) -> std::result::Result<Vec<u8>, Failed> {
        let mut bytes = Vec::with_capacity((span.end - span.start) as usize);
        let mut at = span.start;
        while at < span.end {
            let (chunk, within) = (at / CHUNK_BYTES * CHUNK_BYTES, (at % CHUNK_BYTES) as usize);
            let held = self.chunk_in_order(chunk)?;
            let end = (within as u64 + span.end - at).min(held.len() as u64) as usize;
            bytes.extend_from_slice(&held[within..end]);
            at = chunk + end as u64;
        }
        Ok(bytes)
    }

    fn chunk_in_order(&self, start: u64) -> std::result::Result<Vec<u8>, Failed> {
        let mut flow = self.flow.lock();
        let mut broken = 0;
        loop {
            if let Some(bytes) = flow.spare.remove(&start) {
                return Ok(bytes);
            }
            match self.advance(&mut flow, start) {
                Ok(()) => {}
                Err(failed) => {
                    *flow = Flow::default();
                    again(&mut broken, failed)?;
                }
            }
        }
    }

    /// Takes the next chunk in.
    fn advance(&self, flow: &mut Flow, start: u64) -> std::result::Result<(), Failed> {
        if flow.line.is_none() || flow.at > start {
            *flow = Flow { line: Some(self.begin_again()?), ..Flow::default() };
        }
        let Some(line) = &mut flow.line else { return Ok(()) };
        let len = CHUNK_BYTES.min(self.facts.size - flow.at) as usize;
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match line.client.read(&mut line.body, &mut bytes[filled..])? {
                0 => return Err(Failed::peer(format!("{} ended before all bytes came", self.dav.host()))),
                got => filled += got,
            }
        }
        if flow.spare.len() >= SPARE_MAX {
            flow.spare.pop_first();
        }
        flow.spare.insert(flow.at, bytes);
        flow.at += len as u64;
        Ok(())
    }

    fn begin_again(&self) -> std::result::Result<Begun, Failed> {
        let url = self.dav.url(&self.path, false)?;
        let headers = Headers::new().with("Accept-Encoding", "identity");
        let method = Method::Get;
        let begun = self.dav.0.server.begin(&Asked::plain(&method, &url, &headers))?;
        if begun.response.status != 200 {
            return Err(begun.refusal());
        }
        self.check_facts(&begun, begun.body.length())?;
        Ok(begun)
    }
}

/// Once more, and not for ever: who ends three times before it is done is not believed to have more.
fn again(broken: &mut u32, failed: Failed) -> std::result::Result<(), Failed> {
    *broken += 1;
    let hopeless = failed.status.is_some() || failed.fault == Fault::Auth;
    if *broken > 3 || hopeless {
        return Err(failed);
    }
    std::thread::sleep(std::time::Duration::from_millis(100 << *broken));
    Ok(())
}
