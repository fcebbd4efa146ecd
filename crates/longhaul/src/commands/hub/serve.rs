//! `longhaul hub serve`: a hub in the foreground.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use auth::Policy;
use authn::Issuers;
use hub::run::{HubConfig, HubError, stop_channel};
use hub::tls::Certificate;
use model::fault::{Exit, Fault};
use model::v1::hub::{Collaboration, Role};
use serde::Deserialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::sign_in::SignInTable;
use super::{messages, sign_in, watch_part};
use crate::args::{Anonymous, HubServe};
use crate::client_authorities::client_authorities;
use crate::commands::serve;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::supervisor::Supervisor;
use crate::toml_file;

/// The default port of a hub, which is that of FTS.
const HUB_PORT: u16 = 8446;

/// The keys of the `--config` file that are options. All other keys describe the collaboration.
const OPTION_KEYS: [&str; 13] = [
    "listen",
    "fts-listen",
    "db",
    "plain",
    "anonymous",
    "certificate",
    "certificate-key",
    "client-ca",
    "vomsdir",
    "messages",
    "watch",
    "access",
    "sign-in",
];

/// The options in the file of `--config`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct FileOptions {
    listen: Option<String>,
    fts_listen: Option<String>,
    db: Option<String>,
    plain: bool,
    anonymous: Option<Anonymous>,
    certificate: Option<PathBuf>,
    certificate_key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    vomsdir: Option<PathBuf>,
    messages: Option<PathBuf>,
    watch: Option<PathBuf>,
    access: Option<PathBuf>,
    sign_in: Vec<SignInTable>,
}

/// The URL of the database: as given, or a file in the state directory.
pub(super) fn database_url(option: Option<&str>, state: &Path) -> String {
    option.map_or_else(|| format!("sqlite:{}", state.join("hub.db").display()), str::to_owned)
}

/// Reads a settings file: the options, and the collaboration if the file describes one.
fn read_file(file: &Path) -> Result<(FileOptions, Option<Collaboration>), Failure> {
    split(toml_file::read(file)?)
        .map_err(|error| Failure::usage(format!("{}: {}", file.display(), error.message().replace('\n', " "))))
}

/// Splits a settings file into the options and the collaboration.
fn split(mut all: toml::Table) -> Result<(FileOptions, Option<Collaboration>), toml::de::Error> {
    let options: toml::Table =
        OPTION_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), all.remove(*key)?))).collect();
    let collaboration = if all.is_empty() { None } else { Some(all.try_into()?) };
    Ok((options.try_into()?, collaboration))
}

/// Checks that a text is a hub's settings file.
///
/// # Errors
/// The text is not such a file.
#[cfg(test)]
pub fn settings(text: &str) -> Result<(), toml::de::Error> {
    split(toml::from_str(text)?).map(drop)
}

/// The options of the command line, and those of the file where the command line has none.
fn options(args: &HubServe, file: FileOptions) -> FileOptions {
    FileOptions {
        listen: args.listen.clone().or(file.listen),
        fts_listen: args.fts_listen.clone().or(file.fts_listen),
        db: args.db.clone().or(file.db),
        plain: args.plain || file.plain,
        anonymous: args.anonymous.or(file.anonymous),
        certificate: args.certificate.clone().or(file.certificate),
        certificate_key: args.certificate_key.clone().or(file.certificate_key),
        client_ca: args.client_ca.clone().or(file.client_ca),
        vomsdir: args.vomsdir.clone().or(file.vomsdir),
        messages: args.messages.clone().or(file.messages),
        watch: args.watch.clone().or(file.watch),
        access: args.access.clone().or(file.access),
        sign_in: file.sign_in,
    }
}

/// Runs the hub until a signal ends it.
///
/// # Errors
/// A setting is wrong, a file cannot be read, or the hub cannot start or fails.
pub fn run(args: HubServe, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let (file, collaboration) = args.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
    let options = options(&args, file);
    let state = settings.state()?;
    let identity = state.identity()?;
    let identity = Certificate { chain: identity.chain, key: identity.key };
    let policy_file = options.access.clone().unwrap_or_else(|| state.path().join("access.toml"));
    let config = HubConfig {
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        listen: serve::addresses_at(options.listen.as_deref(), HUB_PORT)?[0],
        fts_listen: fts_address(options.fts_listen.as_deref())?,
        database: database_url(options.db.as_deref(), state.path()),
        identity,
        certificate: serve::certificate(options.certificate.as_ref(), options.certificate_key.as_ref())?
            .map(|site| Certificate { chain: site.chain, key: site.key }),
        client_authorities: client_authorities(options.client_ca.as_deref(), options.vomsdir.as_deref())?,
        authorities: settings.authorities(),
        plain: options.plain,
        anonymous: anonymous_role(options.anonymous)?,
        policy: policy(&policy_file, options.access.is_some())?,
        sign_ins: options.sign_in.iter().map(sign_in::read).collect::<Result<_, _>>()?,
        issuers: Issuers::new(state.path(), Some(&settings.authorities())),
        messages: options.messages.as_deref().map(messages::read).transpose()?,
        collaboration,
        parts: Vec::new(),
        measurements: None,
    };
    let runtime =
        hub::run::runtime().map_err(|error| Failure::local(format!("cannot start the threads of a hub: {error}")))?;
    serve::init_log(printer);
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| Failure::local(format!("cannot handle signals: {e}")))?;
    let (stop_channel, stopped) = stop_channel();
    let opened_watch =
        options.watch.as_deref().map(|file| watch_part::open(&runtime, file, state.path(), settings)).transpose()?;
    let config = opened_watch.iter().fold(config, watch_part::with_watch);
    let watch = opened_watch.map(|opened_watch| watch_part::start(&runtime, opened_watch, stopped.receiver()));
    let ready = |hub: hub::run::Running| {
        printer.line(&format!("listening on https://{}", hub.address));
        if let Some(address) = hub.fts_address {
            printer.line(&format!("FTS3's API on https://{address}"));
        }
        let _ = std::io::stdout().flush();
        let supervisor = Supervisor::of_environment();
        supervisor.ready(&format!("listening on https://{}", hub.address));
        let config = args.config.clone();
        let watch = watch.zip(options.watch.clone());
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if signal != SIGHUP {
                    supervisor.stopping();
                    return stop_channel.stop();
                }
                if let Some((watch, file)) = &watch {
                    watch_part::reload(watch, file);
                }
                match &config {
                    Some(file) => reload(file, &hub),
                    None if watch.is_some() => {}
                    None => tracing::info!("there is no settings file (--config): there is nothing to read again"),
                }
            }
        });
    };
    hub::run::run_on(&runtime, config, stopped, ready).map_err(failed)?;
    // The hub does not wait for requests to nodes that do not answer.
    runtime.shutdown_timeout(hub::limits::SHUTDOWN_MAX);
    Ok(Exit::Done)
}

/// The role of an anonymous client.
fn anonymous_role(anonymous: Option<Anonymous>) -> Result<Option<Role>, Failure> {
    match anonymous {
        None => Ok(None),
        Some(Anonymous::Rw) => Ok(Some(Role::User)),
        Some(Anonymous::Ro) => Err(Failure::usage(
            "a hub takes --anonymous rw alone (anonymous clients may submit): it has no read-only access",
        )),
    }
}

/// The address of FTS's API, where it has a port of its own.
fn fts_address(option: Option<&str>) -> Result<Option<SocketAddr>, Failure> {
    Ok(match option {
        Some(text) => serve::addresses_at(Some(text), HUB_PORT)?.into_iter().next(),
        None => None,
    })
}

/// Reads the settings file again, and replaces the collaboration.
fn reload(file: &Path, hub: &hub::run::Running) {
    let read = read_file(file).map_err(|failure| failure.message);
    let result = read.and_then(|(_, collaboration)| match collaboration {
        Some(collaboration) => hub.describe(collaboration).map_err(|refusal| refusal.reason),
        None => Ok(()),
    });
    match result {
        Ok(()) => tracing::info!(file = %file.display(), "the collaboration was read again"),
        Err(error) => tracing::error!(error, "the new settings are refused; the former ones stay in force"),
    }
}

/// The policy in a file; the default where the file is missing and no option names it.
fn policy(file: &Path, is_named: bool) -> Result<Policy, Failure> {
    let fail = |why: String| Failure::usage(format!("cannot use {}: {why}", file.display()));
    match std::fs::read_to_string(file) {
        Ok(text) => Policy::parse(&text).map_err(|error| fail(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => Ok(Policy::default()),
        Err(error) => Err(fail(error.to_string())),
    }
}

fn failed(error: HubError) -> Failure {
    let fault = match &error {
        HubError::InvalidDescription(_) | HubError::Tls(_) => Fault::Config,
        _ => Fault::Local,
    };
    Failure::from_chain(fault, &error)
}
