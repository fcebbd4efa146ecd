//! The memory of the delay line when a bottleneck's queue is full.

use anyhow::Result;

use super::bed::{Iperf3Run, PathSettings};
use super::iperf::{Flow, Load, buffer_max};
use super::runner::{PathBench, Section, SoloRun, mark};

/// The largest ratio of the delay line's memory to the packets themselves.
const BOUND: f64 = 1.5;

/// The paths, each with its flow. Datagrams arrive one by one, so that the queue takes or drops whole packets. Reno's slow start
/// offers twice the rate of the bottleneck until the queue overflows; CUBIC approaches that rate slowly if its HyStart works.
fn cases() -> Vec<(PathSettings, Flow)> {
    let fast = PathSettings {
        rtt_ms: 100,
        rate_mbit: Some(5_000),
        queue: Some(62_500_000),
        mtu: 9000,
        ..PathSettings::default()
    };
    let long = PathSettings {
        rtt_ms: 303,
        rate_mbit: Some(1_000),
        queue: Some(40_000_000),
        mtu: 1500,
        ..PathSettings::default()
    };
    let flow = |congestion, measure_s| {
        let load = Load::Tcp { streams: 1, congestion };
        Flow { load, v6: false, omit_s: 0, measure_s }
    };
    let large = PathSettings { mtu: 9000, ..long.clone() };
    let load = Load::Udp { bit_s: 1.2e9, bytes: 8_972, buffer: buffer_max() };
    let datagrams = Flow { load, v6: false, omit_s: 0, measure_s: 8 };
    vec![
        (large, datagrams),
        (fast.clone(), flow("reno", 10)),
        (fast, flow("cubic", 35)),
        (long.clone(), flow("reno", 15)),
        (long, flow("cubic", 60)),
    ]
}

/// The bytes that must be held: the queue, and the packets in flight behind it.
fn needed(path: &PathSettings) -> f64 {
    path.queue.unwrap_or_default() as f64 + path.bdp() as f64 / 2.0
}

/// Runs the measurement.
///
/// # Errors
/// A signal stopped the run. A run that fails is noted in the section.
pub fn measure(bench: &PathBench) -> Result<Section> {
    let words = "\
Needed: queue + rate × one-way delay. The peak is that of the whole run, in both directions. Datagrams come one by one;
TCP's packets of up to 64 KiB may pass a full queue in part. Reno's slow start offers twice what the bottleneck carries
until the queue overflows; CUBIC creeps up to it where its HyStart ends slow start in time.";
    let mut section = Section::new("Memory of the delay line (emulated)", words);
    let columns = ["path", "needed MB", "peak MB", "peak / needed", "at most 1.5", "queue's peak MB", "queue dropped"];
    section.head(&[&columns[..], &["others %", "lab"]].concat());
    for (path, flow) in cases() {
        let title = title(&path, &flow);
        section.command(&flow);
        let result = bench.run_alone(&path, &flow).and_then(|solo| row(&title, &path, &solo));
        match bench.note(&title, result, &mut section)? {
            Some(row) => {
                println!("  {}", row.join(" | "));
                section.row(&row);
            }
            None => section.row(&[&title, "-", "-", "-", "-", "-", "-", "-", "-"].map(String::from)),
        }
    }
    Ok(section)
}

fn title(path: &PathSettings, flow: &Flow) -> String {
    let congestion = match flow.load {
        Load::Tcp { congestion, .. } => congestion,
        Load::Udp { .. } => "UDP",
    };
    format!("{congestion}, {} Mbit/s, RTT {} ms, MTU {}", path.rate_mbit.unwrap_or_default(), path.rtt_ms, path.mtu)
}

fn row(title: &str, path: &PathSettings, solo: &SoloRun) -> Result<Vec<String>> {
    let counts = Iperf3Run::data(&solo.run.whole)?.counts;
    Ok(vec![
        title.to_owned(),
        format!("{:.1}", needed(path) / 1e6),
        format!("{:.1}", solo.run.whole.memory_peak as f64 / 1e6),
        format!("{:.3}", solo.run.whole.memory_peak as f64 / needed(path)),
        judge(solo.run.whole.memory_peak as f64 / needed(path), counts.queue_dropped),
        format!("{:.1}", counts.queue_peak as f64 / 1e6),
        counts.queue_dropped.to_string(),
        format!("{:.0}", solo.others_percent),
        mark([&solo.run.limited_in_whole_run].into_iter()),
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
    fn the_needed_memory_is_the_queue_and_the_packets_in_flight() {
        let cases = cases();
        let bytes: Vec<f64> = cases.iter().map(|(path, _)| needed(path)).collect();
        assert_eq!(bytes, [58_937_500.0, 93_750_000.0, 93_750_000.0, 58_937_500.0, 58_937_500.0]);
        assert_eq!(title(&cases[4].0, &cases[4].1), "cubic, 1000 Mbit/s, RTT 303 ms, MTU 1500");
        assert_eq!([judge(1.1, 9), judge(1.6, 9)], ["yes", "**no**"]);
        assert!(judge(1.0, 0).contains("never full"));
    }
}
