//! `longhaul data`: names, replicas and rules of a collaboration.

mod audits;
mod exchange;
mod get;
mod item;
mod put;
mod rucio_dump;
mod rules;
mod source;
pub(in crate::commands) mod subscriptions;
mod verify;
mod webhooks;

use std::collections::BTreeMap;
use std::time::Duration;

use hubapi::{Api, DataQuery};
use model::Exit;
use model::units::Bytes;
use model::v1::hub::{
    Data, DataAccessed, DataAt, DataChange, DataEvent, DataKind, DataRemoval, FileReplicas, Metadata, Scope,
    ScopeOrder, StorageUse,
};
use serde::Serialize;

use crate::args::{Data as Args, DataAction, DataFind, DataKindWord};
use crate::failure::Failure;
use crate::hub_client::{api, failure};
use crate::printer::Printer;
use crate::settings::Settings;

/// Names, files or events per request.
const PAGE: usize = 1_000;

/// Runs the command.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn run(data: &Args, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let api = api(&data.at, settings)?;
    match &data.action {
        DataAction::Put(put) => return put::run(put, &api, settings, printer),
        DataAction::Get(get) => return get::run(get, &api, settings, printer),
        DataAction::Ls { what: None } => {
            let scopes = api.scopes().map_err(failure)?.scopes;
            scopes.iter().for_each(|scope| print_value(printer, scope, scope_line));
        }
        DataAction::Ls { what: Some(what) } => list(what, &api, printer)?,
        DataAction::Find(find) => self::find(find, &api, printer)?,
        DataAction::Rm { name, dry_run: true, .. } => {
            print_value(printer, &api.removal(name).map_err(failure)?, removal_line);
        }
        DataAction::Rm { name, undo: true, .. } => {
            let change = DataChange { expires: Some(String::new()), ..DataChange::default() };
            print_value(printer, &api.change_data(name, &change).map_err(failure)?, data_line);
        }
        DataAction::Rm { name, now, .. } => {
            print_value(printer, &api.remove_data(name, *now).map_err(failure)?, data_line)
        }
        DataAction::Verify { name, declare } => return verify::run(name, *declare, &api, settings, printer),
        DataAction::Where { name, files: false } => {
            let found = api.locations(name).map_err(failure)?;
            if printer.is_json() {
                printer.object(&found);
            } else {
                printer.line(&format!("{}  {} files, {}", found.name, found.files, Bytes(found.bytes)));
                found.endpoints.iter().for_each(|at| printer.line(&endpoint_line(at, found.files)));
            }
        }
        DataAction::Where { name, files: true } => {
            each_file(&api, name, |file| {
                print_value(printer, &file, file_line);
                Ok(())
            })?;
        }
        DataAction::History { name, follow: false } => history(name, &api, printer)?,
        DataAction::History { name, follow: true } => follow(name, &api, printer)?,
        DataAction::Rule(rule) => return rules::run(&rule.action, &api, printer),
        DataAction::Popular { scope, days } => {
            let found = api.popular(scope, *days).map_err(failure)?.accesses;
            found.iter().for_each(|one| print_value(printer, one, accessed_line));
        }
        DataAction::Audit(audit) => return audits::run(&audit.action, &api, printer),
        DataAction::Webhook(webhook) => webhooks::run(&webhook.action, &api, printer)?,
        DataAction::Export { scope, out } => return exchange::export(scope, out.as_deref(), &api),
        DataAction::Import(import) => return exchange::import(import, &api, printer),
        DataAction::Subscription(subscription) => return subscriptions::run(&subscription.action, &api, printer),
        DataAction::Storage { at } => {
            let found = api.storage(at.as_deref()).map_err(failure)?.storage;
            found.iter().for_each(|one| print_value(printer, one, storage_line));
        }
        DataAction::Scope { scope, account } => {
            let order = ScopeOrder { account: account.clone() };
            print_value(printer, &api.make_scope(scope, &order).map_err(failure)?, scope_line);
        }
    }
    Ok(Exit::Done)
}

/// Prints a value as JSON, or as the text that `line` makes of it.
fn print_value<T: Serialize>(printer: &Printer, value: &T, line: fn(&T) -> String) {
    if printer.is_json() {
        printer.object(value);
    } else {
        printer.line(&line(value));
    }
}

/// Lists what a name contains, or the names of a scope.
fn list(what: &str, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let (scope, like) = what.split_once(':').unwrap_or((what, ""));
    if like.is_empty() || like.contains('*') {
        let query = DataQuery { scope: scope.to_owned(), like: like.to_owned(), ..DataQuery::default() };
        return list_scope(&query, api, printer);
    }
    let data = api.data(what).map_err(failure)?;
    if data.kind == DataKind::File {
        print_value(printer, &data, data_line);
        return Ok(());
    }
    let mut after: Option<String> = None;
    loop {
        let page = api.contents(what, after.as_deref(), PAGE).map_err(failure)?;
        page.data.iter().for_each(|data| print_value(printer, data, data_line));
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

fn list_scope(query: &DataQuery, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let mut after: Option<String> = None;
    loop {
        let page = api.list_data(query, after.as_deref(), PAGE).map_err(failure)?;
        page.data.iter().for_each(|data| print_value(printer, data, data_line));
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

fn find(find: &DataFind, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let kind = find.kind.map(|kind| match kind {
        DataKindWord::File => "file",
        DataKindWord::Dataset => "dataset",
        DataKindWord::Container => "container",
    });
    let metadata = metadata(&find.meta)?.into_iter().map(|(word, value)| (word, value.to_string())).collect();
    let query = DataQuery {
        scope: find.scope.clone(),
        like: find.like.clone(),
        kind: kind.unwrap_or_default().to_owned(),
        metadata,
        replicas: false,
    };
    list_scope(&query, api, printer)
}

/// Parses `WORD=VALUE` of the command line. A value that is not JSON is taken as a text.
fn metadata(words: &[String]) -> Result<Metadata, Failure> {
    let mut metadata = BTreeMap::new();
    for text in words {
        let wrong = || Failure::usage(format!("{text:?} is not WORD=VALUE, like telescope=low"));
        let (word, value) = text.split_once('=').ok_or_else(wrong)?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::String(value.to_owned()));
        metadata.insert(word.trim().to_owned(), value);
    }
    Ok(metadata)
}

/// Passes all files of a name to `act`, page by page.
fn each_file(api: &Api, name: &str, mut act: impl FnMut(FileReplicas) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let page = api.data_files(name, after, PAGE).map_err(failure)?;
        for file in page.files {
            act(file)?;
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

fn history(name: &str, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let page = api.history(name, after, PAGE).map_err(failure)?;
        page.events.iter().for_each(|event| print_value(printer, event, event_line));
        match page.next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

/// Prints events until a signal ends the command. When a hub restarts, the stream breaks and is opened again after the last event.
fn follow(name: &str, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let mut last: Option<String> = None;
    loop {
        let mut events = api.data_events(name, last.as_deref()).map_err(failure)?;
        while let Ok(Some((number, event))) = events.next_event() {
            last = Some(number);
            print_value(printer, &event, event_line);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn kind_word(kind: DataKind) -> &'static str {
    match kind {
        DataKind::File => "file",
        DataKind::Dataset => "dataset",
        DataKind::Container => "container",
    }
}

fn accessed_line(accessed: &DataAccessed) -> String {
    format!("{:6} times  {} files, {}  {}", accessed.count, accessed.files, Bytes(accessed.bytes), accessed.name)
}

fn scope_line(scope: &Scope) -> String {
    format!("{:30}  of {}", scope.scope, scope.account)
}

fn data_line(data: &Data) -> String {
    let entries = data.entries.map(|entries| format!(", {entries} entries")).unwrap_or_default();
    let closed = if data.open == Some(false) { ", closed" } else { "" };
    let ends = data.expires.as_ref().map(|at| format!(", is removed at {at}")).unwrap_or_default();
    format!("{:9}  {}  {}{entries}{closed}{ends}", kind_word(data.kind), data.name, Bytes(data.bytes))
}

fn removal_line(removal: &DataRemoval) -> String {
    let kept = if removal.kept_files > 0 {
        format!("; {} stay, because another dataset contains them", removal.kept_files)
    } else {
        String::new()
    };
    let rules = if removal.accounts.is_empty() {
        String::new()
    } else {
        format!("; rules of {} end", removal.accounts.join(", "))
    };
    format!(
        "{}: {} files go, {}, with {} copies{kept}{rules}",
        removal.name,
        removal.files,
        Bytes(removal.bytes),
        removal.copies
    )
}

fn endpoint_line(at: &DataAt, files: u64) -> String {
    let whole = if at.complete { "whole" } else { "in part" };
    let coming = match at.coming_files {
        0 => String::new(),
        coming => format!("; {coming} files ({}) are on their way", Bytes(at.coming_bytes)),
    };
    format!("  {:20}  {whole}: {} of {files} files, {}{coming}", at.endpoint, at.files, Bytes(at.bytes))
}

fn file_line(file: &FileReplicas) -> String {
    let copy = |copy: &model::v1::hub::Replica| {
        let error = copy.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("\n    {:20}  {:9}  {}{error}", copy.endpoint, copy.state, copy.url)
    };
    let copies: String = file.replicas.iter().map(copy).collect();
    format!("{}  {}{copies}", file.name, Bytes(file.bytes))
}

fn event_line(event: &DataEvent) -> String {
    let facts = match &event.facts {
        serde_json::Value::Object(facts) if facts.is_empty() => String::new(),
        facts => format!("  {facts}"),
    };
    format!("{}  {:12}  by {}{facts}", event.at, event.kind, event.account)
}

fn storage_line(storage: &StorageUse) -> String {
    let room = storage.capacity_bytes.map(|bytes| format!(" of {}", Bytes(bytes))).unwrap_or_default();
    let left = storage.quota_left_bytes.map(|bytes| format!(", {} left for you", Bytes(bytes))).unwrap_or_default();
    let words: Vec<String> = storage.attributes.iter().map(|(word, value)| format!("{word}={value}")).collect();
    format!(
        "{:20}  {} files, {}{room}{left}  {}  {}",
        storage.endpoint,
        storage.files,
        Bytes(storage.bytes),
        words.join(" "),
        storage.url
    )
}
