//! How close a bottleneck's rate is to the rate of the scenario.

use anyhow::Result;

use super::bed::{Iperf3Run, PathSettings};
use super::iperf::{Flow, Load};
use super::runner::{PathBench, Section, lateness_ms, mark, spread_text};
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
    others_percent: f64,
    limited: Option<String>,
}

fn paths() -> Vec<PathSettings> {
    let path = |rate, mtu| PathSettings { rtt_ms: 20, rate_mbit: Some(rate), mtu, ..PathSettings::default() };
    vec![path(1_000, 1500), path(1_000, 9000), path(5_000, 1500), path(5_000, 9000)]
}

/// The largest goodput of TCP at a rate that counts IP bytes, in Mbit/s.
fn ideal(path: &PathSettings) -> f64 {
    let mtu = f64::from(path.mtu);
    f64::from(path.rate_mbit.unwrap_or_default()) * (mtu - HEADERS) / mtu
}

fn title(path: &PathSettings) -> String {
    format!("{} Gbit/s, MTU {}", path.rate_mbit.unwrap_or_default() / 1_000, path.mtu)
}

/// Runs the measurement.
///
/// # Errors
/// A signal stopped the run. A run that fails is noted in the section.
pub fn measure(bench: &PathBench) -> Result<Section> {
    let words = "\
RTT 20 ms, a queue of one BDP, one CUBIC stream. Ideal: rate × (MTU - 52) / MTU, as the rate counts IP bytes and each
segment carries 52 bytes of headers.";
    let mut section = Section::new("Bottleneck (emulated)", words);
    let paths = paths();
    let mut samples: Vec<Vec<Sample>> = paths.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.rounds {
        for (path, samples) in paths.iter().zip(&mut samples) {
            let result = bench.run_alone(path, &FLOW).and_then(|solo| sample(path, &solo.run, solo.others_percent));
            if let Some(sample) = bench.note(&title(path), result, &mut section)? {
                let limited = mark([&sample.limited].into_iter());
                println!(
                    "  {}/{}  {}: {:.3} % of the ideal, late p99 {:.2} ms, others {:.0} %, lab {limited}",
                    round + 1,
                    bench.rounds,
                    title(path),
                    sample.percent,
                    sample.late_ms,
                    sample.others_percent
                );
                samples.push(sample);
            }
        }
    }
    section.command(&FLOW);
    table(&mut section, &paths, &samples);
    Ok(section)
}

fn sample(path: &PathSettings, run: &Iperf3Run, others_percent: f64) -> Result<Sample> {
    Ok(Sample {
        percent: run.report.bit_s / 1e6 / ideal(path) * 100.0,
        late_ms: lateness_ms(&Iperf3Run::data(&run.counted)?.lateness)[1],
        others_percent,
        limited: run.limited.clone(),
    })
}

fn table(section: &mut Section, paths: &[PathSettings], all: &[Vec<Sample>]) {
    let columns = ["path", "runs", "ideal Mbit/s", "Mbit/s", "% of the ideal", "within 0.5 %", "late p99 ms"];
    section.head(&[&columns[..], &["others %", "lab"]].concat());
    for (path, samples) in paths.iter().zip(all) {
        let Some(percent) = spread(samples.iter().map(|sample| sample.percent)) else {
            section.row(&[&title(path), "0", "-", "-", "-", "-", "-", "-", "-"].map(String::from));
            continue;
        };
        let median_of = |value: fn(&Sample) -> f64| median(samples.iter().map(value)).unwrap_or_default();
        section.row(&[
            title(path),
            samples.len().to_string(),
            format!("{:.2}", ideal(path)),
            format!("{:.2}", ideal(path) * percent.median / 100.0),
            spread_text(percent, 3),
            judge(percent),
            format!("{:.2}", median_of(|sample| sample.late_ms)),
            format!("{:.0}", median_of(|sample| sample.others_percent)),
            mark(samples.iter().map(|sample| &sample.limited)),
        ]);
    }
}

/// The verdict on the median. A run with a larger deviation than the bound is named as well.
fn judge(percent: Spread) -> String {
    let deviation = |value: f64| (value - 100.0).abs();
    let worst = deviation(percent.least).max(deviation(percent.most));
    match (deviation(percent.median) <= BOUND, worst <= BOUND) {
        (true, true) => "yes".to_owned(),
        (true, false) => format!("yes; one run {worst:.2} % off"),
        _ => format!("**no: {:.2} % off**", deviation(percent.median)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_goodput_has_no_headers() {
        assert!((ideal(&paths()[0]) - 965.33).abs() < 0.01);
        assert!((ideal(&paths()[3]) - 4_971.11).abs() < 0.01);
    }

    #[test]
    fn rows_are_judged_by_their_medians() {
        let sample = |percent| Sample { percent, late_ms: 0.1, others_percent: 2.0, limited: None };
        let all = vec![vec![sample(99.9)], vec![sample(99.9), sample(100.0), sample(90.0)], vec![sample(99.0)], vec![]];
        let mut section = Section::default();
        table(&mut section, &paths(), &all);
        let row = "| 1 Gbit/s, MTU 1500 | 1 | 965.33 | 964.37 | 99.900 (99.900 to 99.900) | yes | 0.10 | 2 | - |";
        for wanted in [row, "| yes; one run 10.00 % off |", "| **no: 1.00 % off** |", "| 5 Gbit/s, MTU 9000 | 0 |"] {
            assert!(section.text.contains(wanted), "{}", section.text);
        }
    }
}
