//! How many streams a sender uses, with which congestion control, and how fast each may send: decided ten times a
//! second from what the kernel says about the streams (`TCP_INFO`) and from where their threads' time goes.
//!
//! White box: the part that limits is read off, not searched for. One more stream is tried only where the evidence says
//! that a stream, not the path or a disk, is the limit, and is taken back where it did not help. Design and arithmetic:
//! `docs/design/path.md`.
//!
//! What it does not know: sockets, clocks, threads. It is told the time and what was seen, and says what to do.

mod choice;
mod count;
mod pace;
mod tally;

use std::collections::HashMap;
use std::time::Duration;

use model::account::{Account, Spent};
use sys::tcp::TcpInfo;

pub use choice::{Evidence, Permitted, choose, wanted};
pub use count::{STREAMS_MAX, first_streams};
pub use tally::{Picture, Tally};

#[cfg(test)]
mod tests;

use count::Count;
use pace::Pacer;

/// What is seen of one stream.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Its number.
    pub stream: u32,
    /// What the kernel says.
    pub tcp: TcpInfo,
    /// Its congestion control.
    pub congestion: String,
    /// Where its thread's time went.
    pub spent: Spent,
    /// Bytes that have arrived and that nobody has read yet.
    pub unread_bytes: u64,
}

/// What holds around the streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    /// The job's limit, bytes per second of payload; 0 for none.
    pub limit_bytes_s: u64,
    /// Streams that somebody asked for; 0 where it is left to us.
    pub streams: u32,
    /// Nothing is to be sent.
    pub paused: bool,
    /// This job's part of a path that it shares with others of this node, bytes per second; 0 for no opinion.
    pub share_bytes_s: u64,
    /// What the other end said about itself last.
    pub peer: Option<&'a Account>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// So many streams from now on.
    Streams(u32),
    /// The stream is to use this congestion control.
    Congestion(u32, String),
    /// The stream's congestion control is to take its model of the path anew.
    Refresh(u32),
    /// The stream is to send at most so many bytes per second; none for no bound.
    Pace(u32, Option<u64>),
}

/// What is known before the first byte.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Congestion controls, and whether one was asked for.
    pub permitted: Permitted,
    /// Processors of this host.
    pub processors: u32,
    /// The largest send buffer that it gives a stream.
    pub send_buffer_bytes: u64,
    /// What an earlier job found on the same path.
    pub past: Option<Past>,
}

/// What a job found out about a path, for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past {
    /// What the path gave when it was full, bytes per second of payload; 0 where it never was.
    pub capacity_bytes_s: u64,
    /// Streams that were in use.
    pub streams: u32,
    /// Smallest round-trip time, seconds.
    pub min_rtt_s: f64,
    /// Share of the bytes that were sent again while no queue stood.
    pub loss: f64,
}

/// Less than the ten seconds after which BBR looks for the least round-trip time.
const REFRESH: Duration = Duration::from_secs(8);
/// A stream that has sent nothing for so long has nothing to send.
const IDLE: Duration = Duration::from_secs(1);

/// The pilot of one sending side.
#[derive(Debug)]
pub struct Pilot {
    known: Known,
    tally: Tally,
    pacer: Pacer,
    count: Count,
    /// What each stream was told last: its pace, and when its congestion control was chosen.
    told: HashMap<u32, Option<u64>>,
    chosen: HashMap<u32, Duration>,
    refreshed: HashMap<u32, Duration>,
    /// What each stream had sent when it last had something to send, and when that was.
    sent: HashMap<u32, (u64, Duration)>,
    /// The part of a shared path that the streams were told last, bytes per second; 0 where it is not shared.
    shared: u64,
    /// When congestion control was last sent to look for its share.
    searched: Duration,
    /// The congestion control that the evidence asks for and the host does not allow.
    missed: Option<&'static str>,
}

impl Pilot {
    /// For a job that is about to begin.
    pub fn new(known: Known) -> Pilot {
        Pilot {
            pacer: Pacer::new(known.past.as_ref()),
            tally: Tally::new(known.send_buffer_bytes),
            count: Count::new(known.past.as_ref()),
            told: HashMap::new(),
            chosen: HashMap::new(),
            refreshed: HashMap::new(),
            sent: HashMap::new(),
            shared: 0,
            searched: Duration::ZERO,
            missed: None,
            known,
        }
    }

    /// Looks at the streams, and says what to do.
    pub fn tick(&mut self, now: Duration, sights: &[Sight], around: &Around<'_>) -> Vec<Act> {
        self.tally.saw(now, sights);
        let mut acts = Vec::new();
        if sights.is_empty() || around.paused {
            return acts;
        }
        self.review_congestion(now, sights, &mut acts);
        let idle_peer = around.peer.is_none_or(|peer| waits_for_us(peer, &mut self.count.peer_before));
        let share = self.share(around);
        // Where a node shares the path out, what comes through says nothing of the path.
        let bound = share.is_some();
        let anew = match share {
            Some(share) => self.is_short_of(now, share),
            None => self.pacer.tick(now, &self.tally),
        };
        self.shared = share.unwrap_or_default();
        self.refresh(now, sights, anew, &mut acts);
        if around.streams == 0 && around.limit_bytes_s == 0 {
            let view = count::View {
                streams: sights.len() as u32,
                held: self.pacer.is_full() || bound,
                peer_waits: idle_peer,
                loss_based: sights.iter().all(|s| choice::is_loss_based(&s.congestion)),
                processors: self.known.processors,
            };
            acts.extend(self.count.tick(now, &self.tally, &view).map(Act::Streams));
            if std::mem::take(&mut self.count.widened) {
                self.pacer.reopen();
            }
        }
        self.pace(now, sights, around, &mut acts);
        acts
    }

    /// The host did not let a socket have this congestion control after all.
    pub fn refused(&mut self, name: &str) {
        self.known.permitted.names.retain(|known| known != name);
        self.chosen.clear();
    }

    /// Whether much less than the job's share comes through, so that congestion control should look for what there is
    /// now: left to itself BBR takes up a quarter more in eight round trips.
    fn is_short_of(&mut self, now: Duration, share: u64) -> bool {
        let round = self.tally.round();
        let waited = now.saturating_sub(self.searched) >= round * 4;
        let last = self.tally.over(round * 2);
        // A job that is slow for reasons of its own does not lack room.
        let short = waited && pace::is_pushed(&last) && last.rate < share as f64 * 0.75;
        if short {
            self.searched = now;
        }
        short
    }

    /// What the path gave when this job filled it, bytes per second; 0 where it never did.
    pub fn capacity(&self) -> u64 {
        self.pacer.capacity()
    }

    /// What this end can say about the path so far.
    pub fn picture(&self) -> Picture {
        let mut picture = self.tally.picture();
        picture.capacity_bytes_s = self.pacer.capacity();
        picture.cap_bytes_s = self.pacer.cap();
        picture.missed = self.missed;
        picture.forced = self.known.permitted.forced.clone();
        picture
    }

    /// What the next job on this path should know.
    pub fn past(&self, streams: u32) -> Option<Past> {
        let picture = self.tally.picture();
        let enough = picture.min_rtt > Duration::ZERO && picture.delivered_bytes > 1 << 20;
        enough.then(|| Past {
            capacity_bytes_s: self.pacer.remembered(),
            streams: self.count.settled(streams),
            min_rtt_s: picture.min_rtt.as_secs_f64(),
            // What is not lost any more is not remembered either.
            loss: self.pacer.base_loss().min(picture.loss),
        })
    }

    /// The congestion control of each stream, by the evidence there is by now.
    fn review_congestion(&mut self, now: Duration, sights: &[Sight], acts: &mut Vec<Act>) {
        let rtt = self.tally.min_rtt();
        if self.known.permitted.forced.is_some() || rtt.is_zero() {
            return;
        }
        let loss = self.tally.loss_without_queue();
        let each_bytes_s = self.tally.over(self.tally.round() * 4).rate / sights.len().max(1) as f64;
        let path = Evidence { rtt, loss, each_bytes_s, mss_bytes: sights.first().map_or(0, |s| s.tcp.mss_bytes) };
        for sight in sights {
            // A change costs the stream its model of the path: it is given time to show what it does.
            let settle = (rtt * 20).max(Duration::from_secs(2));
            if self.chosen.get(&sight.stream).is_some_and(|at| now.saturating_sub(*at) < settle) {
                continue;
            }
            let Some(want) = wanted(&path, &sight.congestion) else { continue };
            self.chosen.insert(sight.stream, now);
            match choose(want, &self.known.permitted) {
                Some(name) if name != sight.congestion => acts.push(Act::Congestion(sight.stream, name)),
                Some(_) => {}
                None => self.missed = Some(want.name()),
            }
        }
    }

    /// BBR lets its pipe run dry for a round trip every ten seconds, to learn the least round-trip time (PROBE_RTT): 4 %
    /// of the path at 303 ms. Where we hold the rate and no queue stands, it has that time before its eyes, and is spared
    /// the dip by beginning anew, at the rate that it is held at.
    fn refresh(&mut self, now: Duration, sights: &[Sight], all: bool, acts: &mut Vec<Act>) {
        let held = (self.shared > 0 || self.pacer.cap().is_some()) && self.known.permitted.forced.is_none();
        let clear = !self.tally.queue_stands();
        for sight in sights.iter().filter(|sight| !choice::is_loss_based(&sight.congestion)) {
            let last = self.refreshed.entry(sight.stream).or_insert(now);
            // Who may not be given its congestion control back keeps the one it has.
            let may = self.known.permitted.names.contains(&sight.congestion);
            if held && may && (all || clear && now.saturating_sub(*last) >= REFRESH) {
                *last = now;
                acts.push(Act::Refresh(sight.stream));
            }
        }
    }

    /// The job's part of a path that it shares with others of a node at either end.
    fn share(&self, around: &Around<'_>) -> Option<u64> {
        let theirs = around.peer.map_or(0, |peer| peer.share_bit_s / 8);
        [around.share_bytes_s, theirs].into_iter().filter(|share| *share > 0).min()
    }

    /// Those that have something to send: a file of which a digest needs the bytes in order is one stream's, and its part of what may
    /// be sent is not to lie idle with the others. All of them where none has.
    fn busy(&mut self, now: Duration, sights: &[Sight]) -> u64 {
        let busy = sights.iter().filter(|Sight { stream, tcp, .. }| {
            let last = self.sent.entry(*stream).or_insert((tcp.bytes_sent, now));
            if tcp.bytes_sent != last.0 || tcp.unsent_bytes > 0 || tcp.unacked_segments > 0 {
                *last = (tcp.bytes_sent, now);
            }
            now.saturating_sub(last.1) < IDLE
        });
        match busy.count() {
            0 => sights.len() as u64,
            busy => busy as u64,
        }
    }

    /// Each stream's part of what may be sent.
    fn pace(&mut self, now: Duration, sights: &[Sight], around: &Around<'_>, acts: &mut Vec<Act>) {
        let streams = self.busy(now, sights);
        let cap = self.share(around).or(self.pacer.cap());
        // The limit itself is kept by the job's schedule; the sockets, a little above it, only even out what it lets go.
        let limit = (around.limit_bytes_s > 0).then(|| around.limit_bytes_s.saturating_mul(3) / 2);
        let each = [cap, limit].into_iter().flatten().min().map(|total| (total / streams).max(1 << 14));
        for sight in sights {
            let last = self.told.entry(sight.stream).or_default();
            if *last != each {
                *last = each;
                acts.push(Act::Pace(sight.stream, each));
            }
        }
    }
}

/// Whether the receiver's threads mostly waited for what we send since the last account of theirs: then a full window
/// is one that is too small, and not one that nobody empties.
fn waits_for_us(peer: &Account, before: &mut (Spent, bool)) -> bool {
    let spent = peer.spent.since(&before.0);
    let total = spent.total().as_secs_f64();
    if total > 0.2 {
        let waited = spent.wall_in(model::account::Stage::Socket) + spent.wall_in(model::account::Stage::Idle);
        *before = (peer.spent, waited.as_secs_f64() > 0.5 * total);
    }
    before.1
}
