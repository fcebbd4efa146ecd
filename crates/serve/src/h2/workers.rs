//! The workers that answer a connection's requests: threads that start when there is work and end when there is none.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Scope;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use super::{Connections, STREAMS_MAX};

/// Requests of one connection that are answered at once.
pub(super) const WORKERS_MAX: usize = 16;
/// How long a worker waits for the next request before it ends: clients send a dozen requests in a row.
const IDLE_WORKER_WITHIN: Duration = Duration::from_secs(2);

/// The requests of one connection that wait for a worker.
pub(super) struct RequestQueue<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    freed: Notify,
}

struct State<J> {
    jobs: VecDeque<J>,
    workers: usize,
    idle: usize,
    closed: bool,
}

/// Closes the queue when dropped, so that the workers end however the connection ended.
pub(super) struct CloseOnDrop<'a, J>(&'a RequestQueue<J>);

impl<J> Drop for CloseOnDrop<'_, J> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        self.0.work.notify_all();
        drop(left);
    }
}

impl<J> RequestQueue<J> {
    /// An empty queue without workers.
    pub fn new() -> RequestQueue<J> {
        let state = State { jobs: VecDeque::new(), workers: 0, idle: 0, closed: false };
        RequestQueue { state: Mutex::new(state), work: Condvar::new(), freed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock()
    }

    /// Returns a guard that closes the queue when dropped.
    pub fn close_on_drop(&self) -> CloseOnDrop<'_, J> {
        CloseOnDrop(self)
    }

    /// Whether another request may wait here.
    pub fn has_room(&self) -> bool {
        self.state().jobs.len() < STREAMS_MAX as usize
    }

    /// Whether anything waits or is being answered.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        !state.jobs.is_empty() || state.workers > state.idle
    }

    /// Waits until a request has been answered.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// The next job of a worker. None ends the worker, which is no longer counted then.
    fn take(&self) -> Option<J> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            let mut waited_enough = state.closed;
            if !waited_enough {
                state.idle += 1;
                waited_enough = self.work.wait_for(&mut state, IDLE_WORKER_WITHIN).timed_out();
                state.idle -= 1;
            }
            if (waited_enough || state.closed) && state.jobs.is_empty() {
                state.workers -= 1;
                return None;
            }
        }
    }
}

/// Gives a job to a worker: one that waits, else a new one, else the first that becomes free. Returns the job if there is no worker
/// at all.
pub(super) fn give_to_worker<'scope, 'env, J: Send>(
    scope: &'scope Scope<'scope, 'env>,
    queue: &'scope RequestQueue<J>,
    connections: &'scope Connections,
    work: &'scope (dyn Fn(J) + Sync),
    job: J,
) -> Result<(), J> {
    let mut state = queue.state();
    state.jobs.push_back(job);
    if state.idle >= state.jobs.len() {
        queue.work.notify_one();
        return Ok(());
    }
    // Each connection has a first worker of its own, so that it makes progress however many connections there are.
    let own = state.workers == 0;
    if !own && (state.workers >= WORKERS_MAX || !connections.take_extra_worker()) {
        return Ok(());
    }
    state.workers += 1;
    drop(state);
    let worker = move || {
        while let Some(job) = queue.take() {
            // A panic in one request must not end other requests.
            if catch_unwind(AssertUnwindSafe(|| work(job))).is_err() {
                tracing::error!("a request of HTTP/2 ended in a panic");
            }
            queue.freed.notify_one();
        }
        if !own {
            connections.release_extra_worker();
        }
    };
    let Err(error) = std::thread::Builder::new().name("request".into()).spawn_scoped(scope, worker) else {
        return Ok(());
    };
    tracing::warn!(%error, "cannot start a thread for a request");
    if !own {
        connections.release_extra_worker();
    }
    let mut state = queue.state();
    state.workers -= 1;
    if state.workers == 0 { state.jobs.pop_back().map_or(Ok(()), Err) } else { Ok(()) }
}
