//! `plan twin`: prints the collaboration of a hub as a scenario.

use model::Exit;

use crate::args::HubOption;
use crate::failure::Failure;
use crate::hub_client;
use crate::printer::Printer;
use crate::settings::Settings;

/// Prints the scenario.
///
/// # Errors
/// No hub is named, or it does not answer.
pub fn run(at: &HubOption, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let scenario = hub_client::api(at, settings)?.twin().map_err(hub_client::failure)?;
    printer.line(scenario.trim_end());
    Ok(Exit::Done)
}
