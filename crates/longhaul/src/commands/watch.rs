//! `longhaul watch`: runs a watch, and shows its measurements and alarms.

mod show;

use std::path::Path;

use hubapi::Api;
use model::Exit;
use model::v1::watch::{Alarm, Annotation, Health, Why};

use self::show::{alarm_lines, grid_lines, history_lines, interface_lines, talker_lines, why_lines};
use crate::args::{HubServe, Watch, WatchAction, WatchServe};
use crate::commands::hub;
use crate::failure::Failure;
use crate::hub_client::{api, failure};
use crate::printer::Printer;
use crate::settings::Settings;

/// Runs the command.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn run(watch: Watch, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let at = watch.at;
    let health = match watch.action {
        WatchAction::Serve(args) => return hub::serve::run(hub_options(args), settings, printer),
        WatchAction::Import { template, out } => return import(&template, out.as_deref(), settings, printer),
        WatchAction::Find { url, key: Some(key), .. } => return find_signed(&url, &key, settings, printer),
        WatchAction::Find { url, key: None, community } => {
            return find(&url, community.as_deref(), settings, printer);
        }
        WatchAction::Grid { test, check } => {
            let grid = api(&at, settings)?.watch_grid(test.map(|test| test.word())).map_err(failure)?;
            print_value(printer, &grid, || grid_lines(&grid));
            let halves = grid.cells.iter().flat_map(|cell| [cell.forward.health, cell.reverse.health]);
            check.check.then(|| halves.reduce(Health::worse).unwrap_or_default())
        }
        WatchAction::History { from, to, test, since, rows } => {
            let api = api(&at, settings)?;
            let found = match to {
                Some(to) => api.watch_history(&from, &to, &test, &since, rows),
                None => api.watch_history(&from, "", "counters", &since, rows),
            };
            let history = found.map_err(failure)?;
            print_value(printer, &history, || history_lines(&history));
            None
        }
        WatchAction::Alarms { since, check } => {
            let alarms = api(&at, settings)?.watch_alarms(since.as_deref()).map_err(failure)?;
            print_value(printer, &alarms, || alarms.alarms.iter().flat_map(alarm_lines).collect());
            check.check.then(|| worst(&alarms.alarms))
        }
        WatchAction::Why { pair, check } => {
            let why = api(&at, settings)?.watch_why(&pair.from, &pair.to).map_err(failure)?;
            print_value(printer, &why, || why_lines(&why));
            check.check.then(|| path_health(&why))
        }
        WatchAction::Check { from, to } => {
            let api = api(&at, settings)?;
            let (health, line) = match from.zip(to) {
                Some((from, to)) => check_line(&api.watch_why(&from, &to).map_err(failure)?),
                None => show::grid_summary(&api.watch_grid(None).map_err(failure)?),
            };
            printer.line(&line);
            Some(health)
        }
        WatchAction::Acknowledge { id, note } => {
            let alarm = api(&at, settings)?.watch_acknowledge(id, &note).map_err(failure)?;
            print_value(printer, &alarm, || alarm_lines(&alarm));
            None
        }
        WatchAction::Note { text, at: when, place } => {
            let annotation = Annotation { at: when, text, place, by: String::new() };
            let noted = api(&at, settings)?.watch_annotate(&annotation).map_err(failure)?;
            print_value(printer, &noted, || vec![format!("{} {}", noted.at, noted.text)]);
            None
        }
        WatchAction::Directory => directory(&api(&at, settings)?, printer).map(|()| None)?,
        WatchAction::Interfaces => interfaces(&api(&at, settings)?, printer).map(|()| None)?,
        WatchAction::Talkers { window, top } => {
            talkers(&api(&at, settings)?, window.word(), top, printer)?;
            None
        }
        WatchAction::Nodes => nodes(&api(&at, settings)?, printer).map(|()| None)?,
    };
    Ok(health.map_or(Exit::Done, exit))
}

fn directory(api: &Api, printer: &Printer) -> Result<(), Failure> {
    let key = api.watch_directory_key().map_err(failure)?;
    print_value(printer, &serde_json::json!({"key": key}), || vec![key.clone()]);
    Ok(())
}

fn interfaces(api: &Api, printer: &Printer) -> Result<(), Failure> {
    let found = api.watch_interfaces().map_err(failure)?;
    print_value(printer, &found, || interface_lines(&found.interfaces));
    Ok(())
}

fn talkers(api: &Api, window: &str, top: u32, printer: &Printer) -> Result<(), Failure> {
    let found = api.watch_talkers(window, top).map_err(failure)?;
    print_value(printer, &found, || talker_lines(&found));
    Ok(())
}

fn nodes(api: &Api, printer: &Printer) -> Result<(), Failure> {
    let nodes = api.watch_nodes().map_err(failure)?;
    if printer.is_json() {
        nodes.iter().for_each(|node| printer.object(node));
    } else {
        show::node_lines(&nodes).iter().for_each(|line| printer.line(line));
    }
    Ok(())
}

/// The options of a hub that runs only the watch.
fn hub_options(args: WatchServe) -> HubServe {
    HubServe {
        listen: args.listen,
        db: args.db,
        plain: args.plain,
        anonymous: args.anonymous,
        certificate: args.certificate,
        certificate_key: args.certificate_key,
        watch: Some(args.config),
        ..HubServe::default()
    }
}

/// The dialer for servers that are neither nodes nor hubs.
fn dialer(settings: &Settings) -> Result<web::Dialer, Failure> {
    let tls = auth::client_certificate::http_client_config(settings.authorities(), None);
    Ok(watch::notify::dialer(tls.map_err(|error| Failure::local(format!("cannot set up TLS: {error}")))?))
}

/// Finds registered services, and prints them as tables of targets.
fn find(url: &str, community: Option<&str>, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let found = watch::lookup::find(url, community, &dialer(settings)?).map_err(Failure::local)?;
    print_targets(&found, printer)
}

/// Finds the nodes of another domain in the directory that it has signed.
fn find_signed(url: &str, key: &str, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let bytes = watch::fetch::bytes(url, &dialer(settings)?).map_err(Failure::local)?;
    let directory = watch::directory::verify(&String::from_utf8_lossy(&bytes), key);
    let directory = directory.map_err(|error| Failure::usage(format!("{url}: {error}")))?;
    print_targets(&watch::directory::found(&directory), printer)
}

/// Prints services as tables of targets.
fn print_targets(found: &[watch::lookup::FoundService], printer: &Printer) -> Result<Exit, Failure> {
    if found.is_empty() {
        Printer::stderr_line("no registered service can be tested");
    } else {
        printer.line(watch::lookup::targets(found).trim_end());
    }
    Ok(Exit::Done)
}

/// Converts a pSConfig template to a configuration. The template and what it includes may be files or URLs.
fn import(template: &str, out: Option<&Path>, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let dialer = dialer(settings)?;
    let mut fetch = |from: &str| {
        let bytes = watch::fetch::bytes(from, &dialer)?;
        String::from_utf8(bytes).map_err(|_| format!("{from} is not text (UTF-8)"))
    };
    let text = fetch(template).map_err(Failure::usage)?;
    let imported = watch::psconfig::import_with(&text, &mut fetch);
    let imported = imported.map_err(|error| Failure::usage(format!("{template}: {error}")))?;
    imported.remarks.iter().for_each(|remark| Printer::stderr_line(remark));
    match out {
        Some(file) => std::fs::write(file, &imported.toml)
            .map_err(|error| Failure::local(format!("{}: {error}", file.display())))?,
        None => printer.line(imported.toml.trim_end()),
    }
    Ok(Exit::Done)
}

/// Prints a value as JSON, or as the lines of `lines`.
fn print_value<T: serde::Serialize>(printer: &Printer, value: &T, lines: impl FnOnce() -> Vec<String>) {
    if printer.is_json() {
        printer.object(value);
    } else {
        lines().iter().for_each(|line| printer.line(line));
    }
}

/// The severity of the worst alarm that lasts.
fn worst(alarms: &[Alarm]) -> Health {
    let lasting = alarms.iter().filter(|alarm| alarm.ended.is_none());
    lasting.map(|alarm| alarm.severity).fold(Health::Ok, Health::worse)
}

/// The health of the worse direction.
fn path_health(why: &Why) -> Health {
    why.forward.health.worse(why.reverse.health)
}

/// The health of a path, and the line of a Nagios plug-in.
fn check_line(why: &Why) -> (Health, String) {
    let health = path_health(why);
    let first = why.alarms.iter().max_by_key(|alarm| alarm.severity).map(|alarm| format!(": {}", alarm.evidence));
    let number = |name: &str, value: Option<f64>| value.map_or(String::new(), |value| format!(" {name}={value}"));
    let line = format!(
        "{} - {} to {}{} |{}{}{}{}",
        health.word().to_uppercase(),
        why.from,
        why.to,
        first.unwrap_or_default(),
        number("loss_forward", why.forward.loss_6h),
        number("loss_reverse", why.reverse.loss_6h),
        number("throughput_forward_bit_s", why.forward.throughput_bit_s),
        number("throughput_reverse_bit_s", why.reverse.throughput_bit_s),
    );
    (health, line)
}

fn exit(health: Health) -> Exit {
    match health {
        Health::Ok => Exit::Done,
        // The exit codes of Nagios plug-ins: 0, 1, 2, 3.
        Health::Warning => Exit::Failed,
        Health::Critical => Exit::Usage,
        Health::Unknown => Exit::Partial,
    }
}
