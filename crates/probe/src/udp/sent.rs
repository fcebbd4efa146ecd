//! The sender's report: its rates, and the datagrams that the kernel refused.

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

/// A sender that the kernel refuses for longer than this gives up.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Pause after a temporary refusal.
const BREATH_NS: u64 = 20_000;
/// Most reports taken at once; the kernel announces the rest again.
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

/// Fills in the bytes, the time and the rates of a run that took `nanos`.
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

/// Counts the kernel's refusals, and since when nothing was sent.
pub(super) struct Faults<'a> {
    to: &'a str,
    bytes: usize,
    would_block: u64,
    no_buffers: u64,
    refused: u64,
    /// Calls that took a part of the datagrams: the kernel counts an error, but does not return it.
    partial: u64,
    before: HostCounters,
    /// Since when the kernel has refused everything.
    stuck: Option<u64>,
}

impl Faults<'_> {
    pub fn new(to: &str, bytes: usize) -> Faults<'_> {
        let before = HostCounters::read();
        Faults { to, bytes, would_block: 0, no_buffers: 0, refused: 0, partial: 0, before, stuck: None }
    }

    /// A call took a part of the datagrams; the rest is sent again.
    pub fn took_some(&mut self) {
        self.partial += 1;
    }

    /// The kernel took datagrams.
    pub fn passed(&mut self) {
        self.stuck = None;
    }

    /// Counts an error. After a temporary one it pauses, and the caller tries again.
    ///
    /// # Errors
    /// [`Error::Order`]: the datagram does not fit the path's MTU. [`Error::Broken`]: a lasting error, or 10 s of temporary ones.
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
        // A refusal by ICMP is about an earlier datagram, and a signal about none: the next one can be sent at once.
        if !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) {
            clock.nap(BREATH_NS);
        }
        Ok(())
    }

    pub fn tell(&self, sent: &mut UdpSent) {
        (sent.would_block, sent.no_buffers, sent.refused) = (self.would_block, self.no_buffers, self.refused);
        let calls = HostCounters::read().since(&self.before).udp_send_errors.saturating_sub(self.told());
        // The kernel counts a dropped train as one error.
        sent.host_dropped = calls.saturating_mul(sent.train_datagrams.into()).min(sent.datagrams);
    }

    /// Errors that were returned. The kernel counts them as well, so they are subtracted from its counter.
    fn told(&self) -> u64 {
        self.would_block + self.no_buffers + self.refused + self.partial
    }
}
