//! The reflector (RFC 8762, section 4.3). It counts its answers to each session, from which the sender learns in which direction a
//! packet was lost.
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

pub use service::{ReflectorCounts, Responder, serve};
pub(super) use service::{is_temporary, set_ttl};

/// The answers that a sender may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// No answer.
    None,
    /// An answer as long as its question. Questions shorter than an answer get none, so that this host cannot be made to send
    /// more than it receives.
    Symmetric,
    /// An answer to every question: the address is known to be the sender's own.
    Verified,
    /// An answer to every question of a session that TWAMP-Control has begun: everything after the 14 octets of a question is padding,
    /// even if it looks like TLVs.
    Twamp,
}

/// Why a question is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a question: too short, or an answer.
    NotAQuestion,
    /// The sender may not have answers.
    Untrusted,
    /// The answer would be longer than the question.
    Longer,
    /// No room for another session.
    Full,
}

/// The arrival of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionArrival {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Time of arrival.
    pub at: RealNs,
    /// TTL or hop limit on arrival; none where the socket does not report it.
    pub ttl: Option<u8>,
    /// The answers that the sender may have.
    pub trust: Trust,
}

/// This host's clocks at the time of the answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerClock {
    /// Both clocks.
    pub reading: Reading,
    /// The quality of the real-time clock; none where the host does not report it.
    pub quality: Option<ClockQuality>,
}

/// Identifies a session: the sender's address and port, and the session number (RFC 8972, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The sender.
    pub from: SocketAddr,
    /// Its session.
    pub ssid: u16,
}

#[derive(Debug)]
struct Session {
    /// Answers sent, which is the number of the next one. Wraps.
    sent: u32,
    /// When the last question arrived, monotonic.
    last_question_ns: i64,
    /// Number and departure of the last answer whose departure is known.
    last: Option<(u32, Timestamp)>,
}

/// Most sessions in the table: some 100 bytes each, so 1 MiB.
pub const SESSIONS_MAX: usize = 8_192;
/// A session that is silent for this long is removed (`REFWAIT`, RFC 5357, section 4.2).
pub const IDLE: Duration = Duration::from_secs(900);
/// In a full table, a session that is silent for this long is removed.
const IDLE_WHEN_FULL: Duration = Duration::from_secs(30);
/// The table is searched for silent sessions at most this often, which bounds the cost of a flood of new sessions.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A reflector: answers questions, and counts the answers of each session.
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
    /// A reflector with room for `sessions_max` sessions.
    pub fn new(sessions_max: usize) -> Reflector {
        Reflector { sessions: HashMap::new(), sessions_max, swept_ns: None }
    }

    /// Number of sessions in the table.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Writes the answer to a question into `answer`, replacing its content. Returns the answer's session and number, for
    /// [`Reflector::record_departure`].
    ///
    /// # Errors
    /// Why the question is not answered. Such a question changes no session.
    pub fn answer(
        &mut self,
        question: &[u8],
        arrival: &QuestionArrival,
        now: &AnswerClock,
        answer: &mut Vec<u8>,
    ) -> Result<(SessionKey, u32), Refusal> {
        let mut parsed = Question::read(question).ok_or(Refusal::NotAQuestion)?;
        let is_twamp = arrival.trust == Trust::Twamp;
        if is_twamp {
            parsed.ssid = 0;
        }
        match arrival.trust {
            Trust::None => return Err(Refusal::Untrusted),
            _ if !is_twamp && packet::is_answer(question) => return Err(Refusal::NotAQuestion),
            Trust::Symmetric if question.len() < BASE => return Err(Refusal::Longer),
            _ => {}
        }
        let key = SessionKey { from: arrival.from, ssid: parsed.ssid };
        let now_ns = now.reading.mono_ns;
        self.make_room(&key, now_ns)?;
        let session = self.sessions.entry(key).or_insert(Session { sent: 0, last_question_ns: now_ns, last: None });
        session.last_question_ns = now_ns;
        let sequence = session.sent;
        session.sent = session.sent.wrapping_add(1);
        let quality = now.quality.unwrap_or_default();
        let at = Timestamp::of(now.reading.real_ns);
        let written = Answer {
            sequence,
            at,
            error: ErrorEstimate::of(quality.synchronised, quality.error),
            ssid: parsed.ssid,
            received: Timestamp::of(arrival.at),
            question_sequence: parsed.sequence,
            question_sent: parsed.at,
            question_error: parsed.error,
            ttl: arrival.ttl.unwrap_or(0),
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
        // Replaced when the kernel reports the departure.
        session.last = Some((sequence, at));
        Ok((key, sequence))
    }

    /// Takes the time at which an answer left this host, which is later than the time in the answer. The next answer carries it, if
    /// the sender asks for it (RFC 8972, section 4.7). A departure that is reported after the next answer is ignored.
    pub fn record_departure(&mut self, key: &SessionKey, sequence: u32, at: RealNs) {
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
            self.sessions.retain(|_, session| now_ns - session.last_question_ns < idle_ns);
        }
        if is_new && self.sessions.len() >= self.sessions_max { Err(Refusal::Full) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
