//! The hands that answer a connection's requests: threads that come when there is work and leave when there is none.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use tokio::sync::Notify;

use super::{House, STREAMS_MAX};

/// Requests of one connection that are answered at once.
pub(super) const HANDS_MAX: usize = 16;
/// A hand without work waits that long: who asks twelve questions asks them at once.
const LINGER: Duration = Duration::from_secs(2);

/// Where the requests of one connection wait for a hand.
pub(super) struct Desk<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    freed: Notify,
}

struct State<J> {
    jobs: VecDeque<J>,
    hands: usize,
    idle: usize,
    closed: bool,
}

/// Sends the hands home when dropped, whatever ended the connection.
pub(super) struct Closes<'a, J>(&'a Desk<J>);

impl<J> Drop for Closes<'_, J> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        self.0.work.notify_all();
        drop(left);
    }
}

impl<J> Desk<J> {
    /// Nobody there, nothing to do.
    pub fn new() -> Desk<J> {
        let state = State { jobs: VecDeque::new(), hands: 0, idle: 0, closed: false };
        Desk { state: Mutex::new(state), work: Condvar::new(), freed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the desk when dropped.
    pub fn closes(&self) -> Closes<'_, J> {
        Closes(self)
    }

    /// Whether another request may wait here.
    pub fn has_room(&self) -> bool {
        self.state().jobs.len() < STREAMS_MAX as usize
    }

    /// Whether anything waits or is being answered.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        !state.jobs.is_empty() || state.hands > state.idle
    }

    /// Until something has been answered.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// The next job; none when it is time to go, which is then written down.
    fn take(&self) -> Option<J> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            let mut waited_enough = state.closed;
            if !waited_enough {
                state.idle += 1;
                let (again, timeout) = self.work.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
                state = again;
                state.idle -= 1;
                waited_enough = timeout.timed_out();
            }
            if (waited_enough || state.closed) && state.jobs.is_empty() {
                state.hands -= 1;
                return None;
            }
        }
    }
}

/// Gives a job to a hand: to one that waits, else to a new one, else to whoever is free first. Comes back where there is no
/// hand at all.
pub(super) fn hand_in<'scope, 'env, J: Send>(
    scope: &'scope Scope<'scope, 'env>,
    desk: &'scope Desk<J>,
    house: &'scope House,
    work: &'scope (dyn Fn(J) + Sync),
    job: J,
) -> Result<(), J> {
    let mut state = desk.state();
    state.jobs.push_back(job);
    if state.idle >= state.jobs.len() {
        desk.work.notify_one();
        return Ok(());
    }
    // The first hand is every connection's own, so that each one gets on, however many there are.
    let own = state.hands == 0;
    if !own && (state.hands >= HANDS_MAX || !house.lend()) {
        return Ok(());
    }
    state.hands += 1;
    drop(state);
    let hand = move || {
        while let Some(job) = desk.take() {
            // A request that fails in a way nobody thought of takes no other one with it.
            if catch_unwind(AssertUnwindSafe(|| work(job))).is_err() {
                tracing::error!("a request of HTTP/2 ended in a panic");
            }
            desk.freed.notify_one();
        }
        if !own {
            house.take_back();
        }
    };
    let Err(error) = std::thread::Builder::new().name("request".into()).spawn_scoped(scope, hand) else {
        return Ok(());
    };
    tracing::warn!(%error, "cannot start a thread for a request");
    if !own {
        house.take_back();
    }
    let mut state = desk.state();
    state.hands -= 1;
    match state.hands {
        0 => state.jobs.pop_back().map_or(Ok(()), Err),
        _ => Ok(()),
    }
}
