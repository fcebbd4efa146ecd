//! Encodes frames.

mod accounts;
mod movers;
mod order;

use model::Refusal;
use model::account::TargetWaits;
use model::checksum::Digest;
use model::entry::{Attributes, Kind, Meta};
use model::locator::NodePlace;
use model::spec::Step;

use super::{
    DelegationOrder, End, Entry, Frame, KeyProof, Listed, MICROS_MAX, Offered, Outcome, Removal, Request, Suite,
    Totals, Verdict,
};
use crate::codec::Writer;

use accounts::{account, address, facts};
use order::{live_settings, open};

/// A flag in the first byte of an entry: attributes follow it.
pub(super) const WITH_ATTRIBUTES: u8 = 0x80;

/// A frame's bytes, head included, appended to `out`.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    let mut w = Writer(std::mem::take(out));
    w.raw(&[0; 4]);
    w.u8(tag(frame));
    w.u8(u8::from(matches!(
        frame,
        Frame::Facts(_)
            | Frame::Ping(_)
            | Frame::Pong(_)
            | Frame::Busy(_)
            | Frame::Account(_)
            | Frame::Keep(_)
            | Frame::Addresses(_)
            | Frame::Spread(_)
            | Frame::Movers(_)
            | Frame::Counts(_)
            | Frame::Missed(_)
            | Frame::Removing(_)
            | Frame::Waited(_)
            | Frame::Doubted(_)
            | Frame::Lineage(_)
    )));
    body(&mut w, frame);
    *out = w.0;
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

/// The number of a frame's type.
pub(super) fn tag(frame: &Frame) -> u8 {
    match frame {
        Frame::Login { .. } => 1,
        Frame::Welcome { .. } => 2,
        Frame::Abort(_) => 3,
        Frame::Ping(_) => 4,
        Frame::Pong(_) => 5,
        Frame::Request(..) => 6,
        Frame::Reply(..) => 7,
        Frame::Denied(..) => 8,
        Frame::Open(_) => 9,
        Frame::Entries(_) => 10,
        Frame::Inline(_) => 11,
        Frame::Ends(_) => 12,
        Frame::Drops(_) => 13,
        Frame::Same(_) => 14,
        Frame::ScanEnd(_) => 15,
        Frame::Verdicts(_) => 16,
        Frame::Outcomes(_) => 17,
        Frame::Again(_) => 18,
        Frame::Received(_) => 19,
        Frame::Finished(_) => 20,
        Frame::Facts(_) => 21,
        Frame::Held(_) => 22,
        Frame::Steer(_) => 23,
        Frame::Busy(_) => 24,
        Frame::Plans(_) => 25,
        Frame::Files(..) => 26,
        Frame::Told(..) => 27,
        Frame::Account(_) => 28,
        Frame::Keep(_) => 29,
        Frame::Renew { .. } => 30,
        Frame::Addresses(_) => 31,
        Frame::Spread(_) => 32,
        Frame::Movers(_) => 33,
        Frame::Lend(_) => 34,
        Frame::Word(_) => 35,
        Frame::Counts(_) => 36,
        Frame::Lineage(_) => 37,
        Frame::Missed(_) => 38,
        Frame::Removing(_) => 39,
        Frame::Waited(_) => 40,
        Frame::Doubted(_) => 41,
    }
}

fn body(w: &mut Writer, frame: &Frame) {
    match frame {
        Frame::Login { session, software, key, suites, plain } => {
            w.raw(session);
            w.plain_line(software);
            key_proof(w, key.as_ref());
            list(w, suites, |w, s| w.u8(suite(*s)));
            w.bool(*plain);
        }
        Frame::Welcome { software, suite: chosen, plain } => {
            w.plain_line(software);
            w.u8(suite(*chosen));
            w.bool(*plain);
        }
        Frame::Abort(r) => refusal(w, r),
        Frame::Ping(n) | Frame::Pong(n) | Frame::Keep(n) => w.number(*n),
        Frame::Request(id, what) => {
            w.number((*id).into());
            request(w, what);
        }
        Frame::Reply(id, lines, more) => {
            w.number((*id).into());
            list(w, lines, listed);
            w.bool(*more);
        }
        Frame::Denied(id, r) => {
            w.number((*id).into());
            refusal(w, r);
        }
        Frame::Open(order) => open(w, order),
        Frame::Steer(to) => live_settings(w, to),
        Frame::Busy(why) => w.plain_line(why),
        Frame::Account(of) => account(w, of),
        Frame::Addresses(at) => list(w, at, address),
        Frame::Movers(at) => list(w, at, movers::delegated_address),
        Frame::Lend(session) => movers::delegated_session(w, session),
        Frame::Word(message) => movers::message(w, message),
        Frame::Lineage(sources) => list(w, sources, |w, places| list(w, places, |w, token| w.raw(token))),
        Frame::Counts(of) => {
            w.number(of.unfinished);
            w.number(of.refreshed);
        }
        Frame::Spread(over) => list(w, over, |w, (stream, count)| {
            w.number((*stream).into());
            w.number((*count).into());
        }),
        Frame::Renew { key, opened, kept } => {
            key_proof(w, key.as_ref());
            w.number((*opened).into());
            list(w, kept, |w, id| w.number((*id).into()));
        }
        Frame::Files(files, more) => {
            list(w, files, |w, (from, to)| {
                w.bytes(from.as_bytes());
                w.bytes(to.as_bytes());
            });
            w.bool(*more);
        }
        Frame::Told(id, text, more) => {
            w.number((*id).into());
            w.bytes(text.as_bytes());
            w.bool(*more);
        }
        of_a_job => job_body(w, of_a_job),
    }
}

/// The messages of a job's sender and receiver.
fn job_body(w: &mut Writer, frame: &Frame) {
    match frame {
        Frame::Entries(entries) => list(w, entries, entry),
        Frame::Inline(record) => w.bytes(record),
        Frame::Ends(ends) => list(w, ends, end),
        Frame::Drops(drops) => list(w, drops, |w, (id, r)| {
            w.number(*id);
            refusal(w, r);
        }),
        Frame::Same(ids) => list(w, ids, |w, id| w.number(*id)),
        Frame::ScanEnd(count) => w.number(*count),
        Frame::Verdicts(verdicts) => list(w, verdicts, verdict),
        Frame::Outcomes(outcomes) => list(w, outcomes, outcome),
        Frame::Again(ranges) | Frame::Held(ranges) => list(w, ranges, |w, (id, offset, len)| {
            w.number(*id);
            w.number(*offset);
            w.number(*len);
        }),
        Frame::Received(counts) => list(w, counts, |w, (stream, records)| {
            w.number((*stream).into());
            w.number(*records);
        }),
        Frame::Doubted(files) => list(w, files, |w, id| w.number(*id)),
        Frame::Waited(TargetWaits { space, writer }) => {
            [space, writer].iter().for_each(|span| w.number((span.as_micros() as u64).min(MICROS_MAX)));
        }
        Frame::Removing(Removal { extras, total }) => {
            w.number(*extras);
            w.number(*total);
        }
        Frame::Missed(misses) => list(w, misses, |w, (path, why)| {
            w.bytes(path.as_bytes());
            refusal(w, why);
        }),
        Frame::Finished(t) => totals(w, t),
        Frame::Facts(streams) => list(w, streams, facts),
        Frame::Plans(plans) => list(w, plans, |w, plan| {
            w.u8(Step::ALL.iter().position(|s| *s == plan.step).unwrap_or(0) as u8);
            w.bytes(plan.path.as_bytes());
            w.number(plan.bytes);
        }),
        // The messages of a session are written by `body`.
        _ => {}
    }
}

fn key_proof(w: &mut Writer, key: Option<&KeyProof>) {
    w.bool(key.is_some());
    if let Some(key) = key {
        proof(w, key);
    }
}

fn proof(w: &mut Writer, key: &KeyProof) {
    w.raw(&key.id);
    w.raw(&key.secret);
}

fn list<T>(w: &mut Writer, items: &[T], mut each: impl FnMut(&mut Writer, &T)) {
    w.number(items.len() as u64);
    for item in items {
        each(w, item);
    }
}

fn refusal(w: &mut Writer, refusal: &Refusal) {
    w.u8(refusal.fault.code());
    w.plain_line(&refusal.reason);
}

fn suite(suite: Suite) -> u8 {
    match suite {
        Suite::Aes128Gcm => 1,
        Suite::ChaCha20Poly1305 => 2,
        Suite::Aegis128L => 3,
    }
}

fn place(w: &mut Writer, place: &NodePlace) {
    match place {
        NodePlace::Exports => w.u8(0),
        NodePlace::Path { export, path } => {
            w.u8(1);
            w.text(export);
            w.bytes(path.as_bytes());
        }
        NodePlace::Null => w.u8(2),
        NodePlace::Zero(size) => {
            w.u8(3);
            w.number(size.0);
        }
    }
}

/// A question about a place and nothing else.
fn about(w: &mut Writer, code: u8, at: &NodePlace) {
    w.u8(code);
    place(w, at);
}

fn request(w: &mut Writer, request: &Request) {
    match request {
        Request::Stat(at) => about(w, 1, at),
        Request::List(at) => about(w, 2, at),
        Request::Mkdir(at) => about(w, 3, at),
        Request::Remove(at, below) => {
            w.u8(4);
            place(w, at);
            w.bool(*below);
        }
        Request::Rename(from, to) => {
            w.u8(5);
            place(w, from);
            place(w, to);
        }
        Request::Digest(at, algorithms) => {
            w.u8(6);
            place(w, at);
            list(w, algorithms, |w, a| w.u8(a.code()));
        }
        Request::KeyFor { job, place: at, delete } => {
            w.u8(7);
            w.raw(job);
            place(w, at);
            w.bool(*delete);
        }
        Request::Carry(what) => {
            w.u8(8);
            delegation_order(w, what);
        }
        Request::Jobs(job) => {
            w.u8(9);
            w.bool(job.is_some());
            job.iter().for_each(|job| w.raw(job));
        }
        Request::Change(job, change) => {
            w.u8(10);
            w.raw(job);
            // Numbers are one higher than their values; 0 stands for "unchanged".
            w.number(change.limit_bit_s.map_or(0, |limit| limit.saturating_add(1)));
            w.number(change.streams.map_or(0, |streams| u64::from(streams) + 1));
            w.u8(change.paused.map_or(0, |paused| 1 + u8::from(paused)));
            w.bool(change.cancel);
        }
        Request::Probe(ask) => {
            w.u8(11);
            w.bytes(ask.as_bytes());
        }
    }
}

fn delegation_order(w: &mut Writer, order: &DelegationOrder) {
    open(w, &order.order);
    list(w, &order.sources, place);
    w.text(&order.to.host);
    w.number(order.to.port.into());
    w.raw(&order.node);
    proof(w, &order.key);
    w.bool(order.plain);
    w.number(order.retry_for_s);
}

pub(super) fn kind(kind: Kind) -> u8 {
    match kind {
        Kind::File => 1,
        Kind::Dir => 2,
        Kind::Symlink => 3,
        Kind::Special => 4,
    }
}

fn meta(w: &mut Writer, meta: &Meta) {
    w.u8(kind(meta.kind));
    w.number(meta.mode.into());
    w.number(meta.size);
    w.timestamp(meta.mtime);
}

fn digest(w: &mut Writer, digest: &Digest) {
    w.u8(digest.algorithm().code());
    w.raw(digest.bytes());
}

fn listed(w: &mut Writer, line: &Listed) {
    w.bytes(line.path.as_bytes());
    meta(w, &line.meta);
    w.bool(line.link.is_some());
    if let Some(link) = &line.link {
        w.bytes(link);
    }
    list(w, &line.digests, digest);
    w.bool(line.failure.is_some());
    if let Some(failure) = &line.failure {
        refusal(w, failure);
    }
}

fn attributes(w: &mut Writer, attributes: &Attributes) {
    w.bool(attributes.sparse);
    w.bool(attributes.implied);
    w.bool(attributes.owner.is_some());
    if let Some(owner) = &attributes.owner {
        w.number(owner.uid.into());
        w.number(owner.gid.into());
        w.text(&owner.user);
        w.text(&owner.group);
    }
    list(w, &attributes.xattrs, |w, xattr| {
        w.bytes(&xattr.name);
        w.bytes(&xattr.value);
    });
}

fn entry(w: &mut Writer, entry: &Entry) {
    let (id, parent, name, what, more) = match entry {
        Entry::Leave(id) => {
            w.u8(0);
            w.number(*id);
            return;
        }
        Entry::New { id, parent, name, what, attributes } => (id, parent, name, what, attributes),
    };
    // The high bit says that attributes follow.
    let flag = if more.is_some() { WITH_ATTRIBUTES } else { 0 };
    w.u8(flag
        | match what {
            Offered::Dir { .. } => 1,
            Offered::File { .. } => 2,
            Offered::Symlink { .. } => 3,
            Offered::HardLink { .. } => 4,
            Offered::Special => 5,
            Offered::Failed(_) => 6,
        });
    w.number(*id);
    w.number(*parent);
    w.bytes(name.as_bytes());
    match what {
        Offered::Dir { mode, mtime } => {
            w.number((*mode).into());
            w.timestamp(*mtime);
        }
        Offered::File { mode, mtime, size } => {
            w.number((*mode).into());
            w.timestamp(*mtime);
            w.number(*size);
        }
        Offered::Symlink { mtime, target } => {
            w.timestamp(*mtime);
            w.bytes(target);
        }
        Offered::HardLink { to, path } => {
            w.number(*to);
            w.bytes(path.as_bytes());
        }
        Offered::Special => {}
        Offered::Failed(r) => refusal(w, r),
    }
    if let Some(more) = more {
        attributes(w, more);
    }
}

fn end(w: &mut Writer, end: &End) {
    w.number(end.id);
    w.number(end.size);
    list(w, &end.digests, digest);
}

fn verdict(w: &mut Writer, (id, verdict): &(u64, Verdict)) {
    w.number(*id);
    match verdict {
        Verdict::Want => w.u8(1),
        Verdict::WantRest(claims) => {
            w.u8(2);
            list(w, claims, |w, claim| {
                w.number(claim.offset);
                w.number(claim.len);
                w.raw(&claim.crc32c.to_be_bytes());
            });
        }
        Verdict::WantUnless(known) => {
            w.u8(3);
            digest(w, known);
        }
    }
}

fn outcome(w: &mut Writer, (id, outcome): &(u64, Outcome)) {
    w.number(*id);
    match outcome {
        Outcome::Done => w.u8(1),
        Outcome::Skipped => w.u8(2),
        Outcome::Failed(r) => {
            w.u8(3);
            refusal(w, r);
        }
    }
}

fn totals(w: &mut Writer, t: &Totals) {
    for value in [t.files, t.bytes, t.directories, t.links, t.skipped, t.skipped_bytes, t.special, t.failed] {
        w.number(value);
    }
    for value in [t.resent_bytes, t.resumed_bytes, t.deleted] {
        w.number(value);
    }
}
