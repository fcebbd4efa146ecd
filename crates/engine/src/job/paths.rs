//! The ways that a client's streams take to a node: to the address of the control connection, and to those where the node says
//! that it takes streams too. Each has its own number of streams, and is left alone for a while where it carries none.
//!
//! What it does not know: sockets, threads, time (it is told).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::join::SessionId;
use wire::limits::ADDRESSES_MAX;

use crate::dial::{Dial, Way};

/// How long a way is left alone that lost its last stream, at first and after many losses.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(15);
/// And one that lost a stream beside others that carry.
const BREATH: Duration = Duration::from_millis(250);

/// One way.
pub(super) struct Path {
    pub to: Arc<dyn Dial>,
    /// None for the way of the control connection, whatever that is.
    by: Option<Way>,
    /// Dialled, or running.
    pub streams: BTreeSet<u32>,
    /// As many as were wanted when it was last looked at.
    pub wanted: u32,
    /// How often in a row it lost its last stream, and until when it rests.
    lost: u32,
    rests: Option<Instant>,
    /// Until when it gets no further streams, though others on it carry.
    breathes: Option<Instant>,
    /// The node does not take streams there any more.
    is_closed: bool,
}

impl Path {
    fn new(to: Arc<dyn Dial>, by: Option<Way>) -> Path {
        Path { to, by, streams: BTreeSet::new(), wanted: 0, lost: 0, rests: None, breathes: None, is_closed: false }
    }

    /// What is dialled, and the session that was lent there.
    pub fn way(&self) -> (&Arc<dyn Dial>, Option<SessionId>) {
        (&self.to, self.by.and_then(|way| way.lent))
    }

    fn leads_to(&self, at: SocketAddr) -> bool {
        self.by.is_some_and(|way| way.at == at)
    }

    fn rests(&self, now: Instant) -> bool {
        self.is_closed || self.rests.is_some_and(|until| now < until)
    }
}

/// All of them; the first is the control connection's.
#[derive(Default)]
pub(super) struct Paths {
    pub all: Vec<Path>,
}

impl Paths {
    /// The way of the control connection is there from the start.
    pub fn begin(&mut self, to: &Arc<dyn Dial>) {
        if self.all.is_empty() {
            self.all.push(Path::new(Arc::clone(to), None));
        }
    }

    /// Whether a way is news: none leads there yet, and there are not too many; or one did that is closed, by a session that was lent before.
    pub fn lacks(&self, way: Way, own: Option<SocketAddr>) -> bool {
        match self.all.iter().find(|route| route.leads_to(way.at)) {
            Some(before) => before.by != Some(way) && before.is_closed && before.streams.is_empty(),
            None => own != Some(way.at) && (1..=ADDRESSES_MAX).contains(&self.all.len()),
        }
    }

    /// The node takes streams there too. `own` is the control connection's other end.
    pub fn learn(&mut self, way: Way, own: Option<SocketAddr>) {
        if !self.lacks(way, own) {
            return;
        }
        let route = Path::new(Arc::new(way.at), Some(way));
        match self.all.iter_mut().find(|route| route.leads_to(way.at)) {
            Some(before) => *before = route,
            None => self.all.push(route),
        }
    }

    /// Streams are taken where `open` says so, of the ways besides the control connection's. What goes elsewhere is lost: these
    /// streams are to be given up.
    pub fn close_but(&mut self, open: impl Fn(Way) -> bool) -> Vec<u32> {
        for route in &mut self.all {
            route.is_closed = route.by.is_some_and(|way| !open(way));
        }
        self.all.iter().filter(|route| route.is_closed).flat_map(|route| route.streams.iter().copied()).collect()
    }

    /// Whether there is but one.
    pub fn is_one(&self) -> bool {
        self.all.len() < 2
    }

    /// The way that a kept stream goes.
    pub fn takes(&self, peer: Option<SocketAddr>) -> usize {
        self.all.iter().position(|route| peer.is_some_and(|peer| route.leads_to(peer))).unwrap_or(0)
    }

    /// A stream ended: on which way.
    pub fn ended(&mut self, stream: u32) -> usize {
        let at = self.all.iter().position(|route| route.streams.contains(&stream)).unwrap_or(0);
        if let Some(route) = self.all.get_mut(at) {
            route.streams.remove(&stream);
        }
        at
    }

    /// Whether another way than this one has streams that run.
    pub fn others_run(&self, than: usize, runs: impl Fn(u32) -> bool) -> bool {
        let carries = |(at, route): (usize, &Path)| at != than && route.streams.iter().any(|stream| runs(*stream));
        self.all.iter().enumerate().any(carries)
    }

    /// A way that lost a stream is left alone: for a breath where others on it carry, else longer each time.
    pub fn rest(&mut self, at: usize, now: Instant, carries: impl Fn(u32) -> bool) {
        let route = &mut self.all[at];
        if route.streams.iter().any(|stream| carries(*stream)) {
            route.breathes = Some(now + BREATH);
            return;
        }
        let rest = (REST * 2u32.saturating_pow(route.lost)).min(REST_MAX);
        route.lost = (route.lost + 1).min(16);
        route.rests = Some(now + rest);
    }

    /// How many streams a way still lacks, of several ways: at first one, which shows that it leads somewhere.
    /// `carries` says whether something has arrived by a stream; `wish` is what the evidence says, `count` how many to begin with, `asked` what somebody asked for on all ways together,
    /// `most` the bound on them all; each 0 for none.
    pub fn lacking(
        &mut self,
        at: usize,
        now: Instant,
        (wish, count): (u32, u32),
        (asked, most): (u32, u32),
        carries: impl Fn(u32) -> bool,
    ) -> u32 {
        // A way that breathes keeps its part of what was asked for: else the others would take it, to lose it again.
        if self.all[at].rests(now) || self.all[at].breathes.is_some_and(|until| now < until) {
            return 0;
        }
        let open: Vec<usize> = (0..self.all.len()).filter(|way| !self.all[*way].rests(now)).collect();
        let rank = open.iter().position(|way| *way == at).unwrap_or(0) as u32;
        let part = |total: u32| total / open.len() as u32 + u32::from(rank < total % open.len() as u32);
        let mut wanted = match (asked, wish) {
            (0, 0) => count,
            (0, wish) => wish,
            (asked, _) => part(asked),
        };
        if most > 0 {
            wanted = wanted.min(part(most));
        }
        let open: usize = self.all.iter().map(|route| route.streams.len()).sum();
        let route = &mut self.all[at];
        route.wanted = wanted;
        let proven = route.streams.iter().any(|stream| carries(*stream));
        if proven {
            route.lost = 0;
        }
        let wanted = if proven { wanted } else { wanted.min(1) };
        let lacks = wanted.saturating_sub(route.streams.len() as u32);
        if most > 0 { lacks.min(most.saturating_sub(open as u32)) } else { lacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u8) -> SocketAddr {
        ([192, 0, 2, number], 4433).into()
    }

    fn to(number: u8) -> Way {
        Way { at: at(number), lent: None }
    }

    fn paths(ways: u8) -> Paths {
        let mut paths = Paths::default();
        let dial: Arc<dyn Dial> = Arc::new(at(0));
        paths.begin(&dial);
        (0..ways).for_each(|way| paths.learn(to(way), Some(at(0))));
        paths
    }

    #[test]
    fn a_way_is_known_once() {
        let mut paths = paths(3);
        assert_eq!(paths.all.len(), 3, "the control connection's own address is no other way");
        let mut many = self::paths(1);
        (1..100).for_each(|more| many.learn(to(more), Some(at(0))));
        assert_eq!(many.all.len(), ADDRESSES_MAX + 1, "a node cannot send us everywhere");
        paths.learn(to(2), Some(at(0)));
        assert_eq!((paths.all.len(), paths.takes(Some(at(2))), paths.takes(Some(at(9)))), (3, 2, 0));
        assert!(!paths.is_one() && self::paths(1).is_one());
    }

    #[test]
    fn a_way_that_breathes_keeps_its_part() {
        let (mut paths, now) = (paths(3), Instant::now());
        paths.all[0].streams.extend([1, 2]);
        paths.all[1].streams.insert(3);
        paths.all[2].streams.insert(4);
        paths.ended(2);
        paths.rest(0, now, |_| true);
        let lacks = |paths: &mut Paths, at, now| paths.lacking(at, now, (0, 8), (4, 0), |_| true);
        assert_eq!([0, 1, 2].map(|at| lacks(&mut paths, at, now)), [0, 0, 0], "two of four are the first way's");
        assert_eq!(lacks(&mut paths, 0, now + BREATH), 1);
    }

    #[test]
    fn what_is_closed_gets_nothing_more() {
        let (mut paths, now) = (paths(3), Instant::now());
        paths.all[1].streams.insert(5);
        paths.all[2].streams.insert(6);
        assert!(paths.close_but(|_| true).is_empty());
        assert_eq!(paths.close_but(|way| way != to(1)), [5], "the control connection's way is never closed");
        assert_eq!(paths.lacking(1, now, (0, 8), (0, 0), |_| true), 0);
        assert_eq!(
            paths.lacking(2, now, (0, 8), (4, 0), |_| true),
            1,
            "the others share the number that was asked for"
        );
        paths.ended(5);
        assert!(paths.close_but(|_| true).is_empty());
        assert_eq!(paths.lacking(1, now, (0, 8), (0, 0), |_| true), 1, "it is back: at first with one stream");
    }

    /// Streams of a session that was lent before are over before any of the next one is dialled.
    #[test]
    fn a_mover_that_comes_again_takes_another_session() {
        let mut paths = paths(1);
        let [first, second] = [1, 2].map(|id| Way { at: at(1), lent: Some([id; 16]) });
        paths.learn(first, Some(at(0)));
        paths.all[1].streams.insert(5);
        assert!(!paths.lacks(second, Some(at(0))), "the first one is not known to be over");
        assert_eq!(paths.close_but(|way| way == second), [5]);
        assert!(!paths.lacks(second, Some(at(0))), "a stream of it still ends");
        paths.ended(5);
        paths.learn(second, Some(at(0)));
        assert_eq!((paths.all.len(), paths.all[1].way().1), (2, Some([2; 16])));
        assert!(paths.close_but(|way| way == second).is_empty());
    }

    #[test]
    fn a_new_way_is_tried_by_one_stream() {
        let (mut paths, now) = (paths(2), Instant::now());
        assert_eq!(paths.lacking(1, now, (0, 8), (0, 0), |_| false), 1);
        paths.all[1].streams.insert(5);
        assert_eq!(paths.lacking(1, now, (0, 8), (0, 0), |_| false), 0, "it is being dialled");
        assert_eq!(paths.lacking(1, now, (0, 8), (0, 0), |_| true), 7);
        assert_eq!(paths.lacking(1, now, (3, 8), (0, 0), |_| true), 2, "the evidence goes before");
    }

    #[test]
    fn numbers_and_bounds_are_for_all_ways_together() {
        let (mut paths, now) = (paths(2), Instant::now());
        paths.all[0].streams.insert(1);
        paths.all[1].streams.insert(2);
        let wanted = |paths: &mut Paths, asked, most| {
            [0, 1].map(|way| paths.lacking(way, now, (0, 8), (asked, most), |_| true) + 1)
        };
        assert_eq!(wanted(&mut paths, 5, 0), [3, 2]);
        assert_eq!(wanted(&mut paths, 0, 6), [3, 3]);
        assert_eq!(wanted(&mut paths, 1, 0), [1, 1], "the second has one already, and lacks none");
        assert_eq!(paths.all[1].wanted, 0);
    }

    #[test]
    fn a_way_that_leads_nowhere_is_left_alone_longer_each_time() {
        let (mut paths, mut now) = (paths(2), Instant::now());
        for rest in [1, 2, 4, 8, 15, 15] {
            paths.all[1].streams.insert(7);
            assert_eq!(paths.ended(7), 1);
            paths.rest(1, now, |_| true);
            let after = |seconds| now + Duration::from_secs_f64(seconds);
            assert_eq!(paths.lacking(1, after(f64::from(rest) - 0.1), (0, 4), (0, 0), |_| true), 0);
            // What it would have is the others' meanwhile.
            assert_eq!(paths.lacking(0, after(0.5), (0, 4), (6, 0), |_| false), 1);
            assert_eq!(paths.all[0].wanted, 6);
            now = after(f64::from(rest) + 0.1);
            assert_eq!(paths.lacking(1, now, (0, 4), (0, 0), |_| false), 1);
        }
        paths.all[1].streams.insert(8);
        paths.lacking(1, now, (0, 4), (0, 0), |_| true);
        paths.ended(8);
        paths.rest(1, now, |_| true);
        assert_eq!(paths.lacking(1, now + Duration::from_millis(1100), (0, 4), (0, 0), |_| true), 1, "it had carried");
    }

    #[test]
    fn one_of_several_streams_is_no_reason_to_rest() {
        let (mut paths, now) = (paths(2), Instant::now());
        paths.all[1].streams.extend([1, 2]);
        paths.ended(1);
        paths.rest(1, now, |_| true);
        assert_eq!(
            paths.lacking(1, now, (0, 2), (0, 0), |_| true),
            0,
            "not at once: whoever closes would be asked without end"
        );
        let soon = now + Duration::from_millis(260);
        assert_eq!(paths.lacking(1, soon, (0, 2), (0, 0), |_| true), 1);
        paths.rest(1, soon, |_| false);
        assert_eq!(paths.lacking(1, soon + BREATH, (0, 2), (0, 0), |_| false), 0, "nothing ever came that way");
        assert!(paths.others_run(0, |stream| stream == 2) && !paths.others_run(1, |stream| stream == 2));
    }
}
