//! `longhaul serve`: a node in the foreground.

mod asked;
mod signals;
mod supervisor;
mod web;

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use client::StateDir;
use engine::Timeouts;
use model::id::Uuid;
use model::{DEFAULT_PORT, Exit, v1};
use node::{Node, NodeConfig, NodeError, NodeJobs};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::asked::Asked;
use self::signals::Running;
use self::supervisor::Supervisor;
use crate::args::{Common, Serve};
use crate::failure::Failure;
use crate::printer::{LogLines, Printer};
use crate::reins::{self, Stable};

#[cfg(test)]
pub(super) use self::asked::File;
pub use self::asked::{KEYS, state_named};
pub(super) use self::web::certificate;

/// Addresses to try, in order. All addresses of both families by default; IPv4 alone where there is no IPv6.
fn addresses(listen: Option<&str>) -> Result<Vec<SocketAddr>, Failure> {
    addresses_at(listen, DEFAULT_PORT)
}

/// The same for a service with another port.
pub(super) fn addresses_at(listen: Option<&str>, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let Some(text) = listen else {
        return Ok(vec![([0u16; 8], port).into(), ([0u8; 4], port).into()]);
    };
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Failure::usage(format!(
            "--listen {text} names no host; write HOST:{text}, or [::]:{text} for all"
        )));
    }
    let unbracketed_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let with_port = match text.rsplit_once(':') {
        _ if unbracketed_v6 => format!("[{text}]:{port}"),
        Some((_, said)) if !said.is_empty() && !text.ends_with(']') => text.to_owned(),
        _ => format!("{text}:{port}"),
    };
    let resolved = with_port.to_socket_addrs();
    let list = resolved.map_err(|e| Failure::usage(format!("--listen {text}: {e} (write HOST:PORT or [v6]:PORT)")))?;
    let first = list.take(1).collect::<Vec<_>>();
    if first.is_empty() { Err(Failure::usage(format!("--listen {text}: the name has no address"))) } else { Ok(first) }
}

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

/// The operator's reins.
struct Operator(NodeJobs);

impl Stable for Operator {
    fn list(&self) -> Vec<v1::Transfer> {
        self.0.list(None)
    }

    fn change(&self, id: Uuid, change: &v1::Change) -> Result<(), String> {
        self.0.change(id.as_bytes(), change).map_err(|refusal| refusal.reason)
    }
}

/// Runs the node until a signal ends it.
pub fn run(serve: Serve, common: &Common, printer: &Printer) -> Result<Exit, Failure> {
    let asked = Asked::new(serve, common.clone());
    let wanted = asked.read()?;
    let (listen, addresses) = (wanted.listen.clone(), addresses(wanted.listen.as_deref())?);
    if wanted.exports.is_empty() {
        Printer::note("no --export: this node offers only its memory ends (null:, zero:SIZE)");
    }
    let state = StateDir::open(&wanted.state)?;
    // Before anybody is let in: a file of grants that does not read lets nobody in.
    state.grants()?;
    let exports: Vec<String> = wanted.exports.iter().map(|export| export.name.clone()).collect();
    let config = wanted.config(addresses[0], state.clone());
    log(printer);
    // Before it listens: whoever finds it there may send it signals.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| Failure::local(format!("cannot hear signals: {e}")))?;
    let node = Arc::new(bind(config, &addresses)?);
    let address = node.address().map_err(NodeError::Host)?;
    let _ = state.keep_exports(&exports);
    if let Err(error) = state.keep_address(address) {
        Printer::note(&format!("links that longhaul grant prints will not name this node's port: {error}"));
    }
    let _reins = reins::listen(state.path(), Arc::new(Operator(node.jobs())))
        .map_err(|error| Printer::note(&format!("longhaul job will not find this node's jobs: {error}")))
        .ok();
    let (supervisor, has_terminal) = (Supervisor::of_environment(), std::io::stderr().is_terminal());
    printer.line(&format!("listening on {address}"));
    let _ = std::io::stdout().flush();
    supervisor.ready(&format!("listening on {address}"));
    let running =
        Running { node: Arc::clone(&node), asked, listen: (listen, address), state, supervisor, has_terminal };
    std::thread::spawn(move || running.heed(&mut signals));
    node.run()?;
    node.end_sessions(Timeouts::default().handshake);
    Ok(Exit::Done)
}

/// The access log goes to stderr: text for people, one JSON object per line with --json.
pub(super) fn log(printer: &Printer) {
    let builder = tracing_subscriber::fmt().with_writer(LogLines::writer(printer.is_json()));
    let builder = builder.with_max_level(if printer.is_chatty() || printer.is_json() {
        tracing::Level::INFO
    } else {
        tracing::Level::WARN
    });
    // Where the log cannot be written, because its disk is full, the subscriber would say so on stderr, and panic if that is the log.
    let builder = builder.log_internal_errors(false);
    match (printer.is_json(), supervisor::keeps_time()) {
        (true, _) => builder.json().flatten_event(true).init(),
        (false, true) => builder.with_ansi(false).without_time().init(),
        (false, false) => builder.with_ansi(false).init(),
    }
}
