//! `longhaul serve`: a node in the foreground.

mod settings_sources;
mod signals;
mod web;

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use client::StateDir;
use engine::Timeouts;
use model::id::Uuid;
use model::{DEFAULT_PORT, Exit, v1};
use node::{EXERCISE_EXPORT, Node, NodeConfig, NodeError, NodeJobs};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::signals::RunningNode;
use crate::args::{Common, Serve};
use crate::failure::Failure;
use crate::job_control::{self, JobSource};
use crate::printer::{LogLines, Printer};
use crate::supervisor::{Supervisor, journal_keeps_time};

#[cfg(test)]
pub(super) use self::settings_sources::SettingsFile;
pub use self::settings_sources::{KEYS, NodeSettings, SettingsSource, state_in_file};
pub(super) use self::web::certificate;

/// The addresses to try, in order. By default these are all addresses of both families, then all of IPv4, for hosts without IPv6.
fn addresses(listen: Option<&str>) -> Result<Vec<SocketAddr>, Failure> {
    addresses_at(listen, DEFAULT_PORT)
}

/// The addresses to try for a service with this default port.
pub(super) fn addresses_at(listen: Option<&str>, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let Some(text) = listen else {
        return Ok(vec![([0u16; 8], port).into(), ([0u8; 4], port).into()]);
    };
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Failure::usage(format!(
            "--listen {text} names no host; write HOST:{text}, or [::]:{text} for all"
        )));
    }
    let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let with_port = match text.rsplit_once(':') {
        _ if is_bare_v6 => format!("[{text}]:{port}"),
        Some((_, port)) if !port.is_empty() && !text.ends_with(']') => text.to_owned(),
        _ => format!("{text}:{port}"),
    };
    let resolved = with_port.to_socket_addrs();
    let list = resolved.map_err(|e| Failure::usage(format!("--listen {text}: {e} (write HOST:PORT or [v6]:PORT)")))?;
    let first = list.take(1).collect::<Vec<_>>();
    if first.is_empty() { Err(Failure::usage(format!("--listen {text}: the name has no address"))) } else { Ok(first) }
}

/// Listens on the first address whose family this host has (errno 97: EAFNOSUPPORT).
fn bind(mut config: NodeConfig, addresses: &[SocketAddr]) -> Result<Node, NodeError> {
    let mut last = None;
    for address in addresses {
        config.listen = *address;
        match Node::bind(config.clone()) {
            Err(NodeError::Listen { source, .. }) if source.raw_os_error() == Some(97) && addresses.len() > 1 => {
                last = Some(NodeError::Listen { address: *address, source });
            }
            other => return other,
        }
    }
    Err(last.unwrap_or_else(|| NodeError::Host(std::io::ErrorKind::AddrNotAvailable.into())))
}

/// The jobs of the node, for `longhaul job`.
struct NodeJobSource(NodeJobs);

impl JobSource for NodeJobSource {
    fn list(&self) -> Vec<v1::Transfer> {
        self.0.list(None)
    }

    fn change(&self, id: Uuid, change: &v1::Change) -> Result<(), String> {
        self.0.change(id.as_bytes(), change).map_err(|refusal| refusal.reason)
    }
}

/// Runs the node until a signal ends it.
///
/// # Errors
/// A setting is wrong, a file cannot be read, or the node cannot listen.
pub fn run(serve: Serve, common: &Common, printer: &Printer) -> Result<Exit, Failure> {
    let source = SettingsSource::new(serve, common.clone());
    source.restrict_ciphers()?;
    let settings = source.read()?;
    let listen = settings.listen.clone();
    let addresses = addresses(listen.as_deref())?;
    let exercise = settings.exercise.clone();
    if settings.exports.is_empty() && exercise.is_none() {
        Printer::note("no --export: this node offers only its memory ends (null:, zero:SIZE)");
    }
    let state = StateDir::open(&settings.state)?;
    // A file of grants that cannot be read is an error at start, not at the first login.
    state.grants()?;
    let mut exports: Vec<String> = settings.exports.iter().map(|export| export.name.clone()).collect();
    exports.extend(exercise.is_some().then(|| EXERCISE_EXPORT.to_owned()));
    let config = settings.config(addresses[0], state.clone());
    init_log(printer);
    // Signals are handled before the node listens: a supervisor may send one as soon as it does.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| Failure::local(format!("cannot handle signals: {e}")))?;
    let node = Arc::new(bind(config, &addresses)?);
    let address = node.address().map_err(NodeError::Host)?;
    let _ = state.store_exports(&exports);
    if let Err(error) = state.store_address(address) {
        Printer::note(&format!("links that longhaul grant prints will not name this node's port: {error}"));
    }
    let _control_socket = job_control::listen(state.path(), Arc::new(NodeJobSource(node.jobs())))
        .map_err(|error| Printer::note(&format!("longhaul job will not find this node's jobs: {error}")))
        .ok();
    let supervisor = Supervisor::of_environment();
    let has_terminal = std::io::stderr().is_terminal();
    printer.line(&format!("listening on {address}"));
    if let Some(further) = node.root_address().map_err(NodeError::Host)? {
        printer.line(&format!("listening on {further} as well, for clients of XRootD"));
    }
    let _ = std::io::stdout().flush();
    supervisor.ready(&format!("listening on {address}"));
    let node_of_signals = Arc::clone(&node);
    let running =
        RunningNode { node: node_of_signals, source, listen, exercise, address, state, supervisor, has_terminal };
    std::thread::spawn(move || running.handle_signals(&mut signals));
    node.run()?;
    node.end_sessions(Timeouts::default().handshake);
    Ok(Exit::Done)
}

/// Sets up the log on stderr: text for people, one JSON object per line with --json.
pub(super) fn init_log(printer: &Printer) {
    let builder = tracing_subscriber::fmt().with_writer(LogLines::writer(printer.is_json()));
    let builder = builder.with_max_level(if printer.is_chatty() || printer.is_json() {
        tracing::Level::INFO
    } else {
        tracing::Level::WARN
    });
    // When a log line cannot be written, as on a full disk, the subscriber would report that on stderr, and panic if stderr is the log.
    let builder = builder.log_internal_errors(false);
    match (printer.is_json(), journal_keeps_time()) {
        (true, _) => builder.json().flatten_event(true).init(),
        (false, true) => builder.with_ansi(false).without_time().init(),
        (false, false) => builder.with_ansi(false).init(),
    }
}
