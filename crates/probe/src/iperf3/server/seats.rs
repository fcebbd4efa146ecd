//! Who is at table: the tests in progress, and which of them still wait for streams.
//!
//! A stream over TCP says whose it is by the test's cookie. A hello over UDP says nothing but where it comes from: it goes
//! to the test of that address that has waited longest, and tests of one address gather their datagrams one after another
//! wherever that is possible, so that each gets its own.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::{Mutex, MutexGuard};

use super::super::control::Cookie;
use super::Bounds;
use crate::error::{Error, Result};

/// Hellos that are said again, beyond one for each stream: more than these wait nowhere.
const AGAIN: usize = 16;

/// Where streams go that a test waits for.
enum To {
    /// Connections with the number that they were accepted under, in whatever order their first bytes were read.
    Streams(SyncSender<(u64, TcpStream)>),
    Datagrams(SyncSender<SocketAddr>),
}

/// What a test still waits for.
struct Gathers {
    /// Which of them came first.
    turn: u64,
    /// How many streams.
    left: usize,
    to: To,
}

/// A test in progress.
struct Seat {
    address: IpAddr,
    /// None before it is known what it wants, and once it has it.
    gathers: Option<Gathers>,
    /// Where its datagrams come from.
    taken: Vec<SocketAddr>,
    /// How many streams it may have.
    streams: usize,
}

#[derive(Default)]
struct Table {
    seats: HashMap<Cookie, Seat>,
    turns: u64,
}

/// Tests in progress.
#[derive(Clone, Default)]
pub(super) struct Seats(Arc<Mutex<Table>>);

/// What became of a connection.
pub(super) enum Came {
    /// A test's stream, which the test has now.
    Stream,
    /// Of a test that waits for no such stream: it is closed.
    TooMany,
    /// Its cookie names no test.
    New(TcpStream),
}

impl Seats {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }

    pub(super) fn len(&self) -> usize {
        self.table().seats.len()
    }

    /// A connection from `address` that begins with this cookie.
    pub(super) fn stream(&self, cookie: &Cookie, address: IpAddr, accepted: u64, socket: TcpStream) -> Came {
        let mut table = self.table();
        let Some(seat) = table.seats.get_mut(cookie) else { return Came::New(socket) };
        match &mut seat.gathers {
            Some(Gathers { left, to: To::Streams(streams), .. })
                if seat.address == address && *left > 0 && streams.try_send((accepted, socket)).is_ok() =>
            {
                *left -= 1;
                Came::Stream
            }
            _ => Came::TooMany,
        }
    }

    /// A hello from there; whether a test waits for it. Only of an address that has completed a handshake: it holds a
    /// test's control connection.
    pub(super) fn hello(&self, from: SocketAddr) -> bool {
        let mut table = self.table();
        // Asked again: whoever has taken it answers again, and it is nobody else's.
        if let Some(seat) = table.seats.values().find(|seat| seat.taken.contains(&from)) {
            if let Some(Gathers { to: To::Datagrams(hellos), .. }) = &seat.gathers {
                let _ = hellos.try_send(from);
            }
            return true;
        }
        let address = from.ip().to_canonical();
        let waits = |seat: &&mut Seat| seat.address == address && seat.waits_for_datagrams();
        let first = table.seats.values_mut().filter(waits).min_by_key(|seat| seat.turn());
        first.is_some_and(|seat| seat.take(from))
    }

    /// A seat for a new test, within the bounds.
    pub(super) fn sit(&self, cookie: Cookie, address: IpAddr, bounds: &Bounds) -> Result<Seated> {
        let mut table = self.table();
        let of_address = table.seats.values().filter(|seat| seat.address == address).count();
        if table.seats.len() >= bounds.tests_max || of_address >= bounds.tests_per_address_max {
            let why = format!(
                "{} tests at once, {} of them from one address",
                bounds.tests_max, bounds.tests_per_address_max
            );
            return Err(Error::Refused { peer: "this node".into(), why });
        }
        // Two that came at the same moment: the name is the first one's.
        if table.seats.contains_key(&cookie) {
            return Err(Error::Refused { peer: "this node".into(), why: "a test of this name is in progress".into() });
        }
        table.seats.insert(cookie, Seat { address, gathers: None, taken: Vec::new(), streams: 0 });
        Ok(Seated { seats: self.clone(), cookie, address })
    }
}

impl Seat {
    fn waits_for_datagrams(&self) -> bool {
        matches!(&self.gathers, Some(Gathers { left: 1.., to: To::Datagrams(_), .. }))
    }

    fn turn(&self) -> u64 {
        self.gathers.as_ref().map_or(u64::MAX, |gathers| gathers.turn)
    }

    fn take(&mut self, from: SocketAddr) -> bool {
        let Some(Gathers { left, to: To::Datagrams(hellos), .. }) = &mut self.gathers else { return false };
        if hellos.try_send(from).is_err() {
            return false;
        }
        *left = left.saturating_sub(1);
        self.taken.push(from);
        true
    }
}

/// A test's seat, which is free again when this is dropped.
pub(super) struct Seated {
    seats: Seats,
    cookie: Cookie,
    address: IpAddr,
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.seats.table().seats.remove(&self.cookie);
    }
}

impl Seated {
    pub(super) fn seats(&self) -> &Seats {
        &self.seats
    }

    /// So many streams are its own until it is over, if all tests together have no more than `most` then.
    pub(super) fn take_streams(&self, streams: usize, most: usize) -> bool {
        let mut table = self.seats.table();
        let all: usize = table.seats.values().map(|seat| seat.streams).sum();
        let has_room = all + streams <= most;
        if let Some(seat) = table.seats.get_mut(&self.cookie).filter(|_| has_room) {
            seat.streams = streams;
        }
        has_room
    }

    fn gather(&self, table: &mut Table, left: usize, to: To) {
        table.turns += 1;
        let turn = table.turns;
        if let Some(seat) = table.seats.get_mut(&self.cookie) {
            seat.gathers = Some(Gathers { turn, left, to });
        }
    }

    /// From now on connections with its cookie are its streams.
    pub(super) fn await_streams(&self, count: usize) -> Receiver<(u64, TcpStream)> {
        let (sender, streams) = sync_channel(count);
        self.gather(&mut self.seats.table(), count, To::Streams(sender));
        streams
    }

    /// From now on hellos from its address are its streams; none while another test of that address waits for its own,
    /// unless that has taken too `long`.
    pub(super) fn await_datagrams(&self, count: usize, long: bool) -> Option<Receiver<SocketAddr>> {
        let mut table = self.seats.table();
        let waits = |seat: &Seat| seat.address == self.address && seat.waits_for_datagrams();
        if !long && table.seats.values().any(waits) {
            return None;
        }
        let (sender, hellos) = sync_channel(count + AGAIN);
        self.gather(&mut table, count, To::Datagrams(sender));
        Some(hellos)
    }

    /// It has what it waited for: nothing is kept for it any more.
    pub(super) fn has_gathered(&self) {
        if let Some(seat) = self.seats.table().seats.get_mut(&self.cookie) {
            seat.gathers = None;
        }
    }

    /// Its streams are over: whatever comes from where they came from is something new.
    pub(super) fn has_ended(&self) {
        if let Some(seat) = self.seats.table().seats.get_mut(&self.cookie) {
            seat.taken.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn sit(seats: &Seats) -> Seated {
        seats.sit(Cookie::random(), from(0).ip(), &Bounds::default()).unwrap()
    }

    #[test]
    fn hellos_go_to_who_waits_for_them() {
        let seats = Seats::default();
        let (idle, over_tcp, first, second) = (sit(&seats), sit(&seats), sit(&seats), sit(&seats));
        let streams = over_tcp.await_streams(1);
        assert!(!seats.hello(from(1)), "nobody waits for datagrams");
        let one = first.await_datagrams(2, false).unwrap();
        assert!(second.await_datagrams(1, false).is_none(), "another one's turn");
        let other = second.await_datagrams(1, true).unwrap();
        assert!([1, 2, 3].into_iter().all(|port| seats.hello(from(port))) && !seats.hello(from(4)));
        assert_eq!(other.try_iter().collect::<Vec<_>>(), [from(3)]);
        assert!(seats.hello(from(1)), "asked again");
        first.has_gathered();
        assert!(seats.hello(from(1)), "is not taken for another one's");
        assert_eq!(one.try_iter().collect::<Vec<_>>(), [1, 2, 1].map(from));
        assert!(streams.try_recv().is_err());
        first.has_ended();
        assert!(!seats.hello(from(1)), "its ports are free");
        let third = idle.await_datagrams(1, false).unwrap();
        let mapped = "[::ffff:192.0.2.1]:1".parse().unwrap();
        assert!(!seats.hello("198.51.100.1:1".parse().unwrap()) && seats.hello(mapped));
        assert_eq!(third.try_recv(), Ok(mapped));
        drop((idle, over_tcp, first, second));
        assert_eq!(seats.len(), 0);
    }

    #[test]
    fn streams_of_all_tests_have_a_bound() {
        let seats = Seats::default();
        let (first, second) = (sit(&seats), sit(&seats));
        assert!(first.take_streams(6, 10) && !second.take_streams(5, 10) && second.take_streams(4, 10));
        drop(first);
        assert!(sit(&seats).take_streams(6, 10));
    }

    #[test]
    fn nothing_waits_where_nobody_takes_it() {
        let seats = Seats::default();
        let seated = sit(&seats);
        let hellos = seated.await_datagrams(1, false).unwrap();
        for _ in 0..1_000 {
            assert!(seats.hello(from(7)));
        }
        assert_eq!(hellos.try_iter().count(), 1 + AGAIN);
        let bounds = Bounds::default();
        assert!(seats.sit(seated.cookie, from(0).ip(), &bounds).is_err(), "one test of a name");
    }
}
