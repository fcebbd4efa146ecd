//! Whether the lab's counts of disturbed segments agree with the counts of the kernels at both ends.
//!
//! The path is disturbed only while data flows, not during iperf3's first and last exchange with its server: the counts would
//! differ, because a lost pure acknowledgement is never sent again, and no receiver misses the last segment if it is lost.

use anyhow::Result;

use super::bed::{Bed, Iperf3Run, PathSettings};
use super::iperf::{Flow, Load, buffer_max};
use super::runner::{PathBench, Section, SoloRun, mark};

/// Seconds of a run.
const SECONDS: u32 = 10;
/// Seconds without a disturbance, at the beginning and at the end of a run.
const QUIET_S: f64 = 1.0;
/// The size of the queue, and the most that a connection may have in flight: together they keep the queue from dropping.
const QUEUE: u64 = 64_000_000;
const WINDOW: u64 = 16 << 20;

/// A disturbance of segments.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Disturbance {
    title: &'static str,
    word: &'static str,
    value: &'static str,
    udp: bool,
}

const ALL: [Disturbance; 5] = [
    Disturbance { title: "TCP, loss 0.1 %", word: "loss", value: "0.1%", udp: false },
    Disturbance { title: "TCP, bursts of loss", word: "loss", value: "{ burst = [0.0005, 0.2] }", udp: false },
    Disturbance { title: "TCP, corrupt 0.05 %", word: "corrupt", value: "0.05%", udp: false },
    Disturbance { title: "UDP, loss 1 %", word: "loss", value: "1%", udp: true },
    Disturbance { title: "UDP, corrupt 1 %", word: "corrupt", value: "1%", udp: true },
];

/// The counts of both sides in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SegmentCounts {
    /// Segments that the lab disturbed.
    injected: u64,
    /// Segments that the receiver missed or refused; none for lost TCP segments, which no receiver counts.
    receiver: Option<u64>,
    /// Segments that the sender sent again.
    resent: Option<u64>,
    /// Segments of these that the receiver had already (DSACK).
    spurious: u64,
    /// Tail loss probes: segments that the sender sent because no acknowledgement came.
    probes: u64,
    /// Segments dropped by the lab's queue.
    dropped: u64,
    /// Datagrams dropped because the receiver's socket was full.
    overflowed: u64,
}

fn flow(disturbance: Disturbance, mtu: u16, v6: bool) -> Flow {
    let load = if disturbance.udp {
        // A rate at which no socket buffer overflows.
        let bit_s = if mtu > 1500 { 200e6 } else { 100e6 };
        Load::Udp { bit_s, bytes: u32::from(mtu) - if v6 { 48 } else { 28 }, buffer: buffer_max() }
    } else {
        // BBR keeps its full rate despite loss, so that many segments are lost.
        Load::Tcp { streams: 1, congestion: "bbr" }
    };
    Flow { load, v6, omit_s: 0, measure_s: SECONDS }
}

/// Runs the measurement.
///
/// # Errors
/// A signal stopped the run. A run that fails is noted in the section.
pub fn measure(bench: &PathBench) -> Result<Section> {
    let words = "\
The direction of the data alone is disturbed, RTT 10 ms, 600 Mbit/s, BBR, a queue in which nothing is dropped. Receiver:
datagrams that iperf3 missed, or segments that the kernel refused (InCsumErrors). Again: RetransSegs of the sender's
kernel. Spurious: segments that came twice, as the receiver said (TCPDSACKRecvSegs); probes: TCPLossProbes. The rest of
what was sent again is what the lab took. Elsewhere: dropped by the lab's queue or the receiver's socket buffer.";
    let mut section = Section::new("Exact to the unit (emulated)", words);
    let columns = ["what", "MTU", "IP", "lab", "receiver", "again", "spurious", "probes", "elsewhere", "verdict"];
    section.head(&[&columns[..], &["others %", "lab"]].concat());
    for disturbance in ALL {
        for (mtu, v6) in [(1500, false), (1500, true), (9000, false), (9000, true)] {
            let path = PathSettings {
                rtt_ms: 10,
                rate_mbit: Some(600),
                queue: Some(QUEUE),
                mtu,
                window: Some(WINDOW),
                ..PathSettings::default()
            };
            let flow = flow(disturbance, mtu, v6);
            section.command(&flow);
            let family = if v6 { "6" } else { "4" };
            let what = format!("{}, MTU {mtu}, IPv{family}", disturbance.title);
            let result = run(bench, disturbance, &path, &flow).and_then(|solo| {
                let cells = row(count(disturbance, v6, &solo.run)?);
                let ends = [format!("{:.0}", solo.others_percent), mark([&solo.run.limited_in_whole_run].into_iter())];
                Ok([disturbance.title.to_owned(), mtu.to_string(), family.to_owned()]
                    .into_iter()
                    .chain(cells)
                    .chain(ends)
                    .collect::<Vec<_>>())
            });
            if let Some(row) = bench.note(&what, result, &mut section)? {
                println!("  {}", row.join(" | "));
                section.row(&row);
            }
        }
    }
    Ok(section)
}

/// Runs a flow that is disturbed from shortly after its start to shortly before its end.
fn run(bench: &PathBench, disturbance: Disturbance, path: &PathSettings, flow: &Flow) -> Result<SoloRun> {
    let quiet = if disturbance.word == "loss" { "none" } else { "0" };
    let phase = std::cell::Cell::new(0);
    bench.run_disturbed(path, flow, |bed: &Bed<'_>, elapsed: f64| {
        let value = match phase.get() {
            0 if elapsed >= QUIET_S => disturbance.value,
            1 if elapsed >= f64::from(SECONDS) - QUIET_S => quiet,
            _ => return Ok(()),
        };
        phase.set(phase.get() + 1);
        bed.set(disturbance.word, value)
    })
}

fn count(disturbance: Disturbance, v6: bool, run: &Iperf3Run) -> Result<SegmentCounts> {
    let counts = Iperf3Run::data(&run.whole)?.counts;
    let udp = if v6 { "Udp6" } else { "Udp" };
    let damaged = disturbance.word == "corrupt";
    let overflowed = run.at_receiver(&format!("{udp}RcvbufErrors"));
    let receiver = match (disturbance.udp, damaged) {
        (true, true) => Some(run.at_receiver(&format!("{udp}InCsumErrors"))),
        // iperf3 also misses the datagrams that the socket had no room for.
        (true, false) => run.report.lost.map(|lost| lost.saturating_sub(overflowed)),
        (false, true) => Some(run.at_receiver("TcpInCsumErrors")),
        (false, false) => None,
    };
    let dropped = counts.queue_dropped + counts.policed + counts.down + counts.black_hole;
    Ok(SegmentCounts {
        injected: if damaged { counts.corrupted } else { counts.lost },
        receiver,
        resent: (!disturbance.udp).then(|| run.at_sender("TcpRetransSegs")),
        spurious: run.at_sender("TcpExtTCPDSACKRecvSegs"),
        probes: run.at_sender("TcpExtTCPLossProbes"),
        dropped,
        overflowed,
    })
}

fn row(counted: SegmentCounts) -> [String; 7] {
    let or_none = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    [
        counted.injected.to_string(),
        or_none(counted.receiver),
        or_none(counted.resent),
        counted.spurious.to_string(),
        counted.probes.to_string(),
        (counted.dropped + counted.overflowed).to_string(),
        judge(counted),
    ]
}

/// The verdict: exact, or the difference.
fn judge(counted: SegmentCounts) -> String {
    let wanted = counted.injected;
    let deviation = |value: u64| value as i128 - wanted as i128;
    let receiver = counted.receiver.map_or(0, deviation);
    let resent = counted.resent.map_or(0, deviation);
    let needed = resent - counted.resent.map_or(0, |_| i128::from(counted.spurious));
    match (receiver, resent, needed) {
        _ if wanted == 0 => "**nothing was injected**".to_owned(),
        (0, 0, _) => "exact".to_owned(),
        (0, _, 0) => format!("exact but for {resent} sent again without need"),
        (0, ..) => format!("**sender {resent:+}** ({needed:+} without the spurious)"),
        // The kernel does not verify the checksums of datagrams that it drops because a socket is full.
        _ if counted.resent.is_none() && receiver < 0 && counted.overflowed > 0 => {
            format!("**receiver {receiver:+}** ({} came to a full socket, unchecked)", counted.overflowed)
        }
        _ if counted.resent.is_none() => format!("**receiver {receiver:+}**"),
        _ => format!("**receiver {receiver:+}, sender {resent:+}**"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_names_every_difference_of_the_counts() {
        let tcp = |resent, spurious| {
            judge(SegmentCounts { injected: 40, resent: Some(resent), spurious, ..SegmentCounts::default() })
        };
        assert_eq!(tcp(40, 0), "exact");
        assert_eq!(tcp(42, 2), "exact but for 2 sent again without need");
        assert_eq!(tcp(42, 1), "**sender +2** (+1 without the spurious)");
        assert_eq!(tcp(39, 0), "**sender -1** (-1 without the spurious)");
        let udp = |lost| judge(SegmentCounts { injected: 40, receiver: Some(lost), ..SegmentCounts::default() });
        assert_eq!([udp(40), udp(38)], ["exact", "**receiver -2**"]);
        let full = SegmentCounts { injected: 40, receiver: Some(38), overflowed: 90, ..SegmentCounts::default() };
        assert_eq!(judge(full), "**receiver -2** (90 came to a full socket, unchecked)");
        let damaged = SegmentCounts { injected: 40, receiver: Some(41), resent: Some(40), ..SegmentCounts::default() };
        assert_eq!(judge(damaged), "**receiver +1, sender +0**");
        assert_eq!(judge(SegmentCounts::default()), "**nothing was injected**");
    }

    #[test]
    fn every_disturbance_is_a_setting_of_a_scenario() {
        for disturbance in ALL {
            let ab: &'static str = Box::leak(
                format!(
                    "{} = {}",
                    disturbance.word,
                    match disturbance.value {
                        table if table.starts_with('{') => table.to_owned(),
                        text => format!("\"{text}\""),
                    }
                )
                .into_boxed_str(),
            );
            let path = PathSettings { rtt_ms: 10, mtu: 1500, ab, ..PathSettings::default() };
            assert!(lab::Scenario::read(&path.scenario()).is_ok(), "{}", path.scenario());
        }
    }
}
