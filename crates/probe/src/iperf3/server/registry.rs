//! The tests in progress, and the streams that each of them still waits for.
//!
//! A TCP stream names its test by the cookie. A UDP hello has only its source address: it is assigned to the test of that
//! address that has waited longest. Tests of one address gather their UDP streams one after another where possible, so that
//! each gets its own.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::{Mutex, MutexGuard};

use super::super::control::Cookie;
use super::Bounds;
use crate::error::{Error, Result};

/// Repeated hellos that a test's queue holds in addition to one for each stream; more are dropped.
const REPEATED_HELLOS: usize = 16;

/// The queue for the streams that a test waits for.
enum StreamSink {
    /// Connections with the number of their acceptance, in the order in which their first bytes were read.
    Streams(SyncSender<(u64, TcpStream)>),
    Datagrams(SyncSender<SocketAddr>),
}

/// The streams that a test still waits for.
struct AwaitedStreams {
    /// Position among the tests that wait; the lowest has waited longest.
    turn: u64,
    /// Streams that are still missing.
    left: usize,
    sink: StreamSink,
}

/// A test in progress.
struct TestEntry {
    address: IpAddr,
    /// None before the test's parameters are known, and once it has all its streams.
    awaited: Option<AwaitedStreams>,
    /// Source addresses of its UDP streams.
    taken: Vec<SocketAddr>,
    /// Streams that it may have.
    streams: usize,
}

#[derive(Default)]
struct TestTable {
    entries: HashMap<Cookie, TestEntry>,
    turns: u64,
}

/// The tests in progress. Clones share one table.
#[derive(Clone, Default)]
pub(super) struct TestRegistry(Arc<Mutex<TestTable>>);

/// The outcome for a connection that begins with a cookie.
pub(super) enum StreamHandover {
    /// A stream, handed over to its test.
    Stream,
    /// A stream that its test does not wait for: it is closed.
    TooMany,
    /// The cookie names no test: the control connection of a new one.
    New(TcpStream),
}

impl TestRegistry {
    fn table(&self) -> MutexGuard<'_, TestTable> {
        self.0.lock()
    }

    pub(super) fn len(&self) -> usize {
        self.table().entries.len()
    }

    /// Assigns a connection from `address` that begins with this cookie.
    pub(super) fn assign_stream(
        &self,
        cookie: &Cookie,
        address: IpAddr,
        accepted: u64,
        socket: TcpStream,
    ) -> StreamHandover {
        let mut table = self.table();
        let Some(entry) = table.entries.get_mut(cookie) else { return StreamHandover::New(socket) };
        match &mut entry.awaited {
            Some(AwaitedStreams { left, sink: StreamSink::Streams(streams), .. })
                if entry.address == address && *left > 0 && streams.try_send((accepted, socket)).is_ok() =>
            {
                *left -= 1;
                StreamHandover::Stream
            }
            _ => StreamHandover::TooMany,
        }
    }

    /// Assigns a hello; returns whether a test takes it. Only an address that holds a test's control connection, and so has
    /// completed a handshake, is considered.
    pub(super) fn assign_hello(&self, from: SocketAddr) -> bool {
        let mut table = self.table();
        // A repeat: the test that took this address answers again.
        if let Some(entry) = table.entries.values().find(|entry| entry.taken.contains(&from)) {
            if let Some(AwaitedStreams { sink: StreamSink::Datagrams(hellos), .. }) = &entry.awaited {
                let _ = hellos.try_send(from);
            }
            return true;
        }
        let address = from.ip().to_canonical();
        let waits = |entry: &&mut TestEntry| entry.address == address && entry.waits_for_datagrams();
        let first = table.entries.values_mut().filter(waits).min_by_key(|entry| entry.turn());
        first.is_some_and(|entry| entry.take(from))
    }

    /// Admits a new test, within the bounds.
    pub(super) fn admit(&self, cookie: Cookie, address: IpAddr, bounds: &Bounds) -> Result<TestSlot> {
        let mut table = self.table();
        let of_address = table.entries.values().filter(|entry| entry.address == address).count();
        if table.entries.len() >= bounds.tests_max || of_address >= bounds.tests_per_address_max {
            let why = format!(
                "{} tests at once, {} of them from one address",
                bounds.tests_max, bounds.tests_per_address_max
            );
            return Err(Error::Refused { peer: "this node".into(), why });
        }
        // Of two connections with one cookie at the same moment, the first one has the test.
        if table.entries.contains_key(&cookie) {
            return Err(Error::Refused {
                peer: "this node".into(),
                why: "a test with this cookie is in progress".into(),
            });
        }
        table.entries.insert(cookie, TestEntry { address, awaited: None, taken: Vec::new(), streams: 0 });
        Ok(TestSlot { registry: self.clone(), cookie, address })
    }
}

impl TestEntry {
    fn waits_for_datagrams(&self) -> bool {
        matches!(&self.awaited, Some(AwaitedStreams { left: 1.., sink: StreamSink::Datagrams(_), .. }))
    }

    fn turn(&self) -> u64 {
        self.awaited.as_ref().map_or(u64::MAX, |awaited| awaited.turn)
    }

    fn take(&mut self, from: SocketAddr) -> bool {
        let Some(AwaitedStreams { left, sink: StreamSink::Datagrams(hellos), .. }) = &mut self.awaited else {
            return false;
        };
        if hellos.try_send(from).is_err() {
            return false;
        }
        *left = left.saturating_sub(1);
        self.taken.push(from);
        true
    }
}

/// A test's entry in the registry, removed when this is dropped.
pub(super) struct TestSlot {
    registry: TestRegistry,
    cookie: Cookie,
    address: IpAddr,
}

impl Drop for TestSlot {
    fn drop(&mut self) {
        self.registry.table().entries.remove(&self.cookie);
    }
}

impl TestSlot {
    pub(super) fn registry(&self) -> &TestRegistry {
        &self.registry
    }

    /// Reserves streams until the test is over; returns `false` if all tests together would have more than `most`.
    pub(super) fn reserve_streams(&self, streams: usize, most: usize) -> bool {
        let mut table = self.registry.table();
        let all: usize = table.entries.values().map(|entry| entry.streams).sum();
        let has_room = all + streams <= most;
        if let Some(entry) = table.entries.get_mut(&self.cookie).filter(|_| has_room) {
            entry.streams = streams;
        }
        has_room
    }

    fn gather(&self, table: &mut TestTable, left: usize, sink: StreamSink) {
        table.turns += 1;
        let turn = table.turns;
        if let Some(entry) = table.entries.get_mut(&self.cookie) {
            entry.awaited = Some(AwaitedStreams { turn, left, sink });
        }
    }

    /// Makes later connections with the test's cookie its streams.
    pub(super) fn await_streams(&self, count: usize) -> Receiver<(u64, TcpStream)> {
        let (sender, streams) = sync_channel(count);
        self.gather(&mut self.registry.table(), count, StreamSink::Streams(sender));
        streams
    }

    /// Makes later hellos from the test's address its streams. None while another test of that address waits for its
    /// own, unless this test `has_waited` long enough.
    pub(super) fn await_datagrams(&self, count: usize, has_waited: bool) -> Option<Receiver<SocketAddr>> {
        let mut table = self.registry.table();
        let waits = |entry: &TestEntry| entry.address == self.address && entry.waits_for_datagrams();
        if !has_waited && table.entries.values().any(waits) {
            return None;
        }
        let (sender, hellos) = sync_channel(count + REPEATED_HELLOS);
        self.gather(&mut table, count, StreamSink::Datagrams(sender));
        Some(hellos)
    }

    /// Notes that the test has all its streams, and waits for no more.
    pub(super) fn stop_waiting(&self) {
        if let Some(entry) = self.registry.table().entries.get_mut(&self.cookie) {
            entry.awaited = None;
        }
    }

    /// Releases the addresses of the streams, which have ended: a hello from one of them belongs to a new test.
    pub(super) fn release_addresses(&self) {
        if let Some(entry) = self.registry.table().entries.get_mut(&self.cookie) {
            entry.taken.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn admit(registry: &TestRegistry) -> TestSlot {
        registry.admit(Cookie::random(), from(0).ip(), &Bounds::default()).unwrap()
    }

    #[test]
    fn hellos_go_to_the_test_that_waits_for_them() {
        let registry = TestRegistry::default();
        let (idle, over_tcp, first, second) = (admit(&registry), admit(&registry), admit(&registry), admit(&registry));
        let streams = over_tcp.await_streams(1);
        assert!(!registry.assign_hello(from(1)), "nobody waits for datagrams");
        let one = first.await_datagrams(2, false).unwrap();
        assert!(second.await_datagrams(1, false).is_none(), "it is another test's turn");
        let other = second.await_datagrams(1, true).unwrap();
        assert!([1, 2, 3].into_iter().all(|port| registry.assign_hello(from(port))) && !registry.assign_hello(from(4)));
        assert_eq!(other.try_iter().collect::<Vec<_>>(), [from(3)]);
        assert!(registry.assign_hello(from(1)), "a repeated hello");
        first.stop_waiting();
        assert!(registry.assign_hello(from(1)), "a repeated hello does not go to another test");
        assert_eq!(one.try_iter().collect::<Vec<_>>(), [1, 2, 1].map(from));
        assert!(streams.try_recv().is_err());
        first.release_addresses();
        assert!(!registry.assign_hello(from(1)), "its ports are free");
        let third = idle.await_datagrams(1, false).unwrap();
        let mapped = "[::ffff:192.0.2.1]:1".parse().unwrap();
        assert!(!registry.assign_hello("198.51.100.1:1".parse().unwrap()) && registry.assign_hello(mapped));
        assert_eq!(third.try_recv(), Ok(mapped));
        drop((idle, over_tcp, first, second));
        assert_eq!(registry.len(), 0);
    }

    #[test]
    fn streams_of_all_tests_have_a_bound() {
        let registry = TestRegistry::default();
        let (first, second) = (admit(&registry), admit(&registry));
        assert!(first.reserve_streams(6, 10) && !second.reserve_streams(5, 10) && second.reserve_streams(4, 10));
        drop(first);
        assert!(admit(&registry).reserve_streams(6, 10));
    }

    #[test]
    fn repeated_hellos_beyond_the_bound_are_dropped() {
        let registry = TestRegistry::default();
        let slot = admit(&registry);
        let hellos = slot.await_datagrams(1, false).unwrap();
        for _ in 0..1_000 {
            assert!(registry.assign_hello(from(7)));
        }
        assert_eq!(hellos.try_iter().count(), 1 + REPEATED_HELLOS);
        let bounds = Bounds::default();
        assert!(registry.admit(slot.cookie, from(0).ip(), &bounds).is_err(), "a cookie names one test");
    }
}
