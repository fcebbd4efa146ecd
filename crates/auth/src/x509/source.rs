//! Authorities that change while a service runs: revocation lists are replaced every few hours. The time is an argument.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Authorities;

/// How long authorities are used before they are read again, seconds. `fetch-crl` replaces lists every six hours; a revoked certificate
/// should not be accepted much longer.
const READ_EVERY_S: i64 = 10 * 60;

/// Reads the authorities; none where that failed, which the reader reports.
type Read = Box<dyn Fn() -> Option<Authorities> + Send + Sync>;

/// The authorities of a service, which are read again when they are old.
pub struct AuthoritySource {
    read: Read,
    /// When they were read, seconds since 1970.
    current: Mutex<(i64, Arc<Authorities>)>,
}

impl fmt::Debug for AuthoritySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthoritySource").finish_non_exhaustive()
    }
}

impl AuthoritySource {
    /// Authorities that were read at `now`, seconds since 1970, and how to read them again. Where that fails, the former ones stay in force.
    pub fn new(
        first: Authorities,
        now: i64,
        read: impl Fn() -> Option<Authorities> + Send + Sync + 'static,
    ) -> AuthoritySource {
        AuthoritySource { read: Box::new(read), current: Mutex::new((now, Arc::new(first))) }
    }

    /// The authorities in force at `now`, seconds since 1970. Reads them again if they are old, which blocks the thread.
    pub fn current(&self, now: i64) -> Arc<Authorities> {
        let mut current = self.current.lock();
        // A clock that was set back says nothing about their age.
        if !(current.0..current.0 + READ_EVERY_S).contains(&now) {
            let next = (self.read)().map_or_else(|| Arc::clone(&current.1), Arc::new);
            *current = (now, next);
        }
        Arc::clone(&current.1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustls::RootCertStore;

    use super::*;

    fn authorities() -> Authorities {
        Authorities::new(Arc::new(RootCertStore::empty()))
    }

    #[test]
    fn old_authorities_are_read_again_and_stay_where_that_fails() {
        let reads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reads);
        let source = AuthoritySource::new(authorities(), 1000, move || {
            (count.fetch_add(1, Ordering::Relaxed) == 0).then(authorities)
        });
        let [young, old, failed] = [1000 + READ_EVERY_S - 1, 1000 + READ_EVERY_S, 1000 + 2 * READ_EVERY_S].map(|at| {
            let found = source.current(at);
            (found, reads.load(Ordering::Relaxed))
        });
        assert_eq!([young.1, old.1, failed.1], [0, 1, 2]);
        assert!(!Arc::ptr_eq(&young.0, &old.0) && Arc::ptr_eq(&old.0, &failed.0), "the second reading failed");
        source.current(500);
        assert_eq!(reads.load(Ordering::Relaxed), 3, "the clock was set back");
    }
}
