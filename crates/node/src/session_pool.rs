//! The session pool: idle sessions with other nodes, kept for a while, so that the next transfer to the same node needs no handshake
//! and no slow start.
//!
//! Any transfer can use them, because a session has no rights of its own: each transfer shows its own key.

use std::mem;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use auth::AccessKey;
use engine::Session;
use model::HostPort;
use parking_lot::{Mutex, MutexGuard};

/// Sessions that are kept at once. Each holds the sockets of its streams at both ends.
const SESSIONS_MAX: usize = 16;
/// How often idle sessions are tended: tending answers the keep-alive of their node.
const TEND_EVERY: Duration = Duration::from_millis(500);

/// The properties that a session must share with a transfer that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The other node.
    pub to: HostPort,
    /// Its fingerprint.
    pub node: [u8; 32],
    /// Payload is sent unencrypted.
    pub plain: bool,
    /// The congestion control of the streams, if the order names one.
    pub congestion: Option<String>,
}

/// A session in the pool, and when it is closed.
struct IdleSession<S> {
    destination: Destination,
    session: S,
    until: Instant,
}

/// A session that can be pooled. Tests implement it as well.
pub(crate) trait PooledSession: Send + 'static {
    /// Answers the keep-alive of the idle session; `false` if it is dead.
    fn tend(&mut self) -> bool;
    /// Renews the session for its next use; `false` if that fails.
    fn renew(&mut self, keys: &[AccessKey]) -> bool;
    /// How long the session may stay idle; none if it cannot be pooled.
    fn idle_limit(&self) -> Option<Duration>;
    /// Closes the session.
    fn close(self);
}

impl PooledSession for Session {
    fn tend(&mut self) -> bool {
        Session::tend(self).is_ok()
    }

    fn renew(&mut self, keys: &[AccessKey]) -> bool {
        Session::renew(self, keys).is_ok()
    }

    fn idle_limit(&self) -> Option<Duration> {
        Session::idle_limit(self)
    }

    fn close(self) {
        Session::close(self);
    }
}

struct PoolState<S> {
    idle: Vec<IdleSession<S>>,
    /// A thread tends the idle sessions.
    has_thread: bool,
    /// The node stops.
    is_closed: bool,
}

/// The session pool.
pub(crate) struct SessionPool<S = Session> {
    state: Mutex<PoolState<S>>,
    idle_max: Duration,
}

impl<S: PooledSession> SessionPool<S> {
    /// A pool that keeps idle sessions for `idle_max`.
    pub fn new(idle_max: Duration) -> Arc<SessionPool<S>> {
        Arc::new(SessionPool {
            state: Mutex::new(PoolState { idle: Vec::new(), has_thread: false, is_closed: false }),
            idle_max,
        })
    }

    /// How long idle sessions are kept.
    pub fn idle_max(&self) -> Duration {
        self.idle_max
    }

    fn state(&self) -> MutexGuard<'_, PoolState<S>> {
        self.state.lock()
    }

    /// Takes a session with this destination, renewed with one of the keys. Dead sessions are dropped.
    pub fn take(&self, destination: &Destination, keys: &[AccessKey]) -> Option<S> {
        loop {
            let mut session = {
                let mut state = self.state();
                let now = Instant::now();
                let fits = |idle: &IdleSession<S>| idle.destination == *destination && idle.until > now;
                // The session used last is the most likely to be usable.
                let at = state.idle.iter().rposition(fits)?;
                state.idle.remove(at).session
            };
            if session.tend() && session.renew(keys) {
                return Some(session);
            }
        }
    }

    /// Puts a session into the pool, if it may be pooled; else closes it.
    pub fn put(self: &Arc<Self>, destination: Destination, session: S) {
        let Some(wait) = session.idle_limit().map(|wait| wait.min(self.idle_max)).filter(|wait| !wait.is_zero()) else {
            return session.close();
        };
        let mut state = self.state();
        if state.is_closed {
            drop(state);
            return session.close();
        }
        let oldest = (state.idle.len() >= SESSIONS_MAX).then(|| state.idle.remove(0));
        state.idle.push(IdleSession { destination, session, until: Instant::now() + wait });
        if !mem::replace(&mut state.has_thread, true) {
            let pool = Arc::downgrade(self);
            let pause = TEND_EVERY.min(self.idle_max / 4);
            let tend_all = move || Self::tend_all(&pool, pause);
            let spawned = std::thread::Builder::new().name("session-pool".into()).spawn(tend_all);
            if spawned.is_err() {
                // Without a thread to tend them no sessions are kept.
                state.has_thread = false;
                state.idle.clear();
            }
        }
        drop(state);
        if let Some(oldest) = oldest {
            oldest.session.close();
        }
    }

    /// Closes all idle sessions, and every session that is put into the pool from now on.
    pub fn close(&self) {
        let idle = {
            let mut state = self.state();
            state.is_closed = true;
            mem::take(&mut state.idle)
        };
        idle.into_iter().for_each(|idle| idle.session.close());
    }

    /// Tends the idle sessions until there are none.
    fn tend_all(pool: &Weak<Self>, pause: Duration) {
        loop {
            std::thread::sleep(pause);
            let Some(pool) = pool.upgrade() else { return };
            let mut state = pool.state();
            let now = Instant::now();
            let mut alive = Vec::new();
            let mut expired = Vec::new();
            for mut idle in mem::take(&mut state.idle) {
                if idle.until <= now {
                    expired.push(idle);
                } else if idle.session.tend() {
                    alive.push(idle);
                }
            }
            state.idle = alive;
            state.has_thread = !state.idle.is_empty();
            let continues = state.has_thread;
            drop(state);
            expired.into_iter().for_each(|idle| idle.session.close());
            if !continues {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A session that counts how many of its kind were closed.
    struct Fake {
        id: u32,
        lives: bool,
        waits: Option<Duration>,
        closed: Arc<AtomicUsize>,
    }

    impl PooledSession for Fake {
        fn tend(&mut self) -> bool {
            self.lives
        }
        fn renew(&mut self, _: &[AccessKey]) -> bool {
            true
        }
        fn idle_limit(&self) -> Option<Duration> {
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

    fn idle(pool: &SessionPool<Fake>) -> usize {
        pool.state().idle.len()
    }

    #[test]
    fn a_fitting_session_is_taken_once_the_latest_first() {
        let (pool, closed) = (SessionPool::new(LONG), Arc::<AtomicUsize>::default());
        let fake = |id, lives| Fake { id, lives, waits: Some(LONG), closed: Arc::clone(&closed) };
        for (id, lives) in [(1, true), (2, true), (3, false)] {
            pool.put(to(1), fake(id, lives));
        }
        let others = [
            to(2),
            Destination { node: [2; 32], ..to(1) },
            Destination { plain: true, ..to(1) },
            Destination { congestion: Some("reno".into()), ..to(1) },
        ];
        assert!(others.iter().all(|other| pool.take(other, &[]).is_none()));
        // The third is dead, and dropped without being closed.
        assert_eq!(pool.take(&to(1), &[]).map(|fake| fake.id), Some(2));
        assert_eq!(pool.take(&to(1), &[]).map(|fake| fake.id), Some(1));
        assert!(pool.take(&to(1), &[]).is_none());
    }

    #[test]
    fn pooled_sessions_are_bounded_in_number_and_time_and_end_with_the_node() {
        let (pool, closed) = (SessionPool::new(Duration::from_millis(200)), Arc::<AtomicUsize>::default());
        let fake = |waits| Fake { id: 0, lives: true, waits, closed: Arc::clone(&closed) };
        pool.put(to(1), fake(None));
        assert_eq!((idle(&pool), closed.load(Ordering::SeqCst)), (0, 1), "its node does not keep it");
        (0..20).for_each(|_| pool.put(to(1), fake(Some(LONG))));
        assert!(idle(&pool) <= SESSIONS_MAX && closed.load(Ordering::SeqCst) >= 5);
        let deadline = Instant::now() + LONG;
        while closed.load(Ordering::SeqCst) < 21 {
            assert!(Instant::now() < deadline, "{} closed", closed.load(Ordering::SeqCst));
            std::thread::sleep(Duration::from_millis(10));
        }
        // After the thread has ended, another is started.
        let until_alone = || {
            (0..6000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                !pool.state().has_thread
            })
        };
        assert!(until_alone());
        pool.put(to(1), fake(Some(LONG)));
        pool.close();
        pool.put(to(1), fake(Some(LONG)));
        assert_eq!((idle(&pool), closed.load(Ordering::SeqCst)), (0, 23));
    }
}
