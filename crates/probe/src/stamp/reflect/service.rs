//! The reflector on a socket, with the kernel's time stamps.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::clock_quality::ClockQuality;
use sys::stamps;

use super::{AnswerClock, QuestionArrival, Reflector, Refusal, SessionKey, Trust};
use crate::stamp::clock::Clock;
use crate::stamp::packet::PACKET_MAX;
use crate::{Error, Result, Stop};

/// Counters of a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReflectorCounts {
    /// Answers that were sent.
    pub answered: u64,
    /// Datagrams that are not questions.
    pub not_questions: u64,
    /// Questions of senders that may have no answer, or no answer to a question that is so short.
    pub refused: u64,
    /// Questions for which there was no room in the table of sessions.
    pub full: u64,
    /// Answers that this host could not send.
    pub not_sent: u64,
}

/// The longest wait before the stop is checked.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Datagrams taken before the stop is checked.
const BATCH: usize = 64;
/// Time between queries of the clock's quality.
const QUALITY_EVERY_NS: i64 = 1_000_000_000;
/// Most answers that wait for the kernel to report their departure.
const DEPARTURES_MAX: usize = 1_024;

/// A reflector on a socket. The owner of the socket reads it, and passes on the datagrams that may be questions.
pub struct Responder<'a> {
    socket: &'a UdpSocket,
    clock: &'a dyn Clock,
    reflector: &'a mut Reflector,
    trust: &'a dyn Fn(SocketAddr) -> Trust,
    served: ReflectorCounts,
    quality: Option<ClockQuality>,
    quality_ns: i64,
    /// Answers whose departure has not been reported, with the number that the kernel gives them.
    departing: VecDeque<(u32, SessionKey, u32)>,
    /// The kernel's next number; none where it does not report departures.
    number: Option<u32>,
    /// Buffer of the answer.
    answer: Vec<u8>,
}

/// Answers questions until stopped. `trust` is called for every datagram, and returns the answers that its sender may have.
///
/// # Errors
/// [`Error::Host`]: the socket fails. An unreachable sender is no failure.
pub fn serve(
    socket: &UdpSocket,
    stop: &Stop,
    clock: &dyn Clock,
    reflector: &mut Reflector,
    trust: &dyn Fn(SocketAddr) -> Trust,
) -> Result<ReflectorCounts> {
    let failed = |doing: &'static str| move |source: io::Error| Error::Host { doing, source };
    let mut service = Responder::new(socket, clock, reflector, trust)?;
    let mut buffer = vec![0; PACKET_MAX];
    while !stop.is_stopped() {
        let mut waits = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut waits, Some(&CHECK_INTERVAL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("wait for questions")(error.into())),
        }
        for _ in 0..BATCH {
            service.departures();
            match stamps::receive(socket, &mut buffer) {
                Ok(Some(arrival)) => service.take(&buffer, &arrival),
                Ok(None) => break,
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(failed("receive questions")(error)),
            }
        }
    }
    Ok(service.served)
}

/// Whether an error is temporary: the peer, or the path to it, is gone for the moment.
pub(in crate::stamp) fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | Interrupted)
}

/// Sets the highest TTL, so that the other end can count routers (RFC 5357, section 4.1.2).
pub(in crate::stamp) fn set_ttl(socket: &UdpSocket) -> io::Result<()> {
    let reference = socket2::SockRef::from(socket);
    if socket.local_addr()?.is_ipv6() {
        reference.set_unicast_hops_v6(255)?;
        // For IPv4 over an IPv6 socket; an IPv6-only socket may refuse.
        let _ = reference.set_ttl_v4(255);
        return Ok(());
    }
    reference.set_ttl_v4(255)
}

impl std::fmt::Debug for Responder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Responder").field(&self.served).finish()
    }
}

impl<'a> Responder<'a> {
    /// Sets up the socket: time stamps and TTLs of arrivals, and the highest TTL for answers.
    ///
    /// # Errors
    /// The socket fails.
    pub fn new(
        socket: &'a UdpSocket,
        clock: &'a dyn Clock,
        reflector: &'a mut Reflector,
        trust: &'a dyn Fn(SocketAddr) -> Trust,
    ) -> Result<Responder<'a>> {
        // Without kernel stamps the times are those of this process, which are late by the time it waits for a processor.
        let number = stamps::enable(socket, true).ok().map(|()| 0);
        let _ = stamps::enable_ttl(socket);
        set_ttl(socket).map_err(|source| Error::Host { doing: "set the TTL of answers", source })?;
        let quality_ns = clock.read().mono_ns;
        let served = ReflectorCounts::default();
        let departing = VecDeque::new();
        let quality = clock.quality();
        let answer = Vec::with_capacity(PACKET_MAX);
        Ok(Responder { socket, clock, reflector, trust, served, quality, quality_ns, departing, number, answer })
    }

    /// Takes a datagram that may be a question, and answers it.
    pub fn take(&mut self, buffer: &[u8], arrival: &stamps::Arrival) {
        if arrival.is_cut || crate::flow::is_message(&buffer[..arrival.bytes]) {
            self.served.not_questions += 1;
            return;
        }
        let mut reading = self.clock.read();
        if reading.mono_ns - self.quality_ns >= QUALITY_EVERY_NS {
            self.quality = self.clock.quality();
            reading = self.clock.read();
            self.quality_ns = reading.mono_ns;
        }
        let at = arrival.at.and_then(|at| self.clock.of_kernel(at)).unwrap_or(reading.real_ns);
        // The arrival is not later than the answer, even if the clock was set.
        let at = at.min(reading.real_ns);
        let question = QuestionArrival { from: arrival.from, at, ttl: arrival.ttl, trust: (self.trust)(arrival.from) };
        let now = AnswerClock { reading, quality: self.quality };
        let mut answer = std::mem::take(&mut self.answer);
        match self.reflector.answer(&buffer[..arrival.bytes], &question, &now, &mut answer) {
            Ok((key, sequence)) => self.send(&answer, key, sequence),
            Err(Refusal::NotAQuestion) => self.served.not_questions += 1,
            Err(Refusal::Untrusted | Refusal::Longer) => self.served.refused += 1,
            Err(Refusal::Full) => self.served.full += 1,
        }
        self.answer = answer;
    }

    fn send(&mut self, answer: &[u8], key: SessionKey, sequence: u32) {
        if self.socket.send_to(answer, key.from).is_err() {
            // The sender counts this answer as lost in reverse, which is right. The kernel may have counted it, so numbering begins
            // again.
            self.served.not_sent += 1;
            self.departing.clear();
            self.number = stamps::enable(self.socket, self.number.is_some()).ok().and(self.number).map(|_| 0);
            return;
        }
        self.served.answered += 1;
        if let Some(number) = &mut self.number {
            if self.departing.len() == DEPARTURES_MAX {
                self.departing.pop_front();
            }
            self.departing.push_back((*number, key, sequence));
            *number = number.wrapping_add(1);
        }
    }

    /// Passes the departures that the kernel has reported to their sessions.
    pub fn departures(&mut self) {
        while self.number.is_some() {
            let Ok(Some(departure)) = stamps::departure(self.socket) else { return };
            while let Some((number, key, sequence)) = self.departing.pop_front() {
                if number != departure.number {
                    continue;
                }
                if let Some(at) = self.clock.of_kernel(departure.at) {
                    self.reflector.record_departure(&key, sequence, at);
                }
                break;
            }
        }
    }
}
