//! Where connections wait that have nothing to say: one thread watches all of them, so that idleness costs a descriptor
//! and no thread. Whoever says something is handed on; whoever says nothing for too long is dropped.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use sys::waker::Waker;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// How often those are looked for whose time is up.
const LOOK_ROUND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// What stands for the waker among the guests' numbers.
const WAKER: u64 = 0;

/// Guests that wait.
pub(crate) struct Lounge<T> {
    epoll: OwnedFd,
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    last: u64,
    closed: bool,
    guests: HashMap<u64, (T, Instant)>,
}

impl<T: AsFd> Lounge<T> {
    /// An empty one.
    pub fn new() -> io::Result<Lounge<T>> {
        let inner = Inner { last: WAKER, closed: false, guests: HashMap::new() };
        Ok(Lounge { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a guest wait until it says something, for at most that long. After [`Lounge::close`] it is dropped.
    pub fn rest(&self, guest: T, within: Duration) -> io::Result<()> {
        let mut inner = self.inner();
        if inner.closed {
            return Ok(());
        }
        inner.last += 1;
        let number = inner.last;
        // Once: whoever is handed on is no longer watched, and its descriptor leaves the set when it closes.
        let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
        epoll::add(&self.epoll, guest.as_fd(), epoll::EventData::new_u64(number), events)?;
        inner.guests.insert(number, (guest, Instant::now() + within));
        Ok(())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.inner().guests.len()
    }

    /// Drops everybody, and whoever comes later.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        let guests = std::mem::take(&mut inner.guests);
        drop(inner);
        drop(guests);
    }

    /// Hands guests on as they speak, until woken, and lets others look round as well, once a second. Neither may wait.
    pub fn watch(&self, stop: &Waker, mut hand_on: impl FnMut(T), mut look: impl FnMut()) -> io::Result<()> {
        epoll::add(&self.epoll, stop, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        let mut events = Vec::with_capacity(EVENTS);
        let mut looked = Instant::now();
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&LOOK_ROUND)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for event in &events {
                let number = event.data.u64();
                if number == WAKER {
                    return Ok(());
                }
                let guest = self.inner().guests.remove(&number);
                if let Some((guest, _)) = guest {
                    // Watched again elsewhere, or not at all: this entry would stay with a descriptor that lives on.
                    let _ = epoll::delete(&self.epoll, guest.as_fd());
                    hand_on(guest);
                }
            }
            if looked.elapsed() >= Duration::from_secs(1) {
                looked = Instant::now();
                self.see_out(looked);
                look();
            }
        }
    }

    fn see_out(&self, now: Instant) {
        let mut late = Vec::new();
        let mut inner = self.inner();
        let numbers: Vec<u64> = inner.guests.iter().filter(|(_, (_, until))| *until <= now).map(|(n, _)| *n).collect();
        for number in numbers {
            late.extend(inner.guests.remove(&number));
        }
        drop(inner);
        // Closing may say farewell on the line: not under the lock.
        drop(late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn whoever_speaks_is_handed_on_and_whoever_does_not_is_dropped() {
        let (lounge, stop) = (Lounge::new().unwrap(), Waker::new().unwrap());
        let (mut speaks, near) = UnixStream::pair().unwrap();
        let (silent, silent_near) = UnixStream::pair().unwrap();
        let (_patient, patient_near) = UnixStream::pair().unwrap();
        lounge.rest(near, Duration::from_secs(60)).unwrap();
        lounge.rest(silent_near, Duration::ZERO).unwrap();
        lounge.rest(patient_near, Duration::from_secs(60)).unwrap();
        let (handed, mut heard) = (std::sync::mpsc::channel(), Vec::new());
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| lounge.watch(&stop, |guest| handed.0.send(guest).unwrap(), || {}));
            speaks.write_all(b"x").unwrap();
            heard.push(handed.1.recv_timeout(Duration::from_secs(10)).unwrap());
            // The silent one sees its line closed.
            silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert_eq!(std::io::Read::read(&mut &silent, &mut [0]).unwrap(), 0);
            stop.wake();
            watcher.join().unwrap().unwrap();
        });
        assert_eq!((heard.len(), lounge.len()), (1, 1));
        // Again, after it was handed on.
        lounge.rest(heard.remove(0), Duration::from_secs(60)).unwrap();
        lounge.close();
        assert_eq!(lounge.len(), 0);
    }
}
