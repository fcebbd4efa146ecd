//! Samples the streams of a running job, asks the pilot of each path, carries out its actions, and reports this end's numbers to
//! the other end.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use model::account::{Account, StageTimes};
use pilot::path_set::{Path, PathSet};
use pilot::{Action, Context, PathHistory, Permitted, STREAMS_MAX, Sample};
use sys::clock::Processors;
use wire::Frame;
use wire::limits::ADDRESSES_MAX;

use super::{Steering, StreamHelpers, StreamPool, StreamTerms, stream_pool};
use crate::error::Result;
use crate::history::History;
use crate::link::Link;
use crate::path_shares::Share;
use crate::seal;
use crate::series::Series;
use crate::side::Side;

/// Bounds on what a socket may hold unsent; two records at least.
const UNSENT_BYTES_MIN: u64 = 2 << 20;
const UNSENT_BYTES_MAX: u64 = 64 << 20;
/// Below this round-trip time the unsent bytes of sockets are not bounded.
const NEAR_RTT: Duration = Duration::from_millis(2);
/// A control connection counts as cut when its last bytes are not acknowledged for this time while another path carries data.
const CONTROL_CUT_AFTER: Duration = Duration::from_secs(2);
/// A stream on which nothing arrived for this time is given up: a usable path carries at least a megabyte in this time.
const MUTE_AFTER: Duration = Duration::from_secs(20);
/// How often this end reports its numbers to the other.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// What this end last reported to the other.
struct SentReport {
    at: Instant,
    /// How many streams each path should have.
    spread: Vec<(u32, u32)>,
    /// This job's share of the path.
    share_bytes_s: u64,
}

/// Samples a job's streams ten times a second.
pub(super) struct Sampler {
    started: Instant,
    processors: Processors,
    sends: bool,
    role: seal::SealingEnd,
    paths: PathSet,
    history: Option<History>,
    /// When each stream was first seen.
    first_seen: HashMap<u32, Instant>,
    /// Since when nothing sent on the control connection has been acknowledged.
    control_unacked_since: Option<Instant>,
    /// Streams that were ordered to end.
    surplus: BTreeSet<u32>,
    last_report: Option<SentReport>,
    /// The other end's last account.
    pub(super) peer: Option<Box<Account>>,
    /// How many streams each path should have, by the other end's last report.
    pub(super) spread: Vec<(u32, u32)>,
    /// Time of threads whose streams have ended.
    pub(super) ended: StageTimes,
    share: Option<Share>,
    /// When the job's share was last computed, and the bytes that had arrived by then.
    arrived: Option<(Instant, u64)>,
    share_bytes_s: u64,
    series: Option<Series>,
    /// The bytes that each socket may hold unsent.
    unsent_bounds: HashMap<u32, u64>,
    /// The session is delegated: the job belongs to another node.
    is_delegated: bool,
    /// How many streams each path to a mover should have.
    mover_spread: Vec<(u32, u32)>,
    /// The accounts of the movers.
    mover_accounts: Vec<Account>,
}

impl Sampler {
    pub(super) fn new(terms: &StreamTerms, side: &dyn Side) -> Sampler {
        Sampler {
            started: Instant::now(),
            processors: Processors::read(),
            sends: side.sends(),
            role: terms.role,
            paths: PathSet::new(side.sends(), terms.known()),
            history: terms.history.clone(),
            first_seen: HashMap::new(),
            control_unacked_since: None,
            surplus: BTreeSet::new(),
            last_report: None,
            peer: None,
            spread: Vec::new(),
            ended: StageTimes::default(),
            share: terms.path_shares.as_ref().map(|(shares, peer)| shares.join(*peer)),
            arrived: None,
            share_bytes_s: 0,
            series: terms.series.clone(),
            unsent_bounds: HashMap::new(),
            is_delegated: matches!(terms.help, StreamHelpers::Delegated),
            mover_spread: Vec::new(),
            mover_accounts: Vec::new(),
        }
    }

    /// Takes over how many streams each path to a mover should have, and the accounts of the movers.
    pub(super) fn take_mover_reports(&mut self, spread: Vec<(u32, u32)>, accounts: Vec<Account>) {
        self.mover_spread = spread;
        self.mover_accounts = accounts;
    }

    /// How many streams the path of these streams should have by the sender's evidence, whichever end sends; 0 for no opinion.
    pub(super) fn wanted_streams(&self, streams: &BTreeSet<u32>) -> u32 {
        if self.sends {
            self.paths.wanted_streams(streams)
        } else if self.paths.are_several() {
            self.paths.wanted_by_spread(&self.spread, streams).min(STREAMS_MAX)
        } else {
            self.peer.as_ref().map_or(0, |peer| peer.streams.min(STREAMS_MAX))
        }
    }

    /// The other end of a path.
    fn peer_of(role: seal::SealingEnd) -> impl Fn(&Path) -> IpAddr {
        move |path| match role {
            seal::SealingEnd::Client => path.node.ip(),
            seal::SealingEnd::Node => path.client,
        }
    }

    pub(super) fn tick(&mut self, link: &mut Link, pool: &StreamPool, steering: &Steering<'_>) -> Result<()> {
        let now = self.started.elapsed();
        let samples = pool.samples();
        let history = &self.history;
        let past = |peer: IpAddr, sample: &Sample| history.as_ref()?.recall(peer, sample.tcp.min_rtt);
        self.paths.observe(now, &samples, &pool.paths(), past, Self::peer_of(self.role));
        self.give_up_cut_paths(pool);
        self.update_share(pool);
        let context = Context {
            limit_bytes_s: steering.applied.limit_bit_s.div_ceil(8),
            streams: steering.applied.streams,
            paused: steering.applied.paused,
            share_bytes_s: self.share_bytes_s,
            peer: self.peer.as_deref(),
        };
        self.paths.tick(now, &context, |pilot, action| match action {
            Action::Pace(stream, bytes_s) => pool.pace(stream, bytes_s),
            Action::Refresh(stream) => pool.refresh(stream),
            Action::Congestion(stream, name) if !pool.set_congestion(stream, &name) => pilot.refused(&name),
            Action::Congestion(..) | Action::Streams(_) => {}
        });
        if self.sends {
            let surplus = self.paths.surplus(steering.applied.streams);
            if surplus != self.surplus {
                pool.side.retire(&surplus);
                self.surplus = surplus;
            }
            self.bound_unsent(pool, &samples);
        }
        if let Some(series) = &self.series {
            series.note(&samples, self.peer.as_deref());
        }
        self.report(link, &samples)
    }

    /// Reports this end's account every [`REPORT_EVERY`], and at once where streams or share have changed.
    fn report(&mut self, link: &mut Link, samples: &[Sample]) -> Result<()> {
        let share = self.share_bytes_s;
        let mut spread = self.paths.spread();
        spread.extend(&self.mover_spread);
        spread.truncate(ADDRESSES_MAX + 1);
        let is_due = self.last_report.as_ref().is_none_or(|last| {
            let share_changed = last.share_bytes_s.abs_diff(share) > share / 20;
            last.at.elapsed() >= REPORT_EVERY || last.spread != spread || share_changed
        });
        if is_due && !(samples.is_empty() && self.mover_spread.is_empty()) {
            link.send(&Frame::Account(Box::new(self.account(samples))))?;
            if self.sends
                && self.role == seal::SealingEnd::Node
                && (self.paths.are_several() || self.is_delegated || spread.len() > 1)
            {
                link.send(&Frame::Spread(spread.clone()))?;
            }
            self.last_report = Some(SentReport { at: Instant::now(), spread, share_bytes_s: share });
        }
        Ok(())
    }

    /// Gives up streams on cut paths, where there are several paths.
    fn give_up_cut_paths(&mut self, pool: &StreamPool) {
        if self.is_delegated {
            // The job's other paths lead to the coordinator and to other movers. If none of them carries, the client dials again anyway.
            return self.paths.silent().into_iter().for_each(|stream| pool.give_up(stream));
        }
        if !self.paths.are_several() {
            return;
        }
        // Each path is shared with other jobs: the share of one path says nothing of the others.
        self.share = None;
        self.share_bytes_s = 0;
        pool.probe_paths();
        self.paths.cut().into_iter().for_each(|stream| pool.give_up(stream));
        self.mute_streams(pool).into_iter().for_each(|stream| pool.give_up(stream));
    }

    /// Streams on which nothing has arrived for [`MUTE_AFTER`] though data was sent on them, while others carry data. A host that is not
    /// the node may acknowledge their segments.
    fn mute_streams(&mut self, pool: &StreamPool) -> Vec<u32> {
        if !self.sends {
            return Vec::new();
        }
        let now = Instant::now();
        let ids = pool.paths().into_keys().collect::<Vec<_>>();
        self.first_seen.retain(|stream, _| ids.contains(stream));
        let carries = ids.iter().any(|stream| pool.has_carried(*stream));
        let is_mute = |stream: &u32, first_seen: &Instant| {
            now.duration_since(*first_seen) >= MUTE_AFTER
                && !pool.has_carried(*stream)
                && pool.side.has_unacknowledged(*stream)
        };
        ids.into_iter()
            .filter(|stream| carries && is_mute(stream, self.first_seen.entry(*stream).or_insert(now)))
            .collect()
    }

    /// Whether the control connection's path is cut and another path is not: the client then connects again by the other.
    pub(super) fn control_is_cut(&mut self, link: &Link) -> bool {
        if self.role != seal::SealingEnd::Client || !self.paths.are_several() {
            return false;
        }
        let since = *self.control_unacked_since.get_or_insert_with(Instant::now);
        let waits = |tcp: model::tcp::TcpInfo| tcp.unacked_segments > 0 && tcp.since_ack >= since.elapsed();
        if !sys::tcp::info(link.socket()).is_ok_and(waits) {
            self.control_unacked_since = None;
            return false;
        }
        let Some(path) = stream_pool::path(self.role, link.socket()) else { return false };
        since.elapsed() >= CONTROL_CUT_AFTER && self.paths.another_carries(&path)
    }

    /// Computes this job's share of a path that other jobs of this node use too.
    fn update_share(&mut self, pool: &StreamPool) {
        let Some(share) = &self.share else { return };
        let now = Instant::now();
        let arrived = pool.side.progress().bytes_arrived;
        let (at, before) = self.arrived.replace((now, arrived)).unwrap_or((now, arrived));
        let span = (now - at).as_secs_f64();
        if span <= 0.0 {
            return;
        }
        let capacity = if self.sends {
            self.paths.capacity()
        } else {
            self.peer.as_ref().map_or(0, |peer| peer.capacity_bit_s / 8)
        };
        let share_bytes_s = share.report(arrived.saturating_sub(before) as f64 / span, capacity as f64);
        self.share_bytes_s = share_bytes_s.map_or(0, |bytes_s| bytes_s as u64);
    }

    /// Bounds the unsent bytes of each socket to a tenth of a second: a stream must carry what it was dealt, and a job ends when
    /// its slowest stream does. Sockets with a round-trip time below [`NEAR_RTT`] are left alone: there the kernel's own bound costs
    /// no time.
    fn bound_unsent(&mut self, pool: &StreamPool, samples: &[Sample]) {
        for sample in samples.iter().filter(|sample| sample.tcp.min_rtt >= NEAR_RTT) {
            let wanted = sample.tcp.delivery_rate_bytes_s / 10;
            let wanted = wanted.clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX).next_power_of_two();
            let now = self.unsent_bounds.entry(sample.stream).or_default();
            if *now != wanted {
                *now = wanted;
                pool.bound_unsent(sample.stream, wanted as u32);
            }
        }
    }

    /// The account of this end and its movers.
    pub(super) fn account(&self, samples: &[Sample]) -> Account {
        let mut spent = self.ended;
        samples.iter().for_each(|sample| spent.add(&sample.spent));
        self.mover_accounts.iter().for_each(|mover| spent.add(&mover.spent));
        let mover_threads: u32 = self.mover_accounts.iter().map(|mover| mover.threads).sum();
        let (receive_buffer_max, send_buffer_max) = sys::tcp::buffers_max();
        let busy = Processors::read().busy_since(&self.processors).unwrap_or_default();
        let whole = self.paths.totals();
        Account {
            threads: samples.len() as u32 + mover_threads,
            spent,
            processors: sys::limits::processors() as u32,
            busy_permille: (busy * 1000.0) as u32,
            receive_buffer_max,
            send_buffer_max,
            scales_windows: sys::tcp::scales_windows(),
            missed: whole.missed.to_owned(),
            streams: whole.streams.min(wire::limits::STREAMS_MAX),
            capacity_bit_s: whole.capacity_bytes_s.saturating_mul(8),
            clear_loss_ppb: (whole.clear_loss.min(1.0) * 1e9) as u32,
            share_bit_s: self.share_bytes_s.saturating_mul(8),
        }
    }

    /// The history of the paths, for the next job, by the address of the other end.
    pub(super) fn past(&self) -> Vec<(IpAddr, PathHistory)> {
        self.paths.past(Self::peer_of(self.role))
    }
}

/// The congestion controls that this host permits for sockets of this process.
pub fn permitted(forced: Option<String>) -> Permitted {
    let names = if rustix::process::geteuid().is_root() {
        sys::tcp::congestion_available()
    } else {
        sys::tcp::congestion_allowed()
    };
    Permitted { names, forced }
}
