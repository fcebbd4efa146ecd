//! The runs: they differ in path, limit and files. Each lasts long enough for predictions.

use crate::paths::bed::PathSettings;

/// The payload of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Zeros, from memory to memory; pushed, or pulled.
    Memory {
        /// Bytes.
        bytes: u64,
        /// Whether the receiver starts the transfer.
        pull: bool,
    },
    /// Directories of files, in this order: the number of files, and the bytes of each.
    Files(&'static [(u64, u64)]),
}

/// A planned run: one job on one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The path.
    pub path: PathSettings,
    /// The payload.
    pub load: Load,
    /// Further arguments of the command.
    pub options: &'static str,
}

impl Load {
    /// A short description for the table.
    pub fn description(&self) -> String {
        match self {
            Load::Memory { bytes, pull } => {
                let verb = if *pull { "pulled" } else { "pushed" };
                format!("{:.2} GB of zeros, {verb}", *bytes as f64 / 1e9)
            }
            Load::Files(groups) => {
                let one = |(count, bytes): &(u64, u64)| match bytes {
                    0..1_000_000 => format!("{count} × {} kB", bytes / 1000),
                    _ => format!("{count} × {} MB", bytes / 1_000_000),
                };
                groups.iter().map(one).collect::<Vec<_>>().join(", then ")
            }
        }
    }
}

const SMALL: &[(u64, u64)] = &[(20_000, 20_000)];
const SMALL_THEN_LARGE: &[(u64, u64)] = &[(12_000, 20_000), (2, 500_000_000)];
const LARGE_THEN_SMALL: &[(u64, u64)] = &[(2, 400_000_000), (15_000, 20_000)];
const MIXED: &[(u64, u64)] = &[(3_000, 30_000), (300, 1_000_000), (20, 20_000_000), (3_000, 30_000), (2, 200_000_000)];
const FEW_LARGE: &[(u64, u64)] = &[(8, 60_000_000)];

/// All runs.
pub fn all() -> Vec<Planned> {
    let mut seed = 0;
    let mut path = |rtt_ms, mbit, ab| {
        seed += 1;
        PathSettings { rtt_ms, rate_mbit: Some(mbit), mtu: 1500, ab, seed, ..PathSettings::default() }
    };
    let push = |bytes| Load::Memory { bytes, pull: false };
    let pull = |bytes| Load::Memory { bytes, pull: true };
    let gb = |gb: f64| (gb * 1e9) as u64;
    let plan = |path, load, options| Planned { path, load, options };
    vec![
        plan(path(0, 1000, ""), push(gb(2.0)), ""),
        plan(path(0, 100, ""), push(gb(0.2)), ""),
        plan(path(0, 1000, ""), pull(gb(3.0)), "--streams 1"),
        plan(path(10, 1000, ""), push(gb(2.5)), ""),
        plan(path(10, 300, ""), pull(gb(0.7)), ""),
        plan(path(50, 1000, ""), push(gb(2.5)), "--congestion cubic"),
        plan(path(50, 100, ""), push(gb(0.25)), "--streams 8"),
        plan(path(100, 1000, ""), pull(gb(2.5)), "--streams 4"),
        plan(path(100, 500, ""), push(gb(1.5)), "--congestion bbr"),
        plan(path(200, 200, ""), push(gb(0.5)), ""),
        plan(path(303, 1000, ""), push(gb(3.0)), ""),
        plan(path(303, 1000, ""), pull(gb(3.0)), "--streams 8 --congestion cubic"),
        plan(path(303, 100, ""), push(gb(0.3)), "--congestion cubic"),
        plan(path(20, 1000, "loss = \"0.01%\""), push(gb(2.0)), "--congestion cubic"),
        plan(path(20, 300, "loss = \"0.1%\""), push(gb(0.5)), "--streams 8 --congestion cubic"),
        plan(path(100, 300, "loss = \"0.01%\""), pull(gb(0.5)), "--streams 8 --congestion cubic"),
        plan(path(50, 500, "loss = \"1%\""), push(gb(0.8)), "--congestion bbr"),
        plan(path(10, 1000, ""), push(gb(0.5)), "--limit 200Mbit/s"),
        plan(path(303, 1000, ""), push(gb(1.0)), "--limit 400Mbit/s"),
        plan(path(10, 200, ""), Load::Files(SMALL), ""),
        plan(path(100, 500, ""), Load::Files(SMALL_THEN_LARGE), ""),
        plan(path(20, 500, ""), Load::Files(LARGE_THEN_SMALL), ""),
        plan(path(50, 500, ""), Load::Files(MIXED), ""),
        plan(path(303, 300, ""), Load::Files(FEW_LARGE), ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_runs_or_more_and_their_paths_are_scenarios() {
        let all = all();
        assert!(all.len() >= 20);
        for planned in &all {
            assert!(lab::Scenario::read(&planned.path.scenario()).is_ok(), "{planned:?}");
        }
        assert_eq!(all[0].load.description(), "2.00 GB of zeros, pushed");
        assert_eq!(all[21].load.description(), "2 × 400 MB, then 15000 × 20 kB");
    }
}
