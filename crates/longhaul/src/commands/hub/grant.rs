//! `longhaul hub grant`: makes, lists and revokes keys with roles in the hub's database. The hub need not run.

use std::time::{SystemTime, UNIX_EPOCH};

use auth::AccessKey;
use hub::keys::{KeyGrant, Keys};
use jiff::Timestamp;
use model::fault::{Exit, Fault};
use model::v1::hub::Role;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::serve::database_url;
use crate::args::{HubGrant, HubGrantAction, RoleWord};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::random::random;
use crate::settings::Settings;

/// One line of `hub grant list --json`.
#[derive(Serialize)]
struct RoleGrantLine<'a> {
    v: u32,
    event: &'static str,
    id: &'a str,
    role: &'a str,
    community: &'a str,
    name: &'a str,
    created: String,
    expires: Option<String>,
}

fn date(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| at.to_string())
}

fn line(grant: &KeyGrant) -> RoleGrantLine<'_> {
    RoleGrantLine {
        v: 1,
        event: "grant",
        id: &grant.id,
        role: grant.role.word(),
        community: &grant.community,
        name: &grant.name,
        created: date(grant.created),
        expires: grant.expires.map(date),
    }
}

/// Runs the command.
///
/// # Errors
/// An option is wrong, the grant does not exist, or the database cannot be used.
pub fn run(args: HubGrant, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let state = settings.state()?;
    let url = database_url(args.db.as_deref(), state.path());
    let keys = Keys::open(&url).map_err(|error| Failure::from_chain(Fault::Local, &error))?;
    let failed = |error| Failure::from_chain(Fault::Local, &error);
    match args.action {
        Some(HubGrantAction::List) => {
            for grant in keys.list().map_err(failed)? {
                if printer.is_json() {
                    printer.object(&line(&grant));
                } else {
                    printer.line(&describe(&grant));
                }
            }
            return Ok(Exit::Done);
        }
        Some(HubGrantAction::Revoke { id }) => {
            if keys.revoke(&id).map_err(failed)? {
                return Ok(Exit::Done);
            }
            let message = format!("there is no grant {id}; `longhaul hub grant list` shows all");
            return Err(Failure { exit: Exit::Failed, fault: Fault::Missing, message });
        }
        None => {}
    }
    let role = match args.role {
        None => return Err(Failure::usage("say what the key allows: --role user|operator|admin")),
        Some(RoleWord::User) => Role::User,
        Some(RoleWord::Operator) => Role::Operator,
        Some(RoleWord::Admin) => Role::Admin,
    };
    let id: [u8; 8] = random()?;
    let secret: [u8; 32] = random()?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let grant = KeyGrant {
        id: model::hex::encode(&id),
        role,
        community: args.community,
        name: args.name,
        created,
        expires: args.valid_for.map(|span| created.saturating_add(span.as_millis() as i64)),
        secret_sha256: model::hex::encode(&Sha256::digest(secret)),
    };
    let key = AccessKey::new(id, secret, state.fingerprint()?);
    keys.add(grant.clone()).map_err(failed)?;
    if printer.is_json() {
        printer.object(&line(&grant));
    } else if printer.is_chatty() {
        // On stderr, so that standard output has the key alone.
        Printer::note(&describe(&grant));
        Printer::note("the key, to be kept secret (in LONGHAUL_KEY, or in a file for --key-file):");
    }
    printer.line(&key.expose_text());
    Ok(Exit::Done)
}

fn describe(grant: &KeyGrant) -> String {
    let communities = if grant.community.is_empty() { "all communities" } else { &grant.community };
    let until = grant.expires.map_or_else(|| "without end".to_owned(), |at| format!("until {}", date(at)));
    let name = if grant.name.is_empty() { String::new() } else { format!(" ({})", grant.name) };
    format!("{}: {} of {communities}{name}, {until}", grant.id, grant.role.word())
}
