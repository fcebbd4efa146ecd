//! Who is attended to, and who waits in line for it. A connection that is attended to has a thread, and threads are few: one
//! neighbourhood must not hold all of them by saying a byte now and then.
//!
//! - A neighbourhood that has fewer than [`SHARE`] is attended to as long as any place is left.
//! - One that has more is attended to while fewer than [`PLENTY`] are taken in all. Many clients may come from one address, a
//!   site behind NAT, and a transfer holds its place while it runs: with nobody else there a thousand of them run at once,
//!   which fills any line, and the other half of the places is left to whoever comes from elsewhere.
//! - Whoever finds no place waits, is not refused, and neighbourhoods take turns. A connection that has its answer while others
//!   wait gives its place up and waits as well. What holds a place without doing anything is given up after 20 s (a head, a
//!   short body) or after some minutes (below 10 kB/s), so that even where all places are taken by those who mean harm about
//!   ten a second are given back, and a newcomer's turn comes among the first.
//! - The line is as long as there are seats (`crowd`), and no longer than [`WAIT_MAX`] for anybody.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that are being attended to at once. Sessions of the native protocol count until they have logged in.
const ATTENDED_MAX: usize = 2048;
/// Of them, those that any neighbourhood may have while there are any.
const SHARE: usize = ATTENDED_MAX / 8;
/// Up to so many in all nobody asks for shares.
const PLENTY: usize = ATTENDED_MAX / 2;
/// Nobody waits longer than this: clients ask again, and a place in line is a descriptor.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Places and the line before them.
pub(crate) struct Hall<T> {
    all: usize,
    share: usize,
    plenty: usize,
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    taken: usize,
    each: HashMap<IpAddr, usize>,
    /// Those who wait, and since when.
    lines: HashMap<IpAddr, VecDeque<(T, Instant)>>,
    /// The neighbourhoods of those who wait, each once; whose turn is next stands first.
    turns: VecDeque<IpAddr>,
    closed: bool,
}

impl<T> Inner<T> {
    fn take(&mut self, from: IpAddr) {
        self.taken += 1;
        *self.each.entry(from).or_default() += 1;
    }

    fn wait(&mut self, from: IpAddr, guest: T) {
        if self.closed {
            return;
        }
        let line = self.lines.entry(from).or_default();
        line.push_back((guest, Instant::now()));
        if line.len() == 1 {
            self.turns.push_back(from);
        }
    }

    fn has(&self, from: &IpAddr) -> usize {
        self.each.get(from).copied().unwrap_or(0)
    }
}

impl<T> Hall<T> {
    /// An empty one.
    pub fn new() -> Hall<T> {
        Hall::of(ATTENDED_MAX, SHARE, PLENTY)
    }

    fn of(all: usize, share: usize, plenty: usize) -> Hall<T> {
        let inner =
            Inner { taken: 0, each: HashMap::new(), lines: HashMap::new(), turns: VecDeque::new(), closed: false };
        Hall { all, share, plenty, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody comes: given back with a place taken, or none where there is no place and the guest waits.
    pub fn enter(&self, from: IpAddr, guest: T) -> Option<T> {
        let mut inner = self.inner();
        if inner.taken < self.all && (inner.taken < self.plenty || inner.has(&from) < self.share) {
            inner.take(from);
            return Some(guest);
        }
        inner.wait(from, guest);
        None
    }

    /// Somebody who has a place, and is about to give it up, waits for another one.
    pub fn wait(&self, from: IpAddr, guest: T) {
        self.inner().wait(from, guest);
    }

    /// How many are attended to, and how many wait.
    pub fn count(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.taken, inner.lines.values().map(VecDeque::len).sum())
    }

    /// Whether anybody waits.
    pub fn has_line(&self) -> bool {
        !self.inner().turns.is_empty()
    }

    /// Somebody's place is free again: see [`Hall::next`].
    pub fn leave(&self, from: IpAddr) {
        let mut inner = self.inner();
        inner.taken -= 1;
        if let Some(there) = inner.each.get_mut(&from) {
            *there -= 1;
            if *there == 0 {
                inner.each.remove(&from);
            }
        }
    }

    /// Whoever's turn it is, with a place taken. At most [`ATTENDED_MAX`] / [`SHARE`] neighbourhoods are passed over.
    pub fn next(&self) -> Option<(IpAddr, T)> {
        let mut inner = self.inner();
        if inner.taken >= self.all {
            return None;
        }
        let entitled = inner.turns.iter().position(|from| inner.has(from) < self.share);
        let at = if inner.taken < self.plenty { entitled.or(Some(0)) } else { entitled };
        let from = inner.turns.remove(at?)?;
        let line = inner.lines.get_mut(&from)?;
        let (guest, _) = line.pop_front()?;
        if line.is_empty() {
            inner.lines.remove(&from);
        } else {
            inner.turns.push_back(from);
        }
        inner.take(from);
        Some((from, guest))
    }

    /// Those who have waited for too long, out of the line.
    pub fn late(&self, now: Instant) -> Vec<T> {
        let mut inner = self.inner();
        let Inner { lines, turns, .. } = &mut *inner;
        let is_late = |since: &Instant| now.saturating_duration_since(*since) >= WAIT_MAX;
        let mut late = Vec::new();
        for line in lines.values_mut() {
            while line.front().is_some_and(|(_, since)| is_late(since)) {
                late.extend(line.pop_front().map(|(guest, _)| guest));
            }
        }
        if !late.is_empty() {
            lines.retain(|_, line| !line.is_empty());
            turns.retain(|from| lines.contains_key(from));
        }
        late
    }

    /// Drops whoever waits, and whoever would.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        let lines = std::mem::take(&mut inner.lines);
        inner.turns.clear();
        drop(inner);
        // Closing may say farewell on the line: not under the lock.
        drop(lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn fill(hall: &Hall<u32>, from: IpAddr, guests: std::ops::Range<u32>) -> usize {
        guests.filter(|guest| hall.enter(from, *guest).is_some()).count()
    }

    #[test]
    fn one_neighbourhood_leaves_room_for_others() {
        let hall = Hall::of(16, 2, 8);
        assert_eq!(fill(&hall, site(1), 0..100), 8, "all that is plenty, while nobody else is there");
        // Whoever comes from elsewhere has a share at once, whatever the line is.
        for other in 2..6 {
            assert_eq!(fill(&hall, site(other), 0..5), 2, "{other}");
        }
        assert_eq!(fill(&hall, site(9), 0..1), 0, "there are sixteen places");
        assert!(hall.next().is_none());
        // The first place that is free goes to who has none, though others came before.
        hall.leave(site(1));
        assert_eq!(hall.next(), Some((site(9), 0)));
        assert!(hall.next().is_none());
    }

    #[test]
    fn who_is_over_its_share_has_its_turn() {
        let hall = Hall::of(4, 2, 2);
        assert_eq!((fill(&hall, site(1), 0..4), fill(&hall, site(2), 10..13)), (2, 2));
        hall.leave(site(1));
        assert_eq!(hall.next(), Some((site(1), 2)), "within its share again, and first in its line");
        hall.leave(site(2));
        assert_eq!(hall.next(), Some((site(2), 12)));
        hall.leave(site(2));
        assert_eq!(hall.next(), None, "the first has its share");
        hall.leave(site(2));
        hall.leave(site(1));
        assert_eq!(hall.next(), Some((site(1), 3)));
        assert_eq!(hall.next(), None, "nobody waits");
        assert_eq!(hall.enter(site(3), 20), Some(20));
    }

    #[test]
    fn turns_go_round() {
        let hall = Hall::of(2, 2, 2);
        assert_eq!((fill(&hall, site(1), 0..4), fill(&hall, site(2), 10..12), fill(&hall, site(3), 20..22)), (2, 0, 0));
        let mut order = Vec::new();
        hall.leave(site(1));
        hall.leave(site(1));
        while let Some((from, guest)) = hall.next() {
            order.push(guest);
            if order.len() < 6 {
                hall.leave(from);
            }
        }
        assert_eq!(order, [2, 10, 20, 3, 11, 21][..order.len()]);
        assert_eq!(order.len(), 6);
    }

    #[test]
    fn who_has_an_answer_lets_others_go_first() {
        let hall = Hall::of(1, 1, 1);
        assert_eq!(hall.enter(site(1), 0), Some(0));
        assert!(!hall.has_line());
        assert_eq!(hall.enter(site(2), 10), None);
        assert_eq!(hall.count(), (1, 1));
        assert!(hall.has_line());
        hall.wait(site(1), 1);
        hall.leave(site(1));
        assert_eq!(hall.next(), Some((site(2), 10)));
        hall.leave(site(2));
        assert_eq!(hall.next(), Some((site(1), 1)));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let hall = Hall::of(1, 1, 1);
        assert_eq!(fill(&hall, site(1), 0..3), 1);
        assert!(hall.late(Instant::now()).is_empty());
        assert_eq!(hall.late(Instant::now() + WAIT_MAX), [1, 2]);
        hall.leave(site(1));
        assert_eq!(hall.next(), None);
        assert_eq!(fill(&hall, site(1), 5..7), 1);
        hall.close();
        hall.leave(site(1));
        assert_eq!(hall.next(), None);
        assert_eq!((hall.enter(site(1), 8), hall.enter(site(1), 9)), (Some(8), None));
    }
}
