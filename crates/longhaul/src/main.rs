//! The binary: arguments, settings, output, exit codes. It connects the library crates; what a library can decide is decided
//! there.
//!
//! A command line goes through two stages: what was typed ([`args`]), then what it means here and now ([`settings`]:
//! environment, state directory, keys). No library crate sees a flag or the environment.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the one crate that owns the terminal")]

mod args;
mod client_authorities;
mod client_config;
mod commands;
mod copy_defaults;
mod emulated;
mod failure;
mod hub_client;
mod job_control;
mod known_nodes;
mod local;
mod loopback_node;
mod printer;
mod progress;
mod random;
mod remote_stores;
mod settings;
mod ssh;
mod supervisor;
mod toml_file;

use std::process::ExitCode;

use model::Exit;

use args::{Args, Command};
use failure::Failure;
use printer::Printer;

fn main() -> ExitCode {
    let args = match args::parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() && std::env::args_os().any(|arg| arg == "--json") {
                let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                Printer::new(true, true).failure_object(&Failure::usage(first));
            }
            return ExitCode::from(if error.use_stderr() { Exit::Usage } else { Exit::Done } as u8);
        }
    };
    sys::limits::raise_descriptor_limit();
    sys::limits::set_up_allocator();
    let printer = Printer::new(args.output.json, args.output.quiet);
    let code = match run(args, &printer) {
        Ok(code) => code,
        Err(failure) => {
            printer.failure(&failure);
            failure.exit as u8
        }
    };
    ExitCode::from(code)
}

/// Runs the command. Returns an [`Exit`] as a number, or the exit code of the program that the command ran.
fn run(args: Args, printer: &Printer) -> Result<u8, Failure> {
    if args.common.fips {
        auth::approved::restrict();
    }
    let settings = settings::Settings::new(&args.common)?;
    let locators = locators_in_full(&args.command, &settings);
    let exit = match args.command {
        Command::Lab(lab) => return commands::lab::run(lab, &settings, printer),
        Command::Probe(probe) => return commands::probe::run(&probe, &settings, printer),
        Command::Tune(tune) => return commands::tune::run(&tune, &settings, printer),
        Command::Cp(cp) | Command::Sync(cp) => commands::cp::run(&cp, &settings, printer),
        Command::Serve(serve) => commands::serve::run(serve, &args.common, printer),
        Command::Grant(grant) => commands::grant::run(grant, &settings, printer),
        Command::Demo(demo) => commands::demo::run(&demo, printer),
        Command::Doctor(doctor) => commands::doctor::run(&doctor, &args.common, &settings, printer),
        Command::Hub(hub) => commands::hub::run(hub, &settings, printer),
        Command::Watch(watch) => commands::watch::run(watch, &settings, printer),
        Command::Exercise(exercise) => commands::exercise::run(exercise, &args.common, &settings, printer),
        Command::Submit(submit) => commands::submit::run(&submit, &settings, printer),
        Command::Share(share) => commands::share::run(&share, &settings, printer),
        Command::Queue(queue) => commands::queue::run(&queue, &settings, printer),
        Command::Data(data) => commands::data::run(&data, &settings, printer),
        Command::Ls(ls) => commands::files::ls(&ls, &settings, printer),
        Command::Stat(at) => commands::files::stat(&at, &settings, printer),
        Command::Mkdir(at) => commands::files::mkdir(&at, &settings),
        Command::Rm(rm) => commands::files::rm(&rm, &settings),
        Command::Mv(mv) => commands::files::mv(&mv, &settings),
        Command::Digest(digest) => commands::files::digest(&digest, &settings, printer),
        Command::Man(man) => commands::manual::man(&man),
        Command::Report(report) => commands::report::run(&report, printer),
        Command::Plan(plan) => commands::plan::run(&plan, &settings, printer),
        Command::Job(job) => commands::job::run(&job, &settings, printer),
        Command::Support(support) => commands::support::run(&support, &args.common, &settings, printer),
        Command::FarEnd => commands::far_end::run(&settings),
        Command::Names => Ok(commands::manual::names(&settings, printer)),
        Command::Completions(shell) => commands::manual::completions(&shell),
    };
    exit.map(|exit| exit as u8).map_err(|failure| failure.with_locators(&locators))
}

/// The locators of a file command in full, for its error message.
fn locators_in_full(command: &Command, settings: &settings::Settings) -> Vec<String> {
    let texts = match command {
        Command::Ls(ls) => vec![&ls.locator],
        Command::Stat(at) | Command::Mkdir(at) => vec![&at.locator],
        Command::Rm(rm) => vec![&rm.locator],
        Command::Mv(mv) => vec![&mv.from, &mv.to],
        Command::Digest(digest) => vec![&digest.locator],
        _ => Vec::new(),
    };
    texts.into_iter().filter_map(|text| settings.locator(text).ok()).map(|at| failure::in_full(&at)).collect()
}
