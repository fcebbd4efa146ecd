//! How many connections there are, in all and from each neighbourhood, within bounds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections at once, however many descriptors the system would give.
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
}

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
        let from = neighbourhood(address);
        let mut counts = self.counts();
        if counts.all >= self.most {
            return Err(Full::All);
        }
        let there = counts.each.entry(from).or_default();
        if *there >= self.most.div_ceil(2) {
            return Err(Full::There);
        }
        *there += 1;
        counts.all += 1;
        Ok(Seat { crowd: Arc::clone(self), from })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.counts().all
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts();
        counts.all -= 1;
        if let Some(there) = counts.each.get_mut(&self.from) {
            *there -= 1;
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
}
