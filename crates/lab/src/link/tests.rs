//! One link under a virtual clock: what it sends on, when, and what it counts.

mod changes;
mod laws;
mod queue;
mod wire;

use std::time::Duration;

use model::units::{BitRate, Bytes};

use super::{Counts, Link, SegmentRun};
use crate::packet::Shape;
use crate::packet::frames::super_packet;
use crate::scenario::{LinkSettings, Queue};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const RTT: Duration = Duration::from_millis(100);

/// One byte per microsecond.
const BYTE_PER_US: Option<BitRate> = Some(BitRate(8_000_000));

fn link(words: impl FnOnce(&mut LinkSettings)) -> Link {
    seeded(1, words)
}

fn seeded(seed: u64, words: impl FnOnce(&mut LinkSettings)) -> Link {
    let mut settings = LinkSettings::default();
    words(&mut settings);
    Link::new(settings, RTT, seed)
}

fn bytes(bytes: u64) -> Queue {
    Queue::Bytes(Bytes(bytes))
}

/// All segments of a packet arrive.
fn send(link: &mut Link, now: u64, shape: &Shape) -> Vec<SegmentRun> {
    let mut runs = Vec::new();
    link.accept(now, shape, 0..shape.segments(), &mut runs);
    runs
}

/// Many rows of segments, one row per microsecond: what came of each segment that went on, by its number from 0.
fn send_many(link: &mut Link, segments: u64) -> Vec<(u64, SegmentRun)> {
    const ROW: u64 = 40;
    assert_eq!(segments % ROW, 0);
    let shape = super_packet(ROW as u16, 1_500);
    let mut all = Vec::new();
    for number in 0..segments / ROW {
        for run in send(link, number * US, &shape) {
            for segment in run.segments.clone() {
                let one = SegmentRun { segments: segment..segment + 1, ..run.clone() };
                all.push((number * ROW + u64::from(segment), one));
            }
        }
    }
    all
}

/// Segments that came in, or came twice, are all accounted for.
fn is_conserved(counts: &Counts) -> bool {
    let gone = counts.lost + counts.queue_dropped + counts.policed + counts.down + counts.black_hole;
    counts.segments + counts.duplicated == counts.out_segments + gone
}
