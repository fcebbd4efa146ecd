//! `longhaul exercise run`: checks a file, brings up its lab or connects its nodes, runs it, and writes its record and page.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use exercise::record::RunRecord;
use exercise::run::{RunError, RunInputs, RunLab, run as run_exercise};
use exercise::{Exercise, feasible, grade, page, shipped};
use model::Exit;
use model::fault::Fault;
use model::v1::exercise::ExerciseProgress;
use parking_lot::Mutex;
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::board::BoardReporter;
use super::connect::{ConnectedSites, connect};
use super::rig::LabRig;
use crate::args::{ExerciseRun, HubOption};
use crate::failure::Failure;
use crate::hub_client;
use crate::printer::Printer;
use crate::settings::Settings;

/// The files of a run.
pub const RECORD: &str = "record.json";
const PAGE: &str = "report.html";
const COPY: &str = "exercise.toml";

/// An exercise with its text and where it came from.
pub struct LoadedExercise {
    /// The name of the file without its extension, or of the shipped exercise.
    pub name: String,
    /// The command that runs it, without paths.
    command: String,
    text: String,
    /// The directory that its key files are relative to.
    dir: PathBuf,
    exercise: Exercise,
}

/// Reads a file, or a shipped exercise.
///
/// # Errors
/// There is no such file, or it is not an exercise.
pub fn load(named: &str) -> Result<LoadedExercise, Failure> {
    let path = Path::new(named);
    let (name, text) = match shipped(named).filter(|_| !path.exists()) {
        Some(shipped) => (shipped.name.to_owned(), shipped.text.to_owned()),
        None => {
            let text = fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!(
                    "{named}: {error}; `longhaul exercise list` lists those that come with the program"
                ))
            })?;
            let stem = path.file_stem().map_or_else(|| "exercise".into(), |stem| stem.to_string_lossy());
            (stem.into_owned(), text)
        }
    };
    let dir = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    Ok(LoadedExercise { dir, ..LoadedExercise::read(&name, &format!("longhaul exercise run {name}"), text)? })
}

impl LoadedExercise {
    /// Reads a text; its key files are relative to the working directory.
    ///
    /// # Errors
    /// The text is not an exercise.
    pub fn read(name: &str, command: &str, text: String) -> Result<LoadedExercise, Failure> {
        let exercise = Exercise::read(&text).map_err(|problem| Failure::usage(format!("{name}: {problem}")))?;
        Ok(LoadedExercise { name: name.to_owned(), command: command.to_owned(), text, dir: PathBuf::new(), exercise })
    }
}

/// Reads the exercise of the command, and compares its goals with what its links give. None if that was all that was asked for.
///
/// # Errors
/// The file is not an exercise, or its goals cannot be met.
pub fn checked(args: &ExerciseRun, printer: &Printer) -> Result<Option<LoadedExercise>, Failure> {
    let loaded = load(&args.exercise)?;
    let shortfalls = feasible::shortfalls(&loaded.exercise);
    for shortfall in &shortfalls {
        printer.line(&shortfall.to_string());
    }
    if !shortfalls.is_empty() && !args.anyway {
        let message = "the goals cannot be met, and nothing was begun; change the file, or run it with --anyway";
        return Err(Failure::usage(message));
    }
    if !args.dry_run {
        return Ok(Some(loaded));
    }
    let flows = loaded.exercise.flows().count();
    let sites = loaded.exercise.used_sites().len();
    printer.line(&format!("{} is valid: {flows} flows between {sites} sites", loaded.name));
    Ok(None)
}

/// The directory of the command's runs.
pub fn out_dir(args: &ExerciseRun, loaded: &LoadedExercise) -> PathBuf {
    args.out.clone().unwrap_or_else(|| PathBuf::from(format!("exercise-{}", loaded.name.replace('/', "-"))))
}

/// Runs an exercise once, writes its record and page to a directory, and prints its grades.
///
/// # Errors
/// The directory cannot be written, or nothing can begin.
pub fn run_once(
    loaded: &LoadedExercise,
    out: &Path,
    hub: &HubOption,
    settings: &Settings,
    printer: &Printer,
) -> Result<RunRecord, Failure> {
    fs::create_dir_all(out).map_err(|error| cannot_write(out, &error))?;
    let record = run_loaded(loaded, hub, settings, printer)?;
    write(out, loaded, &record)?;
    for line in page::lines(&record) {
        printer.line(&line);
    }
    printer.line(&format!("{}", out.join(PAGE).display()));
    Ok(record)
}

/// Runs an exercise until its end or a signal, in its lab if it has one.
///
/// # Errors
/// The lab cannot be made, or nothing can begin.
pub fn run_loaded(
    loaded: &LoadedExercise,
    hub: &HubOption,
    settings: &Settings,
    printer: &Printer,
) -> Result<RunRecord, Failure> {
    let signals = StopSignals::new()?;
    Controller { loaded, hub, settings, printer, stop: signals.flag() }.run()
}

/// A flag that SIGINT and SIGTERM set, as long as this lives.
pub struct StopSignals {
    flag: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl StopSignals {
    /// Begins to handle these signals.
    ///
    /// # Errors
    /// They cannot be handled.
    pub fn new() -> Result<StopSignals, Failure> {
        let mut signals = StopSignals { flag: Arc::default(), registered: Vec::new() };
        for signal in [SIGINT, SIGTERM] {
            let registered = signal_hook::flag::register(signal, Arc::clone(&signals.flag));
            let registered = registered.map_err(|error| Failure::local(format!("cannot handle signals: {error}")))?;
            signals.registered.push(registered);
        }
        Ok(signals)
    }

    /// The flag.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.flag
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        for registered in self.registered.drain(..) {
            signal_hook::low_level::unregister(registered);
        }
    }
}

/// Done if all goals were met and nothing is missing.
pub fn exit_of(record: &RunRecord) -> Exit {
    match (&record.stopped, grade::is_complete(record)) {
        (Some(_), _) => Exit::Interrupted,
        (None, true) => Exit::Done,
        (None, false) => Exit::Partial,
    }
}

/// What a run needs.
struct Controller<'a> {
    loaded: &'a LoadedExercise,
    hub: &'a HubOption,
    settings: &'a Settings,
    printer: &'a Printer,
    stop: &'a AtomicBool,
}

impl Controller<'_> {
    fn run(&self) -> Result<RunRecord, Failure> {
        let exercise = &self.loaded.exercise;
        let Some(network) = &exercise.lab else { return self.run_in(None) };
        let dir = tempfile::Builder::new().prefix("longhaul-exercise-").tempdir();
        let dir = dir.map_err(|error| Failure::local(format!("cannot make a temporary directory: {error}")))?;
        lab::check_prerequisites()?;
        let rig = LabRig::up(exercise, network, dir.path(), self.stop)?;
        self.run_in(Some(&rig))
    }

    fn run_in(&self, rig: Option<&LabRig<'_>>) -> Result<RunRecord, Failure> {
        let exercise = &self.loaded.exercise;
        let ConnectedSites { sites, left_out } = connect(exercise, &self.loaded.dir, rig)?;
        for (site, why) in &left_out {
            self.printer.line(&format!("{site} is left out: {why}"));
        }
        let hub = self.hub_api()?;
        let board = hub.clone().map(BoardReporter::new);
        let shown = Mutex::new(String::new());
        let inputs = RunInputs {
            exercise,
            sites,
            left_out,
            hub,
            lab: rig.map(|rig| rig as &dyn RunLab),
            stop: self.stop,
            observe: &|state| {
                self.show(&state, &shown);
                board.iter().for_each(|board| board.note(state.clone()));
            },
            facts: self.facts(rig),
        };
        let Some(board) = &board else { return run_exercise(&inputs).map_err(failure) };
        std::thread::scope(|scope| {
            let (over, is_over) = mpsc::channel();
            scope.spawn(move || board.run(&is_over, self.stop));
            let mut outcome = run_exercise(&inputs).map_err(failure);
            drop(over);
            if let (Ok(record), Some(by)) = (&mut outcome, board.stopped_by()) {
                record.stopped = Some(format!("stopped by {by} at the hub"));
            }
            board.end(outcome.as_ref().map_or_else(|failure| failure.message.clone(), grade::verdict));
            outcome
        })
    }

    /// The hub that is named. Flows by a hub need one; others are shown on its board.
    fn hub_api(&self) -> Result<Option<hubapi::Api>, Failure> {
        let wants_hub = self.loaded.exercise.flows().any(|(_, flow)| flow.class.tool == exercise::FlowTool::Hub);
        if !wants_hub && hub_client::origin(self.hub).is_err() {
            return Ok(None);
        }
        match hub_client::api(self.hub, self.settings) {
            Ok(hub) => Ok(Some(hub)),
            Err(failure) if wants_hub => Err(failure),
            Err(failure) => {
                Printer::note(&format!("this run is not on the board of the hub: {}", failure.message));
                Ok(None)
            }
        }
    }

    /// Prints what the run does, whenever that changes.
    fn show(&self, state: &ExerciseProgress, shown: &Mutex<String>) {
        let mut shown = shown.lock();
        if *shown != state.doing && self.printer.is_chatty() {
            self.printer.line(&format!("{:5.0} s  {}", state.seconds, state.doing));
            shown.clone_from(&state.doing);
        }
    }

    fn facts(&self, rig: Option<&LabRig<'_>>) -> RunRecord {
        RunRecord {
            began: web::date::rfc3339(now()),
            machine: machine(),
            software: concat!("longhaul ", env!("CARGO_PKG_VERSION")).to_owned(),
            command: self.loaded.command.clone(),
            emulated: rig.map(LabRig::describe),
            ..RunRecord::default()
        }
    }
}

/// The time of the clock.
pub fn now() -> model::Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    model::Timestamp { seconds: since.as_secs() as i64, nanos: 0 }
}

/// Processors and kernel of this host.
fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let system = rustix::system::uname();
    format!("{processors} processors, {} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy())
}

fn failure(error: RunError) -> Failure {
    let (exit, fault) = match &error {
        RunError::NoSites(_) => (Exit::Unreachable, Fault::Path),
        RunError::NotAgreed { .. } => (Exit::Refused, Fault::Auth),
        RunError::Files { .. } => (Exit::Storage, Fault::Storage),
        RunError::Stopped => (Exit::Interrupted, Fault::Config),
    };
    Failure { exit, fault, message: error.to_string() }
}

fn write(out: &Path, loaded: &LoadedExercise, record: &RunRecord) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(record).map_err(|error| Failure::local(error.to_string()))?;
    let page = page::page(record);
    for (name, text) in [(RECORD, &json), (PAGE, &page), (COPY, &loaded.text)] {
        write_file(&out.join(name), text)?;
    }
    Ok(())
}

/// Writes a file: all of it, or nothing.
///
/// # Errors
/// It cannot be written.
pub fn write_file(file: &Path, text: &str) -> Result<(), Failure> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".part");
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, file));
    written.map_err(|error| cannot_write(file, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let fault = Fault::Storage;
    Failure { exit: fault.into(), fault, message: format!("cannot write {}: {error}", path.display()) }
}
