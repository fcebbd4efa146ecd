//! `longhaul grant`: keys are made, listed and revoked in the state directory, with no node running.

use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{AccessKey, Grant as Granted, Rights};
use jiff::Timestamp;
use model::{Exit, RelPath};
use serde::Serialize;

use crate::args::{Grant, GrantAction, NewGrant};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{Settings, random};

/// One line of `grant list --json`.
#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    event: &'static str,
    id: &'a str,
    name: &'a str,
    export: &'a str,
    path: &'a str,
    rights: &'a str,
    created: String,
    expires: Option<String>,
    expired: bool,
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

fn date(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string())
}

/// Runs the command.
pub fn run(grant: Grant, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match grant.action {
        None => make(&grant.new, settings, printer),
        Some(GrantAction::List) => list(settings, printer),
        Some(GrantAction::Revoke { id }) => {
            let removed = settings.state()?.change_grants(|grants| {
                let before = grants.list.len();
                grants.list.retain(|g| g.id != id);
                before - grants.list.len()
            })?;
            if removed == 0 {
                let message = format!("there is no grant {id}; `longhaul grant list` shows those that are");
                return Err(Failure { exit: Exit::Failed, fault: model::Fault::Missing, message });
            }
            Ok(Exit::Done)
        }
    }
}

fn make(new: &NewGrant, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let export = new.export.clone().ok_or_else(|| Failure::usage("say which export: --export NAME"))?;
    if export.is_empty() || export.contains(['/', ':']) {
        return Err(Failure::usage(format!("{export:?} cannot be an export's name: no slash, no colon")));
    }
    let prefix = RelPath::parse(new.path.as_bytes()).map_err(|e| Failure::usage(format!("--path: {e}")))?;
    if std::str::from_utf8(prefix.as_bytes()).is_err() {
        return Err(Failure::usage("--path must be text (UTF-8)"));
    }
    let rights = match (new.write, new.create) {
        (true, _) => Rights::Write,
        (_, true) => Rights::Create,
        _ => Rights::Read,
    };
    let state = settings.state()?;
    let (id, secret) = (random()?, random()?);
    let mut granted = Granted::new(id, &secret, export, &prefix, rights, now());
    granted.name.clone_from(&new.name);
    granted.expires = new.lasting.map(|span| granted.created.saturating_add(span.as_secs() as i64));
    let key = AccessKey::new(id, secret, state.fingerprint()?);
    state.change_grants(|grants| grants.list.push(granted.clone()))?;
    if printer.is_json() {
        printer.object(&line(&granted));
    } else if printer.is_chatty() {
        // On stderr, so that the key alone can be sent to a file.
        Printer::note(&describe(&granted));
        Printer::note("the key, to be kept secret (in LONGHAUL_KEY, or in a file for --key-file):");
    }
    printer.line(&key.expose_text());
    Ok(Exit::Done)
}

fn describe(grant: &Granted) -> String {
    let place =
        if grant.prefix.is_empty() { grant.export.clone() } else { format!("{}/{}", grant.export, grant.prefix) };
    let until = grant.expires.map_or_else(|| "for ever".to_owned(), |at| format!("until {}", date(at)));
    let name = if grant.name.is_empty() { String::new() } else { format!("  {}", grant.name) };
    let expired = if grant.expires.is_some_and(|at| at <= now()) { "  EXPIRED" } else { "" };
    format!("{}  {}  {place}  {until}{name}{expired}", grant.id, grant.rights.word())
}

fn line(grant: &Granted) -> Line<'_> {
    Line {
        v: 1,
        event: "grant",
        id: &grant.id,
        name: &grant.name,
        export: &grant.export,
        path: &grant.prefix,
        rights: grant.rights.word(),
        created: date(grant.created),
        expires: grant.expires.map(date),
        expired: grant.expires.is_some_and(|at| at <= now()),
    }
}

fn list(settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    for grant in &settings.state()?.grants()?.list {
        if printer.is_json() {
            printer.object(&line(grant));
        } else {
            printer.line(&describe(grant));
        }
    }
    Ok(Exit::Done)
}
