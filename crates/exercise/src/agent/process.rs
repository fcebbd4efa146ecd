//! Processes of tools: each is the leader of a process group of its own, so that it can be ended with everything that it starts, and
//! the kernel kills it if the agent dies.
//!
//! What this module does not know: tools, runs, lifetimes.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;

use super::limits::{HELP_BYTES_MAX, STDERR_BYTES_MAX, STDOUT_BYTES_MAX};

/// What a process prints on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputForm {
    /// Nothing of use.
    Nothing,
    /// The bytes that it has copied.
    Bytes,
    /// The report of iperf3 (`--json`).
    Iperf3,
    /// The lines of `longhaul cp --json`.
    Longhaul,
}

/// What is started.
pub(super) struct Invocation {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that are added to the agent's environment.
    pub set: Vec<(&'static str, String)>,
    /// Variables that are left out of it.
    pub unset: Vec<&'static str>,
    /// Its standard input.
    pub stdin: Option<Vec<u8>>,
    /// What it prints.
    pub output: OutputForm,
}

/// Starts processes.
#[derive(Clone)]
pub(super) struct Launcher {
    /// The program with which the kernel kills a process when the thread that started it ends (util-linux 2.33).
    setpriv: Option<PathBuf>,
    /// The directory in which processes run.
    directory: PathBuf,
}

/// A process that has not been waited for.
pub(super) struct ClientProcess {
    child: Child,
    output: OutputForm,
}

/// What a process has printed.
#[derive(Debug, Default)]
pub(super) struct ProcessOutput {
    /// The beginning of its stdout.
    pub stdout: Vec<u8>,
    /// The end of its stderr.
    pub stderr: String,
}

impl Launcher {
    /// A launcher for this directory. It tries whether `setpriv` can do what is needed of it: older ones have no `--pdeathsig`.
    pub fn new(directory: &Path) -> Launcher {
        let works = |setpriv: &PathBuf| {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL"]).arg(setpriv).arg("--version");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        Launcher { setpriv: find_program("setpriv").filter(works), directory: directory.to_owned() }
    }

    /// Whether the kernel kills the processes if the agent dies.
    pub fn ends_with_agent(&self) -> bool {
        self.setpriv.is_some()
    }

    /// The directory in which processes run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts a process. The thread that calls this must live until the process has ended.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self, invocation: &Invocation) -> io::Result<ClientProcess> {
        let mut command = match &self.setpriv {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL"]).arg(&invocation.program);
                command
            }
            None => Command::new(&invocation.program),
        };
        command.args(&invocation.arguments).current_dir(&self.directory).process_group(0);
        for name in &invocation.unset {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").envs(invocation.set.iter().map(|(name, value)| (name, value)));
        command.stdin(if invocation.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let has_output = invocation.output != OutputForm::Nothing;
        command.stdout(if has_output { Stdio::piped() } else { Stdio::null() }).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some((mut pipe, text)) = child.stdin.take().zip(invocation.stdin.as_ref()) {
            // The text fits into the pipe. A program that has ended already says why on its stderr.
            let _ = pipe.write_all(text);
        }
        Ok(ClientProcess { child, output: invocation.output })
    }

    /// Runs a program to its end, for at most `within`. All of its stderr is kept: some tools print their help there.
    ///
    /// # Errors
    /// It cannot be started, takes too long, or fails.
    pub fn ask(&self, invocation: &Invocation, within: Duration) -> Result<ProcessOutput, String> {
        let mut process = self.start(invocation).map_err(|error| error.to_string())?;
        let id = process.id();
        let deadline = Instant::now() + within;
        let (ended, wait) = std::sync::mpsc::channel::<()>();
        let output = thread::scope(|scope| {
            let watch = move || {
                // The channel is closed when the output has been read; the process has not been waited for until then.
                let timeout = deadline.saturating_duration_since(Instant::now());
                let is_late = wait.recv_timeout(timeout) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
                if is_late {
                    signal(id, Signal::KILL);
                }
                is_late
            };
            let watcher = thread::Builder::new().name("version".into()).spawn_scoped(scope, watch);
            let output = process.read_to_end(&AtomicU64::new(0), HELP_BYTES_MAX);
            drop(ended);
            let is_late = watcher.is_ok_and(|watcher| watcher.join().unwrap_or(false));
            if is_late { Err(format!("it did not end within {} s", within.as_secs())) } else { Ok(output) }
        });
        let status = process.reap().map_err(|error| error.to_string())?;
        let output = output?;
        if status.success() {
            return Ok(output);
        }
        let surplus = output.stderr.chars().count().saturating_sub(STDERR_BYTES_MAX);
        let end: String = output.stderr.chars().skip(surplus).collect();
        Err(format!("it ended with {status}: {end}"))
    }
}

impl ClientProcess {
    /// The id of the process and of its group. It is the process's own until [`ClientProcess::reap`].
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Reads what the process prints until it has ended; it is not waited for. `live` is the number of bytes that a process of
    /// `longhaul` reports while it runs. Of stderr the last `stderr_bytes_max` bytes are kept.
    pub fn read_to_end(&mut self, live: &AtomicU64, stderr_bytes_max: usize) -> ProcessOutput {
        let form = self.output;
        let stdout = self.child.stdout.take();
        let stderr = self.child.stderr.take();
        let output = thread::scope(|scope| {
            let reader = stdout.and_then(|stdout| {
                let read = move || read_stdout(stdout, form, live);
                // Without a thread the pipe is closed, and the process fails with an error of its own.
                thread::Builder::new().name("client-output".into()).spawn_scoped(scope, read).ok()
            });
            let stderr = stderr.map(|stderr| read_tail(stderr, stderr_bytes_max)).unwrap_or_default();
            let stdout = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
            ProcessOutput { stdout, stderr }
        });
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.id()), options).is_err_and(|error| error == rustix::io::Errno::INTR) {}
        output
    }

    /// Kills what is left of the group, and waits for the process. From here on its id may belong to another process.
    ///
    /// # Errors
    /// The system call fails.
    pub fn reap(mut self) -> io::Result<ExitStatus> {
        signal(self.id(), Signal::KILL);
        self.child.wait()
    }
}

/// Sends a signal to a process and to all that it has started. The process must not have been waited for.
pub(super) fn signal(group: Pid, signal: Signal) {
    // The group is gone if all of it has ended.
    let _ = kill_process_group(group, signal);
}

/// The program of this name in PATH.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&directories).filter(|directory| directory.is_absolute());
    candidates
        .map(|directory| directory.join(name))
        .find(|path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())
}

/// Reads a process's stdout to its end, and keeps its beginning. Lines of `longhaul` are not kept, except for their bytes.
fn read_stdout(mut from: impl Read, form: OutputForm, live: &AtomicU64) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = [0; 16 << 10];
    while let Ok(got) = from.read(&mut piece) {
        if got == 0 {
            break;
        }
        let room = STDOUT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..got.min(room)]);
        if form == OutputForm::Longhaul
            && let Some(end) = kept.iter().rposition(|byte| *byte == b'\n')
        {
            let lines: Vec<u8> = kept.drain(..=end).collect();
            lines
                .split(|byte| *byte == b'\n')
                .filter_map(copied_bytes)
                .for_each(|bytes| live.store(bytes, Ordering::Relaxed));
        }
    }
    kept
}

/// The bytes in a line of `longhaul cp --json`; none in lines about other things.
fn copied_bytes(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct ProgressLine {
        event: String,
        bytes: u64,
    }
    let line: ProgressLine = serde_json::from_slice(line).ok()?;
    (line.event == "progress").then_some(line.bytes)
}

/// Reads to the end, and keeps the last bytes as text on one line.
fn read_tail(mut from: impl Read, bytes_max: usize) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(got) = from.read(&mut piece) {
        if got == 0 {
            break;
        }
        kept.extend_from_slice(&piece[..got]);
        let surplus = kept.len().saturating_sub(bytes_max);
        kept.drain(..surplus);
    }
    let text: String = String::from_utf8_lossy(&kept).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, output: OutputForm) -> Invocation {
        Invocation {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            set: vec![("AGENT_TEST", "1".into())],
            unset: vec!["PATH"],
            stdin: Some(b"input".to_vec()),
            output,
        }
    }

    fn launcher() -> Launcher {
        Launcher::new(Path::new("/"))
    }

    #[test]
    fn a_process_has_its_input_its_environment_and_both_outputs() {
        let script = "printf '%s %s %s %s' \"$(/bin/cat)\" $AGENT_TEST ${PATH:-none} $LC_ALL; printf 'a\\n\\tb' >&2";
        let output = launcher().ask(&shell(script, OutputForm::Bytes), Duration::from_secs(60)).unwrap();
        // A shell that finds no PATH may set one of its own.
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.starts_with("input 1 ") && stdout.ends_with(" C"), "{stdout}");
        assert_eq!(output.stderr, "a b");
    }

    #[test]
    fn a_program_that_fails_or_hangs_is_an_error() {
        let fails = launcher().ask(&shell("echo no >&2; exit 3", OutputForm::Nothing), Duration::from_secs(60));
        assert_eq!(fails.unwrap_err(), "it ended with exit status: 3: no");
        let hangs = launcher().ask(&shell("/bin/sleep 600", OutputForm::Nothing), Duration::from_secs(1));
        assert_eq!(hangs.unwrap_err(), "it did not end within 1 s");
        let missing = Invocation { program: "/no/such".into(), ..shell("", OutputForm::Nothing) };
        assert!(launcher().ask(&missing, Duration::from_secs(60)).is_err());
    }

    #[test]
    fn nothing_that_a_process_has_started_outlives_it() {
        // The grandchild lets go of both outputs, so that only the end of the shell is waited for.
        let script = "/bin/sleep 600 >/dev/null 2>&1 & echo $!";
        let output = launcher().ask(&shell(script, OutputForm::Bytes), Duration::from_secs(60)).unwrap();
        let grandchild: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let stat = || std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
        while stat().is_ok_and(|stat| stat.contains("(sleep) ") && !stat.contains(") Z")) {
            assert!(Instant::now() < deadline, "the grandchild still runs");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_process_dies_with_the_thread_that_started_it() {
        let launcher = launcher();
        assert!(launcher.ends_with_agent(), "util-linux 2.33 or later is needed for this test");
        let invocation = shell("exec /bin/sleep 600", OutputForm::Nothing);
        let start = move || {
            let process = launcher.start(&invocation).unwrap();
            let arguments = || std::fs::read(format!("/proc/{}/cmdline", process.id())).unwrap();
            while !arguments().starts_with(b"/bin/sleep") {
                thread::sleep(Duration::from_millis(1));
            }
            process
        };
        let mut process = thread::spawn(start).join().unwrap();
        process.read_to_end(&AtomicU64::new(0), STDERR_BYTES_MAX);
        let status = process.reap().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn outputs_are_kept_within_bounds() {
        let long = vec![b'x'; 3 * STDOUT_BYTES_MAX];
        assert_eq!(read_stdout(&long[..], OutputForm::Bytes, &AtomicU64::new(0)).len(), STDOUT_BYTES_MAX);
        let tail = read_tail(&[&long[..], &b" end"[..]].concat()[..], STDERR_BYTES_MAX);
        assert!(tail.ends_with("x end") && tail.len() <= STDERR_BYTES_MAX, "{tail}");
    }

    #[test]
    fn the_bytes_of_longhaul_are_those_of_its_last_line() {
        let live = AtomicU64::new(0);
        let lines = "{\"v\":1,\"event\":\"progress\",\"bytes\":5}\n{\"event\":\"progress\",\"bytes\":9}\n{\"event\":\"receipt\",\"bytes\":1}\n{\"ev";
        assert_eq!(read_stdout(lines.as_bytes(), OutputForm::Longhaul, &live), b"{\"ev");
        assert_eq!(live.load(Ordering::Relaxed), 9);
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert!(find_program("no-such-program-of-ours").is_none());
    }
}
