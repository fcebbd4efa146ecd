//! A program of the operator's that is asked about visitors: JSON in, JSON out, within a time. No answer is a no, but one that
//! is forgotten at once; where too many are asked about, nobody is told no: they are told to come again.
//!
//! [`RUNNING_MAX`] programs run at once. Half of those places are for visitors with a credential, whoever else comes; and a
//! neighbourhood of strangers, or of others, has its bound as well.
//!
//! What the program never gets is a secret: it is told who somebody turned out to be, not how they proved it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use auth::policy::Callout;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use model::client_prefix;

/// An answer is good for so long: clients ask a dozen questions about a file within a second.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Answers that are remembered.
const REMEMBERED_MAX: usize = 4096;
/// Programs that run at once.
const RUNNING_MAX: usize = 64;
/// Of them, those that may be about visitors who have shown nothing: all of them, and those of one neighbourhood.
const ABOUT_NOBODY_MAX: usize = RUNNING_MAX / 2;
const ABOUT_NOBODY_THERE_MAX: usize = RUNNING_MAX / 8;
/// Those that may be about visitors of one neighbourhood who have shown something: a site may be behind one address.
const ABOUT_SOMEBODY_THERE_MAX: usize = RUNNING_MAX / 2;
/// An answer is not longer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// A reason that is passed on is not longer.
const REASON_CHARS_MAX: usize = 300;
/// Where programs are looked for that the program runs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The kind of what those have shown who have shown nothing.
pub(crate) const NOBODY: &str = "none";

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
    /// [`NOBODY`], "key", "token", "macaroon", "certificate".
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
    running: Mutex<Running>,
    ended: Condvar,
}

/// About whom programs run.
#[derive(Debug, Default)]
struct Running {
    all: usize,
    about_nobody: usize,
    /// By neighbourhood, and whether something was shown.
    there: HashMap<(IpAddr, bool), usize>,
}

/// Too many are asked about: the question was not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Running {
    fn has_room(&self, from: IpAddr, is_somebody: bool) -> bool {
        let there = self.there.get(&(from, is_somebody)).copied().unwrap_or(0);
        let (in_all, there_max) = match is_somebody {
            true => (self.all < RUNNING_MAX, ABOUT_SOMEBODY_THERE_MAX),
            false => (self.all < RUNNING_MAX && self.about_nobody < ABOUT_NOBODY_MAX, ABOUT_NOBODY_THERE_MAX),
        };
        in_all && there < there_max
    }
}

/// A place among those that run, given back when dropped.
struct Place<'a> {
    callouts: &'a Callouts,
    from: IpAddr,
    is_somebody: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut running = self.callouts.running.lock();
        running.all -= 1;
        running.about_nobody -= usize::from(!self.is_somebody);
        if let Some(there) = running.there.get_mut(&(self.from, self.is_somebody)) {
            *there -= 1;
            if *there == 0 {
                running.there.remove(&(self.from, self.is_somebody));
            }
        }
        drop(running);
        self.callouts.ended.notify_all();
    }
}

fn about(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Callouts {
    /// What the program thinks. `place` is the path in its very bytes, `holder` who owns the principal's jobs.
    pub fn ask(&self, callout: &Callout, holder: &str, place: &[u8], question: &Question<'_>) -> Result<Verdict, Full> {
        let text = serde_json::to_vec(question).unwrap_or_default();
        let about = about(&[&text, holder.as_bytes(), place]);
        let mut said = self.said.lock();
        if let Some((_, verdict)) = said.get(&about).filter(|(at, _)| at.elapsed() < REMEMBERED_FOR) {
            return Ok(verdict.clone());
        }
        drop(said);
        let running = self.enter(question.peer, question.credential.kind != NOBODY, callout.timeout)?;
        let verdict = run(callout, &text);
        drop(running);
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(why) => {
                let program = callout.command.first().map_or("", String::as_str);
                tracing::error!(program, error = why, who = question.who, "the call-out gave no answer: refused");
                let reason = "the program that decides about this gave no answer; ask the node's operator".into();
                // Not remembered: a moment's silence is no verdict.
                return Ok(Verdict { allow: false, reason });
            }
        };
        said = self.said.lock();
        if said.len() >= REMEMBERED_MAX {
            said.retain(|_, (at, _)| at.elapsed() < REMEMBERED_FOR);
        }
        if said.len() < REMEMBERED_MAX {
            said.insert(about, (Instant::now(), verdict.clone()));
        }
        Ok(verdict)
    }

    /// A place to run the program, waited for as long as an answer may take.
    fn enter(&self, peer: IpAddr, is_somebody: bool, within: Duration) -> Result<Place<'_>, Full> {
        let from = client_prefix(peer);
        let mut running = self.running.lock();
        let full = |running: &mut Running| !running.has_room(from, is_somebody);
        if self.ended.wait_while_for(&mut running, full, within).timed_out() {
            tracing::warn!(%peer, "no place was free to ask the call-out in time");
            return Err(Full);
        }
        running.all += 1;
        running.about_nobody += usize::from(!is_somebody);
        *running.there.entry((from, is_somebody)).or_default() += 1;
        drop(running);
        Ok(Place { callouts: self, from, is_somebody })
    }
}

fn run(callout: &Callout, question: &[u8]) -> Result<Verdict, String> {
    let answer = converse(callout, question)?;
    let mut verdict: Verdict = serde_json::from_slice(&answer).map_err(|_| {
        "its answer is not of the form {\"allow\":true} or {\"allow\":false,\"reason\":\"…\"}".to_owned()
    })?;
    verdict.reason = verdict.reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
    Ok(verdict)
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
