//! Servers that ask to be left alone for a while (`Retry-After`): what one connection is told holds for all of them, whichever
//! store of this process they are of, and for the next attempt of a job as well.
//!
//! Does not know: how long anybody has the patience to wait.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// The longest pause that is kept to: a node that serves for months must not leave a server alone for good because of one
/// answer that was wrong.
const LONGEST: Duration = Duration::from_secs(3600);

/// By the origin of a server, when it may be asked again.
static NOT_BEFORE: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<String, Instant>> {
    NOT_BEFORE.lock()
}

/// A server asks to be left alone for so long.
pub(crate) fn told(origin: &str, pause: Duration) {
    let now = Instant::now();
    let until = now + pause.min(LONGEST);
    let mut all = all();
    all.retain(|_, until| *until > now);
    all.entry(origin.to_owned()).and_modify(|known| *known = until.max(*known)).or_insert(until);
}

/// How long it is to be left alone yet; none where it may be asked.
pub(crate) fn left(origin: &str) -> Option<Duration> {
    let until = *all().get(origin)?;
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_holds_and_none_is_for_ever() {
        let left = |origin| left(origin).map(|left| left.as_secs_f64().round() as u64);
        assert_eq!(left("https://pauses.test:1"), None);
        told("https://pauses.test:1", Duration::from_secs(20));
        told("https://pauses.test:1", Duration::from_secs(5));
        assert!(left("https://pauses.test:1").is_some_and(|left| (15..=20).contains(&left)));
        assert_eq!(left("https://pauses.test:2"), None);
        told("https://pauses.test:2", Duration::from_secs(u64::from(u32::MAX)));
        assert!(left("https://pauses.test:2").is_some_and(|left| (3590..=3600).contains(&left)));
        told("https://pauses.test:3", Duration::ZERO);
        assert_eq!(left("https://pauses.test:3"), None);
    }
}
