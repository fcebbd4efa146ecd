//! How close a bottleneck's rate is to the rate of the scenario.

use anyhow::Result;

use super::bed::{Iperf3Run, PathSettings};
use super::course::{PathBench, Section, late, mark, shown};
use super::iperf::{Flow, Load};
use crate::statistics::{Spread, median, spread};

/// IPv4 and TCP headers with timestamps.
const HEADERS: f64 = 52.0;
/// The largest deviation of the goodput from the ideal, in %.
const BOUND: f64 = 0.5;
const FLOW: Flow = Flow { load: Load::Tcp { streams: 1, congestion: "cubic" }, v6: false, omit_s: 4, measure_s: 8 };

struct Sample {
    /// The goodput as a share of the ideal, in %.
    percent: f64,
    late_ms: f64,
    others: f64,
    limited: Option<String>,
}

fn ways() -> Vec<PathSettings> {
    let way = |rate, mtu| PathSettings { rtt_ms: 20, rate_mbit: Some(rate), mtu, ..PathSettings::default() };
    vec![way(1_000, 1500), way(1_000, 9000), way(5_000, 1500), way(5_000, 9000)]
}

/// The largest goodput of TCP at a rate that counts IP bytes, in Mbit/s.
fn ideal(way: &PathSettings) -> f64 {
    let mtu = f64::from(way.mtu);
    f64::from(way.rate_mbit.unwrap_or_default()) * (mtu - HEADERS) / mtu
}

fn title(way: &PathSettings) -> String {
    format!("{} Gbit/s, MTU {}", way.rate_mbit.unwrap_or_default() / 1_000, way.mtu)
}

/// Runs the measurement.
pub fn measure(course: &PathBench) -> Result<Section> {
    let words = "\
RTT 20 ms, a queue of one BDP, one CUBIC stream. Ideal: rate × (MTU - 52) / MTU, as the rate counts IP bytes and each
segment carries 52 bytes of headers.";
    let mut section = Section::new("Bottleneck (emulated)", words);
    let ways = ways();
    let mut samples: Vec<Vec<Sample>> = ways.iter().map(|_| Vec::new()).collect();
    for round in 0..course.rounds {
        for (way, samples) in ways.iter().zip(&mut samples) {
            let result = course.alone(way, &FLOW).and_then(|alone| sample(way, &alone.run, alone.others));
            if let Some(sample) = course.note(&title(way), result, &mut section)? {
                let limited = mark([&sample.limited].into_iter());
                println!(
                    "  {}/{}  {}: {:.3} % of the ideal, late p99 {:.2} ms, others {:.0} %, lab {limited}",
                    round + 1,
                    course.rounds,
                    title(way),
                    sample.percent,
                    sample.late_ms,
                    sample.others
                );
                samples.push(sample);
            }
        }
    }
    section.command(&FLOW);
    table(&mut section, &ways, &samples);
    Ok(section)
}

fn sample(way: &PathSettings, run: &Iperf3Run, others: f64) -> Result<Sample> {
    Ok(Sample {
        percent: run.told.bit_s / 1e6 / ideal(way) * 100.0,
        late_ms: late(&Iperf3Run::data(&run.counted)?.lateness)[1],
        others,
        limited: run.limited.clone(),
    })
}

fn table(section: &mut Section, ways: &[PathSettings], all: &[Vec<Sample>]) {
    let columns = ["path", "runs", "ideal Mbit/s", "Mbit/s", "% of the ideal", "within 0.5 %", "late p99 ms"];
    section.head(&[&columns[..], &["others %", "lab"]].concat());
    for (way, samples) in ways.iter().zip(all) {
        let Some(percent) = spread(samples.iter().map(|sample| sample.percent)) else {
            section.row(&[&title(way), "0", "-", "-", "-", "-", "-", "-", "-"].map(String::from));
            continue;
        };
        let of = |value: fn(&Sample) -> f64| median(samples.iter().map(value)).unwrap_or_default();
        section.row(&[
            title(way),
            samples.len().to_string(),
            format!("{:.2}", ideal(way)),
            format!("{:.2}", ideal(way) * percent.median / 100.0),
            shown(percent, 3),
            judge(percent),
            format!("{:.2}", of(|sample| sample.late_ms)),
            format!("{:.0}", of(|sample| sample.others)),
            mark(samples.iter().map(|sample| &sample.limited)),
        ]);
    }
}

/// The median decides; a run that was further off is named all the same.
fn judge(percent: Spread) -> String {
    let off = |value: f64| (value - 100.0).abs();
    let worst = off(percent.least).max(off(percent.most));
    match (off(percent.median) <= BOUND, worst <= BOUND) {
        (true, true) => "yes".to_owned(),
        (true, false) => format!("yes; one run {worst:.2} % off"),
        _ => format!("**no: {:.2} % off**", off(percent.median)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_leaves_headers_out() {
        assert!((ideal(&ways()[0]) - 965.33).abs() < 0.01);
        assert!((ideal(&ways()[3]) - 4_971.11).abs() < 0.01);
    }

    #[test]
    fn rows_are_judged_by_their_medians() {
        let sample = |percent| Sample { percent, late_ms: 0.1, others: 2.0, limited: None };
        let all = vec![vec![sample(99.9)], vec![sample(99.9), sample(100.0), sample(90.0)], vec![sample(99.0)], vec![]];
        let mut section = Section::default();
        table(&mut section, &ways(), &all);
        let row = "| 1 Gbit/s, MTU 1500 | 1 | 965.33 | 964.37 | 99.900 (99.900 to 99.900) | yes | 0.10 | 2 | - |";
        for wanted in [row, "| yes; one run 10.00 % off |", "| **no: 1.00 % off** |", "| 5 Gbit/s, MTU 9000 | 0 |"] {
            assert!(section.text.contains(wanted), "{}", section.text);
        }
    }
}
