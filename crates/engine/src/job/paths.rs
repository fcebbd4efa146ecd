//! The paths of a client's streams to a node: to the address of the control connection, and to the addresses at which the
//! node takes streams too. Each path has its own number of streams, and is left alone for a while where it carries none.
//!
//! What this module does not know: sockets and threads. The time is an argument.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::join::SessionId;
use wire::limits::ADDRESSES_MAX;

use crate::dial::{Dial, StreamAddress};

/// How long a path is left alone that lost its last stream: at first, and after many losses.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(15);
/// How long a path is left alone that lost a stream while others on it carry.
const BREATH: Duration = Duration::from_millis(250);

/// One path.
pub(super) struct Path {
    pub to: Arc<dyn Dial>,
    /// None for the path of the control connection, whatever its address is.
    address: Option<StreamAddress>,
    /// Dialled, or running.
    pub streams: BTreeSet<u32>,
    /// The number of streams that was wanted when the path was last looked at.
    pub wanted: u32,
    /// How often in a row the path lost its last stream.
    lost: u32,
    /// Until when the path gets no streams.
    rests: Option<Instant>,
    /// Until when the path gets no further streams, though others on it carry.
    breathes: Option<Instant>,
    /// The node no longer takes streams at this address.
    is_closed: bool,
}

/// How many streams are wanted, by whom. 0 stands for no opinion or no bound.
#[derive(Clone, Copy)]
pub(super) struct StreamDemand {
    /// On this path, by the evidence.
    pub wish: u32,
    /// On this path, to begin with.
    pub first: u32,
    /// On all paths together, by the settings of the job.
    pub asked: u32,
    /// The bound on all paths together.
    pub most: u32,
}

impl Path {
    fn new(to: Arc<dyn Dial>, address: Option<StreamAddress>) -> Path {
        Path {
            to,
            address,
            streams: BTreeSet::new(),
            wanted: 0,
            lost: 0,
            rests: None,
            breathes: None,
            is_closed: false,
        }
    }

    /// The delegated session that streams join on this path; none where they join the client's own.
    pub fn delegated_session(&self) -> Option<SessionId> {
        self.address.and_then(|address| address.lent)
    }

    fn leads_to(&self, at: SocketAddr) -> bool {
        self.address.is_some_and(|address| address.at == at)
    }

    fn rests(&self, now: Instant) -> bool {
        self.is_closed || self.rests.is_some_and(|until| now < until)
    }
}

/// All paths of a job; the first is the control connection's.
#[derive(Default)]
pub(super) struct Paths {
    pub all: Vec<Path>,
}

impl Paths {
    /// Adds the path of the control connection, which is there from the start.
    pub fn begin(&mut self, to: &Arc<dyn Dial>) {
        if self.all.is_empty() {
            self.all.push(Path::new(Arc::clone(to), None));
        }
    }

    /// Whether an address is a new path: no path leads there yet, and there are not too many; or the path that did is closed, and belonged
    /// to an earlier delegated session.
    pub fn lacks(&self, address: StreamAddress, own: Option<SocketAddr>) -> bool {
        match self.all.iter().find(|path| path.leads_to(address.at)) {
            Some(before) => before.address != Some(address) && before.is_closed && before.streams.is_empty(),
            None => own != Some(address.at) && (1..=ADDRESSES_MAX).contains(&self.all.len()),
        }
    }

    /// Adds an address at which the node takes streams too. `own` is the control connection's other end.
    pub fn learn(&mut self, address: StreamAddress, own: Option<SocketAddr>) {
        if !self.lacks(address, own) {
            return;
        }
        let path = Path::new(Arc::new(address.at), Some(address));
        match self.all.iter_mut().find(|path| path.leads_to(address.at)) {
            Some(before) => *before = path,
            None => self.all.push(path),
        }
    }

    /// Closes the paths whose address is not `open`; the control connection's is never closed. Returns the streams of closed paths: what
    /// is sent on them is lost, so they are to be given up.
    pub fn close_but(&mut self, open: impl Fn(StreamAddress) -> bool) -> Vec<u32> {
        for path in &mut self.all {
            path.is_closed = path.address.is_some_and(|address| !open(address));
        }
        self.all.iter().filter(|path| path.is_closed).flat_map(|path| path.streams.iter().copied()).collect()
    }

    /// Whether there is no other path than the control connection's.
    pub fn is_one(&self) -> bool {
        self.all.len() < 2
    }

    /// The index of the path that a kept stream takes.
    pub fn takes(&self, peer: Option<SocketAddr>) -> usize {
        self.all.iter().position(|path| peer.is_some_and(|peer| path.leads_to(peer))).unwrap_or(0)
    }

    /// Removes a stream that ended. Returns the index of its path.
    pub fn ended(&mut self, stream: u32) -> usize {
        let at = self.all.iter().position(|path| path.streams.contains(&stream)).unwrap_or(0);
        if let Some(path) = self.all.get_mut(at) {
            path.streams.remove(&stream);
        }
        at
    }

    /// Whether another path than this one has streams that run.
    pub fn others_run(&self, than: usize, runs: impl Fn(u32) -> bool) -> bool {
        let carries = |(at, path): (usize, &Path)| at != than && path.streams.iter().any(|stream| runs(*stream));
        self.all.iter().enumerate().any(carries)
    }

    /// Leaves a path alone that lost a stream: for [`BREATH`] where others on it carry, else longer each time.
    pub fn rest(&mut self, at: usize, now: Instant, carries: impl Fn(u32) -> bool) {
        let path = &mut self.all[at];
        if path.streams.iter().any(|stream| carries(*stream)) {
            path.breathes = Some(now + BREATH);
            return;
        }
        let rest = (REST * 2u32.saturating_pow(path.lost)).min(REST_MAX);
        path.lost = (path.lost + 1).min(16);
        path.rests = Some(now + rest);
    }

    /// How many streams one of several paths still lacks. A path gets one stream at first, which shows that it leads to the node.
    /// `carries` says whether something has arrived by a stream.
    pub fn lacking(&mut self, at: usize, now: Instant, demand: StreamDemand, carries: impl Fn(u32) -> bool) -> u32 {
        // A path that breathes keeps its part of what was asked for: else the others would take it, to lose it again.
        if self.all[at].rests(now) || self.all[at].breathes.is_some_and(|until| now < until) {
            return 0;
        }
        let open: Vec<usize> = (0..self.all.len()).filter(|other| !self.all[*other].rests(now)).collect();
        let rank = open.iter().position(|other| *other == at).unwrap_or(0) as u32;
        let part = |total: u32| total / open.len() as u32 + u32::from(rank < total % open.len() as u32);
        let mut wanted = match (demand.asked, demand.wish) {
            (0, 0) => demand.first,
            (0, wish) => wish,
            (asked, _) => part(asked),
        };
        let most = demand.most;
        if most > 0 {
            wanted = wanted.min(part(most));
        }
        let open: usize = self.all.iter().map(|path| path.streams.len()).sum();
        let path = &mut self.all[at];
        path.wanted = wanted;
        let proven = path.streams.iter().any(|stream| carries(*stream));
        if proven {
            path.lost = 0;
        }
        let wanted = if proven { wanted } else { wanted.min(1) };
        let lacks = wanted.saturating_sub(path.streams.len() as u32);
        if most > 0 { lacks.min(most.saturating_sub(open as u32)) } else { lacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u8) -> SocketAddr {
        ([192, 0, 2, number], 4433).into()
    }

    fn to(number: u8) -> StreamAddress {
        StreamAddress { at: at(number), lent: None }
    }

    fn demand([wish, first, asked, most]: [u32; 4]) -> StreamDemand {
        StreamDemand { wish, first, asked, most }
    }

    fn paths(others: u8) -> Paths {
        let mut paths = Paths::default();
        let dial: Arc<dyn Dial> = Arc::new(at(0));
        paths.begin(&dial);
        (0..others).for_each(|other| paths.learn(to(other), Some(at(0))));
        paths
    }

    #[test]
    fn a_path_is_known_once() {
        let mut paths = paths(3);
        assert_eq!(paths.all.len(), 3, "the control connection's own address is no other path");
        let mut many = self::paths(1);
        (1..100).for_each(|more| many.learn(to(more), Some(at(0))));
        assert_eq!(many.all.len(), ADDRESSES_MAX + 1, "a node cannot send us everywhere");
        paths.learn(to(2), Some(at(0)));
        assert_eq!((paths.all.len(), paths.takes(Some(at(2))), paths.takes(Some(at(9)))), (3, 2, 0));
        assert!(!paths.is_one() && self::paths(1).is_one());
    }

    #[test]
    fn a_path_that_breathes_keeps_its_part() {
        let (mut paths, now) = (paths(3), Instant::now());
        paths.all[0].streams.extend([1, 2]);
        paths.all[1].streams.insert(3);
        paths.all[2].streams.insert(4);
        paths.ended(2);
        paths.rest(0, now, |_| true);
        let lacks = |paths: &mut Paths, at, now| paths.lacking(at, now, demand([0, 8, 4, 0]), |_| true);
        assert_eq!([0, 1, 2].map(|at| lacks(&mut paths, at, now)), [0, 0, 0], "two of four are the first path's");
        assert_eq!(lacks(&mut paths, 0, now + BREATH), 1);
    }

    #[test]
    fn what_is_closed_gets_nothing_more() {
        let (mut paths, now) = (paths(3), Instant::now());
        paths.all[1].streams.insert(5);
        paths.all[2].streams.insert(6);
        assert!(paths.close_but(|_| true).is_empty());
        assert_eq!(paths.close_but(|address| address != to(1)), [5], "the control connection's path is never closed");
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| true), 0);
        assert_eq!(
            paths.lacking(2, now, demand([0, 8, 4, 0]), |_| true),
            1,
            "the others share the number that was asked for"
        );
        paths.ended(5);
        assert!(paths.close_but(|_| true).is_empty());
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| true), 1, "it is back: at first with one stream");
    }

    /// Streams of an earlier delegated session are over before any of the next one is dialled.
    #[test]
    fn a_mover_that_comes_again_takes_another_session() {
        let mut paths = paths(1);
        let [first, second] = [1, 2].map(|id| StreamAddress { at: at(1), lent: Some([id; 16]) });
        paths.learn(first, Some(at(0)));
        paths.all[1].streams.insert(5);
        assert!(!paths.lacks(second, Some(at(0))), "the first one is not known to be over");
        assert_eq!(paths.close_but(|address| address == second), [5]);
        assert!(!paths.lacks(second, Some(at(0))), "a stream of it still ends");
        paths.ended(5);
        paths.learn(second, Some(at(0)));
        assert_eq!((paths.all.len(), paths.all[1].delegated_session()), (2, Some([2; 16])));
        assert!(paths.close_but(|address| address == second).is_empty());
    }

    #[test]
    fn a_new_path_is_tried_by_one_stream() {
        let (mut paths, now) = (paths(2), Instant::now());
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| false), 1);
        paths.all[1].streams.insert(5);
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| false), 0, "it is being dialled");
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| true), 7);
        assert_eq!(paths.lacking(1, now, demand([3, 8, 0, 0]), |_| true), 2, "the evidence goes before");
    }

    #[test]
    fn numbers_and_bounds_are_for_all_paths_together() {
        let (mut paths, now) = (paths(2), Instant::now());
        paths.all[0].streams.insert(1);
        paths.all[1].streams.insert(2);
        let wanted = |paths: &mut Paths, asked, most| {
            [0, 1].map(|path| paths.lacking(path, now, demand([0, 8, asked, most]), |_| true) + 1)
        };
        assert_eq!(wanted(&mut paths, 5, 0), [3, 2]);
        assert_eq!(wanted(&mut paths, 0, 6), [3, 3]);
        assert_eq!(wanted(&mut paths, 1, 0), [1, 1], "the second has one already, and lacks none");
        assert_eq!(paths.all[1].wanted, 0);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_left_alone_longer_each_time() {
        let (mut paths, mut now) = (paths(2), Instant::now());
        for rest in [1, 2, 4, 8, 15, 15] {
            paths.all[1].streams.insert(7);
            assert_eq!(paths.ended(7), 1);
            paths.rest(1, now, |_| true);
            let after = |seconds| now + Duration::from_secs_f64(seconds);
            assert_eq!(paths.lacking(1, after(f64::from(rest) - 0.1), demand([0, 4, 0, 0]), |_| true), 0);
            // What it would have is the others' meanwhile.
            assert_eq!(paths.lacking(0, after(0.5), demand([0, 4, 6, 0]), |_| false), 1);
            assert_eq!(paths.all[0].wanted, 6);
            now = after(f64::from(rest) + 0.1);
            assert_eq!(paths.lacking(1, now, demand([0, 4, 0, 0]), |_| false), 1);
        }
        paths.all[1].streams.insert(8);
        paths.lacking(1, now, demand([0, 4, 0, 0]), |_| true);
        paths.ended(8);
        paths.rest(1, now, |_| true);
        assert_eq!(
            paths.lacking(1, now + Duration::from_millis(1100), demand([0, 4, 0, 0]), |_| true),
            1,
            "it had carried"
        );
    }

    #[test]
    fn one_of_several_streams_is_no_reason_to_rest() {
        let (mut paths, now) = (paths(2), Instant::now());
        paths.all[1].streams.extend([1, 2]);
        paths.ended(1);
        paths.rest(1, now, |_| true);
        assert_eq!(
            paths.lacking(1, now, demand([0, 2, 0, 0]), |_| true),
            0,
            "not at once: whoever closes would be asked without end"
        );
        let soon = now + Duration::from_millis(260);
        assert_eq!(paths.lacking(1, soon, demand([0, 2, 0, 0]), |_| true), 1);
        paths.rest(1, soon, |_| false);
        assert_eq!(
            paths.lacking(1, soon + BREATH, demand([0, 2, 0, 0]), |_| false),
            0,
            "nothing ever came by that path"
        );
        assert!(paths.others_run(0, |stream| stream == 2) && !paths.others_run(1, |stream| stream == 2));
    }
}
