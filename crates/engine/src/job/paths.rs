//! The paths of a client's streams to a node: to the address of the control connection, and to the further addresses at which the
//! node takes streams. Each path has its own number of streams. A path that lost a stream gets no new one for a while.
//!
//! What this module does not know: sockets and threads. The time is an argument.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::join::SessionId;
use wire::limits::ADDRESSES_MAX;

use crate::dial::{Dial, StreamAddress};

/// How long a path that lost its last stream gets no new one: at first, and after many losses.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(15);
/// How long a path that lost a stream gets no new one while its other streams carry data.
const SHORT_REST: Duration = Duration::from_millis(250);

/// One path.
pub(super) struct Path {
    pub to: Arc<dyn Dial>,
    /// None for the path of the control connection, whatever its address is.
    address: Option<StreamAddress>,
    /// The streams that are being dialled, or run.
    pub streams: BTreeSet<u32>,
    /// The number of streams that [`Paths::lacking`] last computed.
    pub wanted: u32,
    /// How often in a row the path lost its last stream.
    losses: u32,
    /// The path has no streams, and gets none until then.
    rests_until: Option<Instant>,
    /// The path has streams that carry data, and gets no further ones until then.
    short_rest_until: Option<Instant>,
    /// The node no longer takes streams at this address.
    is_closed: bool,
}

/// The numbers of streams that are wanted. 0 stands for no opinion or no bound.
#[derive(Clone, Copy)]
pub(super) struct StreamDemand {
    /// For this path, by the pilot's evidence.
    pub by_evidence: u32,
    /// For this path, to begin with.
    pub first: u32,
    /// For all paths together, by the settings of the job.
    pub by_settings: u32,
    /// The bound on all paths together.
    pub streams_max: u32,
}

impl Path {
    fn new(to: Arc<dyn Dial>, address: Option<StreamAddress>) -> Path {
        Path {
            to,
            address,
            streams: BTreeSet::new(),
            wanted: 0,
            losses: 0,
            rests_until: None,
            short_rest_until: None,
            is_closed: false,
        }
    }

    /// The delegated session that streams join on this path; none where they join the client's own.
    pub fn delegated_session(&self) -> Option<SessionId> {
        self.address.and_then(|address| address.delegated_session)
    }

    fn leads_to(&self, at: SocketAddr) -> bool {
        self.address.is_some_and(|address| address.at == at)
    }

    fn gets_none(&self, now: Instant) -> bool {
        self.is_closed || self.rests_until.is_some_and(|until| now < until)
    }
}

/// All paths of a job; the first is the control connection's.
#[derive(Default)]
pub(super) struct Paths {
    pub all: Vec<Path>,
}

impl Paths {
    /// Adds the path of the control connection, which is always the first.
    pub fn begin(&mut self, to: &Arc<dyn Dial>) {
        if self.all.is_empty() {
            self.all.push(Path::new(Arc::clone(to), None));
        }
    }

    /// Whether an address is a new path: no path leads to it yet, and there are not too many paths; or the path that led to it is closed,
    /// and belonged to an earlier delegated session.
    pub fn is_new(&self, address: StreamAddress, own: Option<SocketAddr>) -> bool {
        match self.all.iter().find(|path| path.leads_to(address.at)) {
            Some(before) => before.address != Some(address) && before.is_closed && before.streams.is_empty(),
            None => own != Some(address.at) && (1..=ADDRESSES_MAX).contains(&self.all.len()),
        }
    }

    /// Adds a further address at which the node takes streams. `own` is the control connection's other end.
    pub fn add(&mut self, address: StreamAddress, own: Option<SocketAddr>) {
        if !self.is_new(address, own) {
            return;
        }
        let path = Path::new(Arc::new(address.at), Some(address));
        match self.all.iter_mut().find(|path| path.leads_to(address.at)) {
            Some(before) => *before = path,
            None => self.all.push(path),
        }
    }

    /// Closes the paths whose address is not `open`; the control connection's is never closed. Returns the streams of closed paths: what
    /// is sent on them is lost, so the caller gives them up.
    pub fn close_except(&mut self, open: impl Fn(StreamAddress) -> bool) -> Vec<u32> {
        for path in &mut self.all {
            path.is_closed = path.address.is_some_and(|address| !open(address));
        }
        self.all.iter().filter(|path| path.is_closed).flat_map(|path| path.streams.iter().copied()).collect()
    }

    /// Whether there is no other path than the control connection's.
    pub fn is_single(&self) -> bool {
        self.all.len() < 2
    }

    /// The index of the path of a kept stream, by the address of its other end.
    pub fn index_of(&self, peer: Option<SocketAddr>) -> usize {
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

    /// Whether a path other than this one has a stream that carries data.
    pub fn another_carries(&self, this: usize, stream_carries: impl Fn(u32) -> bool) -> bool {
        let carries =
            |(at, path): (usize, &Path)| at != this && path.streams.iter().any(|stream| stream_carries(*stream));
        self.all.iter().enumerate().any(carries)
    }

    /// Notes that a path has lost a stream: it gets no new one for [`SHORT_REST`] where others on it carry data, else for longer each time.
    pub fn rest(&mut self, at: usize, now: Instant, carries: impl Fn(u32) -> bool) {
        let path = &mut self.all[at];
        if path.streams.iter().any(|stream| carries(*stream)) {
            path.short_rest_until = Some(now + SHORT_REST);
            return;
        }
        let rest = (REST * 2u32.saturating_pow(path.losses)).min(REST_MAX);
        path.losses = (path.losses + 1).min(16);
        path.rests_until = Some(now + rest);
    }

    /// How many streams one of several paths still lacks. A path gets one stream at first, which shows that it leads to the node.
    /// `carries` says whether data has arrived on a stream.
    pub fn lacking(&mut self, at: usize, now: Instant, demand: StreamDemand, carries: impl Fn(u32) -> bool) -> u32 {
        // During a short rest a path keeps its part of the wanted number: else the other paths would take that part, and lose it again.
        if self.all[at].gets_none(now) || self.all[at].short_rest_until.is_some_and(|until| now < until) {
            return 0;
        }
        let open: Vec<usize> = (0..self.all.len()).filter(|other| !self.all[*other].gets_none(now)).collect();
        let rank = open.iter().position(|other| *other == at).unwrap_or(0) as u32;
        let part = |total: u32| total / open.len() as u32 + u32::from(rank < total % open.len() as u32);
        let mut wanted = match (demand.by_settings, demand.by_evidence) {
            (0, 0) => demand.first,
            (0, by_evidence) => by_evidence,
            (by_settings, _) => part(by_settings),
        };
        let streams_max = demand.streams_max;
        if streams_max > 0 {
            wanted = wanted.min(part(streams_max));
        }
        let running: usize = self.all.iter().map(|path| path.streams.len()).sum();
        let path = &mut self.all[at];
        path.wanted = wanted;
        let proven = path.streams.iter().any(|stream| carries(*stream));
        if proven {
            path.losses = 0;
        }
        let wanted = if proven { wanted } else { wanted.min(1) };
        let lacks = wanted.saturating_sub(path.streams.len() as u32);
        if streams_max > 0 { lacks.min(streams_max.saturating_sub(running as u32)) } else { lacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u8) -> SocketAddr {
        ([192, 0, 2, number], 4433).into()
    }

    fn to(number: u8) -> StreamAddress {
        StreamAddress { at: at(number), delegated_session: None }
    }

    fn demand([by_evidence, first, by_settings, streams_max]: [u32; 4]) -> StreamDemand {
        StreamDemand { by_evidence, first, by_settings, streams_max }
    }

    fn paths(others: u8) -> Paths {
        let mut paths = Paths::default();
        let dial: Arc<dyn Dial> = Arc::new(at(0));
        paths.begin(&dial);
        (0..others).for_each(|other| paths.add(to(other), Some(at(0))));
        paths
    }

    #[test]
    fn a_path_is_known_once() {
        let mut paths = paths(3);
        assert_eq!(paths.all.len(), 3, "the control connection's own address is no other path");
        let mut many = self::paths(1);
        (1..100).for_each(|more| many.add(to(more), Some(at(0))));
        assert_eq!(many.all.len(), ADDRESSES_MAX + 1, "the addresses of a node are bounded");
        paths.add(to(2), Some(at(0)));
        assert_eq!((paths.all.len(), paths.index_of(Some(at(2))), paths.index_of(Some(at(9)))), (3, 2, 0));
        assert!(!paths.is_single() && self::paths(1).is_single());
    }

    #[test]
    fn a_path_in_a_short_rest_keeps_its_part_of_the_streams() {
        let mut paths = paths(3);
        let now = Instant::now();
        paths.all[0].streams.extend([1, 2]);
        paths.all[1].streams.insert(3);
        paths.all[2].streams.insert(4);
        paths.ended(2);
        paths.rest(0, now, |_| true);
        let lacks = |paths: &mut Paths, at, now| paths.lacking(at, now, demand([0, 8, 4, 0]), |_| true);
        assert_eq!([0, 1, 2].map(|at| lacks(&mut paths, at, now)), [0, 0, 0], "two of four are the first path's");
        assert_eq!(lacks(&mut paths, 0, now + SHORT_REST), 1);
    }

    #[test]
    fn a_closed_path_gets_no_streams() {
        let mut paths = paths(3);
        let now = Instant::now();
        paths.all[1].streams.insert(5);
        paths.all[2].streams.insert(6);
        assert!(paths.close_except(|_| true).is_empty());
        assert_eq!(
            paths.close_except(|address| address != to(1)),
            [5],
            "the control connection's path is never closed"
        );
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| true), 0);
        assert_eq!(
            paths.lacking(2, now, demand([0, 8, 4, 0]), |_| true),
            1,
            "the others share the number that was asked for"
        );
        paths.ended(5);
        assert!(paths.close_except(|_| true).is_empty());
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| true), 1, "the open path gets one stream first");
    }

    /// Streams of an earlier delegated session are over before any of the next one is dialled.
    #[test]
    fn a_mover_that_joins_again_has_another_session() {
        let mut paths = paths(1);
        let [first, second] = [1, 2].map(|id| StreamAddress { at: at(1), delegated_session: Some([id; 16]) });
        paths.add(first, Some(at(0)));
        paths.all[1].streams.insert(5);
        assert!(!paths.is_new(second, Some(at(0))), "the first one is not known to be over");
        assert_eq!(paths.close_except(|address| address == second), [5]);
        assert!(!paths.is_new(second, Some(at(0))), "a stream of it still ends");
        paths.ended(5);
        paths.add(second, Some(at(0)));
        assert_eq!((paths.all.len(), paths.all[1].delegated_session()), (2, Some([2; 16])));
        assert!(paths.close_except(|address| address == second).is_empty());
    }

    #[test]
    fn a_new_path_is_tried_by_one_stream() {
        let mut paths = paths(2);
        let now = Instant::now();
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| false), 1);
        paths.all[1].streams.insert(5);
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| false), 0, "it is being dialled");
        assert_eq!(paths.lacking(1, now, demand([0, 8, 0, 0]), |_| true), 7);
        assert_eq!(
            paths.lacking(1, now, demand([3, 8, 0, 0]), |_| true),
            2,
            "the evidence counts before the first number"
        );
    }

    #[test]
    fn set_numbers_and_bounds_are_for_all_paths_together() {
        let mut paths = paths(2);
        let now = Instant::now();
        paths.all[0].streams.insert(1);
        paths.all[1].streams.insert(2);
        let wanted = |paths: &mut Paths, asked, streams_max| {
            [0, 1].map(|path| paths.lacking(path, now, demand([0, 8, asked, streams_max]), |_| true) + 1)
        };
        assert_eq!(wanted(&mut paths, 5, 0), [3, 2]);
        assert_eq!(wanted(&mut paths, 0, 6), [3, 3]);
        assert_eq!(wanted(&mut paths, 1, 0), [1, 1], "the second has one already, and lacks none");
        assert_eq!(paths.all[1].wanted, 0);
    }

    #[test]
    fn a_path_that_fails_rests_longer_each_time() {
        let mut paths = paths(2);
        let mut now = Instant::now();
        for rest in [1, 2, 4, 8, 15, 15] {
            paths.all[1].streams.insert(7);
            assert_eq!(paths.ended(7), 1);
            paths.rest(1, now, |_| true);
            let after = |seconds| now + Duration::from_secs_f64(seconds);
            assert_eq!(paths.lacking(1, after(f64::from(rest) - 0.1), demand([0, 4, 0, 0]), |_| true), 0);
            // The other paths get its part meanwhile.
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
    fn the_loss_of_one_of_several_streams_is_a_short_rest() {
        let mut paths = paths(2);
        let now = Instant::now();
        paths.all[1].streams.extend([1, 2]);
        paths.ended(1);
        paths.rest(1, now, |_| true);
        assert_eq!(
            paths.lacking(1, now, demand([0, 2, 0, 0]), |_| true),
            0,
            "not at once: a node that closes each stream would be dialled without end"
        );
        let soon = now + Duration::from_millis(260);
        assert_eq!(paths.lacking(1, soon, demand([0, 2, 0, 0]), |_| true), 1);
        paths.rest(1, soon, |_| false);
        assert_eq!(
            paths.lacking(1, soon + SHORT_REST, demand([0, 2, 0, 0]), |_| false),
            0,
            "nothing ever came by that path"
        );
        assert!(paths.another_carries(0, |stream| stream == 2) && !paths.another_carries(1, |stream| stream == 2));
    }
}
