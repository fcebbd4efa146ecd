//! Jobs from memory to memory: one with many streams, and many at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::account::{Accounts, reset_peak};
use crate::process::{Jobs, RunMonitor, Server};

/// The counts of streams that are measured.
pub const STREAMS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Jobs at once, compared with one.
pub const JOBS: u32 = 64;
/// The time in which the node may finish work after the client has ended; that work counts.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// A run longer than this is ended.
const RUN_MAX: Duration = Duration::from_secs(180);

/// The settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSetting {
    /// Jobs at once.
    pub jobs: u32,
    /// Streams of each job; none: as many as Longhaul chooses.
    pub streams: Option<u32>,
    /// Whether payload goes in clear.
    pub plain: bool,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleRun {
    /// Seconds until the last job has ended.
    pub wall_s: f64,
    /// CPU seconds of the node and of all clients.
    pub cpu_s: f64,
    /// The most memory of the node, MiB.
    pub node_mib: f64,
}

/// The runs of a setting.
#[derive(Clone, Debug)]
pub struct ScaleRow {
    /// The setting.
    pub setting: JobSetting,
    /// Its runs.
    pub runs: Vec<ScaleRun>,
}

/// All settings: those of the streams, then those of the jobs.
pub fn settings() -> Vec<JobSetting> {
    let both = [true, false];
    let streams =
        both.into_iter().flat_map(|plain| STREAMS.map(|streams| JobSetting { jobs: 1, streams: Some(streams), plain }));
    let jobs = both.into_iter().flat_map(|plain| [1, JOBS].map(|jobs| JobSetting { jobs, streams: None, plain }));
    streams.chain(jobs).collect()
}

/// The inputs of all runs.
pub struct ScaleBench<'a> {
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The accounts that the runs are charged to.
    pub accounts: &'a Accounts,
    /// The node.
    pub server: &'a Server,
    /// The bytes of all jobs of a run together.
    pub bytes: u64,
    /// The file for the output of clients.
    pub log: PathBuf,
}

impl ScaleBench<'_> {
    /// Runs all rounds of all settings; the order is reversed from round to round. The first round does not count.
    ///
    /// # Errors
    /// A job fails.
    pub fn run(&self, rounds: u32) -> Result<Vec<ScaleRow>> {
        let without_runs = |setting| ScaleRow { setting, runs: Vec::new() };
        let mut rows: Vec<ScaleRow> = settings().into_iter().map(without_runs).collect();
        for round in 0..=rounds {
            for row in &mut rows {
                let run = self.run_once(row.setting)?;
                println!("{:?}: {run:?}", row.setting);
                if round > 0 {
                    row.runs.push(run);
                }
            }
            rows.reverse();
        }
        rows.sort_by_key(|row| settings().iter().position(|setting| *setting == row.setting));
        Ok(rows)
    }

    fn run_once(&self, setting: JobSetting) -> Result<ScaleRun> {
        let client = self.accounts.side("client")?;
        let jobs = Jobs { commands: vec![self.words(setting); setting.jobs as usize], log: self.log.clone() };
        // The node runs on from one setting to the next: its peak would be that of the largest one.
        reset_peak(&self.server.side.pids());
        let node_before_s = self.server.side.cpu_s()?;
        client.enter()?;
        let client_before_s = client.cpu_s_ended();
        let (wall_s, peaks) =
            RunMonitor::run_jobs(&client, Some(&self.server.side), RUN_MAX, || jobs.run_at_once(&client));
        let client_s = client.cpu_s_ended().and_then(|after_s| Ok(after_s - client_before_s?));
        client.leave()?;
        std::thread::sleep(SETTLE_TIME);
        let cpu_s = client_s? + self.server.side.cpu_s()? - node_before_s;
        Ok(ScaleRun { wall_s: wall_s?, cpu_s, node_mib: peaks.server_mib })
    }

    fn words(&self, setting: JobSetting) -> Vec<String> {
        let mut words = vec![self.longhaul.display().to_string(), "cp".into(), "--quiet".into()];
        words.extend(setting.plain.then(|| "--plain".into()));
        words.extend(setting.streams.into_iter().flat_map(|streams| ["--streams".into(), streams.to_string()]));
        words.push(format!("zero:{}", self.bytes / u64::from(setting.jobs)));
        words.push(format!("lh://127.0.0.1:{}/null:", self.server.port));
        words
    }
}
