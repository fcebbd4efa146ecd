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

/// A run fails if the kernel refuses all datagrams for longer than this.
const REFUSED_NS_MAX: u64 = 10_000_000_000;
/// Pause after a temporary refusal.
const RETRY_PAUSE_NS: u64 = 20_000;
/// Most reports read at once; the kernel announces the rest again.
const REPORTS_MAX: usize = 256;

/// Empties the socket's queue of error reports after a failed call, and returns the call's error. An ICMP report of a possibly
/// temporary failure (an unreachable host or network) concerns an earlier datagram, and the kernel returns it only because this
/// socket asks for all errors: it becomes `EINTR`, after which the sender tries again. Refusals, and errors of this host itself,
/// are returned unchanged.
pub(super) fn drain_reports(socket: &UdpSocket, error: io::Error) -> io::Error {
    // These errors are this host's own and have no report in the queue; reading the queue would cost a system call.
    if matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR)) {
        return error;
    }
    let mut quote = [0; 64];
    let mut is_reported = false;
    for _ in 0..REPORTS_MAX {
        let Ok(arrival) = receive_report(socket, &mut quote) else { break };
        let report = arrival.report.filter(|report| matches!(report.origin, Origin::Icmp4 | Origin::Icmp6));
        is_reported |= report.is_some_and(|report| Some(report.errno) == error.raw_os_error());
    }
    let is_kept = matches!(Errno::from_io_error(&error), Some(Errno::CONNREFUSED | Errno::MSGSIZE));
    if is_reported && !is_kept { Errno::INTR.into() } else { error }
}

/// Fills in the bytes, the time and the rates of a run that took `nanos`.
pub(super) fn with_rates(sent: UdpSent, plan: &Plan, nanos: u64) -> UdpSent {
    let bytes = sent.datagrams * plan.bytes as u64;
    let seconds = seconds(nanos);
    let wire = bytes + sent.datagrams * WIRE_BYTES;
    UdpSent {
        bytes,
        seconds,
        rate_bit_s: rate_bit_s(bytes, seconds),
        wire_rate_bit_s: rate_bit_s(wire, seconds),
        ..sent
    }
}

/// Counts the kernel's refusals, and the time since which nothing could be sent.
pub(super) struct SendFaults<'a> {
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

impl SendFaults<'_> {
    pub fn new(to: &str, bytes: usize) -> SendFaults<'_> {
        let before = HostCounters::read();
        SendFaults { to, bytes, would_block: 0, no_buffers: 0, refused: 0, partial: 0, before, stuck: None }
    }

    /// Counts a call that took a part of the datagrams; the rest is sent again.
    pub fn count_partial(&mut self) {
        self.partial += 1;
    }

    /// Notes that the kernel took datagrams.
    pub fn clear_stuck(&mut self) {
        self.stuck = None;
    }

    /// Counts an error. Pauses after a temporary one, so that the caller can try again.
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
                    "datagrams of {bytes} bytes do not fit the path to {}: order smaller ones",
                    self.to
                )));
            }
            _ => return Err(Error::Broken { peer: self.to.into(), source: error }),
        }
        if now.saturating_sub(*self.stuck.get_or_insert(now)) > REFUSED_NS_MAX {
            return Err(Error::Broken { peer: self.to.into(), source: error });
        }
        // A refusal by ICMP concerns an earlier datagram, and a signal none: the next datagram can be sent at once.
        if !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) {
            clock.nap(RETRY_PAUSE_NS);
        }
        Ok(())
    }

    /// Adds the counts to a result.
    pub fn add_to(&self, sent: &mut UdpSent) {
        sent.would_block = self.would_block;
        sent.no_buffers = self.no_buffers;
        sent.refused = self.refused;
        let calls = HostCounters::read().since(&self.before).udp_send_errors.saturating_sub(self.returned());
        // The kernel counts a dropped train as one error.
        sent.host_dropped = calls.saturating_mul(sent.train_datagrams.into()).min(sent.datagrams);
    }

    /// Errors that were returned to this program. The kernel counts them as well, so they are subtracted from its counter.
    fn returned(&self) -> u64 {
        self.would_block + self.no_buffers + self.refused + self.partial
    }
}
