//! Decodes frames: every length, count and value is checked against its bound before anything is kept.

mod accounts;
mod movers;

use model::Algorithm;
use model::Refusal;
use model::account::TargetWaits;
use model::checksum::Digest;
use model::entry::{Attributes, Kind, Meta, Owner, Xattr};
use model::fault::Fault;
use model::locator::{HostPort, NodePlace};
use model::name::PATH_BYTES_MAX;
use model::spec::{Delete, Filter, LiveSettings, Options, Step, Sync};
use model::{Bytes, v1};
use std::time::Duration;

use super::encode::WITH_ATTRIBUTES;
use super::{
    Claim, Counts, DelegationOrder, Direction, End, Entry, Frame, HEAD_BYTES, KeyProof, Listed, MICROS_MAX, Offered,
    Open, Outcome, Plan, Removal, Request, Suite, Totals, Verdict,
};
use crate::codec::Reader;
use crate::error::WireError;
use crate::limits::MISSES_NAMED_MAX;
use crate::limits::{
    ADDRESSES_MAX, ANSWER_LINE_BYTES_MAX, FILTERS_MAX, FRAME_BYTES_MAX, LINEAGE_MAX, PATHS_MAX, RANGES_MAX,
    STREAMS_MAX, XATTR_BYTES_MAX, XATTRS_MAX,
};

use accounts::{account, address, facts};

type Result<T> = std::result::Result<T, WireError>;

/// The most items in one frame; each takes at least two bytes.
const ITEMS_MAX: usize = FRAME_BYTES_MAX / 2;

/// Bytes from the control connection, cut into frames. It holds at most one frame and one read beyond it.
#[derive(Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    taken: usize,
}

impl FrameBuffer {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > FRAME_BYTES_MAX {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether a whole frame has arrived.
    pub fn has_frame(&self) -> bool {
        let rest = &self.bytes[self.taken..];
        let len = rest.first_chunk::<4>().map(|head| u32::from_be_bytes(*head) as usize);
        // An impossible length counts as a frame, so that it is refused before more is read.
        len.is_some_and(|len| rest.len() - 4 >= len || len > FRAME_BYTES_MAX + 2)
    }

    /// The next whole frame, if there is one. Frames of an unknown type that may be ignored are skipped.
    ///
    /// # Errors
    /// The frame is malformed, too long, or of an unknown type that may not be ignored.
    pub fn next_frame(&mut self) -> Result<Option<Frame>> {
        loop {
            let rest = &self.bytes[self.taken..];
            let Some(head) = rest.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
            let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            if !(2..=FRAME_BYTES_MAX + 2).contains(&len) {
                let limit = FRAME_BYTES_MAX as u64;
                return Err(WireError::TooLarge { what: "a message's length", got: len as u64, limit });
            }
            if rest.len() < 4 + len {
                return Ok(None);
            }
            let (kind, flags) = (head[4], head[5]);
            let body = &rest[HEAD_BYTES..4 + len];
            let frame = decode(kind, body);
            self.taken += 4 + len;
            match frame {
                Err(WireError::Unknown(_)) if flags & 1 == 1 => continue,
                other => return other.map(Some),
            }
        }
    }
}

/// Decodes the body of a frame of the given type.
///
/// # Errors
/// The type is unknown, or the body is malformed or has a value beyond its bound.
pub fn decode(kind: u8, body: &[u8]) -> Result<Frame> {
    let mut reader = Reader::new(body);
    let r = &mut reader;
    let frame = match kind {
        1 => login(r)?,
        2 => Frame::Welcome { software: r.plain_line("software")?, suite: suite(r)?, plain: r.bool("plain")? },
        3 => Frame::Abort(refusal(r)?),
        4 => Frame::Ping(r.number("a ping")?),
        5 => Frame::Pong(r.number("a pong")?),
        6 => Frame::Request(request_id(r)?, request(r)?),
        7 => Frame::Reply(request_id(r)?, list(r, ITEMS_MAX, "a listing", listed)?, r.bool("more")?),
        8 => Frame::Denied(request_id(r)?, refusal(r)?),
        9 => Frame::Open(open(r)?),
        10 => Frame::Entries(list(r, ITEMS_MAX, "entries", entry)?),
        11 => Frame::Inline(r.bytes(FRAME_BYTES_MAX, "an inline record")?.to_vec()),
        12 => Frame::Ends(list(r, ITEMS_MAX, "ends", end)?),
        13 => Frame::Drops(list(r, ITEMS_MAX, "drops", |r| Ok((r.number("a file")?, refusal(r)?)))?),
        14 => Frame::Same(list(r, ITEMS_MAX, "equal files", |r| r.number("a file"))?),
        15 => Frame::ScanEnd(r.number("a count of entries")?),
        16 => Frame::Verdicts(list(r, ITEMS_MAX, "verdicts", verdict)?),
        17 => Frame::Outcomes(list(r, ITEMS_MAX, "outcomes", outcome)?),
        18 => Frame::Again(list(r, RANGES_MAX, "ranges", range)?),
        19 => Frame::Received(list(r, STREAMS_MAX as usize, "streams", |r| {
            Ok((stream_id(r)?, r.number("a count of records")?))
        })?),
        20 => Frame::Finished(totals(r)?),
        21 => Frame::Facts(list(r, STREAMS_MAX as usize + 1, "streams", facts)?),
        22 => Frame::Held(list(r, RANGES_MAX, "ranges", range)?),
        23 => Frame::Steer(live_settings(r)?),
        24 => Frame::Busy(r.plain_line("a reason")?),
        25 => Frame::Plans(list(r, ITEMS_MAX, "steps", plan)?),
        26 => {
            Frame::Files(list(r, ITEMS_MAX, "files", |r| Ok((r.path("a path")?, r.path("a path")?)))?, r.bool("more")?)
        }
        27 => Frame::Told(request_id(r)?, long_text(r)?, r.bool("more")?),
        28 => Frame::Account(Box::new(account(r)?)),
        29 => Frame::Keep(r.number("seconds")?),
        30 => renew(r)?,
        31 => Frame::Addresses(list(r, ADDRESSES_MAX, "addresses", address)?),
        32 => Frame::Spread(list(r, ADDRESSES_MAX + 1, "paths", |r| {
            Ok((stream_id(r)?, r.number_max(STREAMS_MAX.into(), "a count of streams")? as u32))
        })?),
        33 => Frame::Movers(list(r, ADDRESSES_MAX, "addresses", movers::delegated_address)?),
        34 => Frame::Lend(Box::new(movers::delegated_session(r)?)),
        35 => Frame::Word(movers::message(r)?),
        36 => Frame::Counts(Counts { unfinished: r.number("a count")?, refreshed: r.number("a count")? }),
        37 => {
            Frame::Lineage(list(r, PATHS_MAX, "sources", |r| list(r, LINEAGE_MAX, "places", |r| r.array("a place")))?)
        }
        41 => Frame::Doubted(list(r, RANGES_MAX, "files", |r| r.number("a file"))?),
        40 => {
            let mut span = || Ok(Duration::from_micros(r.number_max(MICROS_MAX, "a time")?));
            Frame::Waited(TargetWaits { space: span()?, writer: span()? })
        }
        39 => Frame::Removing(Removal { extras: r.number("extras")?, total: r.number("entries")? }),
        38 => Frame::Missed(list(r, MISSES_NAMED_MAX, "failures", |r| Ok((r.path("a path")?, refusal(r)?)))?),
        other => return Err(WireError::Unknown(other)),
    };
    reader.finish()?;
    Ok(frame)
}

fn list<'a, T>(
    r: &mut Reader<'a>,
    limit: usize,
    what: &'static str,
    mut each: impl FnMut(&mut Reader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = r.count(limit, what)?;
    // Grown as items are read, never reserved from the count: an item in memory is larger than on the wire.
    let mut out = Vec::new();
    for _ in 0..count {
        out.push(each(r)?);
    }
    Ok(out)
}

fn range(r: &mut Reader) -> Result<(u64, u64, u64)> {
    Ok((r.number("a file")?, r.number("an offset")?, r.number("a length")?))
}

fn live_settings(r: &mut Reader) -> Result<LiveSettings> {
    let (limit_bit_s, streams) = (r.number("a limit")?, stream_id(r)?);
    Ok(LiveSettings { limit_bit_s, streams, paused: r.bool("a pause")? })
}

fn plan(r: &mut Reader) -> Result<Plan> {
    let step = *Step::ALL.get(usize::from(r.u8("a step")?)).ok_or(WireError::Invalid("a step"))?;
    Ok(Plan { step, path: r.path("a path")?, bytes: r.number("a size")? })
}

fn long_text(r: &mut Reader) -> Result<String> {
    let bytes = r.bytes(ANSWER_LINE_BYTES_MAX, "an answer")?.to_vec();
    String::from_utf8(bytes).map_err(|_| WireError::Invalid("an answer"))
}

fn proof(r: &mut Reader) -> Result<KeyProof> {
    Ok(KeyProof { id: r.array("a key's id")?, secret: r.array("a key's secret")? })
}

fn delegation_order(r: &mut Reader) -> Result<DelegationOrder> {
    let order = open(r)?;
    let sources = list(r, PATHS_MAX, "places", place)?;
    if sources.is_empty() || order.direction != Direction::Push {
        return Err(WireError::Invalid("a job's places"));
    }
    let host = r.text("a host")?;
    let port = r.number_max(u16::MAX.into(), "a port")? as u16;
    Ok(DelegationOrder {
        order,
        sources,
        to: HostPort { host, port },
        node: r.array("a fingerprint")?,
        key: proof(r)?,
        plain: r.bool("plain")?,
        retry_for_s: r.number("a time")?,
    })
}

/// Numbers are one higher than their values; 0 stands for "unchanged".
fn change(r: &mut Reader) -> Result<v1::Change> {
    let limit_bit_s = r.number("a limit")?.checked_sub(1);
    let streams = r.number_max(u64::from(STREAMS_MAX) + 1, "a number of streams")?.checked_sub(1).map(|n| n as u32);
    let paused = match r.u8("a pause")? {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return Err(WireError::Invalid("a pause")),
    };
    Ok(v1::Change { limit_bit_s, limit_for_s: None, streams, paused, cancel: r.bool("a cancellation")? })
}

fn request_id(r: &mut Reader) -> Result<u32> {
    Ok(r.number_max(u32::MAX.into(), "a request's number")? as u32)
}

fn stream_id(r: &mut Reader) -> Result<u32> {
    Ok(r.number_max(STREAMS_MAX.into(), "a stream's number")? as u32)
}

fn mode(r: &mut Reader) -> Result<u32> {
    Ok(r.number_max(0o7777, "permission bits")? as u32)
}

fn refusal(r: &mut Reader) -> Result<Refusal> {
    Ok(Refusal { fault: Fault::from_code(r.u8("a fault")?), reason: r.plain_line("a reason")? })
}

fn suite(r: &mut Reader) -> Result<Suite> {
    match r.u8("a suite")? {
        1 => Ok(Suite::Aes128Gcm),
        2 => Ok(Suite::ChaCha20Poly1305),
        3 => Ok(Suite::Aegis128L),
        _ => Err(WireError::Invalid("a suite")),
    }
}

fn algorithm(r: &mut Reader) -> Result<Algorithm> {
    Algorithm::from_code(r.u8("a checksum's name")?).ok_or(WireError::Invalid("a checksum's name"))
}

fn digest(r: &mut Reader) -> Result<Digest> {
    let algorithm = algorithm(r)?;
    let bytes = r.raw(algorithm.value_bytes(), "a digest")?;
    Digest::new(algorithm, bytes).ok_or(WireError::Invalid("a digest"))
}

fn key(r: &mut Reader) -> Result<Option<KeyProof>> {
    r.bool("a key")?.then(|| proof(r)).transpose()
}

fn renew(r: &mut Reader) -> Result<Frame> {
    let (key, opened) = (key(r)?, stream_id(r)?);
    Ok(Frame::Renew { key, opened, kept: list(r, STREAMS_MAX as usize, "streams", stream_id)? })
}

fn login(r: &mut Reader) -> Result<Frame> {
    let session = r.array("a session's id")?;
    let software = r.plain_line("software")?;
    let key = key(r)?;
    // A suite of a later version is ignored, so that it can be offered to an older node.
    let offered = list(r, 16, "suites", |r| r.u8("a suite"))?;
    let suites = offered.iter().filter_map(|s| suite(&mut Reader::new(&[*s])).ok()).collect();
    Ok(Frame::Login { session, software, key, suites, plain: r.bool("plain")? })
}

fn place(r: &mut Reader) -> Result<NodePlace> {
    match r.u8("a place")? {
        0 => Ok(NodePlace::Exports),
        1 => {
            let export = r.text("an export's name")?;
            if export.is_empty() || export == "." || export == ".." || export.contains(['/', ':', '\0']) {
                return Err(WireError::Invalid("an export's name"));
            }
            Ok(NodePlace::Path { export, path: r.path("a path")? })
        }
        2 => Ok(NodePlace::Null),
        3 => Ok(NodePlace::Zero(Bytes(r.number("a size")?))),
        _ => Err(WireError::Invalid("a place")),
    }
}

fn request(r: &mut Reader) -> Result<Request> {
    Ok(match r.u8("a request")? {
        1 => Request::Stat(place(r)?),
        2 => Request::List(place(r)?),
        3 => Request::Mkdir(place(r)?),
        4 => Request::Remove(place(r)?, r.bool("what to remove")?),
        5 => Request::Rename(place(r)?, place(r)?),
        6 => Request::Digest(place(r)?, list(r, 16, "checksums", algorithm)?),
        7 => Request::KeyFor { job: r.array("a job")?, place: place(r)?, delete: r.bool("delete")? },
        8 => Request::Carry(Box::new(delegation_order(r)?)),
        9 => Request::Jobs(if r.bool("a job")? { Some(r.array("a job")?) } else { None }),
        10 => Request::Change(r.array("a job")?, change(r)?),
        11 => Request::Probe(long_text(r)?),
        _ => return Err(WireError::Invalid("a request")),
    })
}

fn meta(r: &mut Reader) -> Result<Meta> {
    let kind = match r.u8("a kind of entry")? {
        1 => Kind::File,
        2 => Kind::Dir,
        3 => Kind::Symlink,
        4 => Kind::Special,
        _ => return Err(WireError::Invalid("a kind of entry")),
    };
    Ok(Meta { kind, mode: mode(r)?, size: r.number("a size")?, mtime: r.timestamp("a time")? })
}

fn listed(r: &mut Reader) -> Result<Listed> {
    let path = r.path("a path")?;
    let meta = meta(r)?;
    let link = if r.bool("a link")? { Some(r.bytes(PATH_BYTES_MAX, "a link's target")?.to_vec()) } else { None };
    let digests = list(r, 16, "digests", digest)?;
    let failure = if r.bool("a failure")? { Some(refusal(r)?) } else { None };
    Ok(Listed { path, meta, link, digests, failure })
}

fn options(r: &mut Reader) -> Result<Options> {
    let (recursive, copy_links) = match r.u8("recursive")? {
        bits @ 0..=3 => (bits & 1 != 0, bits & 2 != 0),
        _ => return Err(WireError::Invalid("recursive")),
    };
    let into = r.bool("into")?;
    let sync = *Sync::ALL.get(usize::from(r.u8("a sync level")?)).ok_or(WireError::Invalid("a sync level"))?;
    let no_overwrite = r.bool("no-overwrite")?;
    let durable = r.bool("durable")?;
    let checksums = list(r, 16, "checksums", algorithm)?;
    let delete = delete(r)?;
    let dry_run = r.bool("dry run")?;
    let owner = r.bool("owner")?;
    let xattrs = r.bool("xattrs")?;
    let wait_space = Duration::from_secs(r.number("a time")?);
    let filters =
        list(r, FILTERS_MAX, "filters", |r| Ok(Filter { include: r.bool("a filter")?, pattern: r.text("a filter")? }))?;
    Ok(Options {
        recursive,
        copy_links,
        into,
        sync,
        no_overwrite,
        durable,
        checksums,
        delete,
        dry_run,
        owner,
        xattrs,
        wait_space,
        filters,
    })
}

fn delete(r: &mut Reader) -> Result<Delete> {
    match r.u8("delete")? {
        0 => Ok(Delete::No),
        1 => Ok(Delete::Careful),
        2 => Ok(Delete::All),
        3 => Ok(Delete::AtMost(r.number("a number of entries")?)),
        _ => Err(WireError::Invalid("delete")),
    }
}

fn open(r: &mut Reader) -> Result<Open> {
    let job = r.array("a job's id")?;
    let direction = if r.bool("a direction")? { Direction::Pull } else { Direction::Push };
    let places = list(r, PATHS_MAX, "places", place)?;
    if places.is_empty() || direction == Direction::Push && places.len() != 1 {
        return Err(WireError::Invalid("a job's places"));
    }
    let options = options(r)?;
    let congestion = Some(r.text("a congestion control")?).filter(|name| !name.is_empty());
    let steer = live_settings(r)?;
    Ok(Open { job, direction, places, options, congestion, steer, listed: r.bool("a list")? })
}

fn attributes(r: &mut Reader) -> Result<Attributes> {
    let sparse = r.bool("sparse")?;
    let implied = r.bool("implied")?;
    let id = |r: &mut Reader| r.number_max(u32::MAX.into(), "an owner").map(|id| id as u32);
    let owner = if r.bool("an owner")? {
        Some(Owner { uid: id(r)?, gid: id(r)?, user: r.text("a user")?, group: r.text("a group")? })
    } else {
        None
    };
    let xattrs = list(r, XATTRS_MAX, "attributes", |r| {
        let name = r.bytes(255, "an attribute's name")?.to_vec();
        if name.is_empty() || name.contains(&0) {
            return Err(WireError::Invalid("an attribute's name"));
        }
        Ok(Xattr { name, value: r.bytes(XATTR_BYTES_MAX, "an attribute")?.to_vec() })
    })?;
    Ok(Attributes { owner, xattrs, sparse, implied })
}

fn entry(r: &mut Reader) -> Result<Entry> {
    let first = r.u8("an entry")?;
    let what = first & !WITH_ATTRIBUTES;
    let id = r.number("an entry's id")?;
    if first == 0 {
        return Ok(Entry::Leave(id));
    }
    let parent = r.number("an entry's parent")?;
    let name = r.name("an entry's name")?;
    let what = match what {
        1 => Offered::Dir { mode: mode(r)?, mtime: r.timestamp("a time")? },
        2 => {
            let (mode, mtime) = (mode(r)?, r.timestamp("a time")?);
            let size = r.number("a size")?;
            if size != super::UNKNOWN_SIZE && size > i64::MAX as u64 {
                return Err(WireError::TooLarge { what: "a file's size", got: size, limit: i64::MAX as u64 });
            }
            Offered::File { mode, mtime, size }
        }
        3 => Offered::Symlink {
            mtime: r.timestamp("a time")?,
            target: r.bytes(PATH_BYTES_MAX, "a link's target")?.to_vec(),
        },
        4 => Offered::HardLink { to: r.number("a file")?, path: r.path("a path")? },
        5 => Offered::Special,
        6 => Offered::Failed(refusal(r)?),
        _ => return Err(WireError::Invalid("an entry")),
    };
    let attributes = match first & WITH_ATTRIBUTES {
        0 => None,
        _ => Some(Box::new(attributes(r)?)),
    };
    Ok(Entry::New { id, parent, name, what, attributes })
}

fn end(r: &mut Reader) -> Result<End> {
    Ok(End { id: r.number("a file")?, size: r.number("a size")?, digests: list(r, 16, "digests", digest)? })
}

fn verdict(r: &mut Reader) -> Result<(u64, Verdict)> {
    let id = r.number("a file")?;
    let verdict = match r.u8("a verdict")? {
        1 => Verdict::Want,
        2 => Verdict::WantRest(list(r, RANGES_MAX, "ranges", |r| {
            let (offset, len) = (r.number("an offset")?, r.number("a length")?);
            Ok(Claim { offset, len, crc32c: u32::from_be_bytes(r.array("a checksum")?) })
        })?),
        3 => Verdict::WantUnless(digest(r)?),
        _ => return Err(WireError::Invalid("a verdict")),
    };
    Ok((id, verdict))
}

fn outcome(r: &mut Reader) -> Result<(u64, Outcome)> {
    let id = r.number("an entry")?;
    let outcome = match r.u8("an outcome")? {
        1 => Outcome::Done,
        2 => Outcome::Skipped,
        3 => Outcome::Failed(refusal(r)?),
        _ => return Err(WireError::Invalid("an outcome")),
    };
    Ok((id, outcome))
}

fn totals(r: &mut Reader) -> Result<Totals> {
    let mut next = || r.number("a total");
    Ok(Totals {
        files: next()?,
        bytes: next()?,
        directories: next()?,
        links: next()?,
        skipped: next()?,
        skipped_bytes: next()?,
        special: next()?,
        failed: next()?,
        resent_bytes: next()?,
        resumed_bytes: next()?,
        deleted: next()?,
    })
}
