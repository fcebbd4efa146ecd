//! The high-luminosity LHC at full scale, as the text of a scenario: 13 + 170 + 300 sites, 75 million files a day at 9.6 Tbit/s.
//!
//! Does not know: the simulator.

use std::fmt::Write as _;

/// Tier 1 centres.
pub const TIER_1: usize = 13;
/// Tier 2 centres.
pub const TIER_2: usize = 170;
/// Tier 3 centres.
pub const TIER_3: usize = 300;
/// Files of a day.
pub const FILES: u64 = 75_000_000;
/// The rate in sum.
pub const RATE_BIT_S: f64 = 9.6e12;
const DAY_S: f64 = 86_400.0;

/// A kind of traffic: from one group to another, with its part of the day's bytes.
struct Traffic {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    part: f64,
}

/// Raw data leave CERN; the flexible model moves as much again between the tiers.
const TRAFFIC: [Traffic; 4] = [
    Traffic { name: "raw", from: "cern", to: "tier1", part: 0.25 },
    Traffic { name: "exchange", from: "tier1", to: "tier1", part: 0.25 },
    Traffic { name: "distribution", from: "tier1", to: "tier2", part: 0.3 },
    Traffic { name: "simulated-events", from: "tier2", to: "tier1", part: 0.1 },
];
/// The part of the day's bytes that tier 2 centres send to the tier 3 centres behind them.
const ANALYSIS_PART: f64 = 0.1;

/// The scenario of so many seconds of the day.
pub fn scenario(seconds: f64) -> String {
    let bytes = RATE_BIT_S / 8.0 * seconds;
    let file = RATE_BIT_S / 8.0 * DAY_S / FILES as f64;
    let mut text = format!("[simulate]\nduration = \"{seconds}s\"\nstep = \"10s\"\n\n[site.cern]\n");
    sites(&mut text);
    paths(&mut text);
    for traffic in TRAFFIC {
        let Traffic { name, from, to, part } = traffic;
        let ends = format!("from = \"{from}\"\nto = \"{to}\"\n");
        work(&mut text, name, &ends, bytes * part, file, seconds);
    }
    for tier_2 in 0..TIER_2 {
        let behind: Vec<String> =
            (0..TIER_3).filter(|tier_3| tier_3 % TIER_2 == tier_2).map(|tier_3| format!("\"t3-{tier_3}\"")).collect();
        let ends = format!("from = \"t2-{tier_2}\"\nto = [{}]\n", behind.join(", "));
        let part = ANALYSIS_PART * behind.len() as f64 / TIER_3 as f64;
        work(&mut text, &format!("analysis-{tier_2}"), &ends, bytes * part, file, seconds);
    }
    text
}

fn sites(text: &mut String) {
    for (prefix, group, count) in [("t1", "tier1", TIER_1), ("t2", "tier2", TIER_2), ("t3", "tier3", TIER_3)] {
        for number in 0..count {
            let _ = write!(text, "[site.{prefix}-{number}]\ngroup = \"{group}\"\n");
        }
    }
}

/// CERN and the tier 1 centres are a mesh; each other centre has one link.
fn paths(text: &mut String) {
    let mut path = |a: &str, b: &str, rtt_ms: usize, gbit_s: usize| {
        let _ = write!(
            text,
            "[path.\"{a}.{b}\"]\nsites = [\"{a}\", \"{b}\"]\nrtt = \"{rtt_ms}ms\"\nrate = \"{gbit_s}Gbit/s\"\n"
        );
    };
    for tier_1 in 0..TIER_1 {
        path("cern", &format!("t1-{tier_1}"), 5 + 20 * tier_1, 800);
        for other in 0..tier_1 {
            path(&format!("t1-{tier_1}"), &format!("t1-{other}"), 10 + 25 * (tier_1 - other), 400);
        }
    }
    for tier_2 in 0..TIER_2 {
        path(&format!("t1-{}", tier_2 % TIER_1), &format!("t2-{tier_2}"), 5 + tier_2 % 40, 100);
    }
    for tier_3 in 0..TIER_3 {
        path(&format!("t2-{}", tier_3 % TIER_2), &format!("t3-{tier_3}"), 2 + tier_3 % 20, 20);
    }
}

fn work(text: &mut String, name: &str, ends: &str, bytes: f64, file: f64, seconds: f64) {
    let _ = write!(
        text,
        "[work.{name}]\n{ends}bytes = \"{bytes:.0}B\"\nfile = \"{file:.0}B\"\nsizes = \"lognormal\"\nover = \"{seconds}s\"\n\
         failures = \"1%\"\nactivity = \"{name}\"\n"
    );
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;

    use super::*;

    #[test]
    fn the_day_has_75_million_files_at_9_6_tbit_s() {
        let scenario = Scenario::read(&super::scenario(DAY_S)).unwrap();
        assert_eq!(scenario.sites.len(), 1 + TIER_1 + TIER_2 + TIER_3);
        let bytes: f64 = scenario.work.iter().map(|work| work.bytes.0 as f64).sum();
        let files: f64 = scenario.work.iter().map(|work| work.bytes.0 as f64 / work.file.0 as f64).sum();
        assert!((bytes * 8.0 / DAY_S / RATE_BIT_S - 1.0).abs() < 1e-6, "{bytes}");
        assert!((files / FILES as f64 - 1.0).abs() < 1e-3, "{files}");
    }
}
