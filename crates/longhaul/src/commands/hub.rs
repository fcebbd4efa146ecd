//! `longhaul hub`: runs a hub, describes a collaboration, issues keys.

mod described;
mod grant;
mod messages;
pub mod serve;
mod sign_in;
mod watching;

use model::Exit;
use model::v1::hub::{Collaboration, Stopped};

fn action_line(action: &model::v1::hub::HubAction) -> String {
    format!("{}  {}  {}  {} {}  {}", action.at, action.by, action.from, action.what, action.path, action.status)
}

#[cfg(test)]
pub use messages::settings as messages_settings;
#[cfg(test)]
pub use serve::settings;

use self::described::{community, endpoint, link, site};
use crate::args::{Hub, HubAction, HubAt, HubStop};
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
        HubAction::Serve(asked) => return serve::run(asked, settings, printer),
        HubAction::Grant(asked) => return grant::run(asked, settings, printer),
        HubAction::Show => show(&api(&at, settings)?.collaboration().map_err(failure)?, printer)?,
        HubAction::Apply { file } => {
            let wanted: Collaboration = toml_file::read(&file)?;
            show(&api(&at, settings)?.describe(&wanted).map_err(failure)?, printer)?;
        }
        HubAction::Site(thing) => site(thing.action, &api(&at, settings)?, printer)?,
        HubAction::Endpoint(thing) => endpoint(thing.action, &api(&at, settings)?, printer)?,
        HubAction::Link(thing) => link(thing.action, &api(&at, settings)?, printer)?,
        HubAction::Community(thing) => community(thing.action, &api(&at, settings)?, printer)?,
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
        HubAction::Drain(stop) => stopped(&at, settings, stop, |it| it.drain = true)?,
        HubAction::Ban(stop) => stopped(&at, settings, stop, |it| it.refuse = true)?,
        HubAction::Stop(stop) => stopped(&at, settings, stop, |_| {})?,
        HubAction::Start { what } => drop(api(&at, settings)?.start(&what).map_err(failure)?),
    }
    Ok(Exit::Done)
}

fn stopped(at: &HubAt, settings: &Settings, stop: HubStop, how: impl Fn(&mut Stopped)) -> Result<(), Failure> {
    let mut stopped = Stopped { reason: stop.reason, from: stop.from, until: stop.until, ..Stopped::default() };
    how(&mut stopped);
    api(at, settings)?.stop(&stop.what, &stopped).map(drop).map_err(failure)
}

/// Prints a description, as TOML or as JSON.
fn show(all: &impl serde::Serialize, printer: &Printer) -> Result<(), Failure> {
    if printer.is_json() {
        printer.object(all);
        return Ok(());
    }
    let text = toml::to_string(all).map_err(|error| Failure::local(error.to_string()))?;
    printer.line(text.trim_end());
    Ok(())
}
