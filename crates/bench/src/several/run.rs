//! One run: a lab of two sites with two paths, a node with an address at the end of each, a copy, and in some cases a cut.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::{Lab, Scenario};

use crate::data;
use crate::job::Data;
use crate::node::{SiteProcesses, grant};
use crate::process::ChildGuard;

/// The longest that a run may take.
const RUN_MAX: Duration = Duration::from_secs(240);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The span over which a rate is taken.
const RATE_SPAN: Duration = Duration::from_millis(500);
/// The time at which paths are cut: the job has been at full rate for a while.
const CUT_AT: Duration = Duration::from_secs(6);
/// The last part of a job, in which less is left to send than the paths could carry: rates in it are not judged.
const END_SPAN: Duration = Duration::from_secs(2);
/// The span after a cut in which rates are judged.
const RECOVERY_MAX: Duration = Duration::from_secs(12);
/// The share of its rate at which a path counts as full.
const FULL_SHARE: f64 = 0.9;

/// The path that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    None,
    /// The path of the control connection.
    Control,
    /// The other path.
    Other,
    /// Both paths, for this many seconds.
    Both(u64),
    /// No path: the mover at the end of the other one is killed.
    Mover,
}

/// A case of the measurement.
#[derive(Clone, Debug)]
pub struct Case {
    /// The title for the report.
    pub title: &'static str,
    /// The rates of the path of 20 ms and of the path of 60 ms, Mbit/s.
    pub rates: [u64; 2],
    /// Bytes of the job.
    pub bytes: u64,
    /// Whether the client pulls from the node.
    pub pull: bool,
    /// The path that is cut.
    pub cut: Cut,
    /// Whether a mover of the node, a process of its own, is at the end of the other path.
    pub mover: bool,
}

/// The figures of one run.
#[derive(Clone, Debug)]
pub struct TransferResult {
    /// The duration of the job, seconds.
    pub seconds: f64,
    /// The highest rate of both paths together over ten seconds, headers included, Mbit/s; over less time in shorter jobs.
    pub steady_mbit_s: f64,
    /// The bytes that each path carried, headers included.
    pub carried_bytes: [u64; 2],
    /// Seconds from the cut, or from its end where both paths were cut, until the remaining paths were full and stayed so.
    pub recovery_s: Option<f64>,
    /// Why the lab was the limit; none if it was not.
    pub limited: Option<String>,
}

/// All cases without a mover.
pub fn cases() -> Vec<Case> {
    let case = |title, rates, bytes, pull, cut| Case { title, rates, bytes, pull, cut, mover: false };
    vec![
        case("100 + 100 Mbit/s, push", [100, 100], 400_000_000, false, Cut::None),
        case("100 + 100 Mbit/s, pull", [100, 100], 400_000_000, true, Cut::None),
        case("200 + 100 Mbit/s, push", [200, 100], 600_000_000, false, Cut::None),
        case("100 + 100, the other path cut", [100, 100], 300_000_000, false, Cut::Other),
        case("100 + 100, the control connection's path cut", [100, 100], 300_000_000, false, Cut::Control),
        case("100 + 100, both cut for 30 s", [100, 100], 300_000_000, false, Cut::Both(30)),
    ]
}

/// The cases with a mover.
pub fn mover_cases() -> Vec<Case> {
    let case = |title, bytes, pull, cut| Case { title, rates: [100, 100], bytes, pull, cut, mover: true };
    vec![
        case("node + mover, push", 400_000_000, false, Cut::None),
        case("node + mover, pull", 400_000_000, true, Cut::None),
        case("node + mover, the mover is killed", 300_000_000, false, Cut::Mover),
        case("node + mover, the mover's path is cut", 300_000_000, false, Cut::Other),
    ]
}

/// The inputs of all runs.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The directory for files.
    pub scratch: &'a Path,
    /// Set by a signal: the run ends.
    pub stop: &'a AtomicBool,
}

/// The arguments of the copy.
pub fn copy_arguments(case: &Case, source: &Path) -> Vec<String> {
    let ends = match (case.cut, case.pull) {
        (Cut::None, false) => [format!("zero:{}", case.bytes), "lh://10.77.2.1/null:".to_owned()],
        (Cut::None, true) => [format!("lh://10.77.2.1/zero:{}", case.bytes), "null:".to_owned()],
        _ => [source.display().to_string(), "lh://10.77.2.1/data/copy".to_owned()],
    };
    ["cp".to_owned(), "--json".to_owned()].into_iter().chain(ends).collect()
}

fn scenario([short, long]: [u64; 2]) -> Result<Scenario> {
    let text = format!(
        "[site.here]\nmtu = 1500\n[site.here.interface.eth1]\n[site.there]\nmtu = 1500\n[site.there.interface.eth1]\n\
         [path.short]\nsites = [\"here\", \"there\"]\nrtt = \"20ms\"\nrate = \"{short}Mbit/s\"\nqueue = \"50ms\"\n\
         [path.long]\nsites = [\"here/eth1\", \"there/eth1\"]\nrtt = \"60ms\"\nrate = \"{long}Mbit/s\"\nqueue = \"50ms\"\n"
    );
    Scenario::read(&text).map_err(|problem| anyhow::anyhow!("{problem}\n{text}"))
}

/// The bytes that each path had carried at one moment.
type Sample = (Instant, [u64; 2]);

/// The rate of a path over the last span of the samples, Mbit/s.
fn rate(samples: &[Sample], path: usize, span: Duration) -> f64 {
    let Some((now, last)) = samples.last() else { return 0.0 };
    let from = samples.iter().rev().find(|(at, _)| now.duration_since(*at) >= span);
    from.map_or(0.0, |(at, then)| (last[path] - then[path]) as f64 * 8e-6 / now.duration_since(*at).as_secs_f64())
}

/// The highest rate of both paths together over ten seconds, Mbit/s.
fn steady_mbit_s(samples: &[Sample]) -> f64 {
    let mut best: f64 = 0.0;
    let first = samples.first().map(|(at, _)| *at);
    for end in 1..=samples.len() {
        let so_far = &samples[..end];
        let length = so_far.last().zip(first).map_or(Duration::ZERO, |((at, _), first)| at.duration_since(first));
        if length >= Duration::from_secs(10) {
            best = best.max((0..2).map(|path| rate(so_far, path, Duration::from_secs(10))).sum());
        }
    }
    best
}

impl Bench<'_> {
    /// Runs a case.
    ///
    /// # Errors
    /// The lab, a node or the copy fails, the copy differs from its source, or a signal stopped the run.
    pub fn run(&self, case: &Case) -> Result<TransferResult> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(self.scratch)?;
        let target = dir.path().join("target");
        let source = dir.path().join("source");
        fs::create_dir(&target)?;
        if case.cut != Cut::None {
            data::make(Data::File { bytes: case.bytes }, &source)?;
        }
        let lab = Lab::up("bench-several", &scenario(case.rates)?, dir.path())?;
        let sites = SiteProcesses { lab: &lab, longhaul: self.longhaul, dir: dir.path() };
        let export = format!("data={}:rw", target.display());
        let mut node = ["serve", "--export", &export, "--anonymous", "rw"].map(String::from).to_vec();
        let mut mover = None;
        if case.mover {
            let keys = dir.path().join("keys");
            let state = dir.path().join("state-mover");
            let mover_arguments = ["serve", "--export", &export, "--listen", "10.77.2.2:7411", "--state", "MOVER"];
            let mover_arguments =
                mover_arguments.map(|word| if word == "MOVER" { state.display().to_string() } else { word.to_owned() });
            mover = Some(sites.serve("there", "mover", &mover_arguments, self.stop)?);
            fs::write(&keys, grant(self.longhaul, &state, &["--export", "data", "--write"])?)?;
            let more = ["--listen", "10.77.2.1:7411", "--peers", "10.77.2.2", "--key-file"];
            node.extend(more.map(String::from).into_iter().chain([keys.display().to_string()]));
        } else {
            node.extend(["--advertise", "10.77.2.1,10.77.2.2"].map(String::from));
        }
        let _node = sites.serve("there", "node", &node, self.stop)?;
        let before = lab.reading()?;
        let mut copy = sites.start("here", "copy", &copy_arguments(case, &source))?;
        let (samples, recovery_s) = self.sample_links(&lab, case, &mut copy, &mut mover)?;
        let limited = lab.limited(&lab.reading()?.since(&before));
        let text = fs::read_to_string(sites.log("copy", "out"))?;
        let receipt: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
            .with_context(|| fs::read_to_string(sites.log("copy", "err")).unwrap_or_default())?;
        ensure!(receipt["state"] == "done", "the copy failed: {receipt}");
        if case.cut != Cut::None {
            ensure!(fs::read(&source)? == fs::read(target.join("copy"))?, "the copy differs from its source");
        }
        let carried_bytes = samples.last().map_or([0; 2], |(_, carried_bytes)| *carried_bytes);
        let seconds = receipt["seconds"].as_f64().context("a receipt has seconds")?;
        Ok(TransferResult { seconds, steady_mbit_s: steady_mbit_s(&samples), carried_bytes, recovery_s, limited })
    }

    /// Samples the links until the copy has ended, and makes the cut.
    fn sample_links(
        &self,
        lab: &Lab,
        case: &Case,
        copy: &mut ChildGuard,
        mover: &mut Option<ChildGuard>,
    ) -> Result<(Vec<Sample>, Option<f64>)> {
        let direction = usize::from(case.pull);
        let link = |path| lab.link(path, direction).context("a path has two links");
        let links = [link("short")?, link("long")?];
        let first = lab.reading()?;
        let begun = Instant::now();
        let mut samples = Vec::new();
        let mut restore_at: Option<Instant> = None;
        let mut recovery_from: Option<Instant> = None;
        while copy.0.try_wait()?.is_none() {
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(begun.elapsed() < RUN_MAX, "the copy does not end");
            let now = lab.reading()?;
            let out = |at: usize| now.links[at].counts.out_bytes - first.links[at].counts.out_bytes;
            samples.push((Instant::now(), links.map(out)));
            if case.cut != Cut::None && recovery_from.is_none() && restore_at.is_none() && begun.elapsed() >= CUT_AT {
                for path in cut_paths(case.cut) {
                    lab.set(path, &[("down", "true")])?;
                }
                if case.cut == Cut::Mover {
                    drop(mover.take());
                }
                match case.cut {
                    Cut::Both(seconds) => restore_at = Some(Instant::now() + Duration::from_secs(seconds)),
                    _ => recovery_from = Some(Instant::now()),
                }
            }
            if recovery_from.is_none() && restore_at.is_some_and(|at| Instant::now() >= at) {
                for path in cut_paths(case.cut) {
                    lab.set(path, &[("down", "false")])?;
                }
                recovery_from = Some(Instant::now());
            }
            sleep(POLL_INTERVAL);
        }
        if case.cut != Cut::None && recovery_from.is_none() {
            bail!("the copy ended before anything was cut");
        }
        let recovery_s = recovery_from.map(|since| recovery_s(&samples, since, case));
        Ok((samples, recovery_s))
    }
}

/// Seconds from a moment on until the remaining paths are full and stay so, within [`RECOVERY_MAX`]. The end of the job does not count.
fn recovery_s(samples: &[Sample], since: Instant, case: &Case) -> f64 {
    let Some((end, _)) = samples.last() else { return 0.0 };
    let is_below_full_rate = |samples: &[Sample]| {
        remaining_paths(case.cut)
            .iter()
            .any(|path| rate(samples, *path, RATE_SPAN) < FULL_SHARE * case.rates[*path] as f64)
    };
    let counts = |at: &Instant| *at >= since + RATE_SPAN && *at + END_SPAN <= *end && *at <= since + RECOVERY_MAX;
    let short = (1..=samples.len())
        .rev()
        .map(|upto| &samples[..upto])
        .find(|upto| upto.last().is_some_and(|(at, _)| counts(at)) && is_below_full_rate(upto));
    short.and_then(<[Sample]>::last).map_or(0.0, |(at, _)| at.duration_since(since).as_secs_f64())
}

fn cut_paths(cut: Cut) -> &'static [&'static str] {
    match cut {
        Cut::None | Cut::Mover => &[],
        Cut::Control => &["short"],
        Cut::Other => &["long"],
        Cut::Both(_) => &["short", "long"],
    }
}

fn remaining_paths(cut: Cut) -> &'static [usize] {
    match cut {
        Cut::Control => &[1],
        Cut::Other | Cut::Mover => &[0],
        Cut::None | Cut::Both(_) => &[0, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_span() {
        let now = Instant::now();
        let sample = |tenths: u64, bytes: u64| (now + Duration::from_millis(tenths * 100), [bytes, 2 * bytes]);
        let samples: Vec<Sample> = (0..=120).map(|tenth| sample(tenth, tenth * 1_250_000)).collect();
        assert!(
            (rate(&samples, 0, RATE_SPAN) - 100.0).abs() < 1e-6 && (rate(&samples, 1, RATE_SPAN) - 200.0).abs() < 1e-6
        );
        assert!((steady_mbit_s(&samples) - 300.0).abs() < 1e-6);
        assert_eq!((rate(&samples[..3], 0, RATE_SPAN), steady_mbit_s(&samples[..90])), (0.0, 0.0));
    }

    #[test]
    fn recovery_lasts_until_the_end_of_the_last_dip() {
        let now = Instant::now();
        let case = cases().into_iter().find(|case| case.cut == Cut::Control).unwrap();
        // The path that is left carries 100 Mbit/s, nothing from the second to the fourth second, then all again.
        let carried_bytes = |tenth: u64| (tenth - (tenth.clamp(20, 40) - 20)) * 1_250_000;
        let samples: Vec<Sample> =
            (0..200).map(|tenth| (now + Duration::from_millis(tenth * 100), [0, carried_bytes(tenth)])).collect();
        let seconds = recovery_s(&samples, now, &case);
        assert!((4.2..4.6).contains(&seconds), "{seconds}");
        assert_eq!(recovery_s(&samples, now + Duration::from_secs(5), &case), 0.0);
    }

    #[test]
    fn a_path_that_is_cut_is_not_among_the_remaining_ones() {
        assert!(cases().iter().any(|case| case.cut == Cut::Control));
        assert_eq!((cut_paths(Cut::Control), remaining_paths(Cut::Control)), (&["short"][..], &[1][..]));
        assert_eq!(remaining_paths(Cut::Both(1)).len(), cut_paths(Cut::Both(1)).len());
    }
}
