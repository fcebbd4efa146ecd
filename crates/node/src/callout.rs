//! The call-out: a program of the operator that decides about requests. It reads JSON and answers in JSON within a time. Without an
//! answer the request is refused, and the refusal is not remembered; if too many programs run, the client is asked to try again later.
//!
//! [`RUNNING_MAX`] programs run at once. Half of these permits are reserved for clients with a credential, and each client prefix
//! has a bound, with and without a credential.
//!
//! The program never gets a secret: the question names the principal, not the credential that proved it.

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

/// How long a verdict is remembered: clients send a dozen requests for a file within a second.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Verdicts that are remembered.
const REMEMBERED_MAX: usize = 4096;
/// Programs that run at once.
const RUNNING_MAX: usize = 64;
/// Programs about clients without a credential: in all, and of one client prefix.
const ANONYMOUS_MAX: usize = RUNNING_MAX / 2;
const ANONYMOUS_OF_CLIENT_MAX: usize = RUNNING_MAX / 8;
/// Programs about clients with a credential of one client prefix: a site may be behind one address.
const AUTHENTICATED_OF_CLIENT_MAX: usize = RUNNING_MAX / 2;
/// The greatest length of an answer, bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The greatest length of a reason, characters.
const REASON_CHARS_MAX: usize = 300;
/// The `PATH` of the program.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The kind of credential of an anonymous client.
pub(crate) const NO_CREDENTIAL: &str = "none";

/// The question to the program.
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
    /// The decision of the policy.
    pub policy: &'a str,
    pub credential: CredentialFacts<'a>,
}

/// The facts about a credential that the program gets.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CredentialFacts<'a> {
    /// [`NO_CREDENTIAL`], "key", "token", "macaroon", "certificate".
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
    /// The groups and roles that VOMS servers attest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fqans: Vec<&'a str>,
}

/// The answer of the program.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub allow: bool,
    #[serde(default)]
    pub reason: String,
}

/// Runs of the program, and its recent verdicts.
#[derive(Default)]
pub(crate) struct Callouts {
    /// Verdicts by the hash of the question.
    verdicts: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
    running: Mutex<RunningCallouts>,
    ended: Condvar,
}

/// The programs that run, by client.
#[derive(Debug, Default)]
struct RunningCallouts {
    all: usize,
    anonymous: usize,
    /// By client prefix, and whether the client has a credential.
    by_client: HashMap<(IpAddr, bool), usize>,
}

/// Too many programs run: the question was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl RunningCallouts {
    fn has_room(&self, from: IpAddr, has_credential: bool) -> bool {
        let of_client = self.by_client.get(&(from, has_credential)).copied().unwrap_or(0);
        let of_client_max = if has_credential { AUTHENTICATED_OF_CLIENT_MAX } else { ANONYMOUS_OF_CLIENT_MAX };
        let has_room_for_kind = has_credential || self.anonymous < ANONYMOUS_MAX;
        self.all < RUNNING_MAX && has_room_for_kind && of_client < of_client_max
    }
}

/// A permit to run the program, released when dropped.
struct RunPermit<'a> {
    callouts: &'a Callouts,
    from: IpAddr,
    has_credential: bool,
}

impl Drop for RunPermit<'_> {
    fn drop(&mut self) {
        let mut running = self.callouts.running.lock();
        running.all -= 1;
        running.anonymous -= usize::from(!self.has_credential);
        if let Some(of_client) = running.by_client.get_mut(&(self.from, self.has_credential)) {
            *of_client -= 1;
            if *of_client == 0 {
                running.by_client.remove(&(self.from, self.has_credential));
            }
        }
        drop(running);
        self.callouts.ended.notify_all();
    }
}

/// The hash of a question, for remembered verdicts.
fn question_hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Callouts {
    /// The verdict of the program. `place` is the path as bytes, `holder` the owner of the principal's transfers.
    ///
    /// # Errors
    /// No permit was free within the call-out's timeout.
    pub fn ask(&self, callout: &Callout, holder: &str, place: &[u8], question: &Question<'_>) -> Result<Verdict, Full> {
        let text = serde_json::to_vec(question).unwrap_or_default();
        let key = question_hash(&[&text, holder.as_bytes(), place]);
        let mut verdicts = self.verdicts.lock();
        if let Some((_, verdict)) = verdicts.get(&key).filter(|(at, _)| at.elapsed() < REMEMBERED_FOR) {
            return Ok(verdict.clone());
        }
        drop(verdicts);
        let running = self.acquire(question.peer, question.credential.kind != NO_CREDENTIAL, callout.timeout)?;
        let verdict = run(callout, &text);
        drop(running);
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(why) => {
                let program = callout.command.first().map_or("", String::as_str);
                tracing::error!(
                    program,
                    error = why,
                    who = question.who,
                    "the call-out gave no answer; the request is refused"
                );
                let reason = "the program that decides about this gave no answer; ask the node's operator".into();
                // Not remembered: a missing answer is no verdict.
                return Ok(Verdict { allow: false, reason });
            }
        };
        verdicts = self.verdicts.lock();
        if verdicts.len() >= REMEMBERED_MAX {
            verdicts.retain(|_, (at, _)| at.elapsed() < REMEMBERED_FOR);
        }
        if verdicts.len() < REMEMBERED_MAX {
            verdicts.insert(key, (Instant::now(), verdict.clone()));
        }
        Ok(verdict)
    }

    /// Waits for a permit to run the program, for at most `within`.
    fn acquire(&self, peer: IpAddr, has_credential: bool, within: Duration) -> Result<RunPermit<'_>, Full> {
        let from = client_prefix(peer);
        let mut running = self.running.lock();
        let full = |running: &mut RunningCallouts| !running.has_room(from, has_credential);
        if self.ended.wait_while_for(&mut running, full, within).timed_out() {
            tracing::warn!(%peer, "no permit to run the call-out was free in time");
            return Err(Full);
        }
        running.all += 1;
        running.anonymous += usize::from(!has_credential);
        *running.by_client.entry((from, has_credential)).or_default() += 1;
        drop(running);
        Ok(RunPermit { callouts: self, from, has_credential })
    }
}

/// Asks the program, and reads its verdict.
fn run(callout: &Callout, question: &[u8]) -> Result<Verdict, String> {
    let answer = run_program(callout, question)?;
    let mut verdict: Verdict = serde_json::from_slice(&answer).map_err(|_| {
        "its answer is not of the form {\"allow\":true} or {\"allow\":false,\"reason\":\"…\"}".to_owned()
    })?;
    verdict.reason = verdict.reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
    Ok(verdict)
}

/// Kills the program's process group when dropped, so that nothing that it started outlives it.
struct ProcessGroupGuard(Child);

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        // The child has not been waited for, so the process id is still its own.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Runs the program on a question. Returns its answer.
fn run_program(callout: &Callout, question: &[u8]) -> Result<Vec<u8>, String> {
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
    let mut group = ProcessGroupGuard(child);
    if let Some(mut stdin) = group.0.stdin.take() {
        // A pipe buffers 64 KiB, which no question exceeds. A program need not read its input.
        let _ = stdin.write_all(question);
    }
    let stdout = group.0.stdout.take().ok_or("it has no output")?;
    let answer = read_answer(stdout, deadline).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", callout.timeout.as_secs_f64()),
        _ => error.to_string(),
    })?;
    loop {
        match group.0.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(answer),
            Some(status) => return Err(format!("it ended with {status}")),
            None if Instant::now() >= deadline => return Err("it does not end".into()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn read_answer(mut stdout: std::process::ChildStdout, deadline: Instant) -> io::Result<Vec<u8>> {
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
