//! Idle connections. One thread watches all of them with epoll, so that an idle connection costs a descriptor and no thread. A
//! connection that becomes readable is handed on; one that stays silent for too long is dropped.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{Timespec, epoll};
use sys::waker::Waker;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// How often connections whose time has passed are dropped.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// The epoll token of the waker; connections have other numbers.
const WAKER: u64 = 0;

/// The idle connections of a server.
pub(crate) struct IdleConnections<T> {
    epoll: OwnedFd,
    inner: Mutex<IdleState<T>>,
}

struct IdleState<T> {
    last: u64,
    closed: bool,
    connections: HashMap<u64, (T, Instant)>,
}

impl<T: AsFd> IdleConnections<T> {
    /// An empty set.
    ///
    /// # Errors
    /// The host gives no epoll descriptor.
    pub fn new() -> io::Result<IdleConnections<T>> {
        let inner = IdleState { last: WAKER, closed: false, connections: HashMap::new() };
        Ok(IdleConnections { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, IdleState<T>> {
        self.inner.lock()
    }

    /// Watches a connection until it becomes readable, for at most `within`. After [`IdleConnections::close`] it is dropped.
    ///
    /// # Errors
    /// The host cannot watch its descriptor.
    pub fn keep(&self, connection: T, within: Duration) -> io::Result<()> {
        let mut inner = self.inner();
        if inner.closed {
            return Ok(());
        }
        inner.last += 1;
        let number = inner.last;
        // One event only: a connection that was handed on is no longer watched, and its descriptor leaves the set when it closes.
        let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
        epoll::add(&self.epoll, connection.as_fd(), epoll::EventData::new_u64(number), events)?;
        inner.connections.insert(number, (connection, Instant::now() + within));
        Ok(())
    }

    /// How many connections are idle.
    pub fn len(&self) -> usize {
        self.inner().connections.len()
    }

    /// Drops all connections, and those that come later.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        let connections = std::mem::take(&mut inner.connections);
        drop(inner);
        drop(connections);
    }

    /// Runs until `stop` is woken: hands readable connections on, and calls `tick` once a second. Neither callback may block.
    ///
    /// # Errors
    /// The host cannot wait on epoll.
    pub fn watch(&self, stop: &Waker, mut hand_on: impl FnMut(T), mut tick: impl FnMut()) -> io::Result<()> {
        epoll::add(&self.epoll, stop, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        let mut events = Vec::with_capacity(EVENTS);
        let mut ticked = Instant::now();
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&TICK)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for event in &events {
                let number = event.data.u64();
                if number == WAKER {
                    return Ok(());
                }
                let connection = self.inner().connections.remove(&number);
                if let Some((connection, _)) = connection {
                    // The descriptor stays open, so its entry must be removed before it is added again.
                    let _ = epoll::delete(&self.epoll, connection.as_fd());
                    hand_on(connection);
                }
            }
            if ticked.elapsed() >= Duration::from_secs(1) {
                ticked = Instant::now();
                self.drop_late(ticked);
                tick();
            }
        }
    }

    fn drop_late(&self, now: Instant) {
        let mut late = Vec::new();
        let mut inner = self.inner();
        let numbers: Vec<u64> =
            inner.connections.iter().filter(|(_, (_, until))| *until <= now).map(|(n, _)| *n).collect();
        for number in numbers {
            late.extend(inner.connections.remove(&number));
        }
        drop(inner);
        // Closing a connection may send a TLS alert: not under the lock.
        drop(late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_readable_connection_is_handed_on_and_a_silent_one_is_dropped() {
        let idle = IdleConnections::new().unwrap();
        let stop = Waker::new().unwrap();
        let (mut speaks, near) = UnixStream::pair().unwrap();
        let (silent, silent_near) = UnixStream::pair().unwrap();
        let (_patient, patient_near) = UnixStream::pair().unwrap();
        idle.keep(near, Duration::from_secs(60)).unwrap();
        idle.keep(silent_near, Duration::ZERO).unwrap();
        idle.keep(patient_near, Duration::from_secs(60)).unwrap();
        let (sender, readable) = std::sync::mpsc::channel();
        let mut handed_on = Vec::new();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| idle.watch(&stop, |connection| sender.send(connection).unwrap(), || {}));
            speaks.write_all(b"x").unwrap();
            handed_on.push(readable.recv_timeout(Duration::from_secs(10)).unwrap());
            // The other end of the silent one sees the close.
            silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert_eq!(std::io::Read::read(&mut &silent, &mut [0]).unwrap(), 0);
            stop.wake();
            watcher.join().unwrap().unwrap();
        });
        assert_eq!((handed_on.len(), idle.len()), (1, 1));
        // A connection that was handed on may become idle again.
        idle.keep(handed_on.remove(0), Duration::from_secs(60)).unwrap();
        idle.close();
        assert_eq!(idle.len(), 0);
    }
}
