//! The tables of the exercises.

use std::fmt::Write as _;

use exercise::grade::{self, PhaseGrade};
use exercise::page::{Trend, rate_text};
use exercise::record::{PhaseRecord, TrialRecord};
use model::units::Bytes;

use super::{ExerciseRun, SearchBesideGrid};

/// The directories of the comparisons among the shipped exercises.
const BEFORE_AFTER: &str = "before-after/";
const MODES: &str = "xrdcp-modes/";
/// 200 flows from nothing to their report, seconds.
const FLOOD: &str = "flood";
const FLOOD_MAX_S: f64 = 300.0;
/// The part of the best setting of the grid that the search must reach.
const SEARCH_MIN: f64 = 0.95;
/// An hour must not add more than this to the memory of a node, MiB, and to its descriptors; nor take more than this part of the rate.
const MEMORY_SLOPE_MAX: f64 = 8.0;
const DESCRIPTOR_SLOPE_MAX: f64 = 1.0;
const RATE_SLOPE_MAX: f64 = 0.02;

/// What xrdcp gave over 100 Gbit/s: the mode, and Gbit/s on the three paths with 1 GB files and with 10 GB files.
const PUBLISHED_MODES: [(&str, [[f64; 2]; 3]); 4] = [
    ("consecutive", [[12.16, 14.52], [5.49, 12.06], [0.88, 1.36]]),
    ("simultaneous", [[38.94, 43.07], [28.29, 34.64], [33.95, 12.46]]),
    ("recursive", [[12.92, 13.33], [8.77, 10.16], [1.65, 1.27]]),
    ("multistream", [[13.70, 14.56], [8.51, 9.57], [1.60, 1.19]]),
];
/// The paths of that table, in its order, and the files of each column.
const MODE_PATHS: [&str; 3] = ["lan", "jbo-paris", "canberra-jbo"];
const MODE_FILES: [&str; 2] = ["many", "few"];

/// All tables but that of the endurance run; whether the targets were met.
pub fn all(head: &str, runs: &[ExerciseRun], search: Option<&SearchBesideGrid>) -> (String, bool) {
    let mut text = format!("# Exercises\n\n{head}\n");
    let own: Vec<&ExerciseRun> =
        runs.iter().filter(|run| !run.name.starts_with(BEFORE_AFTER) && !run.name.starts_with(MODES)).collect();
    text += &shipped(&own);
    text += &before_after(runs);
    text += &modes(runs);
    let mut met = true;
    let mut targets = String::new();
    let mut target = |what: &str, measured: String, wanted: &str, is_met: bool| {
        let _ =
            writeln!(targets, "| {what} | {measured} | {wanted} | {} |", if is_met { "met" } else { "**not met**" });
        met &= is_met;
    };
    if let Some(flood) = own.iter().find(|run| run.name == FLOOD) {
        let grade = flood.record.phases.first().map(PhaseGrade::of);
        let (goals, reached) = grade.as_ref().map_or((0, 0), |grade| (grade.goals, grade.met));
        let wall_s = flood.wall.as_secs_f64();
        target("200 flows, from nothing to the report", format!("{wall_s:.0} s"), "< 300 s", wall_s < FLOOD_MAX_S);
        target("their goals met", format!("{reached} of {goals}"), "all", goals > 0 && goals == reached);
    }
    if let Some(search) = search {
        text += &grid(search);
        let part = part_of_best(search).unwrap_or(0.0);
        let slots = search.search.record.trials.len();
        let measured = format!("{:.1} % of the best of {}", part * 100.0, search.grid.record.trials.len());
        target(&format!("a search of {slots} slots"), measured, "95 %", part >= SEARCH_MIN);
    }
    if !targets.is_empty() {
        let _ = write!(text, "## Targets\n\n| what | measured | target | |\n|---|---|---|---|\n{targets}");
    }
    (text, met)
}

fn shipped(runs: &[&ExerciseRun]) -> String {
    let mut text = "## The shipped exercises\n\nSustained, lowest and highest rate are of means of ten seconds of all flows of a phase together, after the ramp. \
                    Processor time is that of everything: controller, nodes, emulator.\n\n\
                    | exercise | phase | time | bytes | sustained | min | max | goals met |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for run in runs {
        for phase in &run.record.phases {
            let grade = PhaseGrade::of(phase);
            let rate = |of: fn(&exercise::record::Attained) -> f64| {
                grade.attained.as_ref().map_or_else(|| "-".to_owned(), |all| rate_text(of(all)))
            };
            let goals = if grade.goals == 0 { "-".to_owned() } else { format!("{} of {}", grade.met, grade.goals) };
            let _ = writeln!(
                text,
                "| {} | {} | {:.0} s | {} | {} | {} | {} | {goals} |",
                run.name,
                phase.name,
                phase.seconds,
                Bytes(grade.bytes),
                rate(|all| all.sustained),
                rate(|all| all.min),
                rate(|all| all.max)
            );
        }
    }
    text += "\n| exercise | from nothing to the report | processor time | result |\n|---|---|---|---|\n";
    for run in runs {
        let result = grade::verdict(&run.record);
        let _ = writeln!(text, "| {} | {:.0} s | {:.0} s | {result} |", run.name, run.wall.as_secs_f64(), run.cpu_s);
    }
    text + "\n"
}

/// What a phase sustained, bit/s.
fn sustained(run: &ExerciseRun, phase: &str) -> Option<f64> {
    let found = run.record.phases.iter().find(|found| found.name == phase)?;
    PhaseGrade::of(found).attained.map(|attained| attained.sustained)
}

fn ratio(after: Option<f64>, before: Option<f64>) -> String {
    match (after, before) {
        (Some(after), Some(before)) if before > 0.0 => format!("{:.2}", after / before),
        (Some(_), _) => "the old tool sustained nothing".to_owned(),
        _ => "-".to_owned(),
    }
}

fn before_after(runs: &[ExerciseRun]) -> String {
    let cases: Vec<&ExerciseRun> = runs.iter().filter(|run| run.name.starts_with(BEFORE_AFTER)).collect();
    if cases.is_empty() {
        return String::new();
    }
    let mut text = "## Before and after\n\nEach use case moves the same files over the same path with an old tool, and then with Longhaul, for 25 s each. The files name the tools, and what was \
                    recorded of the case at the time.\n\n| case | old tool | sustained | Longhaul sustained | after / before |\n|---|---|---|---|---|\n"
        .to_owned();
    for run in cases {
        let tool =
            run.record.phases.first().and_then(|phase| phase.flows.first()).map_or("-", |flow| flow.tool.as_str());
        let (before, after) = (sustained(run, "before"), sustained(run, "after"));
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), rate_text);
        let _ = writeln!(
            text,
            "| {} | {tool} | {} | {} | {} |",
            run.record.title,
            rate(before),
            rate(after),
            ratio(after, before)
        );
    }
    text + "\n"
}

fn modes(runs: &[ExerciseRun]) -> String {
    let found: Vec<(usize, &ExerciseRun)> = MODE_PATHS
        .iter()
        .enumerate()
        .filter_map(|(at, path)| Some((at, runs.iter().find(|run| run.name == format!("{MODES}{path}"))?)))
        .collect();
    if found.is_empty() {
        return String::new();
    }
    let mut text = "## The four modes of xrdcp, and one job\n\nThe last column is what the four modes gave over 100 Gbit/s, relative to all files at \
    the same time (300 files of 1 GB and 30 of 10 GB, 80 and 8 over \
                    the longest path; read from tables of measurements between these sites). Here files are a four hundredth, and the path carries 400 Mbit/s.\n\n\
                    | path | files | mode | sustained | of one job of Longhaul | of all at the same time | so over 100 Gbit/s |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (at, run) in found {
        for (column, files) in MODE_FILES.iter().enumerate() {
            let of = |mode: &str| sustained(run, &format!("{files}: {mode}"));
            let (job, together) = (of("longhaul"), of("simultaneous"));
            let published = |mode: usize| PUBLISHED_MODES[mode].1[at][column];
            for (number, (mode, _)) in PUBLISHED_MODES.iter().enumerate() {
                let rate = of(mode);
                let _ = writeln!(
                    text,
                    "| {} | {files} | xrdcp, {mode} | {} | {} | {} | {:.2} |",
                    MODE_PATHS[at],
                    rate.map_or_else(|| "-".to_owned(), rate_text),
                    ratio(rate, job),
                    ratio(rate, together),
                    published(number) / published(1)
                );
            }
            let rate = job.map_or_else(|| "-".to_owned(), rate_text);
            let _ = writeln!(
                text,
                "| {} | {files} | one job of Longhaul | {rate} | 1.00 | {} | |",
                MODE_PATHS[at],
                ratio(job, together)
            );
        }
    }
    text + "\n"
}

/// A setting as text.
fn setting_text(trial: &TrialRecord) -> String {
    let values: Vec<String> = trial.setting.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    values.join(", ")
}

/// The part of the best setting of the grid that the setting of the search has, both measured in the grid.
fn part_of_best(both: &SearchBesideGrid) -> Option<f64> {
    let moved = |trials: &[TrialRecord]| {
        trials.iter().filter(|trial| !trial.failed).max_by(|a, b| a.rate_bit_s.total_cmp(&b.rate_bit_s)).cloned()
    };
    let grid = &both.grid.record.trials;
    let found = moved(&both.search.record.trials)?;
    let same = grid.iter().find(|trial| trial.setting == found.setting)?;
    Some(same.rate_bit_s / moved(grid)?.rate_bit_s)
}

fn grid(both: &SearchBesideGrid) -> String {
    let mut text = "## A search beside the full grid\n\nThe search runs first; then every setting has a slot, and the setting that the search proposes is judged by its rate there.\n\n\
                    | setting | in the search, slot | rate | in the grid, rate | ± standard error |\n|---|---|---|---|---|\n"
        .to_owned();
    let mut all: Vec<&TrialRecord> = both.grid.record.trials.iter().collect();
    all.sort_by(|a, b| b.rate_bit_s.total_cmp(&a.rate_bit_s));
    for trial in all {
        let slot = both.search.record.trials.iter().position(|tried| tried.setting == trial.setting);
        let rate = slot.map_or_else(|| "-".to_owned(), |slot| rate_text(both.search.record.trials[slot].rate_bit_s));
        let _ = writeln!(
            text,
            "| {} | {} | {rate} | {} | {} |",
            setting_text(trial),
            slot.map_or_else(|| "-".to_owned(), |slot| (slot + 1).to_string()),
            if trial.failed { "failed".to_owned() } else { rate_text(trial.rate_bit_s) },
            rate_text(trial.error_bit_s)
        );
    }
    text + "\n"
}

/// The table of the endurance run; whether nothing has a slope.
pub fn endurance(head: &str, run: &ExerciseRun) -> (String, bool) {
    let mut text =
        format!("# Endurance\n\n{head}- Processor time of everything: {:.0} s\n\n{}\n\n", run.cpu_s, run.record.title);
    let mut met = true;
    text += "| flow | bytes | sustained | min | max | mean | rounds | failed | slope of the rate in an hour |\n|---|---|---|---|---|---|---|---|---|\n";
    for phase in &run.record.phases {
        for flow in &phase.flows {
            let grade = grade::FlowGrade::of(flow);
            let rate = |of: fn(&exercise::record::Attained) -> f64| {
                grade.attained.as_ref().map_or_else(|| "-".to_owned(), |all| rate_text(of(all)))
            };
            let slope = rate_slope(&flow.rates_bit_s);
            met &= slope.is_some_and(|slope| slope > -RATE_SLOPE_MAX) && grade.failed == 0;
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                flow.name,
                Bytes(grade.bytes),
                rate(|all| all.sustained),
                rate(|all| all.min),
                rate(|all| all.max),
                rate(|all| all.mean),
                flow.rounds.len(),
                grade.failed,
                slope.map_or_else(|| "-".to_owned(), |slope| format!("{:+.1} %", slope * 100.0))
            );
        }
        let (nodes, are_level) = node_table(phase);
        text += &nodes;
        met &= are_level;
    }
    let _ = write!(
        text,
        "\nTargets: no failed round; in an hour less than {MEMORY_SLOPE_MAX} MiB more memory and {DESCRIPTOR_SLOPE_MAX} more descriptors of a node, and less than {:.0} % less rate: **{}**.\n\n\
         For 96 hours: `longhaul exercise list endurance > soak.toml`, write `lasts = \"96h\"` there, and `longhaul exercise run soak.toml` on two \
         hosts of a real path, with `[site]` tables that name their \
         nodes. Samples of a day make a record of 4 MB for each flow. The same targets count.\n",
        RATE_SLOPE_MAX * 100.0,
        if met { "met" } else { "not met" }
    );
    (text, met)
}

/// The nodes of a phase, and whether none of them grows.
fn node_table(phase: &PhaseRecord) -> (String, bool) {
    let mut text =
        "\n| node | memory at most | memory in an hour | descriptors at most | descriptors in an hour | load |\n|---|---|---|---|---|---|\n".to_owned();
    let mut sites: Vec<&str> = phase.nodes.iter().map(|node| node.site.as_str()).collect();
    sites.sort_unstable();
    sites.dedup();
    let mut are_level = !sites.is_empty();
    for site in sites {
        let samples: Vec<_> = phase.nodes.iter().filter(|node| node.site == site).collect();
        let memory = Trend::of(&samples, phase.seconds, |node| node.resident_bytes);
        let descriptors = Trend::of(&samples, phase.seconds, |node| node.descriptors);
        let slope_mib = memory.slope_per_hour.map(|slope| slope / 1_048_576.0);
        are_level &= slope_mib.is_some_and(|slope| slope < MEMORY_SLOPE_MAX);
        are_level &= descriptors.slope_per_hour.is_some_and(|slope| slope < DESCRIPTOR_SLOPE_MAX);
        let load = samples.iter().map(|node| node.load).sum::<f64>() / samples.len() as f64;
        let _ = writeln!(
            text,
            "| {site} | {} | {} | {} | {} | {load:.2} |",
            memory.most.map_or_else(|| "-".to_owned(), |most| Bytes(most as u64).to_string()),
            slope_mib.map_or_else(|| "-".to_owned(), |slope| format!("{slope:+.2} MiB")),
            descriptors.most.map_or_else(|| "-".to_owned(), |most| format!("{most:.0}")),
            descriptors.slope_per_hour.map_or_else(|| "-".to_owned(), |slope| format!("{slope:+.2}"))
        );
    }
    (text, are_level)
}

/// The growth of a rate in an hour as a part of its mean, after the first tenth; none with too few samples.
fn rate_slope(rates_bit_s: &[Option<f64>]) -> Option<f64> {
    let warm = rates_bit_s.len() / 10;
    let points: Vec<(f64, f64)> =
        rates_bit_s.iter().enumerate().skip(warm).filter_map(|(at, rate)| Some((at as f64, (*rate)?))).collect();
    let mean = points.iter().map(|(_, rate)| rate).sum::<f64>() / points.len() as f64;
    (points.len() >= 60 && mean > 0.0).then(|| exercise::page::slope(&points) * 3600.0 / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_falls_by_a_tenth_in_an_hour_has_that_slope() {
        let falls: Vec<Option<f64>> = (0..3600).map(|at| Some(1e9 * (1.0 - f64::from(at) / 36_000.0))).collect();
        let slope = rate_slope(&falls).unwrap();
        assert!((-0.108..-0.1).contains(&slope), "{slope}");
        assert!(rate_slope(&vec![Some(1e9); 3600]).unwrap().abs() < 1e-9);
        assert_eq!(rate_slope(&[None; 3600]), None);
    }
}
