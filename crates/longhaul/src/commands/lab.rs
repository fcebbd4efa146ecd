//! `longhaul lab`: emulates a wide-area network on this machine.
//!
//! Each lab has its own process (`longhaul lab hold`). The process reads the scenario from stdin, and reports on stdout that the lab
//! is up, or why it is not.

mod check;
mod hold;
mod table;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lab::control::{LabDirectory, Remote, Set, check_name, list};
use lab::scenario::{SHIPPED, Scenario, shipped};
use model::Exit;
use model::fault::Fault;
use model::v1;

use crate::args::{Lab, LabAction, LabDirection, LabFile};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// A valid scenario, with its text and the name of its lab.
struct LoadedScenario {
    name: String,
    text: String,
    scenario: Scenario,
}

fn load(file: &LabFile, name: Option<&str>) -> Result<LoadedScenario, Failure> {
    let shown = file.file.display().to_string();
    let known = file.file.to_str().and_then(shipped).filter(|_| !file.file.exists() || file.file.is_dir());
    let text = match known {
        Some(known) => known.text.to_owned(),
        None => std::fs::read_to_string(&file.file).map_err(|error| {
            Failure::usage(format!("{shown}: {error}; scenarios that come with the program: {}", all_shipped()))
        })?,
    };
    let scenario = Scenario::read(&text)
        .and_then(Scenario::for_lab)
        .map_err(|problem| Failure::usage(format!("{shown}: {problem}")))?;
    // The name of a shipped scenario may contain a dot.
    let stem = || file.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("lab");
    let name = name.unwrap_or_else(|| known.map_or_else(stem, |known| known.name));
    check_name(name)?;
    Ok(LoadedScenario { name: name.to_owned(), text, scenario })
}

fn all_shipped() -> String {
    SHIPPED.iter().map(|shipped| shipped.name).collect::<Vec<_>>().join(", ")
}

fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Prints that a scenario is valid, and what it consists of.
fn print_summary(loaded: &LoadedScenario, printer: &Printer) -> u8 {
    let sites = loaded.scenario.sites.len();
    let paths = loaded.scenario.paths.len();
    let events = loaded.scenario.events.len();
    let parts = [count(sites, "site"), count(paths, "path"), count(events, "event")].join(", ");
    printer.line(&format!("{} is valid: {parts}", loaded.name));
    Exit::Done as u8
}

/// The lab of that name, the lab that this process is in, or the only lab that is up.
fn find(name: Option<String>, settings: &Settings) -> Result<Remote, Failure> {
    let state = settings.state_path()?;
    if let Some(name) = name.or_else(Settings::lab) {
        return Ok(Remote::at(state, &name)?);
    }
    let mut up = list(state);
    if up.len() == 1 {
        return Ok(up.remove(0));
    }
    let names = up.iter().map(Remote::name).collect::<Vec<_>>().join(", ");
    Err(match up.len() {
        0 => Failure { exit: Exit::Failed, fault: Fault::Missing, message: no_lab(state) },
        _ => Failure::usage(format!("several labs are up ({names}): say which with --lab")),
    })
}

fn no_lab(state: &Path) -> String {
    format!("no lab is up (state directory {}); `longhaul lab up canberra-paris` brings one up", state.display())
}

/// `longhaul lab`.
///
/// # Errors
/// An argument is wrong, the lab does not exist or cannot be made, or a program cannot be run.
pub fn run(lab: Lab, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let name = lab.lab;
    match lab.action {
        LabAction::Check(file) => check::run(&file, name.as_deref(), settings, printer),
        LabAction::Up(file) => up(&file, name.as_deref(), settings, printer),
        LabAction::Down { name: positional } => down(positional.or(name), settings, printer),
        LabAction::Exec { site, command } => {
            let (program, words) = command.split_first().ok_or_else(|| Failure::usage("no command after --"))?;
            let mut command = find(name, settings)?.command(&site, program)?;
            let error = command.args(words).exec();
            Err(cannot_run(program, &error))
        }
        LabAction::Set { target, words, direction, member, undo_after } => {
            if undo_after.is_some_and(|span| span.is_zero()) {
                return Err(Failure::usage("--for is zero: leave it out for a change that stays"));
            }
            let words = words.iter().map(|word| pair(word)).collect::<Result<_, _>>()?;
            let direction = direction.map(|direction| matches!(direction, LabDirection::Ba) as usize);
            let member = member.map(|member| member as usize - 1);
            let set = Set { target, direction, member, words, lasts_s: undo_after.map(|span| span.as_secs_f64()) };
            find(name, settings)?.set(set)?;
            Ok(Exit::Done as u8)
        }
        LabAction::Status => status(name, settings, printer),
        LabAction::Run { file, site, command } => {
            let loaded = load(&file, name.as_deref())?;
            if file.dry_run {
                return Ok(print_summary(&loaded, printer));
            }
            run_in(&loaded, site.as_deref(), &command, settings, printer)
        }
        LabAction::Scenarios { name } => scenarios(name.as_deref(), printer),
        LabAction::Hold { ends_with_parent } => hold::run(name, ends_with_parent, settings),
    }
}

fn cannot_run(program: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot run {}: {error}", program.display()))
}

fn pair(word: &str) -> Result<(String, String), Failure> {
    let (word, value) =
        word.split_once('=').ok_or_else(|| Failure::usage(format!("{word:?} is not WORD=VALUE, like loss=1%")))?;
    Ok((word.trim().to_owned(), value.trim().to_owned()))
}

fn up(file: &LabFile, name: Option<&str>, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let loaded = load(file, name)?;
    if file.dry_run {
        return Ok(print_summary(&loaded, printer));
    }
    hold::start(&loaded, false, settings)?;
    let status = Remote::at(settings.state_path()?, &loaded.name)?.status()?;
    if printer.is_json() {
        printer.object(&status);
    } else {
        printer.line(&format!("lab {} is up", loaded.name));
        table::sites(&status).iter().for_each(|line| printer.line(line));
    }
    Ok(Exit::Done as u8)
}

fn down(name: Option<String>, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let state = settings.state_path()?;
    name.as_deref().map(check_name).transpose()?;
    let remote = match find(name.clone(), settings) {
        Ok(remote) => remote,
        // A lab that was killed has left its directory.
        Err(failure) => match name.filter(|name| lab::control::labs(state).join(name).is_dir()) {
            Some(name) => return clear(state, &name, printer),
            None => return Err(failure),
        },
    };
    let (last, ended) = match remote.down() {
        Err(lab::Error::Ended { name }) => return clear(state, &name, printer),
        outcome => outcome?,
    };
    match last {
        Some(last) if printer.is_json() => printer.object(&last),
        _ => printer.line(&format!("lab {} is down{}", remote.name(), ended_processes(ended))),
    }
    Ok(Exit::Done as u8)
}

/// Removes the directory of a killed lab, by claiming its name.
fn clear(state: &Path, name: &str, printer: &Printer) -> Result<u8, Failure> {
    drop(LabDirectory::claim(state, name)?);
    printer.line(&format!("lab {name} had ended; its remains were removed"));
    Ok(Exit::Done as u8)
}

fn ended_processes(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; a process at its sites was ended".into(),
        many => format!("; {many} processes at its sites were ended"),
    }
}

fn status(name: Option<String>, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let labs = match name.or_else(Settings::lab) {
        Some(name) => vec![Remote::at(settings.state_path()?, &name)?],
        None => list(settings.state_path()?),
    };
    if labs.is_empty() && !printer.is_json() {
        printer.line(&no_lab(settings.state_path()?));
    }
    for lab in labs {
        let status = lab.status()?;
        if printer.is_json() {
            printer.object(&status);
        } else {
            table::status(&status).iter().for_each(|line| printer.line(line));
        }
    }
    Ok(Exit::Done as u8)
}

fn scenarios(name: Option<&str>, printer: &Printer) -> Result<u8, Failure> {
    match name {
        None => SHIPPED.iter().for_each(|one| printer.line(&format!("{:18} {}", one.name, one.what))),
        Some(name) => {
            let missing =
                || format!("there is no scenario {name}; those that come with the program: {}", all_shipped());
            let one = shipped(name).ok_or_else(|| Failure::usage(missing()))?;
            printer.line(one.text.trim_end());
        }
    }
    Ok(Exit::Done as u8)
}

/// Runs one command in a lab of its own.
fn run_in(
    loaded: &LoadedScenario,
    site: Option<&str>,
    command: &[std::ffi::OsString],
    settings: &Settings,
    printer: &Printer,
) -> Result<u8, Failure> {
    let (program, words) = command.split_first().ok_or_else(|| Failure::usage("no command after --"))?;
    if let Some(site) = site.filter(|site| loaded.scenario.site(site).is_none()) {
        let known = loaded.scenario.sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("{} has no site {site}, only {known}", loaded.name)));
    }
    let _lab_process = hold::start(loaded, true, settings)?;
    let remote = Remote::at(settings.state_path()?, &loaded.name)?;
    let mut command = match site {
        Some(site) => remote.command(site, program)?,
        None => Command::new(program),
    };
    // Ctrl-C or Ctrl-\ ends the command; this process must run until the lab is down.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&ignored))
            .map_err(|error| Failure::local(format!("cannot handle signals: {error}")))?;
    }
    // An absolute path, so that the command finds it from any directory.
    let state = settings.state_path()?;
    let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
    command.args(words).env("LONGHAUL_LAB", &loaded.name).env("LONGHAUL_STATE", state);
    let outcome = command.status();
    // The command may have taken the lab down itself.
    if let Ok((Some(last), _)) = remote.down() {
        report(&last, printer);
    }
    outcome.map(code).map_err(|error| cannot_run(program, &error))
}

/// The exit code of a command, as shells report it: 128 + N after signal N.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// Prints the final counts of the lab.
fn report(last: &v1::Lab, printer: &Printer) {
    if printer.is_json() {
        return printer.object(last);
    }
    if let Some(why) = &last.emulator_limited {
        Printer::note(&format!("emulator-limited: {why}; measurements in this lab show the emulator, not the network"));
    }
    if printer.is_chatty() {
        let lines = table::links(last, true);
        // A table without rows is not printed.
        lines.iter().filter(|_| lines.len() > 1).for_each(|line| Printer::note(line));
    }
}
