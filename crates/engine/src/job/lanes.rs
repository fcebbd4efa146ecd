//! The paths that a job's streams take, each with a pilot of its own: what is true of one says nothing of the other. A path
//! is told by its two ends, so that both sides of a job see the same ones.
//!
//! What it does not know: sockets, and where streams come from.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::limits::ADDRESSES_MAX;

use crate::pilot::{Act, Around, Known, Past, Picture, Pilot, Sight};

/// After so long without an acknowledgement of what is on its way a path is taken to be cut, where another one carries:
/// beyond any round trip and the first times that TCP sends again, and short enough for the job to be at full rate again
/// within five seconds.
const CUT: Duration = Duration::from_secs(3);
/// A path from which something came within this time carries.
const CARRIES: Duration = Duration::from_secs(1);
/// Probes of a shut window that nobody answers: the path is silent, and not the receiver slow.
const UNANSWERED: u8 = 3;

/// The two ends of a path. Of the client's the port is one of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Path {
    pub client: IpAddr,
    pub node: SocketAddr,
}

/// A path with streams on it, or that had some.
struct Lane {
    path: Path,
    /// The sender's.
    pilot: Option<Pilot>,
    /// How many streams it should have; 0 while there is no opinion.
    wish: u32,
    /// The most it had.
    streams: u32,
    sights: Vec<Sight>,
    /// All streams that it ever had.
    ids: BTreeSet<u32>,
}

/// All of them, in the order in which they came.
pub(super) struct Lanes {
    sends: bool,
    known: Known,
    lanes: Vec<Lane>,
    /// Streams that wait for word of something on its way, and since when none came.
    waits: HashMap<u32, Duration>,
    looked: Duration,
}

/// What an end says about all its paths together.
#[derive(Default)]
pub(super) struct Whole {
    pub streams: u32,
    pub capacity_bytes_s: u64,
    pub clear_loss: f64,
    pub missed: &'static str,
}

impl Lane {
    /// Whether all that is on its way here has been for too long.
    fn is_cut(&self, now: Duration, waits: &HashMap<u32, Duration>) -> bool {
        let mut waiting = self.sights.iter().filter_map(|sight| waits.get(&sight.stream)).peekable();
        waiting.peek().is_some() && waiting.all(|since| now.saturating_sub(*since) >= CUT)
    }

    fn carries(&self) -> bool {
        let lately = |span: Duration| span < CARRIES;
        self.sights.iter().any(|sight| match sight.tcp.unacked_segments {
            0 => sight.tcp.bytes_received > 0 && lately(sight.tcp.since_data),
            _ => lately(sight.tcp.since_ack),
        })
    }
}

impl Lanes {
    /// For a side that sends, or one that does not. What is known of the past is that of the first path.
    pub fn new(sends: bool, known: Known) -> Lanes {
        Lanes { sends, known, lanes: Vec::new(), waits: HashMap::new(), looked: Duration::ZERO }
    }

    /// Whether there is, or was, more than one path.
    pub fn are_several(&self) -> bool {
        self.lanes.len() > 1
    }

    /// Takes in what is seen of the streams now. `past` says what is known of a further path.
    pub fn saw(
        &mut self,
        now: Duration,
        sights: &[Sight],
        paths: &HashMap<u32, Path>,
        mut past: impl FnMut(IpAddr, &Sight) -> Option<Past>,
        peer: impl Fn(&Path) -> IpAddr,
    ) {
        self.lanes.iter_mut().for_each(|lane| lane.sights.clear());
        self.wait(now, sights);
        for sight in sights {
            let Some(path) = paths.get(&sight.stream) else { continue };
            let at = self.lanes.iter().position(|lane| lane.path.node == path.node).unwrap_or_else(|| {
                let mut known = self.known.clone();
                if !self.lanes.is_empty() {
                    known.past = past(peer(path), sight);
                }
                let pilot = self.sends.then(|| Pilot::new(known));
                self.lanes.push(Lane {
                    path: *path,
                    pilot,
                    wish: 0,
                    streams: 0,
                    sights: Vec::new(),
                    ids: BTreeSet::new(),
                });
                self.lanes.len() - 1
            });
            self.lanes[at].ids.insert(sight.stream);
            self.lanes[at].sights.push(sight.clone());
        }
        self.lanes.iter_mut().for_each(|lane| lane.streams = lane.streams.max(lane.sights.len() as u32));
    }

    /// Since when each stream has had no word of what is on its way: by our own clock, since the kernel's counts from the last
    /// word, however long nothing was on its way since.
    fn wait(&mut self, now: Duration, sights: &[Sight]) {
        let span = now.saturating_sub(self.looked);
        self.looked = now;
        let waiting = |sight: &&Sight| sight.tcp.unacked_segments > 0 || sight.tcp.unanswered >= UNANSWERED;
        let silent = sights.iter().filter(waiting).filter(|sight| sight.tcp.since_ack >= span);
        let silent: HashMap<u32, Duration> =
            silent.map(|sight| (sight.stream, self.waits.get(&sight.stream).copied().unwrap_or(now))).collect();
        self.waits = silent;
    }

    /// Asks each path's pilot.
    pub fn tick(&mut self, now: Duration, around: &Around<'_>, mut act: impl FnMut(&mut Pilot, Act)) {
        for lane in &mut self.lanes {
            let Some(pilot) = &mut lane.pilot else { continue };
            for order in pilot.tick(now, &lane.sights, around) {
                match order {
                    Act::Streams(wish) => lane.wish = wish,
                    order => act(pilot, order),
                }
            }
        }
    }

    /// Streams that are too many: the newest of each path. Of all, where somebody asked for a number.
    pub fn surplus(&self, asked: u32) -> BTreeSet<u32> {
        let newest = |mut ids: Vec<u32>, most: u32| {
            ids.sort_unstable();
            ids.into_iter().skip(if most > 0 { most as usize } else { usize::MAX })
        };
        if asked > 0 {
            // By turns: the first of each path, then the second of each.
            let ranked = |lane: &Lane| {
                let mut ids: Vec<u32> = lane.sights.iter().map(|sight| sight.stream).collect();
                ids.sort_unstable();
                ids.into_iter().enumerate().collect::<Vec<_>>()
            };
            let mut all: Vec<(usize, u32)> = self.lanes.iter().flat_map(ranked).collect();
            all.sort_unstable();
            return all.into_iter().skip(asked as usize).map(|(_, stream)| stream).collect();
        }
        let of = |lane: &Lane| newest(lane.sights.iter().map(|sight| sight.stream).collect(), lane.wish);
        self.lanes.iter().flat_map(of).collect()
    }

    /// How many streams the paths of these should have, as this side's pilots say; 0 for no opinion.
    pub fn wish(&self, streams: &BTreeSet<u32>) -> u32 {
        if let [only] = &self.lanes[..] {
            return only.wish;
        }
        let taken = |lane: &&Lane| !lane.ids.is_disjoint(streams);
        self.lanes.iter().filter(taken).map(|lane| lane.wish).sum()
    }

    /// The same as the other side says it: each path by one of its streams.
    pub fn wish_of(&self, spread: &[(u32, u32)], streams: &BTreeSet<u32>) -> u32 {
        let taken = |lane: &&Lane| !lane.ids.is_disjoint(streams);
        let said =
            |lane: &Lane| spread.iter().find(|(stream, _)| lane.ids.contains(stream)).map_or(0, |(_, wish)| *wish);
        self.lanes.iter().filter(taken).map(said).sum()
    }

    /// How many streams each path should have, told by one of them.
    pub fn spread(&self) -> Vec<(u32, u32)> {
        let told = |lane: &Lane| lane.sights.first().map(|sight| (sight.stream, lane.wish));
        self.lanes.iter().filter_map(told).take(ADDRESSES_MAX + 1).collect()
    }

    /// Streams of paths that carry nothing any more, where another one does: what they hold goes out again over that.
    pub fn cut(&self) -> Vec<u32> {
        let Some(carrying) = self.lanes.iter().position(Lane::carries) else { return Vec::new() };
        let is_cut = |lane: &Lane| lane.is_cut(self.looked, &self.waits);
        let cut = self.lanes.iter().enumerate().filter(|(at, lane)| *at != carrying && is_cut(lane));
        cut.flat_map(|(_, lane)| lane.sights.iter().map(|sight| sight.stream)).collect()
    }

    /// Streams of paths that carry nothing any more, whatever others do.
    pub fn silent(&self) -> Vec<u32> {
        let silent = self.lanes.iter().filter(|lane| lane.is_cut(self.looked, &self.waits));
        silent.flat_map(|lane| lane.sights.iter().map(|sight| sight.stream)).collect()
    }

    /// Whether a path other than this one carries.
    pub fn another_carries(&self, than: &Path) -> bool {
        self.lanes.iter().any(|lane| lane.path.node != than.node && lane.carries())
    }

    /// What all paths gave when they were full; 0 where they never were.
    pub fn capacity(&self) -> u64 {
        self.lanes.iter().filter_map(|lane| lane.pilot.as_ref()).map(Pilot::capacity).sum()
    }

    /// What this end can say of all of them.
    pub fn whole(&self) -> Whole {
        let mut whole = Whole::default();
        for lane in &self.lanes {
            let picture: Picture = lane.pilot.as_ref().map(Pilot::picture).unwrap_or_default();
            if !lane.sights.is_empty() || self.lanes.len() == 1 {
                whole.streams += lane.wish;
                whole.capacity_bytes_s += picture.capacity_bytes_s;
            }
            whole.clear_loss = whole.clear_loss.max(picture.loss_without_queue);
            whole.missed = picture.missed.unwrap_or(whole.missed);
        }
        whole
    }

    /// What the next job should know of each path.
    pub fn past(&self, peer: impl Fn(&Path) -> IpAddr) -> Vec<(IpAddr, Past)> {
        let found = |lane: &Lane| {
            let streams = if lane.wish > 0 { lane.wish } else { lane.streams };
            Some((peer(&lane.path), lane.pilot.as_ref()?.past(streams)?))
        };
        self.lanes.iter().filter_map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use sys::tcp::TcpInfo;

    use super::*;

    const NONE: [u32; 0] = [];

    fn path(number: u8) -> Path {
        Path { client: [192, 0, 2, number].into(), node: ([198, 51, 100, number], 7).into() }
    }

    /// Streams, each on its path, with what waits for an acknowledgement and for how long.
    fn lanes(sends: bool, streams: &[(u32, u8, u32, f64)]) -> Lanes {
        let mut lanes = Lanes::new(sends, Known::default());
        see(&mut lanes, streams);
        lanes
    }

    fn see(lanes: &mut Lanes, streams: &[(u32, u8, u32, f64)]) {
        let sight = |(stream, _, unacked, since): &(u32, u8, u32, f64)| Sight {
            stream: *stream,
            tcp: TcpInfo {
                unacked_segments: *unacked,
                since_ack: Duration::from_secs_f64(*since),
                since_data: Duration::from_secs_f64(*since),
                bytes_received: 1,
                ..TcpInfo::default()
            },
            ..Sight::default()
        };
        let sights: Vec<Sight> = streams.iter().map(sight).collect();
        let paths = streams.iter().map(|(stream, number, ..)| (*stream, path(*number))).collect();
        // As if it had been looked at since the longest wait began.
        let longest = streams.iter().map(|(.., since)| *since).fold(0.0, f64::max);
        for tenth in (0..=(longest * 10.0) as u32).rev() {
            let ago = f64::from(tenth) / 10.0;
            let mut seen = sights.clone();
            for sight in &mut seen {
                let since = sight.tcp.since_ack.saturating_sub(Duration::from_secs_f64(ago));
                (sight.tcp.since_ack, sight.tcp.since_data) = (since, since);
            }
            let now = Duration::from_secs_f64(100.0 - ago);
            lanes.saw(now, &seen, &paths, |_, _| None, |path| path.node.ip());
        }
    }

    /// The kernel's clock runs while nothing is on its way.
    #[test]
    fn a_path_that_was_idle_is_not_cut() {
        let mut lanes = lanes(true, &[(1, 1, 0, 60.0), (3, 2, 5, 0.1)]);
        let sight = |stream, unacked_segments, since: f64| Sight {
            stream,
            tcp: TcpInfo { unacked_segments, since_ack: Duration::from_secs_f64(since), ..TcpInfo::default() },
            ..Sight::default()
        };
        let paths = HashMap::from([(1, path(1)), (3, path(2))]);
        for tenth in 1..40 {
            let now = Duration::from_secs(100) + Duration::from_millis(100) * tenth;
            let sights = [sight(1, 1, 60.0 + f64::from(tenth) / 10.0), sight(3, 5, 0.05)];
            lanes.saw(now, &sights, &paths, |_, _| None, |path| path.node.ip());
            let waited = f64::from(tenth - 1) / 10.0;
            assert_eq!(lanes.cut().is_empty(), waited < 3.0, "{waited}");
        }
    }

    #[test]
    fn a_path_is_cut_only_where_another_one_carries() {
        let cut = |streams: &[(u32, u8, u32, f64)]| lanes(true, streams).cut();
        assert_eq!(cut(&[(1, 1, 9, 3.5), (2, 1, 9, 4.0), (3, 2, 5, 0.1)]), [1, 2]);
        assert_eq!(cut(&[(1, 1, 9, 3.5), (3, 2, 5, 3.1)]), NONE, "all are cut: nothing is gained by giving them up");
        assert_eq!(cut(&[(1, 1, 9, 3.5), (2, 1, 9, 0.5), (3, 2, 5, 0.1)]), NONE, "one of its streams is heard of");
        assert_eq!(cut(&[(1, 1, 0, 60.0), (3, 2, 5, 0.1)]), NONE, "nothing is on its way: it is only idle");
        assert_eq!(cut(&[(1, 1, 9, 3.5), (3, 2, 0, 0.1)]), [1], "the receiver's path brings data");
        assert_eq!(cut(&[(1, 1, 9, 60.0)]), NONE);
    }

    #[test]
    fn each_path_has_its_own_number_of_streams() {
        let mut lanes = lanes(true, &[(1, 1, 1, 0.0), (2, 2, 1, 0.0), (3, 1, 1, 0.0), (4, 2, 1, 0.0), (5, 1, 1, 0.0)]);
        assert_eq!(lanes.surplus(0), BTreeSet::new(), "no opinion yet");
        lanes.lanes[0].wish = 2;
        lanes.lanes[1].wish = 1;
        assert_eq!(lanes.surplus(0), BTreeSet::from([4, 5]));
        assert_eq!(lanes.surplus(4), BTreeSet::from([5]), "somebody's number counts for all paths together");
        assert_eq!((lanes.wish(&BTreeSet::from([3])), lanes.wish(&BTreeSet::from([3, 4]))), (2, 3));
        assert_eq!(lanes.whole().streams, 3);
        // Both ends mean the same path by any of its streams.
        let there = lanes.spread();
        assert_eq!(there, [(1, 2), (2, 1)]);
        see(&mut lanes, &[(5, 1, 1, 0.0), (4, 2, 1, 0.0)]);
        assert_eq!(lanes.wish_of(&there, &BTreeSet::from([5])), 2, "a path stays known by streams that it had");
        assert!(lanes.are_several(), "a path that lost its streams may have some again");
    }

    #[test]
    fn the_control_connections_path_is_known_from_others() {
        let lanes = lanes(false, &[(1, 1, 0, 0.1), (2, 2, 0, 9.0)]);
        assert!(lanes.another_carries(&path(2)) && !lanes.another_carries(&path(1)));
        assert_eq!((lanes.capacity(), lanes.past(|path| path.node.ip())), (0, Vec::new()));
    }
}
