//! What the delay line takes when a bottleneck's queue is full.

use anyhow::Result;

use super::bed::{Run, Way};
use super::course::{Alone, Course, Section, mark};
use super::iperf::{Flow, Load};

/// How much more than the packets themselves the delay line may take.
const BOUND: f64 = 1.5;

fn ways() -> [(Way, u32); 2] {
    let way =
        |rtt_ms, rate, queue, mtu| Way { rtt_ms, rate_mbit: Some(rate), queue: Some(queue), mtu, ..Way::default() };
    [(way(100, 5_000, 62_500_000, 9000), 10), (way(303, 1_000, 40_000_000, 1500), 15)]
}

/// What must be held: the queue, and what is on its way behind it.
fn needed(way: &Way) -> f64 {
    way.queue.unwrap_or_default() as f64 + way.bdp() as f64 / 2.0
}

/// Measures it.
pub fn measure(course: &Course) -> Result<Section> {
    let words = "\
One Reno stream: its slow start runs until the queue overflows. Needed: queue + rate × one-way delay. The peak is that of
the whole run, in both directions.";
    let mut section = Section::new("Memory of the delay line (emulated)", words);
    let columns = ["path", "needed MB", "peak MB", "peak / needed", "at most 1.5", "queue's peak MB", "queue dropped"];
    section.head(&[&columns[..], &["others %", "lab"]].concat());
    for (way, seconds) in ways() {
        let rate = way.rate_mbit.unwrap_or_default();
        let title = format!("{rate} Mbit/s, RTT {} ms, MTU {}", way.rtt_ms, way.mtu);
        let load = Load::Tcp { streams: 1, congestion: "reno" };
        let flow = Flow { load, v6: false, omit_s: 0, measure_s: seconds };
        section.command(&flow);
        let result = course.alone(&way, &flow).and_then(|alone| row(&title, &way, &alone));
        match course.note(&title, result, &mut section)? {
            Some(row) => {
                println!("  {}", row.join(" | "));
                section.row(&row);
            }
            None => section.row(&[&title, "-", "-", "-", "-", "-", "-", "-", "-"].map(String::from)),
        }
    }
    Ok(section)
}

fn row(title: &str, way: &Way, alone: &Alone) -> Result<Vec<String>> {
    let counts = Run::data(&alone.run.whole)?.counts;
    Ok(vec![
        title.to_owned(),
        format!("{:.1}", needed(way) / 1e6),
        format!("{:.1}", alone.run.whole.memory_peak as f64 / 1e6),
        format!("{:.3}", alone.run.whole.memory_peak as f64 / needed(way)),
        judge(alone.run.whole.memory_peak as f64 / needed(way), counts.queue_dropped),
        format!("{:.1}", counts.queue_peak as f64 / 1e6),
        counts.queue_dropped.to_string(),
        format!("{:.0}", alone.others),
        mark([&alone.run.limited_ever].into_iter()),
    ])
}

/// A queue that was never full proves nothing.
fn judge(ratio: f64, dropped: u64) -> String {
    let verdict = match (ratio <= BOUND, dropped) {
        (_, 0) => "**the queue was never full**",
        (true, _) => "yes",
        (false, _) => "**no**",
    };
    verdict.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_queue_and_way() {
        let [(fast, _), (long, _)] = ways();
        assert_eq!((needed(&fast), needed(&long)), (93_750_000.0, 58_937_500.0));
        assert_eq!([judge(1.1, 9), judge(1.6, 9)], ["yes", "**no**"]);
        assert!(judge(1.0, 0).contains("never full"));
    }
}
