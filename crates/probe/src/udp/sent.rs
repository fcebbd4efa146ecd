//! What a sender says of what it sent: its rates, and what the kernel did not take.

use std::io;
use std::net::UdpSocket;

use model::v1::probe::udp::{UdpSent, WIRE_BYTES};
use rustix::io::Errno;
use sys::errqueue::{Origin, receive_report};

use super::clock::Clock;
use super::host::HostCounters;
use super::order::Plan;
use super::{rate_bit_s, seconds};
use crate::{Error, Result};

/// A sender that gets nothing through for so long gives up.
const PATIENCE_NS: u64 = 10_000_000_000;
/// After a refusal that passes.
const BREATH_NS: u64 = 20_000;
/// Reports that are taken at once; the rest is announced again.
const REPORTS: usize = 256;

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
