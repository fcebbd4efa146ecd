//! A program of the operator's that is asked about visitors: JSON in, JSON out, within a time. No answer is a no.
//!
//! What the program never gets is a secret: it is told who somebody turned out to be, not how they proved it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use auth::policy::Callout;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// An answer is good for so long: clients ask a dozen questions about a file within a second.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Answers that are remembered.
const REMEMBERED_MAX: usize = 4096;
/// Programs that run at once.
const RUNNING_MAX: usize = 64;
/// An answer is not longer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// A reason that is passed on is not longer.
const REASON_CHARS_MAX: usize = 300;
/// Where programs are looked for that the program runs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the program is asked.
#[derive(Debug, Serialize)]
pub(crate) struct Question<'a> {
    pub v: u32,
    pub peer: IpAddr,
    pub who: &'a str,
    pub method: &'a str,
    pub export: &'a str,
    /// Below the export; bytes that are not text are replaced.
    pub path: &'a str,
    /// "read", "create", "list", …
    pub action: &'a str,
    /// What the policy said.
    pub policy: &'a str,
    pub credential: Told<'a>,
}

/// What the program hears of a credential.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Told<'a> {
    /// "none", "key", "token", "macaroon", "certificate".
    pub kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub groups: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dn: Option<&'a str>,
}

/// What the program says.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub allow: bool,
    #[serde(default)]
    pub reason: String,
}

/// The program, and what it said a moment ago.
#[derive(Default)]
pub(crate) struct Callouts {
    /// By the hash of the question.
    said: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
    running: AtomicUsize,
}

fn about(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Callouts {
    /// What the program thinks. `place` is the path in its very bytes, `holder` who owns the visitor's jobs.
    pub fn ask(&self, callout: &Callout, holder: &str, place: &[u8], question: &Question<'_>) -> Verdict {
        let text = serde_json::to_vec(question).unwrap_or_default();
        let about = about(&[&text, holder.as_bytes(), place]);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, verdict)) = said.get(&about).filter(|(at, _)| at.elapsed() < REMEMBERED_FOR) {
            return verdict.clone();
        }
        drop(said);
        let verdict = self.run(callout, &text).unwrap_or_else(|why| {
            let program = callout.command.first().map_or("", String::as_str);
            tracing::error!(program, error = why, who = question.who, "the call-out gave no answer: refused");
            Verdict {
                allow: false,
                reason: "the program that decides about this gave no answer; ask the node's operator".into(),
            }
        });
        said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= REMEMBERED_MAX {
            said.retain(|_, (at, _)| at.elapsed() < REMEMBERED_FOR);
        }
        if said.len() < REMEMBERED_MAX {
            said.insert(about, (Instant::now(), verdict.clone()));
        }
        verdict
    }

    fn run(&self, callout: &Callout, question: &[u8]) -> Result<Verdict, String> {
        let before = self.running.fetch_add(1, Ordering::AcqRel);
        let _running = Running(&self.running);
        if before >= RUNNING_MAX {
            return Err(format!("{RUNNING_MAX} of them run already"));
        }
        let answer = converse(callout, question)?;
        let mut verdict: Verdict = serde_json::from_slice(&answer).map_err(|_| {
            "its answer is not of the form {\"allow\":true} or {\"allow\":false,\"reason\":\"…\"}".to_owned()
        })?;
        verdict.reason = verdict.reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
        Ok(verdict)
    }
}

/// Ends the program and whatever it started, whatever became of it.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Not waited for yet, so the number is still its own.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn converse(callout: &Callout, question: &[u8]) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + callout.timeout;
    let (program, words) = callout.command.split_first().ok_or("no program is named")?;
    let child = Command::new(program)
        .args(words)
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let mut ended = Ended(child);
    if let Some(mut stdin) = ended.0.stdin.take() {
        // A pipe takes 64 KiB without anybody reading, and no question is that long. A program need not listen.
        let _ = stdin.write_all(question);
    }
    let stdout = ended.0.stdout.take().ok_or("it has no output")?;
    let answer = listen(stdout, deadline).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", callout.timeout.as_secs_f64()),
        _ => error.to_string(),
    })?;
    loop {
        match ended.0.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(answer),
            Some(status) => return Err(format!("it ended with {status}")),
            None if Instant::now() >= deadline => return Err("it does not end".into()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn listen(mut stdout: std::process::ChildStdout, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let span = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
        match poll(&mut fds, Some(&span)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match stdout.read(&mut piece)? {
            0 => return Ok(all),
            got if all.len() + got > ANSWER_BYTES_MAX => return Err(io::Error::other("its answer is too long")),
            got => all.extend_from_slice(&piece[..got]),
        }
    }
}

#[cfg(test)]
mod tests;
