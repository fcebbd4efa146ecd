//! `longhaul serve`: a node in the foreground.

mod web;

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use auth::{Grants, Rights};
use door::{Export, Node, NodeConfig, NodeError, NodeJobs, Responders, StateDir};
use engine::Timeouts;
use model::id::Uuid;
use model::{DEFAULT_PORT, Exit, v1};
use serde::Deserialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Anonymous, Common, Serve};
use crate::commands::tune;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::reins::{self, Stable};
use crate::settings::state_dir;

/// The settings file: every option of `serve` under its own name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    export: Vec<String>,
    listen: Option<String>,
    anonymous: Option<Anonymous>,
    plain: Option<bool>,
    state: Option<PathBuf>,
    #[serde(default)]
    responders: Vec<String>,
    audit: Option<bool>,
    certificate: Option<PathBuf>,
    #[serde(rename = "certificate-key")]
    certificate_key: Option<PathBuf>,
    #[serde(rename = "client-ca")]
    client_ca: Option<PathBuf>,
    cacert: Option<PathBuf>,
    access: Option<PathBuf>,
    #[serde(default)]
    fireflies: Vec<String>,
}

fn read(path: &PathBuf) -> Result<File, Failure> {
    let fail = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    toml::from_str(&text).map_err(|e| fail(e.to_string()))
}

/// Addresses to try, in order. All addresses of both families by default; IPv4 alone where there is no IPv6.
fn addresses(listen: Option<&str>) -> Result<Vec<SocketAddr>, Failure> {
    let Some(text) = listen else {
        return Ok(vec![([0u16; 8], DEFAULT_PORT).into(), ([0u8; 4], DEFAULT_PORT).into()]);
    };
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Failure::usage(format!(
            "--listen {text} names no host; write HOST:{text}, or [::]:{text} for all"
        )));
    }
    let unbracketed_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let with_port = match text.rsplit_once(':') {
        _ if unbracketed_v6 => format!("[{text}]:{DEFAULT_PORT}"),
        Some((_, port)) if !port.is_empty() && !text.ends_with(']') => text.to_owned(),
        _ => format!("{text}:{DEFAULT_PORT}"),
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
    fn list(&self) -> Vec<v1::Job> {
        self.0.list(None)
    }

    fn change(&self, job: &str, change: &v1::Change) -> Result<(), String> {
        let id = Uuid::parse_str(job).map_err(|e| e.to_string())?;
        self.0.change(id.as_bytes(), change).map_err(|refusal| refusal.reason)
    }
}

/// Runs the node until a signal ends it.
pub fn run(serve: Serve, common: &Common, printer: &Printer) -> Result<Exit, Failure> {
    let file = serve.config.as_ref().map(read).transpose()?.unwrap_or_default();
    let exports = if serve.export.is_empty() { file.export } else { serve.export };
    let exports = exports.iter().map(|text| text.parse::<Export>()).collect::<Result<Vec<_>, _>>()?;
    let rights = |anonymous| match anonymous {
        Anonymous::Ro => Rights::Read,
        Anonymous::Rw => Rights::Write,
    };
    let words = if serve.responders.is_empty() { file.responders } else { serve.responders };
    let responders = Responders::parse(&words).map_err(Failure::usage)?;
    let listen = serve.listen.or(file.listen);
    let state = state_dir(common.state.as_ref().or(file.state.as_ref()))?;
    let addresses = addresses(listen.as_deref())?;
    if exports.is_empty() {
        Printer::note("no --export: this node offers only its memory ends (null:, zero:SIZE)");
    }
    let typed = web::Typed {
        certificate: serve.certificate.or(file.certificate),
        certificate_key: serve.certificate_key.or(file.certificate_key),
        client_ca: serve.client_ca.or(file.client_ca),
        cacert: common.cacert.clone().or(file.cacert),
        access: serve.access.or(file.access),
        fireflies: if serve.fireflies.is_empty() { file.fireflies } else { serve.fireflies },
    };
    let config = NodeConfig {
        listen: addresses[0],
        exports,
        anonymous: serve.anonymous.or(file.anonymous).map(rights),
        grants: Grants::default(),
        plain: serve.plain || file.plain.unwrap_or(false),
        state: StateDir::open(&state)?,
        timeouts: Timeouts::default(),
        web: web::config(&typed)?,
        own_guests: false,
        responders,
        audit: (serve.audit || file.audit.unwrap_or(false)).then_some(tune::told as door::Audit),
    };
    log(printer);
    let kept = config.state.clone();
    let node = bind(config, &addresses)?;
    let address = node.address().map_err(NodeError::Host)?;
    if let Err(error) = kept.keep_address(address) {
        Printer::note(&format!("links that longhaul grant prints will not name this node's port: {error}"));
    }
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|e| Failure::local(format!("cannot hear signals: {e}")))?;
    let stopper = node.stopper();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    let _reins = reins::listen(&state, Arc::new(Operator(node.jobs())))
        .map_err(|error| Printer::note(&format!("longhaul job will not find this node's jobs: {error}")))
        .ok();
    printer.line(&format!("listening on {address}"));
    let _ = std::io::stdout().flush();
    node.run()?;
    node.end_sessions(Timeouts::default().handshake);
    Ok(Exit::Done)
}

/// The access log goes to stderr: text for people, one JSON object per line with --json.
fn log(printer: &Printer) {
    let builder = tracing_subscriber::fmt().with_writer(std::io::stderr);
    let builder = builder.with_max_level(if printer.is_chatty() || printer.is_json() {
        tracing::Level::INFO
    } else {
        tracing::Level::WARN
    });
    if printer.is_json() { builder.json().flatten_event(true).init() } else { builder.with_ansi(false).init() }
}
