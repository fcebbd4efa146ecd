//! One measurement of a stream while it is open: counts, delays, clocks.

use model::v1::node::{Delays, PortLoss, StreamReport};

use super::{Event, NearClockError, Reply};
use crate::stamp::clock::{Reading, RealNs};

/// Delays of one packet, microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub round_trip_us: i64,
    /// Forward and reverse, by two clocks.
    pub one_way_us: Option<(i64, i64)>,
}

/// The direction in which a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Reverse,
    Unplaced,
}

/// A smaller step of this host's clock may come from reading the two clocks one after the other.
const STEP_MIN_NS: i64 = 500_000;
/// Delays are doubtful if more than one in this many packets left late.
const LATE_SHARE: u64 = 20;
/// Initial TTLs of packets: those of operating systems, and the one that RFC 5357 requires.
const USUAL_TTLS: [u8; 4] = [32, 64, 128, 255];

/// A measurement that is not complete: a minute, unless the order says otherwise.
#[derive(Debug)]
pub(super) struct Minute {
    pub number: u64,
    /// When it ends, monotonic.
    pub end_ns: i64,
    pub report: StreamReport,
    at_ns: RealNs,
    seconds: f64,
    samples: Vec<Sample>,
    /// The real-time clock minus the monotonic one, at the first packet.
    offset_ns: Option<i64>,
    late: u64,
    /// At every answer so far, both clocks were synchronised.
    synchronised: bool,
    has_clocks: bool,
}

impl Minute {
    /// Begins a measurement, which ends at the next multiple of its length.
    pub fn begin(number: u64, now: &Reading, length_s: f64) -> Minute {
        let length_ns = ((length_s * 1e9) as i64).max(1);
        let left_ns = length_ns - now.real_ns.rem_euclid(length_ns);
        Minute {
            number,
            end_ns: now.mono_ns + left_ns,
            report: StreamReport::default(),
            at_ns: now.real_ns,
            seconds: left_ns as f64 / 1e9,
            samples: Vec::new(),
            offset_ns: None,
            late: 0,
            synchronised: true,
            has_clocks: false,
        }
    }

    /// Counts a packet that was sent.
    pub fn sent(&mut self, now: &Reading, is_late: bool) {
        self.report.sent += 1;
        self.late += u64::from(is_late);
        let moved_ns = now.offset_ns() - *self.offset_ns.get_or_insert_with(|| now.offset_ns());
        if moved_ns.abs() > STEP_MIN_NS + now.apart_ns {
            self.report.clock_step_us = Some(moved_ns / 1_000);
        }
    }

    /// Takes the clock errors and the numbers of hops of an answer.
    pub fn record_clocks(&mut self, reply: &Reply, near: NearClockError) {
        let most = |seen: &mut Option<u8>, hops: u8| *seen = Some(seen.map_or(hops, |known| known.max(hops)));
        if let Some(ttl) = reply.ttl_forward.filter(|ttl| *ttl != 0) {
            most(&mut self.report.hops_forward, 255 - ttl);
        }
        if let Some(ttl) = reply.ttl_reverse.filter(|ttl| *ttl != 0)
            && let Some(initial) = USUAL_TTLS.into_iter().find(|usual| *usual >= ttl)
        {
            most(&mut self.report.hops_reverse, initial - ttl);
        }
        let Some(error) = reply.error else { return };
        let far = error.error().filter(|_| error.synchronised && !error.ptp);
        match near.zip(far) {
            Some((near, far)) => {
                let both_us = (near + far).as_micros() as u64;
                self.report.clock_error_us = Some(self.report.clock_error_us.unwrap_or(0).max(both_us));
                self.has_clocks = true;
            }
            None => self.synchronised = false,
        }
    }

    /// Counts an answered packet of this minute.
    pub fn received(&mut self, sample: Sample) {
        self.report.received += 1;
        self.samples.push(sample);
    }

    /// Counts lost packets of this minute.
    pub fn lost(&mut self, count: u64, direction: Direction) {
        match direction {
            Direction::Forward => self.report.lost_forward += count,
            Direction::Reverse => self.report.lost_reverse += count,
            Direction::Unplaced => self.report.lost_unplaced += count,
        }
    }

    /// Adds the counts of one port.
    pub fn add_port(&mut self, loss: PortLoss) {
        self.report.by_port.push(loss);
    }

    /// Ends the measurement; returns its report.
    pub fn end(mut self, ports: u16) -> Event {
        self.report.round_trip = delays(self.samples.iter().map(|sample| sample.round_trip_us).collect());
        let one_way = |of: fn((i64, i64)) -> i64| self.samples.iter().filter_map(|s| s.one_way_us.map(of)).collect();
        self.report.forward = delays(one_way(|(forward, _)| forward));
        self.report.reverse = delays(one_way(|(_, reverse)| reverse));
        if !(self.synchronised && self.has_clocks) {
            self.report.clock_error_us = None;
        }
        self.report.ports = ports;
        if self.report.by_port.iter().all(|port| port.lost == 0) {
            self.report.by_port.clear();
        }
        self.report.host_limited = self.late * LATE_SHARE > self.report.sent;
        Event::Report { at_ns: self.at_ns, seconds: self.seconds, report: Box::new(self.report) }
    }
}

fn delays(mut all: Vec<i64>) -> Option<Delays> {
    all.sort_unstable();
    let at = |share: f64| all.get(((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1))).copied();
    Some(Delays { min_us: *all.first()?, median_us: at(0.5)?, p95_us: at(0.95)?, max_us: *all.last()? })
}
