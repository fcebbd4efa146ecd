//! What this node does, in numbers that only grow, for whoever watches it.
//!
//! Counting costs the data path nothing that could be measured:
//!
//! - A native job is not counted here at all while it runs: once a second its [`Control`] is asked, which the engine tells
//!   ten times a second how far the job is anyway. That is one lock per job and second.
//! - A request of HTTP, or a copy, has atomics of its own, to which a thread adds after 256 KiB or 1 MiB: at 100 Gbit/s
//!   12.5 GB/s / 1 MiB = 12,000 additions a second, of some 5 ns each where nobody else writes there: 60 µs of a second.
//! - To sums, and to the top talkers ([`Flows`]), the differences go once a second, when a request ends, and when somebody
//!   reads: the locks are taken per request, never per block.
//!
//! What this room does not know: what numbers are called ([`reading`]), and who may read them.

mod live;
mod process;
mod reading;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use model::v1::State;
use model::v1::flows::Volume;
use wire::frame::Totals;

use self::live::Live;
pub(crate) use self::live::Moving;
use crate::flows::{Flows, User};
pub(crate) use web::openmetrics::{MEDIA_TYPE, Reading, label};

/// A number that grows.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What bytes move by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A job of a guest over the native protocol.
    Native,
    /// A native job to another node, that this one carries.
    Errand,
    /// A third-party copy that came as COPY.
    Copy,
    /// HTTP/1.1 in clear.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2.
    Http2,
}

impl By {
    const ALL: [By; 6] = [By::Native, By::Errand, By::Copy, By::Http, By::Https, By::Http2];
    /// Those whose pieces of work are jobs.
    const JOBS: [By; 3] = [By::Native, By::Errand, By::Copy];
    /// Those whose pieces of work are requests.
    const REQUESTS: [By; 3] = [By::Http, By::Https, By::Http2];

    fn word(self) -> &'static str {
        ["native", "errand", "copy", "http", "https", "h2"][self as usize]
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Partial,
    Failed,
    Refused,
    Interrupted,
}

impl Ended {
    const ALL: [Ended; 5] = [Ended::Done, Ended::Partial, Ended::Failed, Ended::Refused, Ended::Interrupted];

    fn word(self) -> &'static str {
        ["done", "partial", "failed", "refused", "interrupted"][self as usize]
    }
}

impl From<State> for Ended {
    fn from(state: State) -> Ended {
        match state {
            State::Done => Ended::Done,
            State::Partial => Ended::Partial,
            State::Failed => Ended::Failed,
            State::Interrupted => Ended::Interrupted,
        }
    }
}

/// Why somebody was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// No credential, or one that is not good.
    Auth,
    /// Whoever it is may not.
    Policy,
    /// No room for it now.
    Busy,
    /// What came is not spoken here.
    Protocol,
}

impl Why {
    const ALL: [Why; 4] = [Why::Auth, Why::Policy, Why::Busy, Why::Protocol];

    fn word(self) -> &'static str {
        ["auth", "policy", "busy", "protocol"][self as usize]
    }

    /// Behind a status of HTTP.
    fn of_status(status: u16) -> Option<Why> {
        match status {
            401 => Some(Why::Auth),
            403 => Some(Why::Policy),
            429 | 503 => Some(Why::Busy),
            _ => None,
        }
    }
}

/// Classes of status, by their first digit; the first one for requests whose connection broke before an answer.
const STATUSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Connections, in the rooms where they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rooms {
    /// Watched without a thread.
    pub idle: usize,
    /// With a thread of their own.
    pub attended: usize,
    /// In line for one.
    pub waiting: usize,
    /// Of the native protocol.
    pub sessions: usize,
}

/// Looks into them.
type Look = Box<dyn Fn() -> Rooms + Send + Sync>;

/// Sums of one protocol.
#[derive(Debug, Default)]
struct Sums {
    bytes_in: Count,
    bytes_out: Count,
    files_in: Count,
    files_out: Count,
    begun: Count,
    ended: [Count; Ended::ALL.len()],
    statuses: [Count; STATUSES.len()],
}

/// All numbers of a node.
pub(crate) struct Meters {
    began: SystemTime,
    by: [Sums; By::ALL.len()],
    resent_segments: Count,
    resent_segment_bytes: Count,
    resent_bytes: Count,
    integrity: Count,
    refusals: [Count; Why::ALL.len()],
    logins: Count,
    reloads: [Count; 2],
    live: Live,
    rooms: OnceLock<Look>,
    /// Who moves most.
    pub flows: Flows,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters {
            began: SystemTime::now(),
            by: Default::default(),
            resent_segments: Count::default(),
            resent_segment_bytes: Count::default(),
            resent_bytes: Count::default(),
            integrity: Count::default(),
            refusals: Default::default(),
            logins: Count::default(),
            reloads: Default::default(),
            live: Live::default(),
            rooms: OnceLock::new(),
            flows: Flows::default(),
        }
    }
}

impl Meters {
    /// Where connections are counted.
    pub fn look_into(&self, look: impl Fn() -> Rooms + Send + Sync + 'static) {
        let _ = self.rooms.set(Box::new(look));
    }

    /// So much more moved.
    fn moved(&self, by: By, peer: Option<IpAddr>, user: &Arc<User>, more: &Volume) {
        let sums = &self.by[by as usize];
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

    fn began(&self, by: By) {
        self.by[by as usize].begun.add(1);
    }

    fn ended(&self, by: By, how: Ended) {
        self.by[by as usize].ended[how as usize].add(1);
    }

    /// A job of a guest has ended; of what crossed twice its end knows.
    pub fn job_ended(&self, how: Ended, totals: &Totals) {
        self.ended(By::Native, how);
        self.resent_bytes.add(totals.resent_bytes);
    }

    /// A request was answered, with this status, or with none.
    pub fn answered(&self, by: By, status: u16) {
        let class = usize::from(status / 100).min(STATUSES.len() - 1);
        self.by[by as usize].statuses[class].add(1);
        if let Some(why) = Why::of_status(status) {
            self.refused(why);
        }
    }

    /// Somebody was refused.
    pub fn refused(&self, why: Why) {
        self.refusals[why as usize].add(1);
    }

    /// Somebody was let in.
    pub fn logged_in(&self) {
        self.logins.add(1);
    }

    /// Bytes are not what they should be, and were not taken for it.
    pub fn damaged(&self) {
        self.integrity.add(1);
    }

    /// New settings were asked for; they count, or they were refused.
    pub fn reloaded(&self, count: bool) {
        self.reloads[usize::from(!count)].add(1);
    }

    /// Takes in what moved since the last time.
    pub fn settle(&self) {
        self.live.settle(self);
    }
}
