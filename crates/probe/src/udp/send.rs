//! The sending end of a run.

use std::io;
use std::net::UdpSocket;

use model::v1::probe::udp::{UdpOrder, UdpSent, WIRE_BYTES};
use rustix::io::Errno;
use sys::datagrams::tell_errors;
use sys::errqueue::{Origin, receive_report};

use super::clock::{Clock, HostClock};
use super::datagram::{Flow, HEAD_BYTES, Head, Kind};
use super::host::HostCounters;
use super::order::{Mode, Plan};
use super::paced::paced;
use super::trains::trains;
use super::{Watch, rate_bit_s, seconds};
use crate::{Error, Result, Stop};

/// How often the end is told, and how far apart: all three are lost once in 10^9 where 0.1 % is lost.
const ENDS: usize = 3;
const BETWEEN_ENDS_NS: u64 = 5_000_000;
/// A sender that gets nothing through for so long gives up.
const PATIENCE_NS: u64 = 10_000_000_000;
/// After a refusal that passes.
const BREATH_NS: u64 = 20_000;
/// Reports that are taken at once; the rest is announced again.
const REPORTS: usize = 256;

/// Sends one run over a connected socket, and then says how many there were.
///
/// # Errors
/// An order out of bounds; a datagram that does not fit the path's MTU where it must not be cut; nothing goes out for
/// 10 s.
pub fn send(socket: &UdpSocket, order: &UdpOrder, flow: Flow, watch: &Watch, stop: &Stop) -> Result<UdpSent> {
    let plan = Plan::of(order)?;
    let peer =
        socket.peer_addr().map_err(|source| Error::Host { doing: "send over a socket without a peer", source })?;
    let (peer, mut clock) = (peer.to_string(), HostClock::default());
    let _told = Told::all(socket);
    let out = |datagram: &[u8]| socket.send(datagram).map_err(|error| sift(socket, error));
    let sent = match plan.mode {
        Mode::Max => trains(socket, &plan, flow, &peer, &mut clock, stop, watch)?,
        _ => paced(&plan, flow, &peer, &mut clock, out, stop, watch)?,
    };
    say_end(socket, flow, sent.datagrams, &mut clock);
    Ok(sent)
}

/// While it lives, what this host does not send is an error, and not the network's loss.
struct Told<'a>(&'a UdpSocket);

impl Told<'_> {
    fn all(socket: &UdpSocket) -> Told<'_> {
        // Where it cannot be had, the host's counters still say it.
        let _ = tell_errors(socket, true);
        Told(socket)
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let _ = tell_errors(self.0, false);
    }
}

/// Empties the queue of reports, of which an error may be the first. Reports that an unreachable host or network may
/// get over are told only where all errors are, and are about earlier datagrams: as if a signal had come between. What
/// this host itself says of a datagram, and refusals, stay what they are.
pub(super) fn sift(socket: &UdpSocket, error: io::Error) -> io::Error {
    // Errors of this host alone: the queue would not be empty otherwise, and looking costs a system call.
    if matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR)) {
        return error;
    }
    let (mut quote, mut passes) = ([0; 64], false);
    for _ in 0..REPORTS {
        let Ok(arrival) = receive_report(socket, &mut quote) else { break };
        let said = arrival.report.filter(|report| matches!(report.origin, Origin::Icmp4 | Origin::Icmp6));
        passes |= said.is_some_and(|report| Some(report.errno) == error.raw_os_error());
    }
    let is_kept = matches!(Errno::from_io_error(&error), Some(Errno::CONNREFUSED | Errno::MSGSIZE));
    if passes && !is_kept { Errno::INTR.into() } else { error }
}

/// Tells the other end that there is no more. It may not hear it: it has other ways to know.
pub(super) fn say_end(socket: &UdpSocket, flow: Flow, datagrams: u64, clock: &mut impl Clock) {
    let mut end = [0; HEAD_BYTES];
    for n in 0..ENDS {
        if n > 0 {
            clock.nap(BETWEEN_ENDS_NS);
        }
        Head { flow, kind: Kind::End, number: datagrams, sent_ns: clock.real() }.write(&mut end);
        // One that meets a refusal meets that of an earlier datagram, and takes it away with it.
        if socket.send(&end).is_err() {
            let _ = socket.send(&end);
        }
    }
}

/// Fills in bytes, time and rates of what was sent within so many nanoseconds.
pub(super) fn with_rates(sent: UdpSent, plan: &Plan, nanos: u64) -> UdpSent {
    let (bytes, seconds) = (sent.datagrams * plan.bytes as u64, seconds(nanos));
    let wire = bytes + sent.datagrams * WIRE_BYTES;
    UdpSent {
        bytes,
        seconds,
        rate_bit_s: rate_bit_s(bytes, seconds),
        wire_rate_bit_s: rate_bit_s(wire, seconds),
        ..sent
    }
}

/// What the kernel did not take, and for how long nothing passed.
pub(super) struct Faults<'a> {
    to: &'a str,
    bytes: usize,
    would_block: u64,
    no_buffers: u64,
    refused: u64,
    /// Calls that took some of what was offered: the error was counted by the kernel, and is not told.
    partial: u64,
    before: HostCounters,
    /// Since when nothing passes.
    stuck: Option<u64>,
}

impl Faults<'_> {
    pub fn new(to: &str, bytes: usize) -> Faults<'_> {
        let before = HostCounters::read();
        Faults { to, bytes, would_block: 0, no_buffers: 0, refused: 0, partial: 0, before, stuck: None }
    }

    /// Only some of what was offered was taken; the rest will be offered again.
    pub fn took_some(&mut self) {
        self.partial += 1;
    }

    /// Something passed.
    pub fn passed(&mut self) {
        self.stuck = None;
    }

    /// Whether to try again, after a breath that it takes here.
    pub fn judge(&mut self, error: io::Error, clock: &mut impl Clock) -> Result<()> {
        let now = clock.now();
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => self.would_block += 1,
            Some(Errno::NOBUFS | Errno::NOMEM) => self.no_buffers += 1,
            Some(Errno::CONNREFUSED) => self.refused += 1,
            Some(Errno::INTR) => {}
            Some(Errno::MSGSIZE) => {
                let bytes = self.bytes;
                return Err(Error::Order(format!(
                    "datagrams of {bytes} bytes do not fit the way to {}: order smaller ones",
                    self.to
                )));
            }
            _ => return Err(Error::Broken { peer: self.to.into(), source: error }),
        }
        if now.saturating_sub(*self.stuck.get_or_insert(now)) > PATIENCE_NS {
            return Err(Error::Broken { peer: self.to.into(), source: error });
        }
        // A refusal is the answer to an earlier datagram, and says nothing against the next; nor does a signal.
        if !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) {
            clock.nap(BREATH_NS);
        }
        Ok(())
    }

    pub fn tell(&self, sent: &mut UdpSent) {
        (sent.would_block, sent.no_buffers, sent.refused) = (self.would_block, self.no_buffers, self.refused);
        let calls = HostCounters::read().since(&self.before).udp_send_errors.saturating_sub(self.told());
        // A train that is dropped counts as one.
        sent.host_dropped = calls.saturating_mul(sent.train_datagrams.into()).min(sent.datagrams);
    }

    /// The kernel counts an error of a socket whose buffer has once been full whatever it is, and each that is told.
    fn told(&self) -> u64 {
        self.would_block + self.no_buffers + self.refused + self.partial
    }
}
