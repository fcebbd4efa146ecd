//! The sender of a test: sends packets on a schedule, takes answers in any order, and evaluates them.
//!
//! It runs on one thread. The due time of each packet counts from the start, so that a late packet does not delay the next. It works
//! with any reflector of RFC 8762 and, with packets of 14 to 43 octets or a reflector without sessions, of TWAMP-Light.

mod flight;
mod near;
mod order;
mod outcome;

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use model::v1::probe::latency::Latency;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use sys::stamps;

use super::clock::{Clock, Reading};
use super::delays::{DelayHistogram, Delays, Times};
use super::packet::{Answer, BASE, PACKET_MAX, Question, Timestamp};
use super::reflect::{is_temporary, set_ttl};
use super::tally::{AnswerKind, PacketCounts};
use super::tlv;
use crate::{Error, Result, Stop};
use flight::{Flight, Slot};
use near::NearClock;
use outcome::FarEndSummary;

pub use order::{Extent, Order};

/// A sender that was stopped for longer than this (a sleeping host, a debugger) skips the packets of that time.
const STALL_NS: i64 = 1_000_000_000;
/// The longest wait before the stop is checked.
const CHECK_INTERVAL_NS: i64 = 100_000_000;
/// Most answers taken before the schedule is checked.
const BATCH: usize = 64;
/// Most closing packets, see [`super::tally`]. A second one is sent only if the first is lost.
const CLOSERS: usize = 3;
/// How much longer than twice the longest round trip so far the sender waits for stragglers and duplicates.
const GRACE_NS: i64 = 100_000_000;
/// Receive buffer: holds the answers of a second, at 1,000 a second, while the sender is not scheduled.
const BUFFER_BYTES: usize = 1 << 20;

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// Runs a test: sends packets, waits for stragglers, and returns the result. `socket` is connected to the reflector and read by
/// nobody else; its TTL, code point and time stamps are set here.
///
/// # Errors
/// [`Error::Order`]: the order is out of bounds. [`Error::Host`]: the socket fails. [`Error::Connect`]: nothing listens at the
/// peer's port. Lost packets are a result, even if all are lost.
pub fn run(socket: &UdpSocket, order: &Order, stop: &Stop, clock: &dyn Clock) -> Result<Latency> {
    order.check()?;
    let mut sender = Sender::new(socket, order, stop, clock)?;
    sender.send_packets()?;
    sender.wait_for_stragglers()?;
    sender.send_closers()?;
    sender.result()
}

struct Sender<'a> {
    socket: &'a UdpSocket,
    order: &'a Order,
    stop: &'a Stop,
    clock: &'a dyn Clock,
    peer: String,
    packet: Vec<u8>,
    buffer: Vec<u8>,
    tally: PacketCounts,
    delays: Delays,
    flight: Flight,
    /// Number and time of each closing packet.
    closers: Vec<(u32, Timestamp)>,
    near: NearClock,
    far: FarEndSummary,
    lateness: DelayHistogram,
    /// How many packets had left when the kernel counted 0; none where it does not report departures.
    numbered_from: Option<u64>,
    /// All answers had a time stamp of the kernel.
    kernel_times: bool,
    /// The longest time to an answer.
    longest_ns: i64,
    /// When the last answer arrived.
    last_answer_ns: i64,
    ignored: u64,
    refused: u64,
    not_sent: u64,
    failure: Option<io::Error>,
    interrupted: bool,
    started_ns: i64,
}

/// A question of this length. The octets after the 44 are one TLV of padding if its head fits. The padding is random, so that no
/// link can compress it.
fn blank(length: usize) -> Vec<u8> {
    let mut packet = vec![0; length];
    if let Some(tail) = packet.get_mut(BASE..).filter(|tail| tail.len() >= tlv::HEAD) {
        let value = tail.len() - tlv::HEAD;
        tail[0] = tlv::UNRECOGNISED;
        tail[1] = tlv::EXTRA_PADDING;
        tail[2..4].copy_from_slice(&(value as u16).to_be_bytes());
        tail[tlv::HEAD..].fill_with(|| fastrand::u8(..));
    }
    packet
}

fn prepare(socket: &UdpSocket, order: &Order) -> io::Result<()> {
    set_ttl(socket)?;
    let reference = SockRef::from(socket);
    let class = u32::from(order.dscp) << 2;
    if socket.local_addr()?.is_ipv6() {
        reference.set_tclass_v6(class)?;
        // For IPv4 over an IPv6 socket; an IPv6-only socket may refuse.
        let _ = reference.set_tos_v4(class);
    } else {
        reference.set_tos_v4(class)?;
    }
    // The host may allow less.
    let _ = reference.set_recv_buffer_size(BUFFER_BYTES);
    stamps::enable_ttl(socket)
}

impl<'a> Sender<'a> {
    fn new(socket: &'a UdpSocket, order: &'a Order, stop: &'a Stop, clock: &'a dyn Clock) -> Result<Sender<'a>> {
        let failed = |doing: &'static str| move |source: io::Error| Error::Host { doing, source };
        let peer = socket.peer_addr().map_err(failed("find out whom the socket is connected to"))?.to_string();
        prepare(socket, order).map_err(failed("set the socket's TTL and code point"))?;
        // Without kernel stamps the times are those of this process, which are late by the time it waits for a processor.
        let numbered_from = stamps::enable(socket, true).ok().map(|()| 0);
        let near = NearClock::new(clock);
        let reading = clock.read();
        let window = (order.rate_packets_s * order.timeout.as_secs_f64()) as usize;
        Ok(Sender {
            socket,
            order,
            stop,
            clock,
            peer,
            packet: blank(order.packet_bytes),
            buffer: vec![0; PACKET_MAX],
            tally: PacketCounts::new(window),
            delays: Delays::new(reading.offset_ns(), order.packets(), order.rate_packets_s),
            flight: Flight::default(),
            closers: Vec::new(),
            near,
            far: FarEndSummary::default(),
            lateness: DelayHistogram::default(),
            numbered_from,
            kernel_times: numbered_from.is_some(),
            longest_ns: 0,
            last_answer_ns: reading.mono_ns,
            ignored: 0,
            refused: 0,
            not_sent: 0,
            failure: None,
            interrupted: false,
            started_ns: reading.mono_ns,
        })
    }

    /// Reads the clocks, and checks whether they were set.
    fn read_clocks(&mut self) -> Reading {
        let reading = self.clock.read();
        self.near.update(&reading, self.clock);
        reading
    }

    /// Sends all packets, each at its due time.
    fn send_packets(&mut self) -> Result<()> {
        let packets = self.order.packets();
        let interval = 1e9 / self.order.rate_packets_s;
        let mut start_ns = self.read_clocks().mono_ns;
        self.started_ns = start_ns;
        let mut tick = 0;
        while tick < packets {
            if self.stop.is_stopped() {
                self.interrupted = true;
                return Ok(());
            }
            let due_ns = start_ns + (tick as f64 * interval) as i64;
            let reading = self.read_clocks();
            if reading.mono_ns < due_ns {
                self.idle(due_ns)?;
                continue;
            }
            let late_ns = reading.mono_ns - due_ns;
            if late_ns > STALL_NS {
                start_ns += late_ns;
            }
            self.lateness.record(late_ns);
            self.send_next(&reading)?;
            tick += 1;
            self.take_departures();
            self.take_answers()?;
            // Also where the sender is always late and never waits: this bounds the packets in flight.
            self.retire(reading.mono_ns);
        }
        Ok(())
    }

    /// Waits for answers to the packets in flight.
    fn wait_for_stragglers(&mut self) -> Result<()> {
        let begun_ns = self.clock.read().mono_ns;
        loop {
            let now_ns = self.read_clocks().mono_ns;
            self.interrupted |= self.stop.is_stopped();
            let grace_ns = self.overdue_after_ns();
            // Duplicates of the last answers may still arrive. An interrupted test waits only as long as for these.
            let is_enough = self.tally.is_whole() && now_ns - self.last_answer_ns >= grace_ns
                || self.interrupted && now_ns - begun_ns >= grace_ns;
            if is_enough || self.flight.is_empty() {
                return Ok(());
            }
            let enough_ns = if self.tally.is_whole() { self.last_answer_ns + grace_ns } else { i64::MAX };
            self.idle(enough_ns.min(self.flight.deadline_ns(nanos(self.order.timeout))))?;
        }
    }

    /// The time after which an answer counts as overdue.
    fn overdue_after_ns(&self) -> i64 {
        (2 * self.longest_ns + GRACE_NS).min(nanos(self.order.timeout))
    }

    /// Sends closing packets, whose answers show what happened to the others.
    fn send_closers(&mut self) -> Result<()> {
        for _ in 0..CLOSERS {
            if !self.tally.wants_closing() {
                break;
            }
            let reading = self.read_clocks();
            let sequence = self.tally.next_closer();
            let at = Timestamp::of(reading.real_ns);
            if !self.send(sequence, at)? {
                continue;
            }
            self.tally.closer_sent();
            self.closers.push((sequence, at));
            let until_ns = reading.mono_ns + self.overdue_after_ns();
            while self.tally.wants_closing() && self.clock.read().mono_ns < until_ns {
                self.idle(until_ns)?;
            }
        }
        self.retire(i64::MAX);
        Ok(())
    }

    /// Sends the next packet of the test.
    fn send_next(&mut self, reading: &Reading) -> Result<()> {
        let sequence = self.tally.next_packet();
        let at = Timestamp::of(reading.real_ns);
        if self.send(sequence, at)? {
            self.tally.sent();
            self.flight.push(Slot { question_sent: at, clocks: *reading, sent_ns: reading.mono_ns, answer: None });
        }
        Ok(())
    }

    /// Sends a packet; returns whether it left.
    fn send(&mut self, sequence: u32, at: Timestamp) -> Result<bool> {
        let question = Question { sequence, at, error: self.near.estimate(), ssid: self.order.ssid };
        question.write(&mut self.packet);
        // The call may return the ICMP error of an earlier packet; then it is repeated.
        for _ in 0..3 {
            let Err(error) = self.socket.send(&self.packet) else { return Ok(true) };
            self.restart_numbering();
            if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) {
                let bytes = self.order.packet_bytes;
                return Err(Error::Order(format!(
                    "packets of {bytes} bytes are too long for the path to {}",
                    self.peer
                )));
            }
            let refused = error.kind() == io::ErrorKind::ConnectionRefused;
            self.failure = Some(error);
            if !refused {
                break;
            }
            self.refused += 1;
        }
        self.not_sent += 1;
        Ok(false)
    }

    /// Restarts the kernel's numbering of departures: after a failed send it is unknown whether the kernel counted the packet.
    fn restart_numbering(&mut self) {
        self.take_departures();
        if self.numbered_from.is_some() {
            self.numbered_from = stamps::enable(self.socket, true).ok().map(|()| self.tally.sent_with_closers());
        }
    }

    /// Takes the kernel's times of departure.
    fn take_departures(&mut self) {
        while let Some(from) = self.numbered_from {
            let Ok(Some(departure)) = stamps::departure(self.socket) else { return };
            let ordinal = from + u64::from(departure.number);
            let Some(slot) = self.flight.get_mut(ordinal) else { continue };
            let Some(real_ns) = self.clock.of_kernel(departure.at) else { continue };
            let sent_ns = slot.clocks.mono_at(real_ns);
            // The time is wrong if the clock was set in between: no packet leaves before it is sent, or later than now.
            let is_past = sent_ns <= self.clock.read().mono_ns;
            if (0..STALL_NS).contains(&(sent_ns - slot.clocks.mono_ns)) && is_past && slot.answer.is_none() {
                slot.sent_ns = sent_ns;
            }
        }
    }

    /// Takes answers until `until_ns`, or for a shorter time.
    fn idle(&mut self, until_ns: i64) -> Result<()> {
        let now_ns = self.clock.read().mono_ns;
        let wait_ns = until_ns.saturating_sub(now_ns).clamp(0, CHECK_INTERVAL_NS);
        let mut waits = [PollFd::new(self.socket, PollFlags::IN)];
        match poll(&mut waits, Some(&Timespec { tv_sec: 0, tv_nsec: wait_ns })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Host { doing: "wait for answers", source: error.into() }),
        }
        self.take_departures();
        self.take_answers()?;
        let now_ns = self.read_clocks().mono_ns;
        self.retire(now_ns);
        Ok(())
    }

    /// Takes the answers that have arrived.
    fn take_answers(&mut self) -> Result<()> {
        for _ in 0..BATCH {
            match stamps::receive(self.socket, &mut self.buffer) {
                Ok(Some(arrival)) => self.take_answer(&arrival),
                Ok(None) => break,
                Err(error) if is_temporary(&error) => {
                    self.refused += u64::from(error.kind() == io::ErrorKind::ConnectionRefused);
                    self.failure = Some(error);
                }
                Err(source) => return Err(Error::Host { doing: "receive answers", source }),
            }
        }
        Ok(())
    }

    fn take_answer(&mut self, arrival: &stamps::Arrival) {
        let reading = self.clock.read();
        let Some(answer) = Answer::read(&self.buffer[..arrival.bytes]).filter(|a| self.is_ours(a)) else {
            self.ignored += 1;
            return;
        };
        // The kernel reports the packet's departure before its answer arrives.
        self.take_departures();
        let slot = self.flight.get_mut(answer.question_sequence.into());
        let kind = self.tally.answer(answer.question_sequence, answer.sequence, slot.is_some());
        match (kind, slot) {
            (AnswerKind::Stranger, _) => self.ignored += 1,
            (AnswerKind::First, Some(slot)) => {
                let stamp = arrival.at.and_then(|at| self.clock.of_kernel(at)).map(|real_ns| reading.mono_at(real_ns));
                let stamp = stamp.filter(|returned_ns| (slot.sent_ns..=reading.mono_ns).contains(returned_ns));
                self.kernel_times &= stamp.is_some();
                let returned_ns = stamp.unwrap_or(reading.mono_ns);
                let (received_ns, answered_ns) = (answer.error.read(answer.received), answer.error.read(answer.at));
                slot.answer = Some(Times { sent_ns: slot.sent_ns, received_ns, answered_ns, returned_ns });
                self.longest_ns = self.longest_ns.max(returned_ns - slot.sent_ns);
                self.far.record(&answer, arrival.ttl);
            }
            _ => {}
        }
        self.last_answer_ns = reading.mono_ns;
    }

    /// Whether an answer belongs to this test, by its session and the time of the packet that it answers. The time of a packet is
    /// no longer stored after its timeout, and is not checked then.
    fn is_ours(&self, answer: &Answer) -> bool {
        let is_session = answer.ssid == self.order.ssid || answer.ssid == 0;
        let closer = self.closers.iter().find(|(sequence, _)| *sequence == answer.question_sequence);
        let question_sent = closer
            .map(|(_, at)| *at)
            .or_else(|| self.flight.get(answer.question_sequence.into()).map(|s| s.question_sent));
        is_session && question_sent.is_none_or(|at| at == answer.question_sent)
    }

    /// Records the delays of packets whose timeout is over, in the order of their numbers.
    fn retire(&mut self, now_ns: i64) {
        let timeout_ns = nanos(self.order.timeout);
        while let Some((sequence, slot)) = self.flight.retire(now_ns, timeout_ns) {
            if let Some(times) = slot.answer {
                self.delays.record(sequence, &times);
            }
        }
    }
}
