//! `longhaul hub`: runs a hub, describes a collaboration, issues keys.

mod description;
mod grant;
mod messages;
pub mod serve;
mod sign_in;
mod watch_part;

use model::Exit;
use model::v1::hub::{Collaboration, Stopped};

fn action_line(action: &model::v1::hub::HubAction) -> String {
    format!("{}  {}  {}  {} {}  {}", action.at, action.by, action.from, action.what, action.path, action.status)
}

#[cfg(test)]
pub use messages::settings as messages_settings;
#[cfg(test)]
pub use serve::settings;

use self::description::{community, endpoint, link, site};
use crate::args::{Hub, HubAction, HubOption, HubStop};
use crate::failure::Failure;
use crate::hub_client::{api, failure};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::toml_file;

/// Runs the command.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn run(hub: Hub, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let at = hub.at;
    match hub.action {
        HubAction::Serve(args) => return serve::run(args, settings, printer),
        HubAction::Grant(args) => return grant::run(args, settings, printer),
        HubAction::Show => show(&api(&at, settings)?.collaboration().map_err(failure)?, printer)?,
        HubAction::Apply { file } => {
            let wanted: Collaboration = toml_file::read(&file)?;
            show(&api(&at, settings)?.describe(&wanted).map_err(failure)?, printer)?;
        }
        HubAction::Site(kind) => site(kind.action, &api(&at, settings)?, printer)?,
        HubAction::Endpoint(kind) => endpoint(kind.action, &api(&at, settings)?, printer)?,
        HubAction::Link(kind) => link(kind.action, &api(&at, settings)?, printer)?,
        HubAction::Community(kind) => community(kind.action, &api(&at, settings)?, printer)?,
        HubAction::Mark { link, percent } => {
            api(&at, settings)?.set_mark(&link, f64::from(percent) / 100.0).map(drop).map_err(failure)?;
        }
        HubAction::Actions { by, limit } => {
            let all = api(&at, settings)?.actions(&by, limit).map_err(failure)?.actions;
            for action in &all {
                if printer.is_json() {
                    printer.object(action);
                } else {
                    printer.line(&action_line(action));
                }
            }
        }
        HubAction::Drain(args) => stop(&at, settings, args, |stopped| stopped.drain = true)?,
        HubAction::Ban(args) => stop(&at, settings, args, |stopped| stopped.refuse = true)?,
        HubAction::Stop(args) => stop(&at, settings, args, |_| {})?,
        HubAction::Start { what } => drop(api(&at, settings)?.start(&what).map_err(failure)?),
    }
    Ok(Exit::Done)
}

/// Stops a part of the collaboration; `set` says how.
fn stop(at: &HubOption, settings: &Settings, args: HubStop, set: impl Fn(&mut Stopped)) -> Result<(), Failure> {
    let mut stopped = Stopped { reason: args.reason, from: args.from, until: args.until, ..Stopped::default() };
    set(&mut stopped);
    api(at, settings)?.stop(&args.what, &stopped).map(drop).map_err(failure)
}

/// Prints a description, as TOML or as JSON.
fn show(description: &impl serde::Serialize, printer: &Printer) -> Result<(), Failure> {
    if printer.is_json() {
        printer.object(description);
        return Ok(());
    }
    let text = toml::to_string(description).map_err(|error| Failure::local(error.to_string()))?;
    printer.line(text.trim_end());
    Ok(())
}
