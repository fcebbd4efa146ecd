//! A stream of packets without end: loss by direction and delays, minute by minute.
//!
//! [`Stream`] is pure: it takes times and answers, and returns packets and reports. [`driver`] runs many streams on sockets, on
//! one thread. Unlike a test ([`super::send`]), a stream has no closing packets: the next answer shows in which direction
//! packets were lost. Its numbers begin at 1, so that a reflector with its own count (from 0) is never confused with one that
//! copies the sender's numbers.

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
use port::{Port, SentPacket};

/// Least time without an answer before the far end is reported silent.
const SILENT_NS: i64 = 5_000_000_000;
/// Least packets without an answer before the far end is reported silent.
const SILENT_PACKETS: u32 = 3;
/// After this long without an answer the stream slows down to one packet a second.
const SLOW_AFTER_NS: i64 = 60_000_000_000;
const SLOW_INTERVAL_NS: i64 = 1_000_000_000;
/// A sender that was stopped for longer than this (a sleeping host, a debugger) skips the packets of that time.
const STALL_NS: i64 = 1_000_000_000;
/// How long a minute waits after its end, beyond the timeout, for the answers that show the direction of its losses.
const PLACE_NS: i64 = 2_000_000_000;

/// The checked settings of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    test: StreamTest,
    /// Ports are replaced one after the other. They are not replaced where the far end
    /// expects fixed ports (TWAMP), or where there are none (ping).
    renews_ports: bool,
}

impl Settings {
    /// Checks an order. `renews_ports`: the far end accepts packets from changing ports.
    ///
    /// # Errors
    /// [`Error::Order`]: a number is out of its bounds.
    pub fn new(test: StreamTest, renews_ports: bool) -> Result<Settings> {
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        let wrong = if !within(test.rate_packets_s, 0.1, 100.0) {
            "a stream has 0.1 to 100 packets/s"
        } else if !within(test.packet_bytes.into(), 44.0, 8_972.0) {
            "packets of a stream have 44 to 8,972 bytes"
        } else if !within(test.timeout_s, 0.1, 30.0) {
            "the timeout of an answer is 0.1 to 30 s"
        } else if !within(test.report_s, 1.0, 300.0) {
            "a measurement of a stream lasts 1 to 300 s"
        } else if test.dscp > 63 {
            "a code point is 0 to 63"
        } else if !(1..=32).contains(&test.ports) {
            "a stream has 1 to 32 ports"
        } else if test.packet_bytes as usize > PACKET_MAX {
            "packets are too long"
        } else {
            let ports = if renews_ports { test.ports } else { 1 };
            return Ok(Settings { test: StreamTest { ports, ..test }, renews_ports });
        };
        Err(Error::Order(wrong.into()))
    }

    /// The order, with the number of ports that the stream uses.
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
    /// Id of the port that sends it.
    pub port: u64,
    /// Its number.
    pub sequence: u32,
}

/// An answer, with the fields that the far end's protocol has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The number of the packet that it answers.
    pub question_sequence: u32,
    /// The far end's own number; none where its protocol has none.
    pub number: Option<u32>,
    /// When the packet arrived at the far end and when the answer left, by the far clock.
    pub far_ns: Option<(RealNs, RealNs)>,
    /// The error estimate of the far clock.
    pub error: Option<ErrorEstimate>,
    /// TTL of the packet on arrival at the far end.
    pub ttl_forward: Option<u8>,
    /// TTL of the answer on arrival at the near end.
    pub ttl_reverse: Option<u8>,
}

/// The error of this host's clock; none where it is not synchronised.
pub type NearClockError = Option<Duration>;

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A measurement is complete.
    Report {
        /// When it began, nanoseconds since 1970.
        at_ns: RealNs,
        /// How long it lasted, seconds.
        seconds: f64,
        /// The measurement.
        report: Box<StreamReport>,
    },
    /// The far end does not answer.
    Silent {
        /// When this was detected, nanoseconds since 1970.
        at_ns: RealNs,
    },
    /// The far end answers again.
    Answers {
        /// When the first answer arrived, nanoseconds since 1970.
        at_ns: RealNs,
    },
}

/// The state of a stream. Pure.
#[derive(Debug)]
pub struct Stream {
    settings: Settings,
    ports: Vec<Port>,
    /// Index of the port that sends next.
    turn: usize,
    /// The id of the next new port.
    next_port: u64,
    due_ns: i64,
    /// Open minutes, oldest first; packets that leave now belong to the last one.
    minutes: VecDeque<Minute>,
    /// The number of the last minute.
    minute: u64,
    /// When the last answer arrived, monotonic.
    last_answer_ns: i64,
    /// Packets sent since the last answer.
    unanswered: u32,
    is_silent: bool,
    events: VecDeque<Event>,
    seed: u64,
}

impl Stream {
    /// Begins a stream. `seed` determines the jitter of its packets, so that two streams are not in step.
    pub fn new(settings: Settings, now: &Reading, seed: u64) -> Stream {
        let mut stream = Stream {
            settings,
            ports: Vec::new(),
            turn: 0,
            next_port: 0,
            due_ns: now.mono_ns,
            minutes: VecDeque::new(),
            minute: 0,
            last_answer_ns: now.mono_ns,
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

    /// Ids of the ports that need a socket now, retiring ones included.
    pub fn ports(&self) -> impl Iterator<Item = u64> {
        self.ports.iter().map(|port| port.id)
    }

    /// Sets the number of the UDP port that the socket of a port is bound to.
    pub fn set_port_number(&mut self, port: u64, number: u16) {
        if let Some(port) = self.ports.iter_mut().find(|one| one.id == port) {
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

    /// The packet that is due. It counts as sent at `now`, unless [`Stream::not_sent`] follows.
    pub fn poll(&mut self, now: &Reading) -> Option<Outgoing> {
        self.advance_minute(now);
        self.expire(now.mono_ns);
        self.detect_silence(now);
        self.close_minutes(now.mono_ns);
        if now.mono_ns < self.due_ns {
            return None;
        }
        let late_ns = now.mono_ns - self.due_ns;
        let silent_for_ns = now.mono_ns - self.last_answer_ns;
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
        let sequence = port.send(SentPacket { minute, clocks: *now, answer: None });
        let id = port.id;
        self.unanswered = self.unanswered.saturating_add(1);
        if let Some(current) = self.minutes.back_mut() {
            current.sent(now, is_late);
        }
        Some(Outgoing { port: id, sequence })
    }

    /// A random interval from half to one and a half of `interval_ns`, so that the packets are not in step with periodic events on
    /// the path (RFC 2330, section 11.1).
    fn jittered(&mut self, interval_ns: i64) -> i64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (self.seed >> 33) as f64 / f64::from(1u32 << 31);
        (interval_ns as f64 * (0.5 + share)) as i64
    }

    /// Takes back a packet that could not be sent: this is a problem of the host, and no loss of the path.
    pub fn not_sent(&mut self, outgoing: &Outgoing) {
        let Some(port) = self.ports.iter_mut().find(|port| port.id == outgoing.port) else { return };
        if let Some(sent) = port.take_back(outgoing.sequence)
            && let Some(minute) = self.minutes.iter_mut().find(|minute| minute.number == sent.minute)
        {
            minute.report.sent = minute.report.sent.saturating_sub(1);
        }
    }

    /// Takes an answer that arrived at a port at `arrived`.
    pub fn handle(&mut self, port: u64, reply: &Reply, arrived: &Reading, near: NearClockError) {
        let Some(port) = self.ports.iter_mut().find(|one| one.id == port) else { return };
        match port.reply(reply, arrived) {
            port::ReplyKind::First => {}
            port::ReplyKind::Copy(minute) => {
                if let Some(minute) = self.minutes.iter_mut().find(|one| one.number == minute) {
                    minute.report.duplicates += 1;
                }
                return;
            }
            port::ReplyKind::Stranger => return,
        }
        self.last_answer_ns = arrived.mono_ns;
        self.unanswered = 0;
        if std::mem::take(&mut self.is_silent) {
            self.events.push_back(Event::Answers { at_ns: arrived.real_ns });
        }
        if let Some(minute) = self.minutes.back_mut() {
            minute.record_clocks(reply, near);
        }
        port.settle(i64::MIN, self.settings.timeout_ns(), &mut self.minutes);
    }

    /// The next event, oldest first.
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
                port.close(minutes);
            }
            !is_over
        });
    }

    fn advance_minute(&mut self, now: &Reading) {
        let is_over = self.minutes.back().is_none_or(|minute| now.mono_ns >= minute.end_ns);
        if !is_over {
            return;
        }
        self.minute += 1;
        self.minutes.push_back(Minute::begin(self.minute, now, self.settings.test.report_s));
        if self.settings.renews_ports {
            if let Some(oldest) = self.ports.iter_mut().find(|port| !port.is_retiring) {
                oldest.is_retiring = true;
            }
            self.add_port();
        }
    }

    fn detect_silence(&mut self, now: &Reading) {
        if !self.is_silent && self.unanswered >= SILENT_PACKETS && now.mono_ns - self.last_answer_ns >= SILENT_NS {
            self.is_silent = true;
            self.events.push_back(Event::Silent { at_ns: now.real_ns });
        }
    }

    fn close_minutes(&mut self, now_ns: i64) {
        while self.minutes.front().is_some_and(|minute| now_ns >= self.closes_ns(minute)) {
            let Some(mut minute) = self.minutes.pop_front() else { return };
            for port in &mut self.ports {
                port.close_minute(&mut minute);
            }
            let ports = self.settings.test.ports;
            self.events.push_back(minute.end(ports));
        }
    }
}

#[cfg(test)]
mod tests;
