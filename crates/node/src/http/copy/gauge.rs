//! How far a copy has come, seen by the threads that move bytes and by the one that tells the client.

use std::collections::{HashMap, HashSet};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::fault::with_causes;
use model::{Fault, Retry};
use parking_lot::{Mutex, MutexGuard};
use web::copy::outcome::Last;
use web::scitag::SciTag;
use web::{Client, ClientError, Dialer, HttpUrl};

use crate::http::fireflies::{Fireflies, Flying};
use crate::http::refused::status_in_store;
use crate::meters::{Ended, Moving};

/// Why a copy failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub fault: Fault,
    pub retry: Retry,
    /// The status that it would have had, had it been known in time.
    pub status: u16,
    pub text: String,
}

impl Failure {
    pub fn new(fault: Fault, status: u16, text: impl Into<String>) -> Failure {
        let retry = if fault == Fault::Path { Retry::After } else { Retry::Never };
        Failure { fault, retry, status, text: text.into() }
    }

    /// The line that tells it.
    pub fn last(&self) -> Last {
        Last::failure(self.fault, self.retry, &self.text)
    }

    /// Whether another attempt of ours may help.
    pub fn passes(&self) -> bool {
        self.retry != Retry::Never
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let text = with_causes(&error);
        let timed_out = |source: &std::io::Error| source.kind() == std::io::ErrorKind::TimedOut;
        match &error {
            ClientError::Forbidden { .. } => Failure::new(Fault::Auth, 403, text),
            ClientError::Url(_) => Failure::new(Fault::Config, 400, text),
            ClientError::Connect { source, .. } | ClientError::Broken { source, .. } if timed_out(source) => {
                Failure::new(Fault::Path, 504, format!("{text} (Connection timed out)"))
            }
            ClientError::Redirects { .. } => Failure::new(Fault::Peer, 508, text),
            // A name server, or a peer that starts anew, comes back.
            _ => Failure::new(Fault::Path, 502, text),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        let full = status_in_store(&error) == 507;
        let text = with_causes(&error);
        let hint = if full { " (ENOSPC: no space left on device)" } else { "" };
        let fault = model::fault::Blame::fault(&error);
        Failure::new(fault, if full { 507 } else { 500 }, format!("{text}{hint}"))
    }
}

/// How far it has come.
#[derive(Default)]
pub(crate) struct Gauge {
    bytes: AtomicU64,
    remotes: Mutex<HashSet<SocketAddr>>,
    lines: Mutex<HashMap<u64, (TcpStream, Flying)>>,
    joined: AtomicU64,
    cancelled: AtomicBool,
    moved: AtomicBool,
    mark: Option<Mark>,
    /// Counts what moves for the whole node, and whether we send it.
    moving: Option<(Moving, bool)>,
}

/// For which experiment it is, and whom to tell.
pub(crate) struct Mark {
    pub tag: SciTag,
    pub fireflies: Fireflies,
    pub we_send: bool,
}

/// A connection that takes part; it has left when this is dropped.
pub(crate) struct Joined<'a>(&'a Gauge, u64);

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let left = self.0.lines().remove(&self.1);
        drop(left);
    }
}

impl Gauge {
    /// Of a copy that may be marked.
    pub fn new(mark: Option<Mark>, moving: Moving, we_send: bool) -> Gauge {
        Gauge { mark, moving: Some((moving, we_send)), ..Gauge::default() }
    }

    fn count(&self, more: u64) {
        match &self.moving {
            Some((moving, true)) => moving.went(more),
            Some((moving, false)) => moving.came(more),
            None => {}
        }
    }

    /// It has ended, with the file in place where it is done.
    pub fn ends(&self, how: Ended) {
        let Some((moving, we_send)) = &self.moving else { return };
        match (how, we_send) {
            (Ended::Done, true) => moving.file_went(),
            (Ended::Done, false) => moving.file_came(),
            _ => {}
        }
        moving.ends(how);
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<u64, (TcpStream, Flying)>> {
        self.lines.lock()
    }

    /// Bytes that arrived.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count(bytes);
    }

    /// So many bytes have arrived in all.
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.count(bytes.saturating_sub(before));
    }

    /// What has arrived does not count: all of it is sent again, to somewhere else.
    pub fn begin_again(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// All bytes have moved; what is left to do takes its time without one.
    pub fn all_moved(&self) {
        self.moved.store(true, Ordering::Relaxed);
    }

    /// Whether they have.
    pub fn has_all_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed)
    }

    /// How many those were.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes go to or come from there, over connections that are not ours to end.
    pub fn is_with(&self, remote: SocketAddr) {
        if let Some((moving, _)) = &self.moving {
            moving.is_with(remote.ip());
        }
        self.remotes.lock().insert(remote);
    }

    /// A connection that carries bytes; it ends when the copy is cancelled.
    pub fn join(&self, socket: &TcpStream) -> Joined<'_> {
        let number = self.joined.fetch_add(1, Ordering::Relaxed);
        if let Ok(peer) = socket.peer_addr() {
            self.is_with(peer);
        }
        if let Ok(own) = socket.try_clone() {
            let flying = self.mark.as_ref().map(|mark| mark.fireflies.begin(mark.tag, socket, mark.we_send));
            self.lines().insert(number, (own, flying.unwrap_or_default()));
        }
        if self.is_cancelled() {
            self.cancel();
        }
        Joined(self, number)
    }

    /// Tells those who watch networks how far it is.
    pub fn tell(&self) {
        self.lines().values().for_each(|(_, flying)| flying.ongoing());
    }

    /// The far ends of all of them.
    pub fn remotes(&self) -> Vec<SocketAddr> {
        let mut all: Vec<SocketAddr> = self.remotes.lock().iter().copied().collect();
        all.sort_unstable();
        all
    }

    /// Ends every connection.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        for (socket, _) in self.lines().values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether somebody did.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// A connection to the other end, and its part in the copy.
pub(crate) struct Line<'a> {
    /// First: it ends while the connection is still there to be asked.
    _joined: Joined<'a>,
    pub client: Client,
}

impl<'a> Line<'a> {
    /// Dials.
    pub fn dial(dialer: &Dialer, url: &HttpUrl, gauge: &'a Gauge) -> Result<Line<'a>, Failure> {
        let client = Client::new(dialer, url)?;
        Ok(Line { _joined: gauge.join(client.conn().socket()), client })
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn no_room_is_told_whenever_it_is_found() {
        for (errno, status) in [(Errno::NOSPC, 507), (Errno::DQUOT, 507), (Errno::IO, 500)] {
            let (path, source) = (String::from("run/f"), std::io::Error::from(errno));
            let late = store::Error::Late { path: path.clone(), source };
            let early = store::Error::Io { doing: "write", path, source: errno.into() };
            assert_eq!([late, early].map(|error| Failure::from(error).status), [status; 2], "{errno}");
        }
    }
}
