//! Runs exercises with the program, and reads their records.

pub mod tables;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use exercise::record::RunRecord;

/// The exercise whose search is compared with the full grid, and the settings of that grid.
const SEARCHED: &str = "sc11";
const GRID: usize = 16;
/// The slots of the search, and those of the grid, which judges it: its best rate is the best of many, and must not be the luckiest.
const SLOT: &str = "slot = \"30s\"";
const GRID_SLOT: &str = "slot = \"60s\"";
/// The program ends with this if goals were missed: that is a result, and no failure.
const GOALS_MISSED: i32 = 3;

/// Runs exercises.
pub struct ExerciseBench {
    longhaul: PathBuf,
    scratch: PathBuf,
}

/// An exercise that has run.
pub struct ExerciseRun {
    /// Its name.
    pub name: String,
    /// From the start of the program to its end: bringing up the lab, making files, all phases.
    pub wall: Duration,
    /// Processor time of the controller, all nodes, tools and the emulator, seconds.
    pub cpu_s: f64,
    /// Its record.
    pub record: RunRecord,
}

/// A search and the full grid of the same settings.
pub struct SearchBesideGrid {
    /// The search.
    pub search: ExerciseRun,
    /// Every setting once.
    pub grid: ExerciseRun,
}

impl ExerciseBench {
    /// Runs exercises with this binary, and keeps their records below `scratch`.
    pub fn new(longhaul: PathBuf, scratch: PathBuf) -> ExerciseBench {
        ExerciseBench { longhaul, scratch }
    }

    /// Runs a shipped exercise.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn run(&self, name: &str) -> Result<ExerciseRun> {
        self.run_file(name, name)
    }

    /// Runs the search of [`SEARCHED`] in its slots, and then with a slot for every setting.
    ///
    /// # Errors
    /// One of them cannot be run.
    pub fn search_and_grid(&self) -> Result<SearchBesideGrid> {
        let search = self.run(SEARCHED)?;
        let text = exercise::shipped(SEARCHED).context("the searched exercise ships with the program")?.text;
        let whole = text.replace("slots = 6", &format!("slots = {GRID}"));
        ensure!(whole != text, "{SEARCHED} has no line `slots = 6`");
        ensure!(whole.contains(SLOT), "{SEARCHED} has no line `{SLOT}`");
        let whole = whole.replace(SLOT, GRID_SLOT);
        let file = self.scratch.join("grid.toml");
        fs::write(&file, whole)?;
        let grid = self.run_file("grid", &file.display().to_string())?;
        Ok(SearchBesideGrid { search, grid })
    }

    fn run_file(&self, name: &str, file: &str) -> Result<ExerciseRun> {
        let out = self.scratch.join(name.replace('/', "-"));
        let (began, before_s) = (Instant::now(), children_cpu_s());
        let mut command = Command::new(&self.longhaul);
        command.args(["exercise", "run", file, "--out"]).arg(&out).stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.status().with_context(|| format!("cannot run {}", self.longhaul.display()))?;
        ensure!(status.success() || status.code() == Some(GOALS_MISSED), "{name} ended with {status}");
        let (wall, cpu_s) = (began.elapsed(), children_cpu_s() - before_s);
        let record = out.join("record.json");
        let text = fs::read_to_string(&record).with_context(|| format!("{}", record.display()))?;
        Ok(ExerciseRun { name: name.to_owned(), wall, cpu_s, record: serde_json::from_str(&text)? })
    }
}

/// Processor time of all children that were waited for, with their own children (proc_pid_stat(5)), seconds.
fn children_cpu_s() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may have spaces. `cutime` and `cstime` are the 14th and 15th field after it.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
