//! The admission queue: which connections are served at once, and which wait. A connection that is served has a thread, and threads
//! are few: no client may hold all of them by sending a byte now and then.
//!
//! - A client with fewer than [`SHARE`] places is given one while any is left.
//! - A client with more is given one while fewer than [`PLENTY`] are taken in all. A whole site may stand behind one address (NAT), and
//!   a transfer holds its place while it runs. A site alone may run a thousand at once, which fills any link, and half of the
//!   places stay free for other clients.
//! - A connection that finds no place waits; clients take turns ([`sched::FairQueue`]). A connection that was answered while others
//!   wait releases its place and waits too. A connection that holds a place and moves nothing is ended after 20 s (a head, a
//!   short body) or two minutes (below 10 kB/s). So even while an attacker holds all places, about ten a second become free, and
//!   a new client is among the first to get one.
//! - The queue is as long as there are permits ([`crate::ConnectionPermit`]), and no connection waits longer than [`WAIT_MAX`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Weak;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sched::FairQueue;

/// Connections that are served at once. One of another protocol than HTTP counts until its client is authenticated.
const SERVED_MAX: usize = 2048;
/// Places that each client may have as long as any is left.
const SHARE: usize = SERVED_MAX / 8;
/// Below this number of taken places the shares do not apply.
const PLENTY: usize = SERVED_MAX / 2;
/// No connection waits longer than this: it holds a descriptor, and clients try again.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The places, and the connections that wait for one.
#[derive(Debug)]
pub(crate) struct AdmissionQueue<T> {
    /// [`SERVED_MAX`], [`SHARE`] and [`PLENTY`], except in tests.
    served_max: usize,
    share: usize,
    plenty: usize,
    inner: Mutex<AdmissionState<T>>,
}

#[derive(Debug)]
struct AdmissionState<T> {
    /// Places that are taken: in all, and by each client.
    taken: usize,
    taken_by_client: HashMap<IpAddr, usize>,
    /// The connections that wait, and since when.
    waiting: FairQueue<IpAddr, (T, Instant)>,
    closed: bool,
}

impl<T> AdmissionState<T> {
    fn take(&mut self, from: IpAddr) {
        self.taken += 1;
        *self.taken_by_client.entry(from).or_default() += 1;
    }

    fn has(&self, from: &IpAddr) -> usize {
        self.taken_by_client.get(from).copied().unwrap_or(0)
    }

    fn wait(&mut self, from: IpAddr, connection: T) {
        if !self.closed {
            self.waiting.push(from, (connection, Instant::now()));
        }
    }
}

impl<T> AdmissionQueue<T> {
    /// A queue with all places free.
    pub fn new() -> AdmissionQueue<T> {
        AdmissionQueue::of(SERVED_MAX, SHARE, PLENTY)
    }

    fn of(served_max: usize, share: usize, plenty: usize) -> AdmissionQueue<T> {
        let inner =
            AdmissionState { taken: 0, taken_by_client: HashMap::new(), waiting: FairQueue::default(), closed: false };
        AdmissionQueue { served_max, share, plenty, inner: Mutex::new(inner) }
    }

    /// Asks for a place for a connection. Returns the connection with a place taken, or nothing when it waits.
    pub fn enter(&self, from: IpAddr, connection: T) -> Option<T> {
        let mut inner = self.inner.lock();
        if inner.taken < self.served_max && (inner.taken < self.plenty || inner.has(&from) < self.share) {
            inner.take(from);
            return Some(connection);
        }
        inner.wait(from, connection);
        None
    }

    /// Queues a connection that has a place and is about to release it.
    pub fn wait(&self, from: IpAddr, connection: T) {
        self.inner.lock().wait(from, connection);
    }

    /// How many connections are served, and how many wait.
    pub fn count(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.taken, inner.waiting.len())
    }

    /// Whether any connection waits.
    pub fn has_waiting(&self) -> bool {
        !self.inner.lock().waiting.is_empty()
    }

    /// Releases a place; [`AdmissionQueue::next`] gives it to another connection.
    pub fn leave(&self, from: IpAddr) {
        let mut inner = self.inner.lock();
        inner.taken -= 1;
        if let Some(of_client) = inner.taken_by_client.get_mut(&from) {
            *of_client -= 1;
            if *of_client == 0 {
                inner.taken_by_client.remove(&from);
            }
        }
    }

    /// The connection whose turn it is, with a place taken. A client with fewer places than its share goes before others; at most
    /// [`SERVED_MAX`] / [`SHARE`] clients are passed over.
    pub fn next(&self) -> Option<(IpAddr, T)> {
        let mut inner = self.inner.lock();
        if inner.taken >= self.served_max {
            return None;
        }
        let AdmissionState { taken, taken_by_client, waiting, .. } = &mut *inner;
        let has = |from: &IpAddr| taken_by_client.get(from).copied().unwrap_or(0);
        let mut next = waiting.pop(|from| has(from) < self.share);
        if next.is_none() && *taken < self.plenty {
            next = waiting.pop(|_| true);
        }
        let (from, (connection, _)) = next?;
        inner.take(from);
        Some((from, connection))
    }

    /// Removes and returns the connections that have waited too long.
    pub fn take_late(&self, now: Instant) -> Vec<T> {
        let is_late = |since: &Instant| now.saturating_duration_since(*since) >= WAIT_MAX;
        let late = self.inner.lock().waiting.drain_fronts(|(_, since)| is_late(since));
        late.into_iter().map(|(connection, _)| connection).collect()
    }

    /// Drops all connections that wait, and those that come later.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        // Closing a connection may send a TLS alert: not under the lock.
        drop(waiting);
    }
}

/// Is notified when a place has become free.
pub(crate) trait AdmissionObserver: Send + Sync {
    /// A connection of this client has released its place.
    fn place_released(&self, from: IpAddr);
}

/// A connection's place among those that are served at once. Dropping it, a panic of its thread included, releases the place to the
/// connection whose turn it is.
pub struct Admitted {
    observer: Weak<dyn AdmissionObserver>,
    from: IpAddr,
}

impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Admitted({})", self.from)
    }
}

impl Admitted {
    pub(crate) fn new(observer: Weak<dyn AdmissionObserver>, from: IpAddr) -> Admitted {
        Admitted { observer, from }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(observer) = self.observer.upgrade() {
            observer.place_released(self.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn fill(queue: &AdmissionQueue<u32>, from: IpAddr, connections: std::ops::Range<u32>) -> usize {
        connections.filter(|connection| queue.enter(from, *connection).is_some()).count()
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let queue = AdmissionQueue::of(16, 2, 8);
        assert_eq!(fill(&queue, site(1), 0..100), 8, "all that is plenty, while nobody else is there");
        // A client with another address has its share at once, whatever waits.
        for other in 2..6 {
            assert_eq!(fill(&queue, site(other), 0..5), 2, "{other}");
        }
        assert_eq!(fill(&queue, site(9), 0..1), 0, "there are sixteen places");
        assert!(queue.next().is_none());
        // The first free place goes to the client that has none, though others came before.
        queue.leave(site(1));
        assert_eq!(queue.next(), Some((site(9), 0)));
        assert!(queue.next().is_none());
    }

    #[test]
    fn a_client_over_its_share_gets_its_turn() {
        let queue = AdmissionQueue::of(4, 2, 2);
        assert_eq!((fill(&queue, site(1), 0..4), fill(&queue, site(2), 10..13)), (2, 2));
        queue.leave(site(1));
        assert_eq!(queue.next(), Some((site(1), 2)), "within its share again, and the first of its own that waits");
        queue.leave(site(2));
        assert_eq!(queue.next(), Some((site(2), 12)));
        queue.leave(site(2));
        assert_eq!(queue.next(), None, "the first has its share");
        queue.leave(site(2));
        queue.leave(site(1));
        assert_eq!(queue.next(), Some((site(1), 3)));
        assert_eq!(queue.next(), None, "nobody waits");
        assert_eq!(queue.enter(site(3), 20), Some(20));
    }

    #[test]
    fn clients_take_turns() {
        let queue = AdmissionQueue::of(2, 2, 2);
        assert_eq!(
            (fill(&queue, site(1), 0..4), fill(&queue, site(2), 10..12), fill(&queue, site(3), 20..22)),
            (2, 0, 0)
        );
        let mut order = Vec::new();
        queue.leave(site(1));
        queue.leave(site(1));
        while let Some((from, connection)) = queue.next() {
            order.push(connection);
            if order.len() < 6 {
                queue.leave(from);
            }
        }
        assert_eq!(order, [2, 10, 20, 3, 11, 21][..order.len()]);
        assert_eq!(order.len(), 6);
    }

    #[test]
    fn an_answered_connection_waits_behind_others() {
        let queue = AdmissionQueue::of(1, 1, 1);
        assert_eq!(queue.enter(site(1), 0), Some(0));
        assert!(!queue.has_waiting());
        assert_eq!(queue.enter(site(2), 10), None);
        assert_eq!(queue.count(), (1, 1));
        assert!(queue.has_waiting());
        queue.wait(site(1), 1);
        queue.leave(site(1));
        assert_eq!(queue.next(), Some((site(2), 10)));
        queue.leave(site(2));
        assert_eq!(queue.next(), Some((site(1), 1)));
    }

    #[test]
    fn a_connection_that_waits_too_long_is_removed() {
        let queue = AdmissionQueue::of(1, 1, 1);
        assert_eq!(fill(&queue, site(1), 0..3), 1);
        assert!(queue.take_late(Instant::now()).is_empty());
        assert_eq!(queue.take_late(Instant::now() + WAIT_MAX), [1, 2]);
        queue.leave(site(1));
        assert_eq!(queue.next(), None);
        assert_eq!(fill(&queue, site(1), 5..7), 1);
        queue.close();
        queue.leave(site(1));
        assert_eq!(queue.next(), None);
        assert_eq!((queue.enter(site(1), 8), queue.enter(site(1), 9)), (Some(8), None));
    }
}
