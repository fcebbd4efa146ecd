//! A stream of packets without end: what each minute of it lost, in which direction, and how long packets took.
//!
//! [`Stream`] is pure: times and answers in, packets and reports out. [`driver`] puts many of them on sockets, on one thread. Unlike a test
//! ([`super::send`]), a stream has no closing packets: what is lost is placed by the next answer. Its numbers begin at 1, so that a reflector
//! that counts for itself (from 0) is never taken for one that copies.

pub mod driver;
pub(crate) mod fuzzing;
mod minute;
mod ping;
mod port;

use std::collections::VecDeque;
use std::time::Duration;

use model::v1::node::{StreamReport, StreamTest};

use super::clock::{Reading, RealNs};
use super::packet::{ErrorEstimate, PACKET_MAX};
use crate::{Error, Result};
use minute::Minute;
use port::{Port, Sent};

/// After so long without an answer the other end is called silent.
const SILENT_NS: i64 = 5_000_000_000;
/// And so many packets.
const SILENT_PACKETS: u32 = 3;
/// After so long without an answer it is asked once a second at most.
const SLOW_AFTER_NS: i64 = 60_000_000_000;
const SLOW_INTERVAL_NS: i64 = 1_000_000_000;
/// A sender that was stopped for longer than this (a host asleep, a debugger) does not make up for it.
const STALL_NS: i64 = 1_000_000_000;
/// How long a minute that is over waits, beyond the timeout, for the answers that place what it lost.
const PLACE_NS: i64 = 2_000_000_000;

/// What a stream does, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    test: StreamTest,
    /// One port after the other is renewed: not where the other end knows our ports (TWAMP), or has none (ping).
    renews: bool,
}

impl Settings {
    /// Checks an order. `renews`: the other end does not mind where packets come from.
    ///
    /// # Errors
    /// A number is out of its bounds.
    pub fn new(test: StreamTest, renews: bool) -> Result<Settings> {
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        let wrong = match () {
            () if !within(test.rate_packets_s, 0.1, 100.0) => "a stream has 0.1 to 100 packets/s",
            () if !within(test.packet_bytes.into(), 44.0, 8_972.0) => "packets of a stream have 44 to 8,972 bytes",
            () if !within(test.timeout_s, 0.1, 30.0) => "an answer is waited for 0.1 to 30 s",
            () if !within(test.report_s, 1.0, 300.0) => "a measurement of a stream lasts 1 to 300 s",
            () if test.dscp > 63 => "a code point is 0 to 63",
            () if !(1..=32).contains(&test.ports) => "a stream has 1 to 32 ports",
            () if test.packet_bytes as usize > PACKET_MAX => "packets are too long",
            () => {
                let ports = if renews { test.ports } else { 1 };
                return Ok(Settings { test: StreamTest { ports, ..test }, renews });
            }
        };
        Err(Error::Order(wrong.into()))
    }

    /// As it was ordered.
    pub fn test(&self) -> &StreamTest {
        &self.test
    }

    fn interval_ns(&self) -> i64 {
        (1e9 / self.test.rate_packets_s) as i64
    }

    fn timeout_ns(&self) -> i64 {
        nanos(self.test.timeout_s)
    }
}

fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// From this port.
    pub port: u64,
    /// Its number.
    pub sequence: u32,
}

/// An answer, as far as the other end's protocol tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The number of the packet that it answers.
    pub asked: u32,
    /// The other end's own number; none where it has none.
    pub number: Option<u32>,
    /// When the packet came there and when the answer left, by the clock there.
    pub there: Option<(RealNs, RealNs)>,
    /// How good that clock is.
    pub error: Option<ErrorEstimate>,
    /// TTL of the packet as it came there.
    pub ttl_there: Option<u8>,
    /// TTL of the answer as it came here.
    pub ttl_here: Option<u8>,
}

/// How good this host's clock is, seconds; none where it is not synchronised.
pub type NearClockError = Option<Duration>;

/// What a stream has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A measurement is complete: when it began, how long it lasted.
    Report {
        /// Nanoseconds since 1970.
        at_ns: RealNs,
        /// Seconds.
        seconds: f64,
        /// What was found.
        report: Box<StreamReport>,
    },
    /// Nothing answers.
    Silent {
        /// When this was known.
        at_ns: RealNs,
    },
    /// Answers come again.
    Answers {
        /// When the first one came.
        at_ns: RealNs,
    },
}

/// A stream: pure.
#[derive(Debug)]
pub struct Stream {
    settings: Settings,
    ports: Vec<Port>,
    /// Which of them sends next.
    turn: usize,
    /// The name of the next new port.
    next_port: u64,
    due_ns: i64,
    /// Open ones, oldest first; the last one takes what is sent now.
    minutes: VecDeque<Minute>,
    /// The number of the last one.
    minute: u64,
    heard_ns: i64,
    unanswered: u32,
    is_silent: bool,
    events: VecDeque<Event>,
    seed: u64,
}

impl Stream {
    /// Begins now. `seed` decides the jitter of its packets: two streams do not beat together.
    pub fn new(settings: Settings, now: &Reading, seed: u64) -> Stream {
        let mut stream = Stream {
            settings,
            ports: Vec::new(),
            turn: 0,
            next_port: 0,
            due_ns: now.mono_ns,
            minutes: VecDeque::new(),
            minute: 0,
            heard_ns: now.mono_ns,
            unanswered: 0,
            is_silent: false,
            events: VecDeque::new(),
            seed,
        };
        stream.minutes.push_back(Minute::begin(0, now, settings.test.report_s));
        (0..settings.test.ports).for_each(|_| stream.add_port());
        stream
    }

    fn add_port(&mut self) {
        self.ports.push(Port::new(self.next_port));
        self.next_port += 1;
    }

    /// The ports that need a socket now, retiring ones included.
    pub fn ports(&self) -> impl Iterator<Item = u64> {
        self.ports.iter().map(|port| port.name)
    }

    /// What the socket of a port is bound to, once it is there.
    pub fn bound(&mut self, port: u64, number: u16) {
        if let Some(port) = self.ports.iter_mut().find(|one| one.name == port) {
            port.number = number;
        }
    }

    /// When [`Stream::poll`] is to be called again.
    pub fn due_ns(&self) -> i64 {
        let oldest = self.minutes.front().map_or(i64::MAX, |minute| self.closes_ns(minute));
        self.due_ns.min(oldest)
    }

    fn closes_ns(&self, minute: &Minute) -> i64 {
        minute.end_ns + self.settings.timeout_ns() + PLACE_NS
    }

    /// The packet whose time has come. It counts as sent at `now`, unless [`Stream::not_sent`] follows.
    pub fn poll(&mut self, now: &Reading) -> Option<Outgoing> {
        self.turn_minute(now);
        self.expire(now.mono_ns);
        self.look_for_silence(now);
        self.close_minutes(now.mono_ns);
        if now.mono_ns < self.due_ns {
            return None;
        }
        let late_ns = now.mono_ns - self.due_ns;
        let silent_for_ns = now.mono_ns - self.heard_ns;
        let mut interval_ns = self.settings.interval_ns();
        let is_late = late_ns > interval_ns / 2;
        if silent_for_ns > SLOW_AFTER_NS {
            interval_ns = interval_ns.max(SLOW_INTERVAL_NS);
        }
        let from_ns = if late_ns > STALL_NS { now.mono_ns } else { self.due_ns };
        self.due_ns = from_ns + self.jittered(interval_ns);
        let active = self.ports.iter().filter(|port| !port.is_retiring).count().max(1);
        self.turn = (self.turn + 1) % active;
        let minute = self.minute;
        let port = self.ports.iter_mut().filter(|port| !port.is_retiring).nth(self.turn)?;
        let sequence = port.send(Sent { minute, left: *now, answer: None });
        let name = port.name;
        self.unanswered = self.unanswered.saturating_add(1);
        if let Some(current) = self.minutes.back_mut() {
            current.sent(now, is_late);
        }
        Some(Outgoing { port: name, sequence })
    }

    /// Between half and one and a half: what repeats itself on the path is not hit every time (RFC 2330, section 11.1).
    fn jittered(&mut self, interval_ns: i64) -> i64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (self.seed >> 33) as f64 / f64::from(1u32 << 31);
        (interval_ns as f64 * (0.5 + share)) as i64
    }

    /// A packet could not be sent: the host's own trouble, and no loss of the path.
    pub fn not_sent(&mut self, outgoing: &Outgoing) {
        let Some(port) = self.ports.iter_mut().find(|port| port.name == outgoing.port) else { return };
        if let Some(sent) = port.take_back(outgoing.sequence)
            && let Some(minute) = self.minutes.iter_mut().find(|minute| minute.number == sent.minute)
        {
            minute.report.sent = minute.report.sent.saturating_sub(1);
        }
    }

    /// An answer came to a port at `back`.
    pub fn handle(&mut self, port: u64, reply: &Reply, back: &Reading, near: NearClockError) {
        let Some(port) = self.ports.iter_mut().find(|one| one.name == port) else { return };
        match port.reply(reply, back) {
            port::Heard::First => {}
            port::Heard::Copy(minute) => {
                if let Some(minute) = self.minutes.iter_mut().find(|one| one.number == minute) {
                    minute.report.duplicates += 1;
                }
                return;
            }
            port::Heard::Stranger => return,
        }
        self.heard_ns = back.mono_ns;
        self.unanswered = 0;
        if std::mem::take(&mut self.is_silent) {
            self.events.push_back(Event::Answers { at_ns: back.real_ns });
        }
        if let Some(minute) = self.minutes.back_mut() {
            minute.clocks(reply, near);
        }
        port.settle(i64::MIN, self.settings.timeout_ns(), &mut self.minutes);
    }

    /// What there is to tell, oldest first.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn expire(&mut self, now_ns: i64) {
        for port in &mut self.ports {
            port.settle(now_ns, self.settings.timeout_ns(), &mut self.minutes);
        }
        let minutes = &mut self.minutes;
        self.ports.retain_mut(|port| {
            let is_over = port.is_retiring && port.is_empty();
            if is_over {
                port.give_up(minutes);
            }
            !is_over
        });
    }

    fn turn_minute(&mut self, now: &Reading) {
        let is_over = self.minutes.back().is_none_or(|minute| now.mono_ns >= minute.end_ns);
        if !is_over {
            return;
        }
        self.minute += 1;
        self.minutes.push_back(Minute::begin(self.minute, now, self.settings.test.report_s));
        if self.settings.renews {
            if let Some(oldest) = self.ports.iter_mut().find(|port| !port.is_retiring) {
                oldest.is_retiring = true;
            }
            self.add_port();
        }
    }

    fn look_for_silence(&mut self, now: &Reading) {
        if !self.is_silent && self.unanswered >= SILENT_PACKETS && now.mono_ns - self.heard_ns >= SILENT_NS {
            self.is_silent = true;
            self.events.push_back(Event::Silent { at_ns: now.real_ns });
        }
    }

    fn close_minutes(&mut self, now_ns: i64) {
        while self.minutes.front().is_some_and(|minute| now_ns >= self.closes_ns(minute)) {
            let Some(mut minute) = self.minutes.pop_front() else { return };
            for port in &mut self.ports {
                port.leave(&mut minute);
            }
            let ports = self.settings.test.ports;
            self.events.push_back(minute.end(ports));
        }
    }
}

#[cfg(test)]
mod tests;
