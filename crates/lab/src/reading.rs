//! The counts of a lab, and whether the lab itself was the limit.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::fabric::RefusedCounts;
use crate::link::Counts;
use crate::scenario::LinkSettings;

/// How late packets were written.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    /// An empty histogram from 1 µs to 100 s, exact within 1 %.
    #[expect(clippy::expect_used, reason = "the bounds are constants that the library accepts")]
    fn default() -> Lateness {
        Lateness(Histogram::new_with_bounds(1, 100_000_000, 2).expect("bounds that make sense"))
    }
}

impl Lateness {
    /// Adds one delivery that was this late, in nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos / 1_000);
    }

    /// The lateness that this fraction of all deliveries did not exceed.
    pub fn quantile(&self, part: f64) -> Duration {
        if self.0.is_empty() { Duration::ZERO } else { Duration::from_micros(self.0.value_at_quantile(part)) }
    }

    /// The largest lateness.
    pub fn max(&self) -> Duration {
        Duration::from_micros(if self.0.is_empty() { 0 } else { self.0.max() })
    }

    /// The number of deliveries.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    fn since(&self, earlier: &Lateness) -> Lateness {
        let mut difference = self.clone();
        // Fails only if the earlier histogram holds what the later one does not.
        let _ = difference.0.subtract(&earlier.0);
        difference
    }
}

/// One link's numbers.
#[derive(Clone, Debug)]
pub struct LinkReading {
    /// Segments by cause.
    pub counts: Counts,
    /// The bottleneck's queue, in bytes.
    pub backlog: u64,
    /// The lateness of deliveries whose last link was this one.
    pub lateness: Lateness,
    /// The settings in force.
    pub settings: LinkSettings,
}

/// A lab's numbers at one time. All counts only grow.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The time since the lab came up.
    pub at: Duration,
    /// In the topology's order.
    pub links: Vec<LinkReading>,
    /// Packets that reached no link.
    pub refused: RefusedCounts,
    /// How late the lab was woken while packets flowed: arriving packets waited that long to be read.
    pub woken: Lateness,
    /// Frames that a port did not accept: the lab's own fault.
    pub not_written: u64,
    /// Packets that the kernel dropped before the lab could read them: the lab's own fault.
    pub not_read: u64,
    /// The memory of packets in transit, in bytes.
    pub memory: u64,
    /// The most of that memory so far, in bytes.
    pub memory_peak: u64,
    /// Processor time of the emulator's thread, including the kernel's work for the receivers.
    pub cpu: Duration,
    /// Whether the emulator's thread has real-time priority.
    pub has_real_time_priority: bool,
}

impl Counts {
    /// The counts since an earlier reading. The queue's peak stays that of the whole time.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            packets: self.packets - earlier.packets,
            segments: self.segments - earlier.segments,
            bytes: self.bytes - earlier.bytes,
            out_segments: self.out_segments - earlier.out_segments,
            out_bytes: self.out_bytes - earlier.out_bytes,
            queue_dropped: self.queue_dropped - earlier.queue_dropped,
            policed: self.policed - earlier.policed,
            lost: self.lost - earlier.lost,
            down: self.down - earlier.down,
            black_hole: self.black_hole - earlier.black_hole,
            duplicated: self.duplicated - earlier.duplicated,
            reordered: self.reordered - earlier.reordered,
            corrupted: self.corrupted - earlier.corrupted,
            corrupted_silently: self.corrupted_silently - earlier.corrupted_silently,
            cross_bytes: self.cross_bytes - earlier.cross_bytes,
            cross_dropped_bytes: self.cross_dropped_bytes - earlier.cross_dropped_bytes,
            queue_peak: self.queue_peak,
            idle_ns: self.idle_ns - earlier.idle_ns,
        }
    }
}

impl Reading {
    /// The reading since an earlier one.
    pub fn since(&self, earlier: &Reading) -> Reading {
        let links = self.links.iter().zip(&earlier.links).map(|(now, then)| LinkReading {
            counts: now.counts.since(&then.counts),
            lateness: now.lateness.since(&then.lateness),
            ..now.clone()
        });
        let (now, then) = (&self.refused, &earlier.refused);
        Reading {
            at: self.at - earlier.at,
            links: links.collect(),
            refused: RefusedCounts {
                unroutable: now.unroutable - then.unroutable,
                not_carried: now.not_carried - then.not_carried,
                expired: now.expired - then.expired,
                too_big: now.too_big - then.too_big,
                firewalled: now.firewalled - then.firewalled,
                no_memory: now.no_memory - then.no_memory,
            },
            woken: self.woken.since(&earlier.woken),
            not_written: self.not_written - earlier.not_written,
            not_read: self.not_read.saturating_sub(earlier.not_read),
            cpu: self.cpu.saturating_sub(earlier.cpu),
            ..*self
        }
    }

    /// Why the lab itself was the limit, if it was. `rtts` has the RTT of each link's path.
    pub fn limited(&self, rtts: &[Duration]) -> Option<String> {
        let dropped = self.refused.no_memory + self.not_written + self.not_read;
        if dropped > 0 {
            return Some(format!("it dropped {dropped} packets by itself"));
        }
        let least = rtts.iter().min().copied().unwrap_or_default();
        let (woken, bound) = (self.woken.quantile(0.99), lateness_max(least));
        if woken > bound {
            let (woken, bound) = (woken.as_secs_f64() * 1e3, bound.as_secs_f64() * 1e3);
            return Some(format!("it woke up to {woken:.1} ms late for packets that came in (bound: {bound:.1} ms)"));
        }
        self.links.iter().zip(rtts).find_map(|(link, rtt)| {
            let late = link.lateness.quantile(0.99);
            let bound = lateness_max(*rtt);
            (late > bound).then(|| {
                let (late, bound) = (late.as_secs_f64() * 1e3, bound.as_secs_f64() * 1e3);
                format!("1 % of the packets were more than {late:.1} ms late (bound: {bound:.1} ms)")
            })
        })
    }
}

/// How late 99 % of the packets of a path may be: 2 % of its RTT, or 1 ms.
pub fn lateness_max(rtt: Duration) -> Duration {
    (rtt / 50).max(Duration::from_millis(1))
}
