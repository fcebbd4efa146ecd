//! Samples the streams of a running job, asks the pilot of each path, carries out its actions, and reports this end's numbers to
//! the other end.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use model::account::{Account, Spent};
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
/// Below this round-trip time sockets are left alone.
const NEAR: Duration = Duration::from_millis(2);
/// A control connection is cut whose last bytes are not acknowledged for so long while another path carries.
const CUT: Duration = Duration::from_secs(2);
/// A stream by which nothing arrived for so long is given up: a path of use brings at least a megabyte in this time.
const MUTE: Duration = Duration::from_secs(20);
/// How often this end reports its numbers to the other.
const TELL: Duration = Duration::from_millis(500);

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
    met: HashMap<u32, Instant>,
    /// Since when nothing sent on the control connection has been acknowledged.
    control_waits: Option<Instant>,
    /// Streams that were told to end.
    surplus: BTreeSet<u32>,
    /// What this end last reported.
    told: Option<SentReport>,
    /// The other end's last account.
    pub(super) peer: Option<Box<Account>>,
    /// How many streams each path should have, by the other end's last report.
    pub(super) spread: Vec<(u32, u32)>,
    /// Time of threads whose streams have ended.
    pub(super) ended: Spent,
    share: Option<Share>,
    /// When the job's share was last computed, and the bytes that had arrived by then.
    arrived: Option<(Instant, u64)>,
    share_bytes_s: u64,
    series: Option<Series>,
    /// What each socket may hold unsent.
    unsent: HashMap<u32, u64>,
    /// The session is delegated: the job is another node's.
    lent: bool,
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
            met: HashMap::new(),
            control_waits: None,
            surplus: BTreeSet::new(),
            told: None,
            peer: None,
            spread: Vec::new(),
            ended: Spent::default(),
            share: terms.path_shares.as_ref().map(|(shares, peer)| shares.join(*peer)),
            arrived: None,
            share_bytes_s: 0,
            series: terms.series.clone(),
            unsent: HashMap::new(),
            lent: matches!(terms.help, StreamHelpers::Lent),
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
    pub(super) fn wish(&self, streams: &BTreeSet<u32>) -> u32 {
        if self.sends {
            self.paths.wish(streams)
        } else if self.paths.are_several() {
            self.paths.wish_of(&self.spread, streams).min(STREAMS_MAX)
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
        self.tend_paths(pool);
        self.take_share(pool);
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
        self.tell(link, &samples)
    }

    /// Reports this end's account every [`TELL`], and at once where streams or share have changed.
    fn tell(&mut self, link: &mut Link, samples: &[Sample]) -> Result<()> {
        let share = self.share_bytes_s;
        let mut spread = self.paths.spread();
        spread.extend(&self.mover_spread);
        spread.truncate(ADDRESSES_MAX + 1);
        let news = self.told.as_ref().is_none_or(|told| {
            let shares = told.share_bytes_s.abs_diff(share) > share / 20;
            told.at.elapsed() >= TELL || told.spread != spread || shares
        });
        if news && !(samples.is_empty() && self.mover_spread.is_empty()) {
            link.send(&Frame::Account(Box::new(self.account(samples))))?;
            if self.sends
                && self.role == seal::SealingEnd::Node
                && (self.paths.are_several() || self.lent || spread.len() > 1)
            {
                link.send(&Frame::Spread(spread.clone()))?;
            }
            self.told = Some(SentReport { at: Instant::now(), spread, share_bytes_s: share });
        }
        Ok(())
    }

    /// Gives up streams on cut paths, where there are several paths.
    fn tend_paths(&mut self, pool: &StreamPool) {
        if self.lent {
            // The job's other paths lead to the coordinator and to other movers. If none of them carries, the client dials again anyway.
            return self.paths.silent().into_iter().for_each(|stream| pool.give_up(stream));
        }
        if !self.paths.are_several() {
            return;
        }
        // Each path is shared with other jobs: the share of one path says nothing of the others.
        self.share = None;
        self.share_bytes_s = 0;
        pool.watch_paths();
        self.paths.cut().into_iter().for_each(|stream| pool.give_up(stream));
        self.mute(pool).into_iter().for_each(|stream| pool.give_up(stream));
    }

    /// Streams by which nothing has arrived for [`MUTE`] though data was sent on them, while others carry. The host at the other end may
    /// acknowledge segments without being the node.
    fn mute(&mut self, pool: &StreamPool) -> Vec<u32> {
        if !self.sends {
            return Vec::new();
        }
        let (now, ids) = (Instant::now(), pool.paths().into_keys().collect::<Vec<_>>());
        self.met.retain(|stream, _| ids.contains(stream));
        let carries = ids.iter().any(|stream| pool.has_carried(*stream));
        let is_mute = |stream: &u32, met: &Instant| {
            now.duration_since(*met) >= MUTE && !pool.has_carried(*stream) && pool.side.owes(*stream)
        };
        ids.into_iter().filter(|stream| carries && is_mute(stream, self.met.entry(*stream).or_insert(now))).collect()
    }

    /// Whether the control connection's path is cut and another path is not: the client then connects again by the other.
    pub(super) fn control_is_cut(&mut self, link: &Link) -> bool {
        if self.role != seal::SealingEnd::Client || !self.paths.are_several() {
            return false;
        }
        let since = *self.control_waits.get_or_insert_with(Instant::now);
        let waits = |tcp: model::tcp::TcpInfo| tcp.unacked_segments > 0 && tcp.since_ack >= since.elapsed();
        if !sys::tcp::info(link.socket()).is_ok_and(waits) {
            self.control_waits = None;
            return false;
        }
        let Some(path) = stream_pool::path(self.role, link.socket()) else { return false };
        since.elapsed() >= CUT && self.paths.another_carries(&path)
    }

    /// Computes this job's share of a path that other jobs of this node use too.
    fn take_share(&mut self, pool: &StreamPool) {
        let Some(share) = &self.share else { return };
        let (now, arrived) = (Instant::now(), pool.side.progress().bytes_arrived);
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
        let most = share.report(arrived.saturating_sub(before) as f64 / span, capacity as f64);
        self.share_bytes_s = most.map_or(0, |most| most as u64);
    }

    /// Bounds the unsent bytes of each socket to a tenth of a second: a stream must carry what it was dealt, and a job ends when
    /// its slowest stream does. Sockets with a round-trip time below [`NEAR`] are left alone: there the kernel's own bound costs
    /// no time.
    fn bound_unsent(&mut self, pool: &StreamPool, samples: &[Sample]) {
        for sample in samples.iter().filter(|sample| sample.tcp.min_rtt >= NEAR) {
            let wanted = sample.tcp.delivery_rate_bytes_s / 10;
            let wanted = wanted.clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX).next_power_of_two();
            let now = self.unsent.entry(sample.stream).or_default();
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

    /// What the next job should know of the paths to these peers.
    pub(super) fn past(&self) -> Vec<(IpAddr, PathHistory)> {
        self.paths.past(Self::peer_of(self.role))
    }
}

/// The congestion controls that this host permits for our sockets.
pub fn permitted(forced: Option<String>) -> Permitted {
    let names = if rustix::process::geteuid().is_root() {
        sys::tcp::congestion_available()
    } else {
        sys::tcp::congestion_allowed()
    };
    Permitted { names, forced }
}
