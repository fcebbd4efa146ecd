//! The rate of the lab if nothing but the machine limits it.

use anyhow::Result;

use super::bed::{Iperf3Run, PathSettings};
use super::iperf::{Flow, Load};
use super::runner::{PathBench, Section, lateness_ms, mark, spread_text};
use crate::statistics::{median, spread};

/// A path without a bottleneck.
struct Case {
    title: &'static str,
    path: PathSettings,
    flow: Flow,
    /// The target rate, Gbit/s.
    target: Option<f64>,
}

/// The figures of one run.
struct Sample {
    gbit_s: f64,
    /// CPU seconds of the emulator per 10^9 bytes that it carried.
    cpu_s_per_gb: f64,
    /// Lateness of packets, ms: median, 99th percentile, largest.
    lateness_ms: [f64; 3],
    memory_mib: f64,
    others_percent: f64,
    limited: Option<String>,
}

fn cases() -> Vec<Case> {
    let case = |title, rtt_ms, mtu, streams, target| {
        let load = Load::Tcp { streams, congestion: "cubic" };
        // On a long path, counting begins after slow start.
        let (omit_s, measure_s) = if rtt_ms == 0 { (1, 5) } else { (12, 10) };
        let flow = Flow { load, v6: false, omit_s, measure_s };
        Case { title, path: PathSettings { rtt_ms, mtu, ..PathSettings::default() }, flow, target }
    };
    vec![
        case("1 stream, RTT 0, MTU 9000", 0, 9000, 1, Some(15.0)),
        case("1 stream, RTT 0, MTU 1500", 0, 1500, 1, None),
        case("1 stream, RTT 303 ms, MTU 9000", 303, 9000, 1, Some(10.0)),
        case("4 streams, RTT 303 ms, MTU 9000", 303, 9000, 4, Some(10.0)),
    ]
}

/// Runs the measurement.
///
/// # Errors
/// A signal stopped the run. A run that fails is noted in the section.
pub fn measure(bench: &PathBench) -> Result<Section> {
    let words = "\
No bottleneck: what the lab carries while iperf3 at both ends shares its processors. The mark `emulator-limited` is
expected here and nowhere else. CPU: the emulator's thread, per 10^9 bytes of IP that it carried. Late: written after it
was due.";
    let mut section = Section::new("Ceiling (emulated)", words);
    let cases = cases();
    let mut samples: Vec<Vec<Sample>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            let result =
                bench.run_alone(&case.path, &case.flow).and_then(|solo| sample(&solo.run, solo.others_percent));
            if let Some(sample) = bench.note(case.title, result, &mut section)? {
                let limited = mark([&sample.limited].into_iter());
                let gbit_s = sample.gbit_s;
                let p99 = sample.lateness_ms[1];
                let others_percent = sample.others_percent;
                println!(
                    "  {}/{}  {}: {gbit_s:.2} Gbit/s, late p99 {p99:.2} ms, others {others_percent:.0} %, lab {limited}",
                    round + 1,
                    bench.rounds,
                    case.title
                );
                samples.push(sample);
            }
        }
    }
    table(&mut section, &cases, &samples);
    Ok(section)
}

fn sample(run: &Iperf3Run, others_percent: f64) -> Result<Sample> {
    let data = Iperf3Run::data(&run.counted)?;
    Ok(Sample {
        gbit_s: run.report.bit_s / 1e9,
        cpu_s_per_gb: run.counted.cpu.as_secs_f64() / (data.counts.out_bytes.max(1) as f64 / 1e9),
        lateness_ms: lateness_ms(&data.lateness),
        memory_mib: run.whole.memory_peak as f64 / f64::from(1 << 20),
        others_percent,
        limited: run.limited.clone(),
    })
}

fn table(section: &mut Section, cases: &[Case], all: &[Vec<Sample>]) {
    let columns = ["path", "runs", "Gbit/s", "CPU s/GB", "late p50, p99, max ms", "memory peak MiB", "others %", "lab"];
    section.head(&columns);
    let mut verdicts = Vec::new();
    for (case, samples) in cases.iter().zip(all) {
        section.command(&case.flow);
        let median_of = |value: fn(&Sample) -> f64| median(samples.iter().map(value)).unwrap_or_default();
        let Some(rate) = spread(samples.iter().map(|sample| sample.gbit_s)) else {
            section.row(&[case.title, "0", "-", "-", "-", "-", "-", "-"].map(String::from));
            continue;
        };
        let largest = samples.iter().map(|sample| sample.lateness_ms[2]).fold(0.0, f64::max);
        section.row(&[
            case.title.to_owned(),
            samples.len().to_string(),
            spread_text(rate, 2),
            format!("{:.3}", median_of(|sample| sample.cpu_s_per_gb)),
            format!(
                "{:.2}, {:.2}, {largest:.2}",
                median_of(|sample| sample.lateness_ms[0]),
                median_of(|sample| sample.lateness_ms[1])
            ),
            format!("{:.0}", median_of(|sample| sample.memory_mib)),
            format!("{:.0}", median_of(|sample| sample.others_percent)),
            mark(samples.iter().map(|sample| &sample.limited)),
        ]);
        verdicts.extend(case.target.map(|target| verdict(case.title, target, rate.median)));
    }
    section.line("");
    verdicts.iter().for_each(|verdict| section.line(verdict));
}

fn verdict(title: &str, target: f64, reached: f64) -> String {
    let how = if reached >= target {
        "met".to_owned()
    } else {
        format!("**missed by {:.1} %**", (1.0 - reached / target) * 100.0)
    };
    format!("- target {title}: {target:.0} Gbit/s or more ({reached:.2}): {how}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_medians_marks_and_verdicts() {
        let sample = |gbit_s: f64, limited: Option<&str>| Sample {
            gbit_s,
            cpu_s_per_gb: 0.2,
            lateness_ms: [0.01, 0.1, gbit_s],
            memory_mib: 400.0,
            others_percent: 3.0,
            limited: limited.map(String::from),
        };
        let all = vec![
            vec![sample(16.0, None), sample(17.0, Some("late")), sample(18.0, None)],
            vec![],
            vec![],
            vec![sample(9.0, None)],
        ];
        let mut section = Section::default();
        table(&mut section, &cases(), &all);
        let row = "| 1 stream, RTT 0, MTU 9000 | 3 | 17.00 (16.00 to 18.00) | 0.200 | 0.01, 0.10, 18.00 | 400 | 3 \
                   | **emulator-limited** in 1 of 3 runs: late |";
        assert!(section.text.contains(row), "{}", section.text);
        assert!(section.text.contains("MTU 9000: 15 Gbit/s or more (17.00): met"));
        assert!(section.text.contains("10 Gbit/s or more (9.00): **missed by 10.0 %**"));
        assert!(section.text.contains("| 1 stream, RTT 0, MTU 1500 | 0 |"));
        assert_eq!(section.commands.len(), 3);
    }
}
