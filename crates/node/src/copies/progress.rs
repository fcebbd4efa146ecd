//! The progress of a copy, shared by the threads that move bytes and the thread that reports to the client.

use std::collections::{HashMap, HashSet};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::control::Control;
use model::fault::with_causes;
use model::{Fault, Retry};
use parking_lot::{Mutex, MutexGuard};
use web::copy::outcome::CopyOutcome;
use web::scitag::SciTag;
use web::{Client, ClientError, Dialer, HttpUrl};

use crate::fireflies::{Fireflies, FlowGuard};
use crate::meters::{JobOutcome, WorkMeter};

/// Why a copy failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub fault: Fault,
    pub retry: Retry,
    /// The status that the failure would have had before 202 was sent.
    pub status: u16,
    pub text: String,
}

impl Failure {
    /// A failure. Only failures of the path may pass by themselves.
    pub fn new(fault: Fault, status: u16, text: impl Into<String>) -> Failure {
        let retry = if fault == Fault::Path { Retry::After } else { Retry::Never };
        Failure { fault, retry, status, text: text.into() }
    }

    /// The last line that reports the failure.
    pub fn last(&self) -> CopyOutcome {
        CopyOutcome::failure(self.fault, self.retry, &self.text)
    }

    /// Whether another attempt may succeed.
    pub fn is_temporary(&self) -> bool {
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
            // A name server, or a peer that restarts, may answer again.
            _ => Failure::new(Fault::Path, 502, text),
        }
    }
}

/// The progress of a copy.
#[derive(Default)]
pub(crate) struct CopyProgress {
    bytes: AtomicU64,
    remotes: Mutex<HashSet<SocketAddr>>,
    connections: Mutex<HashMap<u64, (TcpStream, FlowGuard)>>,
    next_number: AtomicU64,
    cancelled: AtomicBool,
    /// The native copy that moves the bytes, if one does.
    native: Mutex<Option<Control>>,
    moved: AtomicBool,
    tag: Option<FlowTag>,
    /// The meter of this copy, and whether this node sends.
    meter: Option<(WorkMeter, bool)>,
}

/// The SciTag of a copy, and the collectors of its fireflies.
pub(crate) struct FlowTag {
    pub tag: SciTag,
    pub fireflies: Fireflies,
    pub is_sender: bool,
}

/// A connection's membership in a copy, which ends when this is dropped.
pub(crate) struct ConnectionGuard<'a>(&'a CopyProgress, u64);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        let left = self.0.connections().remove(&self.1);
        drop(left);
    }
}

impl CopyProgress {
    /// The progress of a copy that begins; `tag` holds its SciTag, if it has one.
    pub fn new(tag: Option<FlowTag>, meter: WorkMeter, is_sender: bool) -> CopyProgress {
        CopyProgress { tag, meter: Some((meter, is_sender)), ..CopyProgress::default() }
    }

    fn count(&self, more: u64) {
        match &self.meter {
            Some((meter, true)) => meter.sent(more),
            Some((meter, false)) => meter.received(more),
            None => {}
        }
    }

    /// Counts the end of the copy; a copy that succeeded has its file in place.
    pub fn end(&self, outcome: JobOutcome) {
        let Some((meter, is_sender)) = &self.meter else { return };
        match (outcome, is_sender) {
            (JobOutcome::Done, true) => meter.file_sent(),
            (JobOutcome::Done, false) => meter.file_received(),
            _ => {}
        }
        meter.set_outcome(outcome);
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, (TcpStream, FlowGuard)>> {
        self.connections.lock()
    }

    /// Adds bytes that arrived.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count(bytes);
    }

    /// Sets the number of bytes that have arrived in all.
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.count(bytes.saturating_sub(before));
    }

    /// Sets the progress back to 0: all bytes are sent again, to another address.
    pub fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// All bytes have moved; the rest of the copy takes time without further bytes.
    pub fn all_moved(&self) {
        self.moved.store(true, Ordering::Relaxed);
    }

    /// Whether all bytes have moved.
    pub fn has_all_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed)
    }

    /// The bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds the remote address of connections that this copy does not close itself.
    pub fn add_remote(&self, remote: SocketAddr) {
        if let Some((meter, _)) = &self.meter {
            meter.add_remote(remote.ip());
        }
        self.remotes.lock().insert(remote);
    }

    /// Adds a connection that carries bytes; a cancelled copy shuts it down.
    pub fn join(&self, socket: &TcpStream) -> ConnectionGuard<'_> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        if let Ok(peer) = socket.peer_addr() {
            self.add_remote(peer);
        }
        if let Ok(own) = socket.try_clone() {
            let flow = self.tag.as_ref().map(|tag| tag.fireflies.begin(tag.tag, socket, tag.is_sender));
            self.connections().insert(number, (own, flow.unwrap_or_default()));
        }
        if self.is_cancelled() {
            self.cancel();
        }
        ConnectionGuard(self, number)
    }

    /// Sends a firefly for each connection.
    pub fn report_flows(&self) {
        self.connections().values().for_each(|(_, flow)| flow.ongoing());
    }

    /// The remote addresses of all connections, sorted.
    pub fn remotes(&self) -> Vec<SocketAddr> {
        let mut all: Vec<SocketAddr> = self.remotes.lock().iter().copied().collect();
        all.sort_unstable();
        all
    }

    /// Sets the native copy that moves the bytes; it ends when this copy is cancelled.
    pub fn set_native(&self, control: &Control) {
        let mut native = self.native.lock();
        if self.is_cancelled() {
            control.cancel();
        }
        *native = Some(control.clone());
    }

    /// Cancels the copy and shuts down every connection.
    pub fn cancel(&self) {
        {
            // Under the lock: a native copy that begins meanwhile notices it.
            let native = self.native.lock();
            self.cancelled.store(true, Ordering::Release);
            native.iter().for_each(Control::cancel);
        }
        for (socket, _) in self.connections().values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether the copy has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// A connection to the other server, and its membership in the copy.
pub(crate) struct CopyConnection<'a> {
    /// Dropped first, while the statistics of the connection can still be read.
    _joined: ConnectionGuard<'a>,
    pub client: Client,
}

impl<'a> CopyConnection<'a> {
    /// Dials the other server.
    ///
    /// # Errors
    /// The server cannot be reached, or its address is not allowed.
    pub fn dial(dialer: &Dialer, url: &HttpUrl, progress: &'a CopyProgress) -> Result<CopyConnection<'a>, Failure> {
        let client = Client::new(dialer, url)?;
        Ok(CopyConnection { _joined: progress.join(client.conn().socket()), client })
    }
}
