//! Authorities that change while a service runs: revocation lists are replaced every few hours.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Authorities;

/// How long authorities are used before they are read again. `fetch-crl` replaces lists every six hours; a revoked certificate should
/// not be accepted much longer.
const READ_EVERY: Duration = Duration::from_secs(10 * 60);

/// Reads the authorities; none where that failed, which the reader reports.
type Read = Box<dyn Fn() -> Option<Authorities> + Send + Sync>;

/// The authorities of a service, which are read again when they are old.
pub struct AuthoritySource {
    read: Read,
    every: Duration,
    current: Mutex<(Instant, Arc<Authorities>)>,
}

impl fmt::Debug for AuthoritySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthoritySource").field("every", &self.every).finish_non_exhaustive()
    }
}

impl AuthoritySource {
    /// Authorities that were read just now, and how to read them again. Where that fails, the former ones stay in force.
    pub fn new(
        first: Authorities,
        read: impl Fn() -> Option<Authorities> + Send + Sync + 'static,
    ) -> AuthoritySource {
        AuthoritySource::read_every(READ_EVERY, first, read)
    }

    fn read_every(
        every: Duration,
        first: Authorities,
        read: impl Fn() -> Option<Authorities> + Send + Sync + 'static,
    ) -> AuthoritySource {
        AuthoritySource { read: Box::new(read), every, current: Mutex::new((Instant::now(), Arc::new(first))) }
    }

    /// Authorities that do not change.
    pub fn fixed(authorities: Authorities) -> AuthoritySource {
        AuthoritySource::new(authorities, || None)
    }

    /// The authorities in force. Reads them again if they are old, which blocks the thread.
    pub fn current(&self) -> Arc<Authorities> {
        let mut current = self.current.lock();
        if current.0.elapsed() >= self.every {
            let next = (self.read)().map_or_else(|| Arc::clone(&current.1), Arc::new);
            *current = (Instant::now(), next);
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
        let read = move || (count.fetch_add(1, Ordering::Relaxed) == 0).then(authorities);
        let source = AuthoritySource::read_every(Duration::ZERO, authorities(), read);
        let first = source.current();
        let second = source.current();
        assert!(Arc::ptr_eq(&first, &second), "the second reading failed");
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn young_authorities_are_not_read() {
        let source = AuthoritySource::new(authorities(), || panic!("read"));
        assert!(Arc::ptr_eq(&source.current(), &source.current()));
    }
}
