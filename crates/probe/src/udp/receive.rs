//! The receiving end of a run.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::v1::probe::udp::{UdpDrops, UdpOrder, UdpReceived, WIRE_BYTES};
use sys::datagrams::{
    MESSAGES_MAX, ReceiveBuffers, ReceivedMessage, dropped, join_arrivals, set_receive_buffer, stamp_arrivals,
};

use super::clock::real;
use super::datagram::{FlowId, Head, Kind};
use super::histogram::{OneWayTimes, TimeHistogram};
use super::host::HostCounters;
use super::order::{LOST_RUNS_MAX, Mode, Plan, SECONDS_MAX};
use super::tally::{Arrival, NumberCounts};
use super::{EndNotice, RunProgress, rate_bit_s, seconds};
use crate::{Error, Result, Stop};

/// Holds the data of 2.5 ms at 100 Gbit/s, or of 270 ms at 1 Gbit/s: a receiver that is not scheduled for that long loses nothing.
const RECEIVE_BUFFER_BYTES: usize = 32 << 20;
/// Joined pieces in one system call: 1 MiB, which fits the second-level cache.
const PIECES: usize = 16;
/// The largest joined piece: that of an IP packet.
const PIECE_BYTES_MAX: usize = 65_535;
/// The longest wait for a datagram before the receiver checks whether to end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Silence that ends a run whose end is not known, in addition to the pauses that the order contains.
const SILENCE: Duration = Duration::from_secs(10);
/// Silence that ends a run with missing datagrams, which may still arrive late (udpmon waits as long).
const STRAGGLERS: Duration = Duration::from_secs(1);
/// Silence that ends a complete run: duplicates of the last datagrams may still arrive.
const DUPLICATES: Duration = Duration::from_millis(100);
/// The longest that a run may exceed its ordered length.
const GRACE: Duration = Duration::from_secs(10);
/// The longest time for emptying a socket, as a flood could keep it full. Datagrams that arrive later are checked one by one.
const EMPTYING_MAX: Duration = Duration::from_millis(200);
/// Where kernel stamps and the monotonic clock differ by more over a run, the host's time was set meanwhile.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Receives one run from a connected socket, to its end.
///
/// # Errors
/// As [`Receiver::prepare`] and [`Receiver::run`].
pub fn receive(
    socket: &UdpSocket,
    order: &UdpOrder,
    flow: FlowId,
    ending: &EndNotice,
    watch: &RunProgress,
    stop: &Stop,
) -> Result<UdpReceived> {
    Receiver::prepare(socket, order, flow)?.run(ending, watch, stop)
}

fn host(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Host { doing, source }
}

/// A receiving end that is ready: datagrams that arrive from now on are queued.
pub struct Receiver<'a> {
    socket: &'a UdpSocket,
    plan: Plan,
    accumulator: RunAccumulator,
    granted: usize,
    /// The kernel joins datagrams.
    joined: bool,
    /// The counters of losses before the run.
    before: (HostCounters, Option<u32>),
    /// Silence that ends a run with missing datagrams.
    stragglers: Duration,
}

impl<'a> Receiver<'a> {
    /// Sets the socket's options for a run, and discards the datagrams that it holds: these may be from any sender, as they may
    /// have arrived before the socket was connected.
    ///
    /// # Errors
    /// [`Error::Order`]: the order is out of bounds. [`Error::Host`]: the socket fails.
    pub fn prepare(socket: &'a UdpSocket, order: &UdpOrder, flow: FlowId) -> Result<Receiver<'a>> {
        let plan = Plan::of(order)?;
        let mut accumulator = RunAccumulator::new(&plan, flow);
        accumulator.foreign += empty(socket).map_err(host("empty a socket"))?;
        socket.set_read_timeout(Some(CHECK_INTERVAL)).map_err(host("set a socket's options"))?;
        let granted =
            set_receive_buffer(socket, RECEIVE_BUFFER_BYTES).map_err(host("set a socket's receive buffer"))?;
        // On kernels without these options, datagrams arrive one by one, and this program stamps them, later.
        let max = plan.mode == Mode::Max;
        let joined = join_arrivals(socket, max).is_ok() && max;
        let _ = stamp_arrivals(socket, true);
        let before = (HostCounters::read(), dropped(socket).ok());
        Ok(Receiver { socket, plan, accumulator, granted, joined, before, stragglers: STRAGGLERS })
    }

    /// Changes the silence that ends a run with missing datagrams, for paths on which no datagram is late.
    #[must_use]
    pub fn with_stragglers(self, stragglers: Duration) -> Receiver<'a> {
        Receiver { stragglers, ..self }
    }

    /// Receives the run.
    ///
    /// # Errors
    /// [`Error::Host`]: the socket fails.
    pub fn run(mut self, ending: &EndNotice, watch: &RunProgress, stop: &Stop) -> Result<UdpReceived> {
        let ended = self.take_all(ending, watch, stop);
        let _ = join_arrivals(self.socket, false);
        let ended = ended.map_err(host("receive datagrams"))?.into();
        let drops = self.drops();
        let receive_buffer_bytes = self.granted as u64;
        Ok(UdpReceived { drops, receive_buffer_bytes, ended, ..self.accumulator.result(ending) })
    }

    fn drops(&self) -> UdpDrops {
        let counters = HostCounters::read().since(&self.before.0);
        let socket = self.before.1.zip(dropped(self.socket).ok());
        UdpDrops {
            socket: socket.map(|(before, now)| now.wrapping_sub(before).into()),
            in_trains: self.joined,
            train_datagrams: self.accumulator.datagrams as f64 / self.accumulator.pieces.max(1) as f64,
            udp_errors: counters.udp_errors,
            udp_buffer_errors: counters.udp_buffer_errors,
            udp_checksum_errors: counters.udp_checksum_errors,
            backlog: counters.backlog,
            interfaces: counters.interfaces,
        }
    }

    fn take_all(&mut self, ending: &EndNotice, watch: &RunProgress, stop: &Stop) -> std::io::Result<&'static str> {
        let mut buffers = if self.joined {
            ReceiveBuffers::new(PIECES, PIECE_BYTES_MAX)
        } else {
            ReceiveBuffers::new(MESSAGES_MAX, self.plan.bytes)
        };
        let mut end = EndDetector::new(&self.plan, self.stragglers);
        let accumulator = &mut self.accumulator;
        loop {
            if stop.is_stopped() {
                return Ok("interrupted");
            }
            match buffers.receive(self.socket) {
                Ok(_) => {
                    buffers.messages().for_each(|piece| accumulator.take(&piece));
                    watch.set(accumulator.tally.received(), accumulator.tally.missing());
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
                // An ICMP refusal concerns an earlier datagram of this end.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) => return Err(e),
            }
            if let Some(why) = end.check(Instant::now(), accumulator, ending) {
                return Ok(why);
            }
        }
    }
}

/// Discards the datagrams that a socket holds; returns their number.
fn empty(socket: &UdpSocket) -> std::io::Result<u64> {
    let mut buffers = ReceiveBuffers::new(MESSAGES_MAX, 1);
    let mut discarded = 0;
    socket.set_nonblocking(true)?;
    let until = Instant::now() + EMPTYING_MAX;
    while Instant::now() < until {
        match buffers.receive(socket) {
            Ok(received) => discarded += received as u64,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            // Each error of an earlier datagram is returned once.
            Err(_) => {}
        }
    }
    socket.set_nonblocking(false)?;
    Ok(discarded)
}

/// Decides when a run is over.
struct EndDetector {
    began: Instant,
    silence: Duration,
    stragglers: Duration,
    length: Duration,
    /// Datagrams so far and whether the end is known, at the last check; and when these last changed.
    seen: (u64, bool),
    changed: Instant,
}

impl EndDetector {
    fn new(plan: &Plan, stragglers: Duration) -> EndDetector {
        let began = Instant::now();
        let length = plan.length_ns.map_or(Duration::from_secs_f64(SECONDS_MAX), Duration::from_nanos) + GRACE;
        let silence = SILENCE + Duration::from_nanos(plan.pause_ns());
        EndDetector { began, silence, stragglers, length, seen: (0, false), changed: began }
    }

    fn check(&mut self, now: Instant, accumulator: &RunAccumulator, ending: &EndNotice) -> Option<&'static str> {
        let sent = accumulator.expected(ending);
        let seen = (accumulator.datagrams, sent.is_some());
        if seen != self.seen {
            (self.seen, self.changed) = (seen, now);
        }
        let quiet = now - self.changed;
        match sent {
            _ if now - self.began > self.length => Some("deadline"),
            Some(sent) if accumulator.tally.received() >= sent && quiet >= DUPLICATES => Some("complete"),
            Some(_) if quiet >= self.stragglers => Some("told"),
            None if quiet >= self.silence => Some("silence"),
            _ => None,
        }
    }
}

/// Counts the datagrams of a run.
pub(super) struct RunAccumulator {
    flow: FlowId,
    bytes: usize,
    /// Each arrival has a time of its own. It has none where the kernel joins datagrams.
    timed: bool,
    tally: NumberCounts,
    foreign: u64,
    /// Datagrams of this run, including duplicates, and the pieces that they arrived in.
    datagrams: u64,
    pieces: u64,
    /// Number of datagrams sent, by the sender's last datagrams.
    end: Option<u64>,
    /// Times of the first and the last arrival: nanoseconds since 1970, and by the monotonic clock.
    arrived: Option<[(u64, Instant); 2]>,
    stamped: bool,
    inter_arrival: TimeHistogram,
    one_way: OneWayTimes,
}

impl RunAccumulator {
    pub(super) fn new(plan: &Plan, flow: FlowId) -> RunAccumulator {
        RunAccumulator {
            flow,
            bytes: plan.bytes,
            timed: plan.mode != Mode::Max,
            tally: NumberCounts::new(plan.count),
            foreign: 0,
            datagrams: 0,
            pieces: 0,
            end: None,
            arrived: None,
            stamped: true,
            inter_arrival: TimeHistogram::default(),
            one_way: OneWayTimes::default(),
        }
    }

    pub(super) fn take(&mut self, piece: &ReceivedMessage<'_>) {
        let mut first = true;
        let size = piece.datagram_bytes.unwrap_or(piece.bytes.len()).max(1);
        if piece.bytes.is_empty() || piece.truncated {
            self.foreign += 1;
            return;
        }
        for datagram in piece.bytes.chunks(size) {
            match Head::read(datagram).filter(|head| head.flow == self.flow) {
                Some(head) if head.kind == Kind::Data && datagram.len() == self.bytes => {
                    self.count(&head, piece.stamp_ns, first);
                    first = false;
                }
                Some(head) if head.kind == Kind::End => self.end = Some(head.number),
                _ => self.foreign += 1,
            }
        }
    }

    fn count(&mut self, head: &Head, stamp_ns: Option<u64>, first_of_piece: bool) {
        if self.tally.take(head.number) == Arrival::OutOfRange {
            self.foreign += 1;
            return;
        }
        self.datagrams += 1;
        if !first_of_piece {
            return;
        }
        self.pieces += 1;
        self.stamped &= stamp_ns.is_some();
        let at = stamp_ns.unwrap_or_else(real);
        self.one_way.record(head.sent_ns, at);
        let now = (at, Instant::now());
        match &mut self.arrived {
            Some([_, last]) => {
                if self.timed {
                    self.inter_arrival.record(at.saturating_sub(last.0));
                }
                *last = now;
            }
            none => *none = Some([now, now]),
        }
    }

    /// Number of datagrams sent, from either source.
    fn expected(&self, ending: &EndNotice) -> Option<u64> {
        ending.get().or(self.end)
    }

    /// From the first arrival to the last.
    fn duration_ns(&self) -> u64 {
        let Some([first, last]) = self.arrived else { return 0 };
        let by_clock = last.1 - first.1;
        let by_stamps = last.0.checked_sub(first.0).map(Duration::from_nanos);
        let agreed = by_stamps.filter(|by_stamps| by_stamps.abs_diff(by_clock) < CLOCK_STEP);
        agreed.unwrap_or(by_clock).as_nanos() as u64
    }

    pub(super) fn result(self, ending: &EndNotice) -> UdpReceived {
        let expected = self.expected(ending);
        let missing = self.tally.missing_of(expected, LOST_RUNS_MAX);
        let datagrams = self.tally.received();
        let seconds = seconds(self.duration_ns());
        let bytes = datagrams * self.bytes as u64;
        UdpReceived {
            datagrams,
            bytes,
            seconds,
            rate_bit_s: rate_bit_s(bytes, seconds),
            wire_rate_bit_s: rate_bit_s(bytes + datagrams * WIRE_BYTES, seconds),
            expected,
            lost: missing.lost,
            lost_runs: missing.runs,
            lost_runs_total: missing.runs_total,
            lost_run_lengths: missing.lengths,
            duplicates: self.tally.duplicates(),
            reordered: self.tally.reordered().count(),
            reorder_distances: self.tally.reordered().bins(),
            bounded: self.tally.is_bounded(),
            unjudged: self.tally.unjudged(),
            foreign: self.foreign,
            stamps: if self.stamped { "kernel" } else { "program" }.into(),
            inter_arrival: self.inter_arrival.spread(),
            one_way: self.one_way.variation().spread(),
            ..UdpReceived::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use model::v1::probe::udp::UdpPace;

    use super::super::datagram::{HEAD_BYTES, Token};
    use super::*;

    const FLOW: FlowId = FlowId { token: Token([1; 16]), run: 3 };

    fn plan(pace: UdpPace) -> Plan {
        Plan::of(&UdpOrder { bytes: 60, pace, count: Some(10), seconds: None }).unwrap()
    }

    fn datagram(flow: FlowId, kind: Kind, number: u64, bytes: usize) -> Vec<u8> {
        let mut datagram = vec![0; bytes];
        assert!(Head { flow, kind, number, sent_ns: 1_000 + number }.write(&mut datagram));
        datagram
    }

    fn piece(bytes: &[u8], stamp: u64, datagram_bytes: Option<usize>) -> ReceivedMessage<'_> {
        ReceivedMessage { bytes, stamp_ns: Some(stamp), datagram_bytes, truncated: false }
    }

    #[test]
    fn datagrams_of_other_runs_are_not_counted() {
        let mut accumulator = RunAccumulator::new(&plan(UdpPace::Spacing { spacing_s: 0.0 }), FLOW);
        let other = FlowId { run: 2, ..FLOW };
        let stranger = FlowId { token: Token([2; 16]), ..FLOW };
        for (bytes, flow, kind, number) in [
            (60, other, Kind::Data, 0),
            (60, stranger, Kind::Data, 0),
            (60, FLOW, Kind::Request, 0),
            (59, FLOW, Kind::Data, 0),
            (60, FLOW, Kind::Data, 10),
            (HEAD_BYTES, other, Kind::End, 5),
        ] {
            accumulator.take(&piece(&datagram(flow, kind, number, bytes), 5_000, None));
        }
        accumulator
            .take(&ReceivedMessage { truncated: true, ..piece(&datagram(FLOW, Kind::Data, 0, 60), 5_000, None) });
        accumulator.take(&piece(&[], 5_000, None));
        assert_eq!((accumulator.foreign, accumulator.datagrams, accumulator.end), (8, 0, None));
        let received = accumulator.result(&EndNotice::default());
        assert_eq!((received.datagrams, received.lost, received.rate_bit_s, received.one_way), (0, 0, 0, None));
    }

    #[test]
    fn joined_datagrams_are_split() {
        let mut accumulator = RunAccumulator::new(&plan(UdpPace::Max), FLOW);
        let train: Vec<u8> = [0, 1, 3].iter().flat_map(|n| datagram(FLOW, Kind::Data, *n, 60)).collect();
        accumulator.take(&piece(&train, 1_000_000, Some(60)));
        accumulator.take(&piece(&datagram(FLOW, Kind::Data, 2, 60), 3_000_000, None));
        accumulator.take(&piece(&datagram(FLOW, Kind::End, 5, HEAD_BYTES), 3_000_000, None));
        assert_eq!((accumulator.datagrams, accumulator.pieces, accumulator.end), (4, 2, Some(5)));
        let received = accumulator.result(&EndNotice::default());
        assert_eq!((received.datagrams, received.bytes, received.expected), (4, 240, Some(5)));
        assert_eq!((received.lost_runs, received.reordered), (vec![(4, 1)], 1));
        assert_eq!((received.seconds, received.rate_bit_s, received.wire_rate_bit_s), (2e-3, 960_000, 2_016_000));
        assert_eq!(received.inter_arrival, None, "a train has no spacing");
        assert_eq!(received.one_way.map(|spread| spread.count), Some(2));
    }

    #[test]
    fn a_run_ends_after_the_silence_that_fits_what_is_known() {
        let spaced = plan(UdpPace::Spacing { spacing_s: 2.0 });
        let mut end = EndDetector::new(&spaced, STRAGGLERS);
        let mut accumulator = RunAccumulator::new(&spaced, FLOW);
        let ending = EndNotice::default();
        let after = |ms: u64| end.began + Duration::from_millis(ms);
        let times = [0, 11_900, 12_000].map(after);
        assert_eq!(times.map(|at| end.check(at, &accumulator, &ending)), [None, None, Some("silence")]);
        accumulator.take(&piece(&datagram(FLOW, Kind::Data, 0, 60), 0, None));
        let at = |end: &EndDetector, ms: u64| end.began + Duration::from_millis(ms);
        let check =
            |end: &mut EndDetector, accumulator: &RunAccumulator, ms| end.check(at(end, ms), accumulator, &ending);
        assert_eq!(check(&mut end, &accumulator, 12_001), None, "a datagram arrived");
        ending.set(2);
        assert_eq!([13_000, 13_900, 14_000].map(|ms| check(&mut end, &accumulator, ms)), [None, None, Some("told")]);
        accumulator.take(&piece(&datagram(FLOW, Kind::Data, 1, 60), 0, None));
        let ends = [14_010, 14_100, 14_110].map(|ms| check(&mut end, &accumulator, ms));
        assert_eq!(ends, [None, None, Some("complete")]);
        assert_eq!(check(&mut end, &accumulator, 3_620_000), Some("deadline"));
    }

    #[test]
    fn a_clock_that_is_set_does_not_change_the_rate() {
        let mut accumulator = RunAccumulator::new(&plan(UdpPace::Spacing { spacing_s: 0.0 }), FLOW);
        accumulator.take(&piece(&datagram(FLOW, Kind::Data, 0, 60), 9_000_000_000, None));
        accumulator.take(&piece(&datagram(FLOW, Kind::Data, 1, 60), 5_000_000_000, None));
        assert!(accumulator.duration_ns() < 1_000_000_000, "{}", accumulator.duration_ns());
        accumulator.take(&piece(&datagram(FLOW, Kind::Data, 2, 60), 9_000_005_000, None));
        assert_eq!(accumulator.duration_ns(), 5_000);
    }
}
