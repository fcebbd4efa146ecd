//! The end that answers (RFC 8762, section 4.3), with a count of its own for each session, so that the other end can tell
//! which way a packet was lost.
//!
//! [`Reflector`] is pure: octets and times in, octets out. [`serve`] puts it on a socket.

mod service;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use sys::clock_quality::ClockQuality;

use super::clock::{Reading, RealNs};
use super::packet::{self, Answer, BASE, ErrorEstimate, Question, Timestamp};
use super::tlv::{self, Facts};

pub use service::{Responder, Served, serve};
pub(super) use service::{is_passing, set_ttl};

/// What a sender may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// No answer.
    None,
    /// An answer as long as its question. Questions shorter than an answer get none, so that nobody can make this host
    /// send more than was sent to it.
    Symmetric,
    /// An answer to every question: the address is known to be the sender's own.
    Whole,
    /// The same for a session that TWAMP-Control has begun: what follows the 14 octets of a question is padding, whatever it looks like.
    Twamp,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a question: too short, or an answer.
    NotAQuestion,
    /// The sender may not have any.
    Untrusted,
    /// The answer would be longer than the question.
    Longer,
    /// No room for another session.
    Full,
}

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// From whom.
    pub from: SocketAddr,
    /// When.
    pub at: RealNs,
    /// TTL or hop limit that was left; none where the socket does not say.
    pub ttl: Option<u8>,
    /// What the sender may have.
    pub trust: Trust,
}

/// This host's clocks when the answer is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// What they say.
    pub reading: Reading,
    /// How good the real-time clock is; none where nobody can say.
    pub quality: Option<ClockQuality>,
}

/// A test of one sender: address, port and session number (RFC 8972, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The sender.
    pub from: SocketAddr,
    /// Its session.
    pub ssid: u16,
}

#[derive(Debug)]
struct Session {
    /// Answers sent, which is the next one's number. Wraps.
    sent: u32,
    /// When the last question came, monotonic.
    seen_ns: i64,
    /// Number and departure of the last answer whose departure is known.
    last: Option<(u32, Timestamp)>,
}

/// Sessions that are remembered: some 100 bytes each, so 1 MiB.
pub const SESSIONS_MAX: usize = 8_192;
/// A session that is silent for so long is forgotten (`REFWAIT`, RFC 5357, section 4.2).
pub const IDLE: Duration = Duration::from_secs(900);
/// In a full table, one that is silent for so long gives way.
const IDLE_WHEN_FULL: Duration = Duration::from_secs(30);
/// The table is gone through for silent ones at most this often: a flood of new sessions costs no more than that.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Answers questions.
#[derive(Debug)]
pub struct Reflector {
    sessions: HashMap<SessionKey, Session>,
    sessions_max: usize,
    swept_ns: Option<i64>,
}

impl Default for Reflector {
    fn default() -> Reflector {
        Reflector::new(SESSIONS_MAX)
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

impl Reflector {
    /// With room for so many sessions.
    pub fn new(sessions_max: usize) -> Reflector {
        Reflector { sessions: HashMap::new(), sessions_max, swept_ns: None }
    }

    /// Sessions that it remembers.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Answers a question into `answer`, whose content goes. The answer's number and session are given back, for
    /// [`Reflector::left`].
    ///
    /// # Errors
    /// There is no answer, and why. Nothing is kept of such a question.
    pub fn answer(
        &mut self,
        question: &[u8],
        came: &Came,
        now: &Now,
        answer: &mut Vec<u8>,
    ) -> Result<(SessionKey, u32), Refusal> {
        let mut asked = Question::read(question).ok_or(Refusal::NotAQuestion)?;
        let is_twamp = came.trust == Trust::Twamp;
        if is_twamp {
            asked.ssid = 0;
        }
        match came.trust {
            Trust::None => return Err(Refusal::Untrusted),
            _ if !is_twamp && packet::is_answer(question) => return Err(Refusal::NotAQuestion),
            Trust::Symmetric if question.len() < BASE => return Err(Refusal::Longer),
            _ => {}
        }
        let key = SessionKey { from: came.from, ssid: asked.ssid };
        let now_ns = now.reading.mono_ns;
        self.make_room(&key, now_ns)?;
        let session = self.sessions.entry(key).or_insert(Session { sent: 0, seen_ns: now_ns, last: None });
        session.seen_ns = now_ns;
        let sequence = session.sent;
        session.sent = session.sent.wrapping_add(1);
        let quality = now.quality.unwrap_or_default();
        let at = Timestamp::of(now.reading.real_ns);
        let written = Answer {
            sequence,
            at,
            error: ErrorEstimate::of(quality.synchronised, quality.error),
            ssid: asked.ssid,
            received: Timestamp::of(came.at),
            asked: asked.sequence,
            asked_at: asked.at,
            asked_error: asked.error,
            ttl: came.ttl.unwrap_or(0),
        };
        answer.clear();
        answer.extend(written.write());
        answer.extend(question.get(BASE..).unwrap_or_default());
        let counts = session.sent;
        let facts =
            Facts { synchronised: quality.synchronised, received: counts, sent: counts, last: session.last.take() };
        if !is_twamp {
            tlv::reflect(&mut answer[BASE..], &facts);
        }
        // Until the kernel tells better.
        session.last = Some((sequence, at));
        Ok((key, sequence))
    }

    /// An answer left this host later than it says. Told to the sender with the next answer, if it asks (RFC 8972, section
    /// 4.7). What comes behind the next answer is too late, and forgotten.
    pub fn left(&mut self, key: &SessionKey, sequence: u32, at: RealNs) {
        if let Some(last) = self.sessions.get_mut(key).and_then(|session| session.last.as_mut())
            && last.0 == sequence
        {
            last.1 = Timestamp::of(at);
        }
    }

    fn make_room(&mut self, key: &SessionKey, now_ns: i64) -> Result<(), Refusal> {
        let is_full = self.sessions.len() >= self.sessions_max;
        let is_new = !self.sessions.contains_key(key);
        if is_new && self.swept_ns.is_none_or(|at| now_ns - at >= nanos(SWEEP_EVERY)) {
            self.swept_ns = Some(now_ns);
            let idle_ns = nanos(if is_full { IDLE_WHEN_FULL } else { IDLE });
            self.sessions.retain(|_, session| now_ns - session.seen_ns < idle_ns);
        }
        if is_new && self.sessions.len() >= self.sessions_max { Err(Refusal::Full) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
