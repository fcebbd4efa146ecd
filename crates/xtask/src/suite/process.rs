//! Runs one test to its end, and measures its time and processor time.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::{Ending, Outcome, Test};

/// The longest that a test may run, also on a slow machine and beside busy loops: twice the time of the slowest one there, which is
/// the interoperability suite with its peers.
const TEST_MAX: Duration = Duration::from_secs(1200);

/// Runs a test; the output of the test and its children goes to the file `output`.
///
/// # Errors
/// The test cannot be started, or its output file cannot be made.
pub fn run(test: Test, output: PathBuf) -> Result<Outcome> {
    fs::create_dir_all(output.parent().context("a file lies in a directory")?)?;
    let file = File::create(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let mut command = Command::new(&test.program);
    command.args(&test.arguments).current_dir(&test.dir).envs(test.environment.iter().copied());
    command.env("CARGO_MANIFEST_DIR", &test.dir);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {}", test.program.display()))?;
    let has_ended = ends_within(&child, TEST_MAX)?;
    if !has_ended {
        kill_with_children(child.id());
    }
    let processor = processor_time(child.id());
    let status = child.wait()?;
    let ending = if has_ended { ending(status) } else { Ending::Hung };
    Ok(Outcome { test, ending, took: began.elapsed(), processor, output })
}

fn ending(status: ExitStatus) -> Ending {
    if status.success() { Ending::Passed } else { Ending::Failed }
}

/// Whether a process ends within a time.
fn ends_within(child: &Child, limit: Duration) -> Result<bool> {
    let pid = Pid::from_child(child);
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).context("pidfd_open")?;
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("poll"),
        }
    }
}

/// User and system time of a process that has ended and is not reaped yet, and of the children that it waited for.
fn processor_time(pid: u32) -> Duration {
    let ticks = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| ticks_of(&stat)).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The sum of utime, stime, cutime and cstime (proc_pid_stat(5), fields 14 to 17).
fn ticks_of(stat: &str) -> Option<u64> {
    // The second field is the name of the program, which may have spaces and parentheses in it.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_ascii_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

/// Kills a process that hangs, with the nodes and clients that it started.
fn kill_with_children(pid: u32) {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_threads = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let all: Vec<u32> = of_threads.chain([children]).flat_map(|text| pids(&text)).collect();
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    all.into_iter().for_each(kill_with_children);
}

fn pids(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::shell;
    use super::*;

    fn output(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("longhaul-xtask-{}", std::process::id())).join(name)
    }

    #[test]
    fn the_output_of_a_test_is_kept_and_its_status_decides() {
        let passed = run(shell("part", "name", "echo out; echo err >&2"), output("passed")).unwrap();
        assert_eq!(passed.ending, Ending::Passed);
        assert_eq!(fs::read_to_string(&passed.output).unwrap(), "out\nerr\n");
        let failed = run(shell("part", "name", "exit 3"), output("failed")).unwrap();
        assert_eq!(failed.ending, Ending::Failed);
        fs::remove_dir_all(passed.output.parent().unwrap()).unwrap();
    }

    #[test]
    fn processor_time_includes_children_and_no_waiting() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let outcome = run(shell("part", "name", &format!("sh -c '{busy}'; sleep 0.5")), output("busy")).unwrap();
        assert!(outcome.processor > Duration::from_millis(10), "{outcome:?}");
        assert!(outcome.took > Duration::from_millis(500), "{outcome:?}");
    }

    #[test]
    fn a_process_that_hangs_is_killed_with_its_children() {
        let mut child = Command::new("sh").args(["-c", "sleep 1000 & wait"]).spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let grandchild = loop {
            if let Some(pid) = fs::read_to_string(&children).ok().and_then(|text| pids(&text).pop()) {
                break pid;
            }
        };
        assert!(!ends_within(&child, Duration::ZERO).unwrap());
        kill_with_children(child.id());
        assert!(!child.wait().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::read_to_string(format!("/proc/{grandchild}/stat")).is_ok_and(|stat| !stat.contains(") Z")) {
            assert!(Instant::now() < deadline, "{grandchild} still runs");
        }
    }

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
        assert_eq!(ticks_of(stat), Some(11 + 12 + 13 + 14));
    }
}
