//! How far a copy has come, seen by the threads that move bytes and by the one that tells the client.

use std::collections::HashSet;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use model::{Fault, Retry};
use web::ClientError;
use web::copy::outcome::Last;

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

/// An error with what lies behind it.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let text = whole(&error);
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
        let full = error.is_full();
        let text = whole(&error);
        let hint = if full { " (ENOSPC: no space left on device)" } else { "" };
        let fault = model::fault::Blame::fault(&error);
        Failure::new(fault, if full { 507 } else { 500 }, format!("{text}{hint}"))
    }
}

/// How far it has come.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    bytes: AtomicU64,
    remotes: Mutex<HashSet<SocketAddr>>,
    sockets: Mutex<Vec<TcpStream>>,
    cancelled: AtomicBool,
    moved: AtomicBool,
}

impl Gauge {
    /// Bytes that arrived.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes have arrived in all.
    pub fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// All bytes have moved; what is left to do takes its time without one.
    pub fn all_moved(&self) {
        self.moved.store(true, Ordering::Relaxed);
    }

    /// Whether they have.
    pub fn has_all_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed)
    }

    /// Bytes go to or come from there, over connections that are not ours to end.
    pub fn is_with(&self, remote: SocketAddr) {
        self.remotes.lock().unwrap_or_else(PoisonError::into_inner).insert(remote);
    }

    /// How many those were.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A connection that carries bytes; it ends when the copy is cancelled.
    pub fn joins(&self, socket: &TcpStream) {
        if let Ok(peer) = socket.peer_addr() {
            self.remotes.lock().unwrap_or_else(PoisonError::into_inner).insert(peer);
        }
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that ended need no ending.
        sockets.retain(|socket| socket.peer_addr().is_ok());
        sockets.extend(socket.try_clone());
        drop(sockets);
        if self.is_cancelled() {
            self.cancel();
        }
    }

    /// A connection that is done: the copy held here would keep it open.
    pub fn leaves(&self, socket: &TcpStream) {
        let name = |socket: &TcpStream| (socket.local_addr().ok(), socket.peer_addr().ok());
        let own = name(socket);
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| name(other) != own);
    }

    /// The far ends of all of them.
    pub fn remotes(&self) -> Vec<SocketAddr> {
        let mut all: Vec<SocketAddr> =
            self.remotes.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        all.sort_unstable();
        all
    }

    /// Ends every connection.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        for socket in self.sockets.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether somebody did.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}
