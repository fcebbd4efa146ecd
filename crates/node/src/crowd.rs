//! How many descriptors the connections of a node take, in all and from each neighbourhood, within bounds. A connection takes
//! one until it is known to take more: a session of the native protocol, a stream of one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Descriptors of connections at once, however many the system would give.
const CONNECTIONS_MAX: usize = 32 << 10;
/// Descriptors that are left for files and for what the node dials itself, as a part of all.
const KEPT_BACK: usize = 4;

/// Connections that are open.
#[derive(Debug)]
pub(crate) struct Crowd {
    most: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: usize,
    /// Descriptors that they stand for.
    all: usize,
    each: HashMap<IpAddr, usize>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Too many in all.
    All,
    /// Too many from there: one neighbourhood takes at most half.
    There,
}

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    crowd: Arc<Crowd>,
    from: IpAddr,
    /// Descriptors that it stands for.
    takes: usize,
}

/// Descriptors of a session: its socket, two more handles of it, and what wakes it.
pub(crate) const SESSION_TAKES: usize = 4;
/// Descriptors of a stream: its socket, a second handle of it, and the file that it reads or writes.
pub(crate) const STREAM_TAKES: usize = 3;

/// The network that is taken for one neighbour: an IPv6 site has 64 bits of addresses to choose from.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => {
            let mut segments = ip.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
        v4 => v4,
    }
}

impl Crowd {
    /// As many as the system's descriptors allow.
    pub fn new() -> Arc<Crowd> {
        let descriptors = sys::limits::raise_descriptor_limit() as usize;
        Crowd::of((descriptors - descriptors / KEPT_BACK).min(CONNECTIONS_MAX))
    }

    fn of(most: usize) -> Arc<Crowd> {
        Arc::new(Crowd { most, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub fn admit(self: &Arc<Crowd>, address: IpAddr) -> Result<Seat, Full> {
        let mut seat = Seat { crowd: Arc::clone(self), from: neighbourhood(address), takes: 0 };
        seat.take(1)?;
        self.counts().connections += 1;
        Ok(seat)
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.counts().connections
    }
}

impl Seat {
    /// It stands for so many descriptors from now on; for as many as before where there is no room for more.
    pub fn take(&mut self, descriptors: usize) -> Result<(), Full> {
        let more = descriptors.saturating_sub(self.takes);
        let most = self.crowd.most;
        let mut counts = self.crowd.counts();
        if counts.all + more > most {
            return Err(Full::All);
        }
        let there = counts.each.get(&self.from).copied().unwrap_or(0);
        if there + more > most.div_ceil(2) {
            return Err(Full::There);
        }
        counts.each.insert(self.from, there + more);
        counts.all += more;
        drop(counts);
        self.takes += more;
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts();
        counts.all -= self.takes;
        // One that was not admitted stands for nothing.
        counts.connections -= self.takes.min(1);
        if let Some(there) = counts.each.get_mut(&self.from) {
            *there -= self.takes;
            if *there == 0 {
                counts.each.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_neighbour_cannot_take_all_seats() {
        let crowd = Crowd::of(4);
        let (a, b) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let first = crowd.admit(a).unwrap();
        let _second = crowd.admit("::ffff:192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(crowd.admit(a).unwrap_err(), Full::There);
        let _third = crowd.admit(b).unwrap();
        let _fourth = crowd.admit("2001:db8::ffff".parse().unwrap()).unwrap();
        assert_eq!(crowd.admit(a).unwrap_err(), Full::All);
        drop(first);
        assert!(crowd.admit(a).is_ok());
        assert_eq!(crowd.len(), 3);
    }

    #[test]
    fn a_connection_counts_by_the_descriptors_that_it_takes() {
        let crowd = Crowd::of(20);
        let (a, b) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut sessions: Vec<Seat> = (0..2).map(|_| crowd.admit(a).unwrap()).collect();
        sessions.iter_mut().for_each(|seat| seat.take(SESSION_TAKES).unwrap());
        let mut third = crowd.admit(a).unwrap();
        assert_eq!(third.take(SESSION_TAKES), Err(Full::There), "one neighbour takes ten of twenty");
        assert_eq!(third.take(1), Ok(()), "it has what it had");
        crowd.admit(b).unwrap().take(10).unwrap();
        drop(sessions);
        assert_eq!(third.take(SESSION_TAKES), Ok(()));
        drop(third);
        let counts = crowd.counts();
        assert_eq!((counts.connections, counts.all, counts.each.len()), (0, 0, 0));
    }
}
