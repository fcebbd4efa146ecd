//! The process of a lab (`longhaul lab hold`): its start by the command, and its work.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::control::LabDirectory;
use lab::scenario::Scenario;
use model::fault::{Exit, Fault};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::LoadedScenario;
use crate::failure::Failure;
use crate::settings::Settings;

/// The line that the lab's process prints on stdout.
#[derive(Serialize, Deserialize)]
enum HoldReply {
    Up,
    Failed(String),
}

/// A lab's process that ends with its owner, which waits for it, so that no zombie remains.
pub struct LabProcess(Child);

impl Drop for LabProcess {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// Starts the lab's process, and waits until the lab is up. If `ends_with_parent`, it ends with this process, however that ends.
///
/// # Errors
/// The process cannot be started, or the lab does not come up.
pub fn start(
    loaded: &LoadedScenario,
    ends_with_parent: bool,
    settings: &Settings,
) -> Result<Option<LabProcess>, Failure> {
    let failed = |error: std::io::Error| Failure::local(format!("cannot start the lab's process: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(["lab", "hold", "--lab", &loaded.name]).arg("--state").arg(settings.state_path()?);
    if ends_with_parent {
        command.arg("--ends-with-parent").arg(std::process::id().to_string());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(if ends_with_parent {
        Stdio::inherit()
    } else {
        Stdio::null()
    });
    if ends_with_parent {
        // Ctrl-C for this command must not reach the lab.
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A process that stops reading reports why on stdout.
        let _ = input.write_all(loaded.text.as_bytes());
    }
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        let _ = BufReader::new(output).read_line(&mut line);
    }
    let message = match serde_json::from_str(&line) {
        Ok(HoldReply::Up) => return Ok(ends_with_parent.then(|| LabProcess(child))),
        Ok(HoldReply::Failed(message)) => message,
        Err(_) => "the lab's process ended without a reply".to_owned(),
    };
    let status = child.wait().map_err(failed)?;
    let exit = status.code().and_then(|code| u8::try_from(code).ok());
    let exit = [Exit::Usage, Exit::Storage].into_iter().find(|one| exit == Some(*one as u8)).unwrap_or(Exit::Failed);
    Err(Failure { exit, fault: Fault::Local, message })
}

/// Runs `longhaul lab hold`.
///
/// # Errors
/// None: a failure is a reply on stdout and an exit code.
pub fn run(name: Option<String>, ends_with_parent: Option<u32>, settings: &Settings) -> Result<u8, Failure> {
    let is_ending = Arc::new(AtomicBool::new(false));
    let hold = || -> Result<(), Failure> {
        if let Some(owner) = ends_with_parent {
            set_parent_process_death_signal(Some(Signal::TERM))
                .map_err(|error| Failure::local(format!("cannot be tied to its owner: {error}")))?;
            if std::os::unix::process::parent_id() != owner {
                return Err(Failure::local("the process that wanted this lab has ended"));
            }
        } else {
            // The lab outlives the terminal that it was started from.
            rustix::process::setsid().map_err(|error| Failure::local(format!("cannot leave the terminal: {error}")))?;
            // Its working directory must not keep a file system busy.
            let _ = std::env::set_current_dir("/");
        }
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_ending))
                .map_err(|error| Failure::local(format!("cannot handle signals: {error}")))?;
        }
        let name = name.ok_or_else(|| Failure::usage("--lab is missing"))?;
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::local(format!("cannot read the scenario: {error}")))?;
        let scenario =
            Scenario::read(&text).and_then(Scenario::for_lab).map_err(|problem| Failure::usage(problem.to_string()))?;
        // This comes first: a user without the rights for a lab often cannot write to the state directory either.
        lab::check_prerequisites()?;
        let directory = LabDirectory::claim(settings.state_path()?, &name)?;
        // If the owner cannot read the reply, the lab ends at once: nobody would take it down.
        let ready = || {
            if reply(&HoldReply::Up).is_err() {
                is_ending.store(true, Ordering::Relaxed);
            }
        };
        directory.serve(&scenario, ready, || is_ending.load(Ordering::Relaxed))?;
        Ok(())
    };
    match hold() {
        Ok(()) => Ok(Exit::Done as u8),
        Err(failure) => {
            let _ = reply(&HoldReply::Failed(failure.message));
            Ok(failure.exit as u8)
        }
    }
}

fn reply(reply: &HoldReply) -> std::io::Result<()> {
    let text = serde_json::to_string(reply).map_err(std::io::Error::other)?;
    writeln!(std::io::stdout(), "{text}")
}
