//! TWAMP: a port for TWAMP-Control, and the senders whose packets the node's reflector answers during a session.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use probe::Stop;
use probe::twamp::{Bounds, TestSession, serve};
use rustix::event::{PollFd, PollFlags, poll};
use sys::waker::Waker;

/// Control connections at once, each with a thread.
pub(crate) const CONNECTIONS_MAX: usize = 128;
/// Sessions of all connections at once.
pub(crate) const SESSIONS_MAX: usize = 1_024;

/// Senders whose packets are answered, with the number of sessions of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct TwampSenders(Arc<Mutex<HashMap<SocketAddr, u32>>>);

impl TwampSenders {
    /// Whether packets from this address belong to a session.
    pub fn contain(&self, from: SocketAddr) -> bool {
        let senders = self.0.lock();
        !senders.is_empty() && senders.contains_key(&canonical(from))
    }

    fn add(&self, from: SocketAddr) -> Option<Box<dyn TestSession>> {
        let mut senders = self.0.lock();
        if senders.len() >= SESSIONS_MAX {
            return None;
        }
        let from = canonical(from);
        *senders.entry(from).or_default() += 1;
        Some(Box::new(TwampSession { senders: self.clone(), from }))
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A session, until it is dropped.
struct TwampSession {
    senders: TwampSenders,
    from: SocketAddr,
}

impl TestSession for TwampSession {}

impl Drop for TwampSession {
    fn drop(&mut self) {
        let mut senders = self.senders.0.lock();
        if let Some(count) = senders.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                senders.remove(&self.from);
            }
        }
    }
}

/// The port for TWAMP-Control.
#[derive(Debug)]
pub(crate) struct TwampPort {
    listener: TcpListener,
    senders: TwampSenders,
    stop: Stop,
}

impl TwampPort {
    /// Listens at this address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn open(at: SocketAddr, senders: TwampSenders, stop: Stop) -> io::Result<TwampPort> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(TwampPort { listener, senders, stop })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the addresses of `is_allowed` until the node stops; packets are answered at `port`.
    pub fn run(&self, port: u16, is_allowed: &(dyn Fn(SocketAddr) -> bool + Sync), stop: &Waker) {
        let connections = Mutex::new(0usize);
        std::thread::scope(|scope| {
            loop {
                let mut fds =
                    [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
                let is_broken = poll(&mut fds, None).is_err_and(|error| error != rustix::io::Errno::INTR);
                if is_broken || !fds[1].revents().is_empty() {
                    self.stop.stop();
                    return;
                }
                let Ok((control, peer)) = self.listener.accept() else {
                    // Most likely there are no free descriptors: wait until others are closed.
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                };
                let is_full = *connections.lock() >= CONNECTIONS_MAX;
                // A client that is not allowed gets no answer, not even that this is TWAMP.
                if is_full || !is_allowed(peer) {
                    continue;
                }
                *connections.lock() += 1;
                scope.spawn(|| {
                    self.serve_one(control, port);
                    *connections.lock() -= 1;
                });
            }
        });
    }

    fn serve_one(&self, control: TcpStream, port: u16) {
        let peer = control.peer_addr().ok();
        let is_blocking = control.set_nonblocking(false).is_ok();
        let begin = |from| self.senders.add(from);
        match serve(control, port, Bounds::default(), &self.stop, &begin) {
            Ok(sessions) if is_blocking && sessions > 0 => {
                tracing::info!(target: "access", ?peer, event = "test", what = "TWAMP", outcome = "done", sessions);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::info!(target: "access", ?peer, event = "test", what = "TWAMP", outcome = "failed", %error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_answered_while_they_have_a_session() {
        let senders = TwampSenders::default();
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:7".parse().unwrap();
        let plain: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let (first, second) = (senders.add(mapped).unwrap(), senders.add(plain).unwrap());
        drop(first);
        assert!(senders.contain(plain) && senders.contain(mapped));
        drop(second);
        assert!(!senders.contain(plain));
        let all: Vec<_> =
            (0..SESSIONS_MAX).map(|at| senders.add(([192, 0, 2, 1], at as u16).into()).unwrap()).collect();
        assert!(senders.add(([192, 0, 2, 2], 1).into()).is_none() && all.len() == SESSIONS_MAX);
    }
}
