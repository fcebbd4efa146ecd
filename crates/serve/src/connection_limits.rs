//! Limits on the descriptors of connections, in all and for each client. A connection counts as one descriptor until it is known to
//! need more. Addresses with one prefix are one client: [`model::client_prefix`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use model::client_prefix;
use parking_lot::{Mutex, MutexGuard};

/// Descriptors of connections at once, even if the system allows more.
const CONNECTIONS_MAX: usize = 32 << 10;
/// A quarter of all descriptors is reserved for files and for connections that this process opens.
const RESERVED_ONE_IN: usize = 4;

/// The open connections, and how many may be open.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    descriptors_max: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: usize,
    /// Descriptors that they count as: in all, and of each client.
    descriptors: usize,
    descriptors_by_client: HashMap<IpAddr, usize>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The limit on all connections is reached.
    All,
    /// The limit of the connection's client prefix is reached: half of all.
    OfNetwork,
}

impl LimitReached {
    /// The reason, for a log.
    pub fn reason(self) -> &'static str {
        match self {
            LimitReached::All => "the limit on connections is reached",
            LimitReached::OfNetwork => "the limit on connections of its network is reached",
        }
    }
}

/// A connection's part of the limit, released when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    from: IpAddr,
    /// Descriptors that it counts as.
    descriptors: usize,
}

impl ConnectionLimits {
    /// Limits that the descriptors of the system allow.
    pub fn new() -> Arc<ConnectionLimits> {
        let descriptors = sys::limits::raise_descriptor_limit() as usize;
        ConnectionLimits::of((descriptors - descriptors / RESERVED_ONE_IN).min(CONNECTIONS_MAX))
    }

    fn of(descriptors_max: usize) -> Arc<ConnectionLimits> {
        Arc::new(ConnectionLimits { descriptors_max, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }

    /// Counts one more connection from this address.
    ///
    /// # Errors
    /// [`LimitReached`]: the limit on all connections, or that of the client.
    pub fn admit(self: &Arc<ConnectionLimits>, address: IpAddr) -> Result<ConnectionPermit, LimitReached> {
        let mut permit = ConnectionPermit { limits: Arc::clone(self), from: client_prefix(address), descriptors: 0 };
        permit.take(1)?;
        self.counts().connections += 1;
        Ok(permit)
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.counts().connections
    }
}

impl ConnectionPermit {
    /// Counts the connection as this number of descriptors from now on.
    ///
    /// # Errors
    /// The limit does not allow it; the connection counts as before.
    pub fn take(&mut self, descriptors: usize) -> Result<(), LimitReached> {
        let more = descriptors.saturating_sub(self.descriptors);
        let descriptors_max = self.limits.descriptors_max;
        let mut counts = self.limits.counts();
        if counts.descriptors + more > descriptors_max {
            return Err(LimitReached::All);
        }
        let of_client = counts.descriptors_by_client.get(&self.from).copied().unwrap_or(0);
        if of_client + more > descriptors_max.div_ceil(2) {
            return Err(LimitReached::OfNetwork);
        }
        counts.descriptors_by_client.insert(self.from, of_client + more);
        counts.descriptors += more;
        drop(counts);
        self.descriptors += more;
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.limits.counts();
        counts.descriptors -= self.descriptors;
        // A connection that was not admitted was not counted.
        counts.connections -= self.descriptors.min(1);
        if let Some(of_client) = counts.descriptors_by_client.get_mut(&self.from) {
            *of_client -= self.descriptors;
            if *of_client == 0 {
                counts.descriptors_by_client.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_cannot_take_all_permits() {
        let limits = ConnectionLimits::of(4);
        let (a, b) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let first = limits.admit(a).unwrap();
        let _second = limits.admit("::ffff:192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(limits.admit(a).unwrap_err(), LimitReached::OfNetwork);
        let _third = limits.admit(b).unwrap();
        let _fourth = limits.admit("2001:db8::ffff".parse().unwrap()).unwrap();
        assert_eq!(limits.admit(a).unwrap_err(), LimitReached::All);
        drop(first);
        assert!(limits.admit(a).is_ok());
        assert_eq!(limits.len(), 3);
    }

    #[test]
    fn a_connection_counts_by_the_descriptors_that_it_takes() {
        let limits = ConnectionLimits::of(20);
        let (a, b) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut sessions: Vec<ConnectionPermit> = (0..2).map(|_| limits.admit(a).unwrap()).collect();
        sessions.iter_mut().for_each(|permit| permit.take(4).unwrap());
        let mut third = limits.admit(a).unwrap();
        assert_eq!(third.take(4), Err(LimitReached::OfNetwork), "one client takes ten of twenty");
        assert_eq!(third.take(1), Ok(()), "it has what it had");
        limits.admit(b).unwrap().take(10).unwrap();
        drop(sessions);
        assert_eq!(third.take(4), Ok(()));
        drop(third);
        let counts = limits.counts();
        assert_eq!((counts.connections, counts.descriptors, counts.descriptors_by_client.len()), (0, 0, 0));
    }
}
