//! The manual pages and completions, generated from the same definitions as the help.

mod names;

use std::io::Write;

use clap::CommandFactory;
use model::Exit;

use crate::args::{Args, Completions, Man};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

fn failed(error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot write the manual: {error}"))
}

/// `longhaul man`.
///
/// # Errors
/// The pages cannot be written.
pub fn man(man: &Man) -> Result<Exit, Failure> {
    let command = Args::command();
    match &man.out {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|e| failed(&e))?;
            clap_mangen::generate_to(command, dir).map_err(|e| failed(&e))?;
        }
        None => clap_mangen::Man::new(command).render(&mut std::io::stdout()).map_err(|e| failed(&e))?,
    }
    Ok(Exit::Done)
}

/// `longhaul completions SHELL`.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(shell: &Completions) -> Result<Exit, Failure> {
    let mut out = Vec::new();
    clap_complete::generate(shell.shell, &mut Args::command(), "longhaul", &mut out);
    let script = names::with_names(shell.shell, String::from_utf8_lossy(&out).into_owned());
    std::io::stdout().write_all(script.as_bytes()).map_err(|e| failed(&e))?;
    Ok(Exit::Done)
}

/// `longhaul names`: prints the names of nodes in the form in which they precede a path (`NAME:`), for completions.
pub fn names(settings: &Settings, printer: &Printer) -> Exit {
    settings.node_names().for_each(|name| printer.line(&format!("{name}:")));
    Exit::Done
}

#[cfg(test)]
mod tests;
