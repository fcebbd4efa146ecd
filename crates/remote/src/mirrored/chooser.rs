//! Chooses which member of a set is asked for which bytes: a state machine without a clock, a socket or a thread.
//!
//! Wanted bytes wait in a queue. A member with a free slot is asked for as many bytes from its front as it sends in about 0.4 s, so
//! that shares are in proportion to rates. It is asked for nothing that the others would send sooner. Towards the end of a file pieces
//! become smaller, and a late piece is requested from a second member too: the first copy of each byte counts.
//!
//! A read is a range of a file that one reader waits for. A read is split into pieces, and each piece is requested from a member.
//!
//! Does not know: how bytes are read, what a failure was.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use super::member::{Member, PIECE_MAX, PIECE_MIN};
use crate::range_source::FailureScope;

/// The most members of one set.
pub(super) const MEMBERS_MAX: usize = 16;
/// The silence, in seconds, after which a piece may be requested from a second member.
pub(super) const SILENT_S: f64 = 2.0;
/// A piece is late after this many times its expected time, and `LATE_S` seconds more.
const LATE_TIMES: f64 = 3.0;
const LATE_S: f64 = 1.0;
/// The most members that are asked for the same bytes.
const ASKED_MAX: usize = 4;
/// The rest of a piece is requested from another member if that member needs at most this part of the time that is left, and saves at
/// least `TAKE_OVER_GAIN_S` seconds.
const TAKE_OVER_PART: f64 = 0.7;
const TAKE_OVER_GAIN_S: f64 = 0.03;
/// For how many seconds bytes must have come over a connection before its own rate is used.
const OWN_RATE_AGE_S: f64 = 0.25;
/// A member's piece may take at most this part of the time in which the other members would send all that is left: readers wait for the
/// first pieces.
const PATIENT_PART: f64 = 0.5;

/// A request to a member for bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PieceRequest {
    /// The number of the request.
    pub id: u64,
    pub member: usize,
    /// The read that wants the bytes.
    pub read: u64,
    pub file: u64,
    /// The bytes of the file.
    pub span: Range<u64>,
}

/// The effect of bytes that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NewBytes {
    /// The bytes that had not come before.
    pub new: Range<u64>,
    /// Requests that are no longer needed.
    pub given_up: Vec<u64>,
}

/// Bytes that no member has been asked for yet.
#[derive(Debug)]
struct WantedSpan {
    read: u64,
    file: u64,
    span: Range<u64>,
}

/// Bytes that at least one member has been asked for.
#[derive(Debug)]
struct RequestedPiece {
    read: u64,
    file: u64,
    end: u64,
    /// The offset up to which they have come.
    filled: u64,
    requests: Vec<u64>,
}

#[derive(Debug)]
struct RequestState {
    piece: u64,
    member: usize,
    /// The first byte.
    from: u64,
    /// The next byte.
    at: u64,
    began: f64,
    /// When bytes first came.
    first: f64,
    /// When bytes last came.
    last_bytes_at: Option<f64>,
    /// When the piece should be complete.
    due: f64,
    /// The member has failed and is tried again: the piece is requested from another one too.
    trial: bool,
}

impl RequestState {
    fn is_silent(&self, now: f64) -> bool {
        now - self.last_bytes_at.unwrap_or(self.began) >= SILENT_S
    }

    fn is_late(&self, now: f64) -> bool {
        self.trial || self.is_silent(now) || now - self.began > LATE_TIMES * (self.due - self.began) + LATE_S
    }
}

/// The state machine. Times are in seconds.
#[derive(Debug, Default)]
pub(super) struct Chooser {
    members: Vec<Member>,
    wants: VecDeque<WantedSpan>,
    pieces: BTreeMap<u64, RequestedPiece>,
    requests: BTreeMap<u64, RequestState>,
    /// By file, the members that do not have it or have another version: a bit each.
    left_out: HashMap<u64, u32>,
    /// Bytes that each member was the first to send.
    counted: Vec<u64>,
    /// The last id that was given to a request or a piece.
    last_id: u64,
}

impl Chooser {
    /// A chooser for this number of members.
    pub fn new(members: usize) -> Chooser {
        Chooser { members: vec![Member::default(); members], counted: vec![0; members], ..Chooser::default() }
    }

    /// Bytes that a member was the first to send.
    pub fn counted(&self, member: usize) -> u64 {
        self.counted[member]
    }

    /// Whether a member will not be asked again.
    pub fn is_excluded(&self, member: usize) -> bool {
        self.members[member].is_excluded
    }

    /// Whether a member has failed and brought nothing since.
    pub fn is_doubtful(&self, member: usize) -> bool {
        self.members[member].is_doubtful()
    }

    /// Notes that a member could not be reached by another request than one for bytes.
    pub fn note_failure(&mut self, member: usize, now: f64) {
        self.members[member].note_failure(now, None);
    }

    /// Excludes a member for good.
    pub fn leave_out(&mut self, member: usize) {
        self.members[member].is_excluded = true;
    }

    /// Adds bytes of a file to the end of the queue.
    pub fn want(&mut self, read: u64, file: u64, span: Range<u64>) {
        if !span.is_empty() {
            self.wants.push_back(WantedSpan { read, file, span });
        }
    }

    /// Drops a read. Returns its requests, which are no longer needed.
    pub fn forget(&mut self, read: u64, now: f64) -> Vec<u64> {
        self.wants.retain(|want| want.read != read);
        let pieces: Vec<u64> = self.pieces.iter().filter(|(_, p)| p.read == read).map(|(id, _)| *id).collect();
        pieces.into_iter().flat_map(|piece| self.end(piece, None, now)).collect()
    }

    /// Forgets a file that has been closed.
    pub fn close(&mut self, file: u64) {
        self.left_out.remove(&file);
    }

    fn may_ask(&self, member: usize, file: u64) -> bool {
        !self.members[member].is_excluded && self.left_out.get(&file).is_none_or(|out| out & (1 << member) == 0)
    }

    /// Whether no member can bring bytes of a file, now or later.
    pub fn is_hopeless(&self, file: u64) -> bool {
        (0..self.members.len()).all(|member| !self.may_ask(member, file))
    }

    /// The next request to make now. Call it until it returns `None`.
    pub fn next(&mut self, now: f64) -> Option<PieceRequest> {
        self.members.iter_mut().for_each(|member| member.tick(now));
        let found = self.rescue(now).or_else(|| self.take_over(now));
        if let Some((piece, member)) = found {
            return Some(self.request(piece, member, now));
        }
        let (want, member, size) = self.assign(now)?;
        let WantedSpan { read, file, span } = &mut self.wants[want];
        let (read, file, from) = (*read, *file, span.start);
        span.start += size;
        if span.is_empty() {
            self.wants.remove(want);
        }
        let piece = self.next_id();
        self.pieces.insert(piece, RequestedPiece { read, file, end: from + size, filled: from, requests: Vec::new() });
        Some(self.request(piece, member, now))
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn request(&mut self, piece: u64, member: usize, now: f64) -> PieceRequest {
        let id = self.next_id();
        let requested = self.pieces.get_mut(&piece);
        let (read, file, span) = requested.map_or((0, 0, 0..0), |p| {
            p.requests.push(id);
            (p.read, p.file, p.filled..p.end)
        });
        let due = now + self.members[member].expected_s(span.end - span.start);
        let trial = self.members[member].is_doubtful();
        self.members[member].note_request(now);
        self.requests.insert(
            id,
            RequestState {
                piece,
                member,
                from: span.start,
                at: span.start,
                began: now,
                first: now,
                last_bytes_at: None,
                due,
                trial,
            },
        );
        PieceRequest { id, member, read, file, span }
    }

    /// A late piece, and a free member for it. Late pieces come before the queue. Where the fastest member has no free slot, the
    /// piece waits for it, unless another one needs at most twice the time.
    fn rescue(&self, now: f64) -> Option<(u64, usize)> {
        self.pieces.iter().find_map(|(id, piece)| {
            let mut requests = piece.requests.iter().filter_map(|id| self.requests.get(id));
            if piece.requests.len() >= ASKED_MAX || !requests.all(|request| request.is_late(now)) {
                return None;
            }
            let member = self.best_free(piece, now)?;
            let left = piece.end - piece.filled;
            let usable = |m: &usize| self.members[*m].is_usable(now) && self.may_ask(*m, piece.file);
            let others = (0..self.members.len()).filter(usable).filter(|m| !self.is_asked(piece, *m));
            let best = others.map(|m| self.members[m].expected_s(left)).fold(f64::INFINITY, f64::min);
            (self.members[member].expected_s(left) <= best * 2.0).then_some((*id, member))
        })
    }

    fn is_asked(&self, piece: &RequestedPiece, member: usize) -> bool {
        piece.requests.iter().any(|id| self.requests.get(id).is_some_and(|request| request.member == member))
    }

    /// The free member that would bring the rest of a piece first, among those that have not been asked for it.
    fn best_free(&self, piece: &RequestedPiece, now: f64) -> Option<usize> {
        let free =
            |m: &usize| self.members[*m].is_free(now) && self.may_ask(*m, piece.file) && !self.is_asked(piece, *m);
        let left = piece.end - piece.filled;
        let time = |m: &usize| self.members[*m].expected_s(left);
        (0..self.members.len()).filter(free).min_by(|a, b| time(a).total_cmp(&time(b)))
    }

    /// Where the queue is empty: of the pieces that a free member would bring sooner, the one that would be complete last.
    fn take_over(&self, now: f64) -> Option<(u64, usize)> {
        if !self.wants.is_empty() {
            return None;
        }
        let open = self.pieces.iter().filter(|(_, piece)| piece.requests.len() < ASKED_MAX);
        let worth = open.filter_map(|(id, piece)| {
            let member = self.best_free(piece, now)?;
            let requests = piece.requests.iter().filter_map(|id| self.requests.get(id));
            let present_s =
                requests.map(|request| self.time_left_s(request, piece.end, now)).fold(f64::INFINITY, f64::min);
            let other_s = self.members[member].expected_s(piece.end - piece.filled);
            (other_s < present_s * TAKE_OVER_PART && present_s - other_s > TAKE_OVER_GAIN_S)
                .then_some((*id, member, present_s))
        });
        worth.max_by(|a, b| a.2.total_cmp(&b.2)).map(|(id, member, _)| (id, member))
    }

    /// The estimated time until a request is complete, in seconds.
    fn time_left_s(&self, request: &RequestState, end: u64, now: f64) -> f64 {
        let left = end - request.at;
        let member = &self.members[request.member];
        // A connection that has been silent for a while is expected to stay silent for as long again.
        let Some(last_bytes_at) = request.last_bytes_at else {
            let begins = (member.latency() - (now - request.began)).max(0.0);
            return (begins + member.remaining_s(left)).max(now - request.began - member.latency());
        };
        // The connection's own rate counts once it has been measured for a while.
        let seen = now - request.first;
        let own =
            if seen > OWN_RATE_AGE_S { left as f64 * seen / (request.at - request.from).max(1) as f64 } else { 0.0 };
        member.remaining_s(left).max(now - last_bytes_at).max(own)
    }

    /// Bytes that have not come yet, wanted or on their way.
    fn left(&self) -> u64 {
        let wanted: u64 = self.wants.iter().map(|want| want.span.end - want.span.start).sum();
        wanted + self.pieces.values().map(|piece| piece.end - piece.filled).sum::<u64>()
    }

    /// The next wanted span (its index), the member to ask, and the number of bytes.
    fn assign(&self, now: f64) -> Option<(usize, usize, u64)> {
        let left = self.left();
        let mut seen: Vec<u64> = Vec::new();
        for (at, want) in self.wants.iter().enumerate() {
            // Where no member takes the first span of a file, none takes its later ones.
            if seen.contains(&want.file) {
                continue;
            }
            seen.push(want.file);
            let free = |m: &usize| self.members[*m].is_free(now) && self.may_ask(*m, want.file);
            let mut free: Vec<usize> = (0..self.members.len()).filter(free).collect();
            let time = |m: usize| self.members[m].expected_s(PIECE_MIN);
            free.sort_by(|a, b| time(*a).total_cmp(&time(*b)));
            let assigned = free.into_iter().find_map(|member| {
                let size = self.size(member, left, want, now);
                self.is_worthwhile(member, size, left, want.file, now).then_some((at, member, size))
            });
            if assigned.is_some() {
                return assigned;
            }
        }
        None
    }

    /// The bytes of a span that a member is asked for: fewer towards the end, so that all members end together.
    fn size(&self, member: usize, left: u64, want: &WantedSpan, now: f64) -> u64 {
        let asked = &self.members[member];
        let wanted = want.span.end - want.span.start;
        let all: f64 = self.members.iter().filter(|m| m.is_usable(now)).filter_map(Member::rate).sum();
        let share = asked.rate().map_or(u64::MAX, |rate| {
            let part = rate / all.max(rate) / (2 * asked.slots()) as f64;
            (left as f64 * part) as u64
        });
        let size = asked.piece_bytes().min(share).clamp(PIECE_MIN, PIECE_MAX).min(wanted);
        // A small rest goes with this piece.
        if wanted - size < PIECE_MIN / 2 { wanted } else { size }
    }

    /// Whether a request to this member completes the file sooner than the other members would without it.
    fn is_worthwhile(&self, member: usize, size: u64, left: u64, file: u64, now: f64) -> bool {
        let Some(own) = self.members[member].rate() else { return true };
        let other = |m: &usize| *m != member && self.members[*m].is_usable(now) && self.may_ask(*m, file);
        let others = (0..self.members.len()).filter(other).map(|m| &self.members[m]);
        let known: Vec<(f64, f64)> = others.filter_map(|m| Some((m.rate()?, m.latency()))).collect();
        let alone = |rate: f64, latency: f64| latency + size as f64 / rate;
        let best = known.iter().map(|(rate, latency)| alone(*rate, *latency)).min_by(f64::total_cmp);
        let Some(best) = best.filter(|best| *best < alone(own, self.members[member].latency())) else { return true };
        let all: f64 = known.iter().map(|(rate, _)| rate).sum();
        let without = best.max(left as f64 / all * PATIENT_PART);
        self.members[member].expected_s(size) <= without
    }

    /// Records bytes that came. Returns `None` where the request is no longer needed and is to be given up.
    pub fn record_bytes(&mut self, id: u64, bytes: u64, now: f64) -> Option<NewBytes> {
        let request = self.requests.get_mut(&id)?;
        let after = request.last_bytes_at.is_none().then_some(now - request.began);
        if after.is_some() {
            request.first = now;
        }
        request.last_bytes_at = Some(now);
        let from = request.at;
        request.at += bytes;
        let (piece, member, at) = (request.piece, request.member, request.at);
        self.members[member].record_bytes(bytes, after);
        let requested = self.pieces.get_mut(&piece)?;
        let new = from.max(requested.filled)..at.min(requested.end).max(requested.filled);
        requested.filled = new.end;
        self.counted[member] += new.end.saturating_sub(new.start);
        let mut brought = NewBytes { new: new.start.min(new.end)..new.end, given_up: Vec::new() };
        if requested.filled == requested.end {
            brought.given_up = self.end(piece, Some(id), now);
        }
        Some(brought)
    }

    /// Ends a piece. `by` is the request that completed it; `None` where its read was dropped. Returns its other requests, which are no
    /// longer needed.
    fn end(&mut self, piece: u64, by: Option<u64>, now: f64) -> Vec<u64> {
        let Some(piece) = self.pieces.remove(&piece) else { return Vec::new() };
        let mut given_up = Vec::new();
        for id in piece.requests {
            let Some(request) = self.requests.remove(&id) else { continue };
            let member = &mut self.members[request.member];
            member.end_request(now, (by == Some(id)).then_some(request.began));
            if by != Some(id) {
                given_up.push(id);
                if by.is_some() && request.is_silent(now) {
                    member.note_failure(now, None);
                }
            }
        }
        given_up
    }

    /// Records the failure of a request. Returns whether the request was still needed.
    pub fn failed(&mut self, id: u64, scope: FailureScope, now: f64) -> bool {
        let Some(RequestState { piece, member, .. }) = self.requests.remove(&id) else { return false };
        self.members[member].end_request(now, None);
        match scope {
            FailureScope::Temporary(pause) => self.members[member].note_failure(now, pause),
            FailureScope::AllFiles => self.members[member].is_excluded = true,
            FailureScope::File => {}
        }
        let Some(requested) = self.pieces.get_mut(&piece) else { return true };
        requested.requests.retain(|other| *other != id);
        let (read, file, span) = (requested.read, requested.file, requested.filled..requested.end);
        if scope == FailureScope::File {
            *self.left_out.entry(file).or_default() |= 1 << member;
        }
        if self.pieces.get(&piece).is_some_and(|requested| requested.requests.is_empty()) {
            self.pieces.remove(&piece);
            self.wants.push_front(WantedSpan { read, file, span });
        }
        true
    }
}

const _: () = assert!(MEMBERS_MAX <= 32, "`left_out` has a bit for each member");
