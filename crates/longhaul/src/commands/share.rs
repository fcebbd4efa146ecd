//! `longhaul share`: links to files and folders for people without an account.

use std::path::Path;

use model::Exit;
use model::v1::hub::{ShareKind, ShareLink, ShareLinkOrder};

use crate::args::{Share, ShareAction};
use crate::failure::Failure;
use crate::hub_client::{api, failure, origin};
use crate::printer::Printer;
use crate::settings::Settings;

/// Runs the command.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn run(share: &Share, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let hub = api(&share.at, settings)?;
    let links = match &share.action {
        ShareAction::List => hub.share_links().map_err(failure)?.links,
        ShareAction::End { id } => vec![hub.end_share_link(id).map_err(failure)?],
        ShareAction::Add { url, drop, valid_for, password_file } => {
            let order = ShareLinkOrder {
                at: url.clone(),
                kind: if *drop { ShareKind::Drop } else { ShareKind::Read },
                lasts_s: valid_for.map(|span| span.as_secs()),
                password: password_file.as_deref().map(password).transpose()?,
            };
            let link = hub.share(&order).map_err(failure)?;
            if let (false, Some(page)) = (printer.is_json(), &link.page) {
                // The address can be shown only once.
                printer.line(&line(&link));
                printer.line(&format!("{}{page}", origin(&share.at)?));
                return Ok(Exit::Done);
            }
            vec![link]
        }
    };
    for link in &links {
        if printer.is_json() {
            printer.object(link);
        } else {
            printer.line(&line(link));
        }
    }
    Ok(Exit::Done)
}

fn password(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn line(link: &ShareLink) -> String {
    let what = if link.kind == ShareKind::Drop { "to put files" } else { "to read" };
    let password = if link.has_password { ", with a password" } else { "" };
    format!(
        "{}  {}  {what}{password}, until {}, opened {} times, by {}",
        link.id, link.at, link.expires, link.opened, link.owner
    )
}
