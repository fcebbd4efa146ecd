//! What is seen of a running job, and what follows: the pilot is asked, its orders are carried out, and the other end
//! hears how this one is doing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::account::{Account, Spent};
use sys::clock::Processors;
use wire::Frame;

use super::{Crew, Reins, Side, StreamTerms};
use crate::commons::Seat;
use crate::error::Result;
use crate::link::Link;
use crate::pilot::{Act, Around, Known, Past, Permitted, Pilot, STREAMS_MAX, Sight};
use crate::series::Series;

/// Bounds on what a socket may hold unsent; two records at least.
const UNSENT_BYTES_MIN: u64 = 2 << 20;
const UNSENT_BYTES_MAX: u64 = 64 << 20;
/// Below this round-trip time sockets are left alone.
const NEAR: Duration = Duration::from_millis(2);
/// How often the other end hears of this one.
const TELL: Duration = Duration::from_millis(500);

/// Looks at a job's streams ten times a second.
pub(super) struct Gauge {
    started: Instant,
    processors: Processors,
    pilot: Option<Pilot>,
    /// How many streams the pilot wants; 0 while it has no opinion.
    wish: u32,
    told: Option<(Instant, u32, u64)>,
    /// What the other end said last.
    pub(super) peer: Option<Box<Account>>,
    /// Time of threads whose streams have ended.
    pub(super) ended: Spent,
    streams: u32,
    seat: Option<Seat>,
    /// Bytes that had arrived at the last look, and when that was.
    arrived: Option<(Instant, u64)>,
    share_bytes_s: u64,
    series: Option<Series>,
    /// What each socket may hold unsent.
    unsent: HashMap<u32, u64>,
}

impl Gauge {
    pub(super) fn new(terms: &StreamTerms, side: &dyn Side) -> Gauge {
        let processors = sys::limits::processors() as u32;
        let send_buffer_bytes = sys::tcp::buffers_max().1;
        let known = Known { permitted: terms.permitted.clone(), processors, send_buffer_bytes, past: terms.past };
        Gauge {
            started: Instant::now(),
            processors: Processors::read(),
            pilot: side.sends().then(|| Pilot::new(known)),
            wish: 0,
            told: None,
            peer: None,
            ended: Spent::default(),
            streams: 0,
            seat: terms.commons.as_ref().map(|(commons, peer)| commons.join(*peer)),
            arrived: None,
            share_bytes_s: 0,
            series: terms.series.clone(),
            unsent: HashMap::new(),
        }
    }

    /// How many streams there should be by the evidence, whichever end it is that sends; 0 for no opinion.
    pub(super) fn wish(&self) -> u32 {
        let theirs = || self.peer.as_ref().map_or(0, |peer| peer.streams.min(STREAMS_MAX));
        if self.pilot.is_some() { self.wish } else { theirs() }
    }

    pub(super) fn tick(&mut self, link: &mut Link, crew: &Crew, reins: &Reins<'_>) -> Result<()> {
        let now = self.started.elapsed();
        let sights = crew.sights();
        let side_sends = self.pilot.is_some();
        self.take_share(crew);
        self.streams = self.streams.max(sights.len() as u32);
        if let Some(pilot) = &mut self.pilot {
            let around = Around {
                limit_bytes_s: reins.applied.limit_bit_s.div_ceil(8),
                streams: reins.applied.streams,
                paused: reins.applied.paused,
                share_bytes_s: self.share_bytes_s,
                peer: self.peer.as_deref(),
            };
            for act in pilot.tick(now, &sights, &around) {
                match act {
                    Act::Streams(wish) => {
                        self.wish = wish;
                        crew.side.keep_streams(wish);
                    }
                    Act::Pace(stream, bytes_s) => crew.pace(stream, bytes_s),
                    Act::Refresh(stream) => crew.refresh(stream),
                    Act::Congestion(stream, name) => {
                        if !crew.set_congestion(stream, &name) {
                            pilot.refused(&name);
                        }
                    }
                }
            }
        }
        if side_sends {
            self.bound_unsent(crew, &sights);
        }
        if let Some(series) = &self.series {
            series.note(&sights, self.peer.as_deref());
        }
        let share = self.share_bytes_s;
        let news = self.told.is_none_or(|(at, wish, before)| {
            at.elapsed() >= TELL || wish != self.wish || before.abs_diff(share) > share / 20
        });
        if news && !sights.is_empty() {
            self.told = Some((Instant::now(), self.wish, share));
            link.send(&Frame::Account(Box::new(self.account(&sights))))?;
        }
        Ok(())
    }

    /// What is this job's part of a path that it shares with others of this node.
    fn take_share(&mut self, crew: &Crew) {
        let Some(seat) = &self.seat else { return };
        let (now, arrived) = (Instant::now(), crew.side.progress().bytes_arrived);
        let (at, before) = self.arrived.replace((now, arrived)).unwrap_or((now, arrived));
        let span = (now - at).as_secs_f64();
        if span <= 0.0 {
            return;
        }
        let capacity = match &self.pilot {
            Some(pilot) => pilot.capacity(),
            None => self.peer.as_ref().map_or(0, |peer| peer.capacity_bit_s / 8),
        };
        let share = seat.report(now, arrived.saturating_sub(before) as f64 / span, capacity as f64);
        self.share_bytes_s = share.map_or(0, |share| share as u64);
    }

    /// Keeps what waits unsent in each socket to a tenth of a second's worth: what was dealt to a stream is carried by it,
    /// and a job ends when its slowest stream does. Next door sockets are left alone: there the kernel's own choice costs
    /// no time.
    fn bound_unsent(&mut self, crew: &Crew, sights: &[Sight]) {
        for sight in sights.iter().filter(|sight| sight.tcp.min_rtt >= NEAR) {
            let wanted = sight.tcp.delivery_rate_bytes_s / 10;
            let wanted = wanted.clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX).next_power_of_two();
            let now = self.unsent.entry(sight.stream).or_default();
            if *now != wanted {
                *now = wanted;
                crew.bound_unsent(sight.stream, wanted as u32);
            }
        }
    }

    /// This end in numbers.
    pub(super) fn account(&self, sights: &[Sight]) -> Account {
        let mut spent = self.ended;
        sights.iter().for_each(|sight| spent.add(&sight.spent));
        let (receive_buffer_max, send_buffer_max) = sys::tcp::buffers_max();
        let busy = Processors::read().busy_since(&self.processors).unwrap_or_default();
        let picture = self.pilot.as_ref().map(Pilot::picture).unwrap_or_default();
        Account {
            threads: sights.len() as u32,
            spent,
            processors: sys::limits::processors() as u32,
            busy_permille: (busy * 1000.0) as u32,
            receive_buffer_max,
            send_buffer_max,
            scales_windows: sys::tcp::scales_windows(),
            missed: picture.missed.unwrap_or_default().to_owned(),
            streams: self.wish,
            capacity_bit_s: picture.capacity_bytes_s.saturating_mul(8),
            clear_loss_ppb: (picture.loss_without_queue.min(1.0) * 1e9) as u32,
            share_bit_s: self.share_bytes_s.saturating_mul(8),
        }
    }

    /// What the next job on this path should know.
    pub(super) fn past(&self) -> Option<Past> {
        let streams = if self.wish > 0 { self.wish } else { self.streams };
        self.pilot.as_ref().and_then(|pilot| pilot.past(streams))
    }
}

/// What this host permits a socket of ours to use.
pub fn permitted(forced: Option<String>) -> Permitted {
    let names = match rustix::process::geteuid().is_root() {
        true => sys::tcp::congestion_available(),
        false => sys::tcp::congestion_allowed(),
    };
    Permitted { names, forced }
}
