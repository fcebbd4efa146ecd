//! The paths of a transfer, each with a pilot of its own, since the evidence of one path says nothing about another. A path is
//! identified by its two ends, so that both sides of a transfer see the same paths.
//!
//! What it does not know: sockets, and where streams come from.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::{Action, Context, Known, PathEstimate, PathHistory, Pilot, Sample};

/// A path counts as cut after this time without an acknowledgement of data in flight, if another path carries data. It is longer than any
/// round trip and TCP's first retransmission timeouts, and short enough for the job to be at full rate again within five seconds.
const CUT_AFTER: Duration = Duration::from_secs(3);
/// A path carries data if something has arrived from the other end within this time.
const CARRIES_WITHIN: Duration = Duration::from_secs(1);
/// This many unanswered probes of a closed window mean that the path is silent, and not that the receiver is slow.
const UNANSWERED: u8 = 3;

/// The two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The client's address; its ports differ from stream to stream.
    pub client: IpAddr,
    /// The node's address and port.
    pub node: SocketAddr,
}

/// A path that has streams, or had some.
struct PathState {
    path: Path,
    /// The pilot of the sending end; none at a receiver.
    pilot: Option<Pilot>,
    /// The number of streams that it should have; 0 while the pilot has not decided.
    wanted_streams: u32,
    /// The largest number of streams that it had.
    streams: u32,
    samples: Vec<Sample>,
    /// All streams that it ever had, by number.
    ids: BTreeSet<u32>,
}

/// The paths of a transfer, in the order in which its streams took them.
pub struct PathSet {
    sends: bool,
    known: Known,
    states: Vec<PathState>,
    /// Streams that wait for an acknowledgement of data in flight, and since when.
    unacked_since: HashMap<u32, Duration>,
    last_observed: Duration,
}

/// The estimates of all paths together, as one end reports them.
#[derive(Default)]
pub struct Totals {
    /// The number of streams that all paths should have; 0 while no pilot has decided.
    pub streams: u32,
    /// The rate of all paths when they were full, bytes per second of payload; 0 if they never were.
    pub capacity_bytes_s: u64,
    /// Share of the bytes that were sent again while no queue stood, of the path where that is largest.
    pub clear_loss: f64,
    /// Congestion control that the evidence asks for and the host does not permit; empty where there is none.
    pub missed: &'static str,
}

impl PathState {
    /// Whether all streams with data in flight have waited too long for an acknowledgement.
    fn is_cut(&self, now: Duration, unacked_since: &HashMap<u32, Duration>) -> bool {
        let mut waiting = self.samples.iter().filter_map(|sample| unacked_since.get(&sample.stream)).peekable();
        waiting.peek().is_some() && waiting.all(|since| now.saturating_sub(*since) >= CUT_AFTER)
    }

    fn carries(&self) -> bool {
        let lately = |span: Duration| span < CARRIES_WITHIN;
        self.samples.iter().any(|sample| match sample.tcp.unacked_segments {
            0 => sample.tcp.bytes_received > 0 && lately(sample.tcp.since_data),
            _ => lately(sample.tcp.since_ack),
        })
    }
}

impl PathSet {
    /// The paths of an end that sends or receives. `known.past` is about the first path.
    pub fn new(sends: bool, known: Known) -> PathSet {
        PathSet { sends, known, states: Vec::new(), unacked_since: HashMap::new(), last_observed: Duration::ZERO }
    }

    /// Whether there is, or was, more than one path.
    pub fn are_several(&self) -> bool {
        self.states.len() > 1
    }

    /// Adds the samples of all streams. `past` returns what an earlier transfer measured on each path after the first, by the
    /// address that `peer` returns for it.
    pub fn observe(
        &mut self,
        now: Duration,
        samples: &[Sample],
        paths: &HashMap<u32, Path>,
        mut past: impl FnMut(IpAddr, &Sample) -> Option<PathHistory>,
        peer: impl Fn(&Path) -> IpAddr,
    ) {
        self.states.iter_mut().for_each(|state| state.samples.clear());
        self.note_waits(now, samples);
        for sample in samples {
            let Some(path) = paths.get(&sample.stream) else { continue };
            let at = self.states.iter().position(|state| state.path.node == path.node).unwrap_or_else(|| {
                let mut known = self.known.clone();
                if !self.states.is_empty() {
                    known.past = past(peer(path), sample);
                }
                let pilot = self.sends.then(|| Pilot::new(known));
                self.states.push(PathState {
                    path: *path,
                    pilot,
                    wanted_streams: 0,
                    streams: 0,
                    samples: Vec::new(),
                    ids: BTreeSet::new(),
                });
                self.states.len() - 1
            });
            self.states[at].ids.insert(sample.stream);
            self.states[at].samples.push(sample.clone());
        }
        self.states.iter_mut().for_each(|state| state.streams = state.streams.max(state.samples.len() as u32));
    }

    /// Notes since when each stream has had no acknowledgement of data in flight. The kernel's own time is not used: it counts from
    /// the last acknowledgement, also while no data is in flight.
    fn note_waits(&mut self, now: Duration, samples: &[Sample]) {
        let span = now.saturating_sub(self.last_observed);
        self.last_observed = now;
        let waiting = |sample: &&Sample| sample.tcp.unacked_segments > 0 || sample.tcp.unanswered >= UNANSWERED;
        let silent = samples.iter().filter(waiting).filter(|sample| sample.tcp.since_ack >= span);
        let silent: HashMap<u32, Duration> = silent
            .map(|sample| (sample.stream, self.unacked_since.get(&sample.stream).copied().unwrap_or(now)))
            .collect();
        self.unacked_since = silent;
    }

    /// Steps the pilot of each path. Calls `carry_out` for each action of a pilot.
    pub fn tick(&mut self, now: Duration, context: &Context<'_>, mut carry_out: impl FnMut(&mut Pilot, Action)) {
        for state in &mut self.states {
            let Some(pilot) = &mut state.pilot else { continue };
            for action in pilot.tick(now, &state.samples, context) {
                match action {
                    Action::Streams(wanted_streams) => state.wanted_streams = wanted_streams,
                    action => carry_out(pilot, action),
                }
            }
        }
    }

    /// The surplus streams: on each path, the newest ones beyond the number that its pilot wants. If the user has set the number of
    /// streams (0 if not), it is for all paths together.
    pub fn surplus(&self, set_by_user: u32) -> BTreeSet<u32> {
        let newest = |mut ids: Vec<u32>, most: u32| {
            ids.sort_unstable();
            ids.into_iter().skip(if most > 0 { most as usize } else { usize::MAX })
        };
        if set_by_user > 0 {
            // By turns: the first stream of each path, then the second of each.
            let ranked = |state: &PathState| {
                let mut ids: Vec<u32> = state.samples.iter().map(|sample| sample.stream).collect();
                ids.sort_unstable();
                ids.into_iter().enumerate().collect::<Vec<_>>()
            };
            let mut all: Vec<(usize, u32)> = self.states.iter().flat_map(ranked).collect();
            all.sort_unstable();
            return all.into_iter().skip(set_by_user as usize).map(|(_, stream)| stream).collect();
        }
        let surplus_of = |state: &PathState| {
            newest(state.samples.iter().map(|sample| sample.stream).collect(), state.wanted_streams)
        };
        self.states.iter().flat_map(surplus_of).collect()
    }

    /// The number of streams that the paths of these streams should have, by this end's pilots; 0 while none has decided.
    pub fn wanted_streams(&self, streams: &BTreeSet<u32>) -> u32 {
        if let [only] = &self.states[..] {
            return only.wanted_streams;
        }
        let taken = |state: &&PathState| !state.ids.is_disjoint(streams);
        self.states.iter().filter(taken).map(|state| state.wanted_streams).sum()
    }

    /// The number of streams that the paths of these streams should have, by the other end's pilots: its `spread` identifies each path by
    /// one of its streams.
    pub fn wanted_by_spread(&self, spread: &[(u32, u32)], streams: &BTreeSet<u32>) -> u32 {
        let taken = |state: &&PathState| !state.ids.is_disjoint(streams);
        let by_spread = |state: &PathState| {
            spread.iter().find(|(stream, _)| state.ids.contains(stream)).map_or(0, |(_, wanted)| *wanted)
        };
        self.states.iter().filter(taken).map(by_spread).sum()
    }

    /// The number of streams that each path should have; a path is identified by one of its streams.
    pub fn spread(&self) -> Vec<(u32, u32)> {
        let by_first_stream =
            |state: &PathState| state.samples.first().map(|sample| (sample.stream, state.wanted_streams));
        self.states.iter().filter_map(by_first_stream).collect()
    }

    /// The streams of paths that are cut while another path carries data. Their unacknowledged data is sent again over that path.
    pub fn cut(&self) -> Vec<u32> {
        let Some(carrying) = self.states.iter().position(PathState::carries) else { return Vec::new() };
        let is_cut = |state: &PathState| state.is_cut(self.last_observed, &self.unacked_since);
        let cut = self.states.iter().enumerate().filter(|(at, state)| *at != carrying && is_cut(state));
        cut.flat_map(|(_, state)| state.samples.iter().map(|sample| sample.stream)).collect()
    }

    /// The streams of all paths that are cut, whether or not another path carries data.
    pub fn silent(&self) -> Vec<u32> {
        let silent = self.states.iter().filter(|state| state.is_cut(self.last_observed, &self.unacked_since));
        silent.flat_map(|state| state.samples.iter().map(|sample| sample.stream)).collect()
    }

    /// Whether a path other than this one carries data.
    pub fn another_carries(&self, this: &Path) -> bool {
        self.states.iter().any(|state| state.path.node != this.node && state.carries())
    }

    /// The sum of the rates of full paths, bytes per second; 0 if none ever was full.
    pub fn capacity(&self) -> u64 {
        self.states.iter().filter_map(|state| state.pilot.as_ref()).map(Pilot::capacity).sum()
    }

    /// The estimate over all paths.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for state in &self.states {
            let estimate: PathEstimate = state.pilot.as_ref().map(Pilot::estimate).unwrap_or_default();
            if !state.samples.is_empty() || self.states.len() == 1 {
                totals.streams += state.wanted_streams;
                totals.capacity_bytes_s += estimate.capacity_bytes_s;
            }
            totals.clear_loss = totals.clear_loss.max(estimate.loss_without_queue);
            totals.missed = estimate.missed.unwrap_or(totals.missed);
        }
        totals
    }

    /// The measurements to keep for the next transfer, by path.
    pub fn past(&self, peer: impl Fn(&Path) -> IpAddr) -> Vec<(IpAddr, PathHistory)> {
        let found = |state: &PathState| {
            let streams = if state.wanted_streams > 0 { state.wanted_streams } else { state.streams };
            Some((peer(&state.path), state.pilot.as_ref()?.past(streams)?))
        };
        self.states.iter().filter_map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::tcp::TcpInfo;

    use super::*;

    const NONE: [u32; 0] = [];

    fn path(number: u8) -> Path {
        Path { client: [192, 0, 2, number].into(), node: ([198, 51, 100, number], 7).into() }
    }

    /// Streams, each with its path, its unacknowledged segments, and the seconds since the last acknowledgement.
    fn path_set(sends: bool, streams: &[(u32, u8, u32, f64)]) -> PathSet {
        let mut set = PathSet::new(sends, Known::default());
        observe_streams(&mut set, streams);
        set
    }

    fn observe_streams(set: &mut PathSet, streams: &[(u32, u8, u32, f64)]) {
        let sample = |(stream, _, unacked, since): &(u32, u8, u32, f64)| Sample {
            stream: *stream,
            tcp: TcpInfo {
                unacked_segments: *unacked,
                since_ack: Duration::from_secs_f64(*since),
                since_data: Duration::from_secs_f64(*since),
                bytes_received: 1,
                ..TcpInfo::default()
            },
            ..Sample::default()
        };
        let samples: Vec<Sample> = streams.iter().map(sample).collect();
        let paths = streams.iter().map(|(stream, number, ..)| (*stream, path(*number))).collect();
        // As if the streams had been observed since the longest wait began.
        let longest = streams.iter().map(|(.., since)| *since).fold(0.0, f64::max);
        for tenth in (0..=(longest * 10.0) as u32).rev() {
            let ago = f64::from(tenth) / 10.0;
            let mut seen = samples.clone();
            for sample in &mut seen {
                let since = sample.tcp.since_ack.saturating_sub(Duration::from_secs_f64(ago));
                sample.tcp.since_ack = since;
                sample.tcp.since_data = since;
            }
            let now = Duration::from_secs_f64(100.0 - ago);
            set.observe(now, &seen, &paths, |_, _| None, |path| path.node.ip());
        }
    }

    /// The kernel's time since the last acknowledgement also counts while nothing is in flight.
    #[test]
    fn a_path_that_was_idle_is_not_cut() {
        let mut set = path_set(true, &[(1, 1, 0, 60.0), (3, 2, 5, 0.1)]);
        let sample = |stream, unacked_segments, since: f64| Sample {
            stream,
            tcp: TcpInfo { unacked_segments, since_ack: Duration::from_secs_f64(since), ..TcpInfo::default() },
            ..Sample::default()
        };
        let paths = HashMap::from([(1, path(1)), (3, path(2))]);
        for tenth in 1..40 {
            let now = Duration::from_secs(100) + Duration::from_millis(100) * tenth;
            let samples = [sample(1, 1, 60.0 + f64::from(tenth) / 10.0), sample(3, 5, 0.05)];
            set.observe(now, &samples, &paths, |_, _| None, |path| path.node.ip());
            let waited = f64::from(tenth - 1) / 10.0;
            assert_eq!(set.cut().is_empty(), waited < 3.0, "{waited}");
        }
    }

    #[test]
    fn a_path_is_cut_only_where_another_one_carries() {
        let cut = |streams: &[(u32, u8, u32, f64)]| path_set(true, streams).cut();
        assert_eq!(cut(&[(1, 1, 9, 3.5), (2, 1, 9, 4.0), (3, 2, 5, 0.1)]), [1, 2]);
        assert_eq!(cut(&[(1, 1, 9, 3.5), (3, 2, 5, 3.1)]), NONE, "all are cut: nothing is gained by giving them up");
        assert_eq!(
            cut(&[(1, 1, 9, 3.5), (2, 1, 9, 0.5), (3, 2, 5, 0.1)]),
            NONE,
            "one of its streams has an acknowledgement"
        );
        assert_eq!(cut(&[(1, 1, 0, 60.0), (3, 2, 5, 0.1)]), NONE, "nothing is in flight: the path is only idle");
        assert_eq!(cut(&[(1, 1, 9, 3.5), (3, 2, 0, 0.1)]), [1], "data arrives on the other path");
        assert_eq!(cut(&[(1, 1, 9, 60.0)]), NONE);
    }

    #[test]
    fn each_path_has_its_own_number_of_streams() {
        let mut set = path_set(true, &[(1, 1, 1, 0.0), (2, 2, 1, 0.0), (3, 1, 1, 0.0), (4, 2, 1, 0.0), (5, 1, 1, 0.0)]);
        assert_eq!(set.surplus(0), BTreeSet::new(), "no opinion yet");
        set.states[0].wanted_streams = 2;
        set.states[1].wanted_streams = 1;
        assert_eq!(set.surplus(0), BTreeSet::from([4, 5]));
        assert_eq!(set.surplus(4), BTreeSet::from([5]), "a number that the user has set counts for all paths together");
        assert_eq!((set.wanted_streams(&BTreeSet::from([3])), set.wanted_streams(&BTreeSet::from([3, 4]))), (2, 3));
        assert_eq!(set.totals().streams, 3);
        // Any stream of a path identifies it at both ends.
        let there = set.spread();
        assert_eq!(there, [(1, 2), (2, 1)]);
        observe_streams(&mut set, &[(5, 1, 1, 0.0), (4, 2, 1, 0.0)]);
        assert_eq!(set.wanted_by_spread(&there, &BTreeSet::from([5])), 2, "a path stays known by streams that it had");
        assert!(set.are_several(), "a path that lost its streams may have some again");
    }

    #[test]
    fn another_path_than_the_control_connections_is_found() {
        let set = path_set(false, &[(1, 1, 0, 0.1), (2, 2, 0, 9.0)]);
        assert!(set.another_carries(&path(2)) && !set.another_carries(&path(1)));
        assert_eq!((set.capacity(), set.past(|path| path.node.ip())), (0, Vec::new()));
    }
}
