//! The metrics of this node: counters of its work.
//!
//! Counting has no measurable cost for the data path:
//!
//! - The bytes of a running native job are not counted here: once a second its `Control` is read, which the engine updates ten times
//!   a second anyway. That is one lock per job and second.
//! - An HTTP request or a copy has atomics of its own, to which a thread adds after 256 KiB or 1 MiB: at 100 Gbit/s
//!   12.5 GB/s / 1 MiB = 12,000 additions a second, of some 5 ns each without contention: 60 µs of a second.
//! - The differences are added to the totals and to the top talkers ([`Flows`]) once a second, when a request ends, and when the
//!   metrics are read: the locks are taken per request, never per block.
//!
//! What this module does not know: the names of the metrics ([`snapshot`]), and who may read them.

mod live;
mod process;
mod snapshot;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use model::v1::State;
use model::v1::flows::Volume;
use wire::frame::Totals;

use self::live::LiveWork;
pub(crate) use self::live::WorkMeter;
use crate::flows::{Flows, User};
pub(crate) use web::openmetrics::{MEDIA_TYPE, MetricsSnapshot, label};

/// A counter.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The protocol that bytes move by, as a label of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A client's job over the native protocol.
    Native,
    /// A delegated transfer of this node.
    Delegated,
    /// A third-party copy that a client ordered by COPY.
    Copy,
    /// HTTP/1.1 in clear text.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2.
    Http2,
    /// XRootD's protocol in clear text.
    Root,
    /// XRootD's protocol over TLS.
    Roots,
}

impl Protocol {
    const ALL: [Protocol; 8] = [
        Protocol::Native,
        Protocol::Delegated,
        Protocol::Copy,
        Protocol::Http,
        Protocol::Https,
        Protocol::Http2,
        Protocol::Root,
        Protocol::Roots,
    ];
    /// The protocols whose units of work are jobs.
    const JOBS: [Protocol; 3] = [Protocol::Native, Protocol::Delegated, Protocol::Copy];
    /// The protocols whose units of work are requests.
    const REQUESTS: [Protocol; 5] = [Protocol::Http, Protocol::Https, Protocol::Http2, Protocol::Root, Protocol::Roots];

    fn word(self) -> &'static str {
        ["native", "errand", "copy", "http", "https", "h2", "root", "roots"][self as usize]
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    Done,
    Partial,
    Failed,
    Refused,
    Interrupted,
}

impl JobOutcome {
    const ALL: [JobOutcome; 5] =
        [JobOutcome::Done, JobOutcome::Partial, JobOutcome::Failed, JobOutcome::Refused, JobOutcome::Interrupted];

    fn word(self) -> &'static str {
        ["done", "partial", "failed", "refused", "interrupted"][self as usize]
    }
}

impl From<State> for JobOutcome {
    fn from(state: State) -> JobOutcome {
        match state {
            State::Done => JobOutcome::Done,
            State::Partial => JobOutcome::Partial,
            State::Failed => JobOutcome::Failed,
            State::Interrupted => JobOutcome::Interrupted,
        }
    }
}

/// Why a client was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// No credential, or an invalid one.
    Auth,
    /// The principal lacks the right.
    Policy,
    /// The node is busy.
    Busy,
    /// The node does not speak the client's protocol.
    Protocol,
}

impl RefusalReason {
    const ALL: [RefusalReason; 4] =
        [RefusalReason::Auth, RefusalReason::Policy, RefusalReason::Busy, RefusalReason::Protocol];

    fn word(self) -> &'static str {
        ["auth", "policy", "busy", "protocol"][self as usize]
    }

    /// The reason of a status of HTTP, if it is a refusal.
    fn of_status(status: u16) -> Option<RefusalReason> {
        match status {
            401 => Some(RefusalReason::Auth),
            403 => Some(RefusalReason::Policy),
            429 | 503 => Some(RefusalReason::Busy),
            _ => None,
        }
    }
}

/// Classes of status, by their first digit; the first one for requests whose connection broke before an answer.
const STATUSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The numbers of connections, by state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionCounts {
    /// Idle: without a thread.
    pub idle: usize,
    /// Served by a thread.
    pub served: usize,
    /// Waiting for a thread.
    pub waiting: usize,
    /// Sessions of the native protocol.
    pub sessions: usize,
}

/// The function that counts connections.
type CountConnections = Box<dyn Fn() -> ConnectionCounts + Send + Sync>;

/// The totals of one protocol.
#[derive(Debug, Default)]
struct ProtocolTotals {
    bytes_in: Counter,
    bytes_out: Counter,
    files_in: Counter,
    files_out: Counter,
    begun: Counter,
    ended: [Counter; JobOutcome::ALL.len()],
    statuses: [Counter; STATUSES.len()],
}

/// The metrics of a node.
pub(crate) struct Meters {
    began: SystemTime,
    totals: [ProtocolTotals; Protocol::ALL.len()],
    resent_segments: Counter,
    resent_segment_bytes: Counter,
    resent_bytes: Counter,
    integrity: Counter,
    refusals: [Counter; RefusalReason::ALL.len()],
    logins: Counter,
    /// Requests for new settings: those that were applied, and those that were refused.
    reloads: [Counter; 2],
    live: LiveWork,
    connections: OnceLock<CountConnections>,
    /// The top talkers.
    pub flows: Flows,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters {
            began: SystemTime::now(),
            totals: Default::default(),
            resent_segments: Counter::default(),
            resent_segment_bytes: Counter::default(),
            resent_bytes: Counter::default(),
            integrity: Counter::default(),
            refusals: Default::default(),
            logins: Counter::default(),
            reloads: Default::default(),
            live: LiveWork::default(),
            connections: OnceLock::new(),
            flows: Flows::default(),
        }
    }
}

impl Meters {
    /// Sets the function that counts connections.
    pub fn count_connections_by(&self, count: impl Fn() -> ConnectionCounts + Send + Sync + 'static) {
        let _ = self.connections.set(Box::new(count));
    }

    /// Adds bytes and files that moved.
    fn moved(&self, by: Protocol, peer: Option<IpAddr>, user: &Arc<User>, more: &Volume) {
        let sums = &self.totals[by as usize];
        sums.bytes_in.add(more.bytes_in);
        sums.bytes_out.add(more.bytes_out);
        sums.files_in.add(more.files_in);
        sums.files_out.add(more.files_out);
        if let Some(peer) = peer
            && *more != Volume::default()
        {
            self.flows.add(peer, user, more);
        }
    }

    fn began(&self, by: Protocol) {
        self.totals[by as usize].begun.add(1);
    }

    fn ended(&self, by: Protocol, how: JobOutcome) {
        self.totals[by as usize].ended[how as usize].add(1);
    }

    /// A client's job has ended with these totals, which hold the bytes that were sent again.
    pub fn job_ended(&self, how: JobOutcome, totals: &Totals) {
        self.ended(Protocol::Native, how);
        self.resent_bytes.add(totals.resent_bytes);
    }

    /// A request was answered, with this status, or with none.
    pub fn answered(&self, by: Protocol, status: u16) {
        let class = usize::from(status / 100).min(STATUSES.len() - 1);
        self.totals[by as usize].statuses[class].add(1);
        if let Some(why) = RefusalReason::of_status(status) {
            self.refused(why);
        }
    }

    /// A client was refused.
    pub fn refused(&self, why: RefusalReason) {
        self.refusals[why as usize].add(1);
    }

    /// A client has logged in.
    pub fn logged_in(&self) {
        self.logins.add(1);
    }

    /// A digest did not match, and the bytes were rejected.
    pub fn damaged(&self) {
        self.integrity.add(1);
    }

    /// New settings were requested; `applied` says whether they are in force or were refused.
    pub fn reloaded(&self, applied: bool) {
        self.reloads[usize::from(!applied)].add(1);
    }

    /// Adds the bytes that have moved since the last call to the totals.
    pub fn update_totals(&self) {
        self.live.update_totals(self);
    }
}
