//! Sessions with other nodes that have no job just now: kept for a while, so that the next errand to the same node pays
//! for no handshake and no slow start.
//!
//! They are of use to whoever comes next, because a session carries no rights of its own: each job shows its own key.

use std::mem;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use auth::AccessKey;
use engine::Session;
use model::HostPort;
use parking_lot::{Mutex, MutexGuard};

/// Sessions kept at once. Each holds its streams' sockets at both ends.
const SESSIONS_MAX: usize = 16;
/// How often they are looked after: their node asks whether we are still here.
const LOOK: Duration = Duration::from_millis(500);

/// What a session must have in common with an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The other node.
    pub to: HostPort,
    /// Its fingerprint.
    pub node: [u8; 32],
    /// Payload in clear was asked for.
    pub plain: bool,
    /// Congestion control that was asked for: the streams have it.
    pub congestion: Option<String>,
}

struct Kept<S> {
    destination: Destination,
    session: S,
    until: Instant,
}

/// What is kept: a session, or what stands for one in a test.
pub(crate) trait Keep: Send + 'static {
    /// Looks after it; `false` where it is of no use any more.
    fn tend(&mut self) -> bool;
    /// Begins anew; `false` where that cannot be.
    fn renew(&mut self, keys: &[AccessKey]) -> bool;
    /// How long it may wait.
    fn may_wait(&self) -> Option<Duration>;
    /// Ends it.
    fn close(self);
}

impl Keep for Session {
    fn tend(&mut self) -> bool {
        Session::tend(self).is_ok()
    }

    fn renew(&mut self, keys: &[AccessKey]) -> bool {
        Session::renew(self, keys).is_ok()
    }

    fn may_wait(&self) -> Option<Duration> {
        Session::may_wait(self)
    }

    fn close(self) {
        Session::close(self);
    }
}

struct State<S> {
    kept: Vec<Kept<S>>,
    /// Somebody looks after them.
    tended: bool,
    /// The node stops.
    over: bool,
}

/// The sessions that are kept.
pub(crate) struct Warm<S = Session> {
    state: Mutex<State<S>>,
    within: Duration,
}

impl<S: Keep> Warm<S> {
    /// Keeps sessions for so long.
    pub fn new(within: Duration) -> Arc<Warm<S>> {
        Arc::new(Warm { state: Mutex::new(State { kept: Vec::new(), tended: false, over: false }), within })
    }

    /// How long sessions are kept.
    pub fn within(&self) -> Duration {
        self.within
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock()
    }

    /// A session with this node, begun anew with one of the keys. One that turns out dead is dropped.
    pub fn take(&self, destination: &Destination, keys: &[AccessKey]) -> Option<S> {
        loop {
            let mut session = {
                let mut state = self.state();
                let now = Instant::now();
                let fits = |kept: &Kept<S>| kept.destination == *destination && kept.until > now;
                // The one used last is the least likely to have gone cold.
                let at = state.kept.iter().rposition(fits)?;
                state.kept.remove(at).session
            };
            if session.tend() && session.renew(keys) {
                return Some(session);
            }
        }
    }

    /// Keeps a session for the next errand to its node, if it may be kept.
    pub fn put(self: &Arc<Self>, destination: Destination, session: S) {
        let Some(wait) = session.may_wait().map(|wait| wait.min(self.within)).filter(|wait| !wait.is_zero()) else {
            return session.close();
        };
        let mut state = self.state();
        if state.over {
            drop(state);
            return session.close();
        }
        let oldest = (state.kept.len() >= SESSIONS_MAX).then(|| state.kept.remove(0));
        state.kept.push(Kept { destination, session, until: Instant::now() + wait });
        if !mem::replace(&mut state.tended, true) {
            let warm = Arc::downgrade(self);
            let look = LOOK.min(self.within / 4);
            let spawned = std::thread::Builder::new().name("warm".into()).spawn(move || Self::look_after(&warm, look));
            if spawned.is_err() {
                // Nobody to look after them: nothing is kept.
                state.tended = false;
                state.kept.clear();
            }
        }
        drop(state);
        if let Some(oldest) = oldest {
            oldest.session.close();
        }
    }

    /// Closes all of them, and whatever would be kept from now on.
    pub fn close(&self) {
        let kept = {
            let mut state = self.state();
            state.over = true;
            mem::take(&mut state.kept)
        };
        kept.into_iter().for_each(|kept| kept.session.close());
    }

    /// Looks after what is kept, until nothing is.
    fn look_after(warm: &Weak<Self>, look: Duration) {
        loop {
            std::thread::sleep(look);
            let Some(warm) = warm.upgrade() else { return };
            let mut state = warm.state();
            let now = Instant::now();
            let (mut stays, mut ends) = (Vec::new(), Vec::new());
            for mut kept in mem::take(&mut state.kept) {
                if kept.until <= now {
                    ends.push(kept);
                } else if kept.session.tend() {
                    stays.push(kept);
                }
            }
            state.kept = stays;
            state.tended = !state.kept.is_empty();
            let goes_on = state.tended;
            drop(state);
            ends.into_iter().for_each(|kept| kept.session.close());
            if !goes_on {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts what was closed; says how often it was looked after.
    struct Fake {
        id: u32,
        lives: bool,
        waits: Option<Duration>,
        closed: Arc<AtomicUsize>,
    }

    impl Keep for Fake {
        fn tend(&mut self) -> bool {
            self.lives
        }
        fn renew(&mut self, _: &[AccessKey]) -> bool {
            true
        }
        fn may_wait(&self) -> Option<Duration> {
            self.waits
        }
        fn close(self) {
            self.closed.fetch_add(1, Ordering::SeqCst);
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    fn to(port: u16) -> Destination {
        let to = HostPort { host: "node".into(), port };
        Destination { to, node: [1; 32], plain: false, congestion: None }
    }

    fn kept(warm: &Warm<Fake>) -> usize {
        warm.state().kept.len()
    }

    #[test]
    fn what_fits_is_taken_once_the_latest_first() {
        let (warm, closed) = (Warm::new(LONG), Arc::<AtomicUsize>::default());
        let fake = |id, lives| Fake { id, lives, waits: Some(LONG), closed: Arc::clone(&closed) };
        for (id, lives) in [(1, true), (2, true), (3, false)] {
            warm.put(to(1), fake(id, lives));
        }
        let others = [
            to(2),
            Destination { node: [2; 32], ..to(1) },
            Destination { plain: true, ..to(1) },
            Destination { congestion: Some("reno".into()), ..to(1) },
        ];
        assert!(others.iter().all(|other| warm.take(other, &[]).is_none()));
        // The third is dead: dropped without a word.
        assert_eq!(warm.take(&to(1), &[]).map(|fake| fake.id), Some(2));
        assert_eq!(warm.take(&to(1), &[]).map(|fake| fake.id), Some(1));
        assert!(warm.take(&to(1), &[]).is_none());
    }

    #[test]
    fn they_are_bounded_in_number_and_time_and_end_with_the_node() {
        let (warm, closed) = (Warm::new(Duration::from_millis(200)), Arc::<AtomicUsize>::default());
        let fake = |waits| Fake { id: 0, lives: true, waits, closed: Arc::clone(&closed) };
        warm.put(to(1), fake(None));
        assert_eq!((kept(&warm), closed.load(Ordering::SeqCst)), (0, 1), "its node does not keep it");
        (0..20).for_each(|_| warm.put(to(1), fake(Some(LONG))));
        assert!(kept(&warm) <= SESSIONS_MAX && closed.load(Ordering::SeqCst) >= 5);
        let deadline = Instant::now() + LONG;
        while closed.load(Ordering::SeqCst) < 21 {
            assert!(Instant::now() < deadline, "{} closed", closed.load(Ordering::SeqCst));
            std::thread::sleep(Duration::from_millis(10));
        }
        // After the thread has ended, another is started.
        let until_alone = || {
            (0..6000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                !warm.state().tended
            })
        };
        assert!(until_alone());
        warm.put(to(1), fake(Some(LONG)));
        warm.close();
        warm.put(to(1), fake(Some(LONG)));
        assert_eq!((kept(&warm), closed.load(Ordering::SeqCst)), (0, 23));
    }
}
