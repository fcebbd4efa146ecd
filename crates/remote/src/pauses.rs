//! Pauses that servers ask for (`Retry-After`). A pause holds for all connections of this process to that server, of whatever
//! store, and for the next attempt of a transfer.
//!
//! Does not know: how long a caller is willing to wait.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// The longest pause that is kept: one wrong response must not keep a node, which runs for months, from a server for good.
const LONGEST: Duration = Duration::from_secs(3600);

/// When a server may be asked again, by its origin.
static NOT_BEFORE: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<String, Instant>> {
    NOT_BEFORE.lock()
}

/// Notes that a server asks for a pause.
pub(crate) fn record(origin: &str, pause: Duration) {
    let now = Instant::now();
    let until = now + pause.min(LONGEST);
    let mut all = all();
    all.retain(|_, until| *until > now);
    all.entry(origin.to_owned()).and_modify(|known| *known = until.max(*known)).or_insert(until);
}

/// The rest of a server's pause; `None` where the server may be asked.
pub(crate) fn remaining(origin: &str) -> Option<Duration> {
    let until = *all().get(origin)?;
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_holds_and_every_pause_has_a_bound() {
        let left = |origin| remaining(origin).map(|left| left.as_secs_f64().round() as u64);
        assert_eq!(left("https://pauses.test:1"), None);
        record("https://pauses.test:1", Duration::from_secs(20));
        record("https://pauses.test:1", Duration::from_secs(5));
        assert!(left("https://pauses.test:1").is_some_and(|left| (15..=20).contains(&left)));
        assert_eq!(left("https://pauses.test:2"), None);
        record("https://pauses.test:2", Duration::from_secs(u64::from(u32::MAX)));
        assert!(left("https://pauses.test:2").is_some_and(|left| (3590..=3600).contains(&left)));
        record("https://pauses.test:3", Duration::ZERO);
        assert_eq!(left("https://pauses.test:3"), None);
    }
}
