//! `plan twin`: a collaboration as its hub knows it, as a scenario.

use model::Exit;

use crate::args::HubAt;
use crate::failure::Failure;
use crate::hub_client;
use crate::printer::Printer;
use crate::settings::Settings;

/// Prints the scenario.
///
/// # Errors
/// No hub is named, or it does not answer.
pub fn run(at: &HubAt, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let scenario = hub_client::api(at, settings)?.twin().map_err(hub_client::failure)?;
    printer.line(scenario.trim_end());
    Ok(Exit::Done)
}
