//! A run: clients of one tool that work through the files of an order, and a lifetime that ends them.
//!
//! One thread supervises the run, and one thread for each client starts one process after another and waits for it. What they share
//! is behind one lock. A process gets signals only while it is in the table of running clients, from which its thread removes it
//! before it is waited for: so no signal reaches another process that was given the same id.

mod outcome;
mod progress;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use model::id::Uuid;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::process::Signal;

use self::outcome::{Copied, EndedClient, judge};
use self::progress::{RunningClient, ToolRunProgress};
use super::addresses::LocalEnd;
use super::arguments::{ClientOptions, ClientTask, TaskFile, curl_configuration};
use super::checked_order::{CheckedFile, CheckedOrder};
use super::installed::InstalledTool;
use super::limits::{GRACE, STDERR_BYTES_MAX};
use super::local_file::{self, NullLink};
use super::process::{Invocation, Launcher};
use super::process_counters::cpu_s;
use super::tools::{BearerChannel, DiscardForm};
use super::words::{ToolRunDirection, ToolRunState, ToolRunStatus};

/// How long the supervisor waits between two SIGKILLs to processes that hang in the kernel.
const KILL_AGAIN: Duration = Duration::from_millis(500);

/// What the processes of all runs have in common.
pub(super) struct RunSettings {
    /// Starts processes.
    pub launcher: Launcher,
    /// The authorities that the operator trusts: a PEM file.
    pub authorities: Option<String>,
    /// The state directory for processes of `longhaul`.
    pub state: Option<String>,
}

/// Why a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    /// Its lifetime has ended.
    Lifetime,
    /// A client has ordered it.
    Order,
    /// The agent stops.
    Agent,
}

impl StopCause {
    fn reason(self) -> &'static str {
        match self {
            StopCause::Lifetime => "its lifetime ended without a renewal",
            StopCause::Order => "it was ordered to stop",
            StopCause::Agent => "the agent was stopped",
        }
    }
}

/// The local end of a copy that is ready for its process.
enum LocalPath {
    /// The tool's word for discarding what arrives.
    Word(&'static str),
    /// What arrives is discarded through a link, which exists as long as this.
    Link(NullLink),
    /// A file.
    File(PathBuf),
}

impl LocalPath {
    /// The path as an argument. The directory and all paths below it are text.
    fn argument(&self) -> &str {
        match self {
            LocalPath::Word(word) => word,
            LocalPath::Link(link) => link.path().to_str().unwrap_or_default(),
            LocalPath::File(path) => path.to_str().unwrap_or_default(),
        }
    }
}

/// A run.
pub(super) struct ToolRun {
    /// The id of the order.
    pub id: Uuid,
    /// The hash of the order.
    pub hash: u64,
    /// The most processes at once.
    pub clients: u32,
    tool: Arc<InstalledTool>,
    direction: ToolRunDirection,
    options: ClientOptions,
    files: u64,
    settings: Arc<RunSettings>,
    progress: Mutex<ToolRunProgress>,
    /// A client has ended, or the deadline or the cause to stop has changed.
    changed: Condvar,
}

impl ToolRun {
    /// A run that has not begun: [`ToolRun::supervise`] runs it.
    pub fn new(order: CheckedOrder, settings: Arc<RunSettings>) -> ToolRun {
        let files = order.batches.iter().map(|batch| batch.len() as u64).sum();
        let progress = ToolRunProgress::new(order.batches, Instant::now() + order.lifetime, now_text());
        ToolRun {
            id: order.id,
            hash: order.hash,
            clients: order.clients,
            tool: order.tool,
            direction: order.direction,
            options: order.options,
            files,
            settings,
            progress: Mutex::new(progress),
            changed: Condvar::new(),
        }
    }

    /// Runs the clients until all files were tried or the run is stopped; returns when no process is left.
    pub fn supervise(&self) {
        thread::scope(|scope| {
            for _ in 0..self.clients {
                self.progress.lock().workers += 1;
                let started = thread::Builder::new().name("client".into()).spawn_scoped(scope, || self.work());
                if let Err(error) = started {
                    let mut progress = self.progress.lock();
                    progress.workers -= 1;
                    progress.add_error(format!("cannot start the thread of a client: {error}"));
                }
            }
            let mut progress = self.progress.lock();
            self.wait_for_stop(&mut progress);
            self.end_clients(&mut progress);
        });
        let mut progress = self.progress.lock();
        // Without a single thread no file was tried.
        progress.files_failed += progress.waiting.drain(..).map(|batch| batch.len() as u64).sum::<u64>();
        progress.ended = Some(now_text());
        self.changed.notify_all();
    }

    /// Waits until all clients have ended, the lifetime has ended, or the run is stopped.
    fn wait_for_stop(&self, progress: &mut MutexGuard<'_, ToolRunProgress>) {
        while progress.workers > 0 && progress.stop.is_none() {
            let deadline = progress.deadline;
            if Instant::now() >= deadline {
                progress.stop = Some(StopCause::Lifetime);
            } else {
                self.changed.wait_until(progress, deadline);
            }
        }
    }

    /// Ends the processes of a run that is stopped: SIGTERM first, then SIGKILL. No client starts another one.
    fn end_clients(&self, progress: &mut MutexGuard<'_, ToolRunProgress>) {
        if progress.stop.is_none() {
            return;
        }
        progress.waiting.clear();
        progress.signal_all(Signal::TERM);
        let kill_at = Instant::now() + GRACE;
        while progress.workers > 0 && Instant::now() < kill_at {
            self.changed.wait_until(progress, kill_at);
        }
        while progress.workers > 0 {
            progress.signal_all(Signal::KILL);
            self.changed.wait_for(progress, KILL_AGAIN);
        }
    }

    /// Copies files until none is left or the run is stopped.
    fn work(&self) {
        while let Some(files) = self.take_files() {
            let copied = self.copy(&files).map_err(|why| format!("{}: {why}", self.show(&files)));
            self.progress.lock().count(files.len() as u64, copied);
        }
        self.progress.lock().workers -= 1;
        self.changed.notify_all();
    }

    /// The files of the next process.
    fn take_files(&self) -> Option<Vec<CheckedFile>> {
        let mut progress = self.progress.lock();
        if progress.stop.is_some() { None } else { progress.waiting.pop_front() }
    }

    /// The files for people: source and target of the first one, and how many more there are.
    fn show(&self, files: &[CheckedFile]) -> String {
        let Some((file, more)) = files.split_first() else { return String::new() };
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let local = match &file.local {
            LocalEnd::Null => "null:".to_owned(),
            LocalEnd::File(path) => path.display().to_string(),
        };
        match self.direction {
            ToolRunDirection::Get => format!("{} -> {local}{more}", file.remote),
            ToolRunDirection::Put => format!("{local} -> {}{more}", file.remote),
        }
    }

    /// Prepares the local end of a file.
    fn prepare(&self, file: &CheckedFile) -> Result<LocalPath, String> {
        let directory = self.settings.launcher.directory();
        Ok(match (&file.local, self.direction, self.tool.template.discard) {
            (LocalEnd::Null, _, DiscardForm::Link) => LocalPath::Link(NullLink::make(directory)?),
            (LocalEnd::Null, _, DiscardForm::Stdout) => LocalPath::Word("-"),
            (LocalEnd::Null, ..) => LocalPath::Word("null:"),
            (LocalEnd::File(below), ToolRunDirection::Get, _) => {
                LocalPath::File(local_file::prepare_target(directory, below)?)
            }
            (LocalEnd::File(below), ToolRunDirection::Put, _) => {
                LocalPath::File(local_file::check_source(directory, below, file.bytes)?)
            }
        })
    }

    /// Runs one process over its files.
    fn copy(&self, files: &[CheckedFile]) -> Result<Copied, String> {
        let locals = files.iter().map(|file| self.prepare(file)).collect::<Result<Vec<_>, _>>()?;
        let target = |local: &LocalPath| match (local, self.direction) {
            (LocalPath::File(path), ToolRunDirection::Get) => Some(path.clone()),
            _ => None,
        };
        let targets: Vec<PathBuf> = locals.iter().filter_map(target).collect();
        let bytes = files.iter().map(|file| file.bytes).sum();
        let task_file = |(file, local): (&CheckedFile, &LocalPath)| TaskFile {
            remote: file.remote.clone(),
            local: local.argument().to_owned(),
        };
        let task_files: Vec<TaskFile> = files.iter().zip(&locals).map(task_file).collect();
        let invocation = self.invocation(&task_files, bytes)?;
        let live = Arc::new(AtomicU64::new(0));
        let started = {
            let mut progress = self.progress.lock();
            if let Some(cause) = progress.stop {
                return Err(cause.reason().to_owned());
            }
            let started = self.settings.launcher.start(&invocation);
            if let Ok(process) = &started {
                progress.running.push(RunningClient {
                    process: process.id(),
                    targets: targets.clone(),
                    bytes,
                    live: Arc::clone(&live),
                });
            }
            started
        };
        let mut process = started.map_err(|error| format!("{}: {error}", invocation.program.display()))?;
        let output = process.read_to_end(&live, STDERR_BYTES_MAX);
        {
            let mut progress = self.progress.lock();
            progress.cpu_s += cpu_s(process.id());
            progress.running.retain(|client| client.process != process.id());
        }
        let status = process.reap().map_err(|error| error.to_string())?;
        let ended = EndedClient {
            failure: (!status.success()).then(|| format!("ended with {status}")),
            output: &output,
            arrived: (!targets.is_empty()).then(|| targets.iter().map(|path| local_file::size(path)).sum()),
            expected: bytes,
        };
        let template = self.tool.template;
        judge(template.output, ended).map_err(|why| self.without_bearer(&format!("{} {why}", template.name)))
    }

    /// The process for some files with these bytes together.
    fn invocation(&self, files: &[TaskFile], bytes: u64) -> Result<Invocation, String> {
        let template = self.tool.template;
        let task = ClientTask {
            direction: self.direction,
            files,
            bytes,
            options: &self.options,
            authorities: self.settings.authorities.as_deref(),
            state: self.settings.state.as_deref(),
        };
        let environment = template.environment.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let mut set: Vec<(&'static str, String)> = environment.collect();
        // The operator's own key is for nobody else: longhaul gets that of the order, if there is one.
        let mut unset = vec!["LONGHAUL_KEY"];
        let mut stdin = None;
        match (template.bearer, &self.options.bearer) {
            (BearerChannel::Stdin, Some(bearer)) => stdin = Some(curl_configuration(bearer)),
            (BearerChannel::Variable(name), Some(bearer)) => {
                set.push((name, bearer.clone()));
                unset.push("BEARER_TOKEN_FILE");
            }
            _ => {}
        }
        Ok(Invocation {
            program: self.tool.program.clone()?,
            arguments: (template.arguments)(&task),
            set,
            unset,
            stdin,
            output: template.output,
        })
    }

    /// A text of a tool without the bearer, in case that the tool has quoted it.
    fn without_bearer(&self, text: &str) -> String {
        match &self.options.bearer {
            Some(bearer) => text.replace(bearer.as_str(), "…"),
            None => text.to_owned(),
        }
    }

    /// Lets the run go on for this time from now. A run that is being stopped does not change.
    pub fn renew(&self, lifetime: Duration) {
        self.progress.lock().deadline = Instant::now() + lifetime;
        self.changed.notify_all();
    }

    /// Stops the run: its supervisor ends the processes.
    pub fn stop(&self, cause: StopCause) {
        self.progress.lock().stop.get_or_insert(cause);
        self.changed.notify_all();
    }

    /// Waits until the run has ended, for at most `within`.
    pub fn wait_until_ended(&self, within: Duration) {
        let deadline = Instant::now() + within;
        let mut progress = self.progress.lock();
        while progress.ended.is_none() && Instant::now() < deadline {
            self.changed.wait_until(&mut progress, deadline);
        }
    }

    /// Whether the run has ended.
    pub fn has_ended(&self) -> bool {
        self.progress.lock().ended.is_some()
    }

    /// The state of the run now.
    pub fn status(&self) -> ToolRunStatus {
        let progress = self.progress.lock();
        let template = self.tool.template;
        let seen = |client: &RunningClient| client.seen_bytes(template.output, self.direction);
        let state = progress.state(self.files);
        ToolRunStatus {
            id: self.id,
            tool: template.name.to_owned(),
            state,
            reason: progress.stop.filter(|_| state != ToolRunState::Done).map(|cause| cause.reason().to_owned()),
            files: self.files,
            files_done: progress.files_done,
            files_failed: progress.files_failed,
            bytes_done: progress.bytes_done + progress.running.iter().map(seen).sum::<u64>(),
            processes: progress.running.len() as u32,
            cpu_s: progress.cpu_s + progress.running.iter().map(|client| cpu_s(client.process)).sum::<f64>(),
            retransmits: progress.retransmits,
            errors: progress.errors.clone(),
            started: progress.started.clone(),
            ended: progress.ended.clone(),
        }
    }
}

/// The time as text (RFC 3339).
fn now_text() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    web::date::rfc3339_us(Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() })
}
