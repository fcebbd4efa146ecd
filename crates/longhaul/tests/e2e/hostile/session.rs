//! A native session in which a test sends single verbs: each is carried out, or refused with the node's message.

use std::sync::atomic::{AtomicU64, Ordering};

use auth::AccessKey;
use engine::Error;
use model::checksum::{Digest, crc32c};
use model::locator::NodePlace;
use model::name::RelPath;
use model::{Algorithm, Refusal, Timestamp};
use wire::Frame;
use wire::frame::{Direction, End, Entry, KeyProof, Listed, Offered, Open, Outcome, Request, Verdict};

use crate::node::Node;
use crate::raw_client::{RawClient, entry, inline, order, part};

/// The number of the next request: no two have the same, so that no answer is taken for that of another request.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A path of an export.
pub fn place(export: &str, path: &str) -> NodePlace {
    NodePlace::Path { export: export.into(), path: RelPath::parse(path.as_bytes()).unwrap() }
}

/// The proof that a key shows.
pub fn proof(key: &str) -> KeyProof {
    let key: AccessKey = key.parse().unwrap();
    KeyProof { id: key.id, secret: *key.expose_secret() }
}

/// The id of a key's grant, as `grant revoke` takes it.
pub fn grant_id(key: &str) -> String {
    auth::hex(&proof(key).id)
}

/// A symbolic link's entry.
pub fn link(id: u64, parent: u64, name: &str, target: &str) -> Entry {
    entry(id, parent, name, Offered::Symlink { mtime: Timestamp::default(), target: target.into() })
}

/// An order for one place.
pub fn order_at(direction: Direction, at: NodePlace) -> Open {
    Open { places: vec![at], ..order(direction) }
}

/// A session that is logged in.
pub struct Session {
    pub raw_client: RawClient,
}

impl Session {
    /// Logs in with a key, or anonymously.
    pub fn open(node: &Node, key: Option<&str>) -> Result<Session, Refusal> {
        let raw_client = RawClient::with_key(node, key.map(proof).as_ref());
        raw_client.map(|raw_client| Session { raw_client }).map_err(|error| error.as_refusal())
    }

    fn receive(&mut self) -> Result<Frame, Refusal> {
        self.raw_client.receive().map_err(|error: Error| error.as_refusal())
    }

    /// Sends a request; returns the lines of the answer and its texts. A line that reports a failure is a refusal.
    fn exchange(&mut self, request: Request) -> Result<(Vec<Listed>, String), Refusal> {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) as u32;
        self.raw_client.send(&Frame::Request(number, request));
        let (mut all, mut all_text) = (Vec::new(), String::new());
        loop {
            match self.receive()? {
                Frame::Reply(n, lines, more) if n == number => {
                    if let Some(refusal) = lines.iter().find_map(|line| line.failure.clone()) {
                        return Err(refusal);
                    }
                    all.extend(lines);
                    if !more {
                        return Ok((all, all_text));
                    }
                }
                Frame::Told(n, text, more) if n == number => {
                    all_text.push_str(&text);
                    if !more {
                        return Ok((all, all_text));
                    }
                }
                Frame::Denied(n, refusal) if n == number => return Err(refusal),
                _ => {}
            }
        }
    }

    /// Sends a request whose answer is lines.
    pub fn query(&mut self, request: Request) -> Result<Vec<Listed>, Refusal> {
        self.exchange(request).map(|(lines, _)| lines)
    }

    /// Sends a request whose answer is text.
    pub fn ask_text(&mut self, request: Request) -> Result<String, Refusal> {
        self.exchange(request).map(|(_, text)| text)
    }

    /// Gives an order to push these entries, small files with their content; refused where any of them is.
    pub fn push(&mut self, order: Open, entries: Vec<Entry>, contents: &[(u64, &[u8])]) -> Result<(), Refusal> {
        let count = entries.iter().filter(|entry| matches!(entry, Entry::New { .. })).count();
        self.raw_client.send(&Frame::Open(order));
        self.raw_client.send(&Frame::Entries(entries));
        for (id, bytes) in contents {
            self.raw_client.send(&inline(part(*id, 0, bytes), bytes));
            let digests = vec![Digest::crc32c(crc32c(bytes))];
            self.raw_client.send(&Frame::Ends(vec![End { id: *id, size: bytes.len() as u64, digests }]));
        }
        self.raw_client.send(&Frame::ScanEnd(count as u64));
        let mut failed = None;
        loop {
            match self.receive()? {
                Frame::Outcomes(list) => {
                    let mut refusals = list.into_iter().filter_map(|(_, outcome)| match outcome {
                        Outcome::Failed(refusal) => Some(refusal),
                        _ => None,
                    });
                    failed = failed.or(refusals.next());
                }
                Frame::Finished(_) => return failed.map_or(Ok(()), Err),
                _ => {}
            }
        }
    }

    /// Puts one small file.
    pub fn put(&mut self, at: NodePlace, bytes: &[u8]) -> Result<(), Refusal> {
        let file = crate::raw_client::file(1, 0, "f", bytes.len() as u64);
        self.push(order_at(Direction::Push, at), vec![file], &[(1, bytes)])
    }

    /// Gets the small files at a place: returns the records that carried them, with their headers.
    pub fn get(&mut self, at: NodePlace) -> Result<Vec<u8>, Refusal> {
        // With a digest that no record contains, so that each file has an end frame.
        let mut order = order_at(Direction::Pull, at);
        order.options.checksums = vec![Algorithm::Adler32];
        self.raw_client.send(&Frame::Open(order));
        let (mut got, mut open, mut scanned, mut failed) = (Vec::new(), 0, false, None);
        loop {
            match self.receive()? {
                Frame::Entries(list) => {
                    for (id, what) in list.into_iter().filter_map(offered) {
                        open += usize::from(matches!(what, Offered::File { .. }));
                        match what {
                            Offered::File { .. } => self.raw_client.send(&Frame::Verdicts(vec![(id, Verdict::Want)])),
                            Offered::Failed(refusal) => {
                                self.raw_client.send(&Frame::Outcomes(vec![(id, Outcome::Failed(refusal.clone()))]));
                                failed = Some(refusal);
                            }
                            _ => self.raw_client.send(&Frame::Outcomes(vec![(id, Outcome::Done)])),
                        }
                    }
                }
                Frame::Inline(record) => got.extend(record),
                Frame::Ends(list) => {
                    open -= list.len();
                    let done = list.iter().map(|end| (end.id, Outcome::Done)).collect();
                    self.raw_client.send(&Frame::Outcomes(done));
                }
                Frame::Drops(list) => {
                    open -= list.len();
                    for (id, refusal) in list {
                        self.raw_client.send(&Frame::Outcomes(vec![(id, Outcome::Failed(refusal.clone()))]));
                        failed = Some(refusal);
                    }
                }
                Frame::ScanEnd(_) => scanned = true,
                _ => {}
            }
            if scanned && open == 0 {
                self.raw_client.send(&Frame::Finished(Default::default()));
                return failed.map_or(Ok(got), Err);
            }
        }
    }
}

fn offered(entry: Entry) -> Option<(u64, Offered)> {
    match entry {
        Entry::New { id, what, .. } => Some((id, what)),
        Entry::Leave(_) => None,
    }
}
