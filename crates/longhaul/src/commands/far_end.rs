//! The far end of a copy over ssh: a node for the paths of this copy alone, which ends with ssh.

use std::io::{BufRead, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use auth::Rights;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use engine::Timeouts;
use model::{Exit, Locator, RelPath};
use node::{Export, Node, NodeConfig};

use crate::failure::Failure;
use crate::local;
use crate::loopback_node;
use crate::settings::Settings;
use crate::ssh::{CONNECT_BACK_MAGIC, ConnectBack, EXPORT, Hello, Ready, Role};

/// The addresses of the ssh client and of this host, as ssh sees them (ssh(1), SSH_CONNECTION).
fn connection() -> (Option<std::net::IpAddr>, String) {
    let text = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let mut words = text.split(' ');
    let from = words.next().and_then(|ip| ip.split('%').next()).and_then(|ip| ip.parse().ok());
    (from, words.nth(1).unwrap_or_default().to_owned())
}

fn reply(ready: &Ready) -> Result<(), Failure> {
    let text = serde_json::to_string(ready).map_err(|e| Failure::local(e.to_string()))? + "\n";
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| Failure::local(e.to_string()))
}

/// Decodes a path that the user typed after the colon. It is relative to the home directory, where ssh starts.
fn decode_path(encoded: &str) -> Result<PathBuf, Failure> {
    let bytes = STANDARD.decode(encoded).map_err(|e| Failure::usage(e.to_string()))?;
    let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    Ok(match bytes.as_slice() {
        b"" | b"~" => PathBuf::from("."),
        [b'~', b'/', rest @ ..] => home().join(std::ffi::OsStr::from_bytes(rest)),
        _ => PathBuf::from(std::ffi::OsString::from_vec(bytes)),
    })
}

/// The directory to export, and the paths below it.
fn export_of(hello: &Hello) -> Result<(PathBuf, Vec<RelPath>), Failure> {
    let paths = hello.paths.iter().map(|path| decode_path(path)).collect::<Result<Vec<_>, _>>()?;
    match hello.role {
        Role::Target => {
            let path = paths.into_iter().next().ok_or_else(|| Failure::usage("no path"))?;
            let target = local::target(&Locator::Local(path))?;
            let root = target.root.ok_or_else(|| Failure::usage("not a path"))?;
            Ok((root, vec![target.path]))
        }
        Role::Source => {
            let below = |path: &PathBuf| -> Result<RelPath, Failure> {
                let (dir, name) = local::split_source(path)?;
                let whole = dir.join(Path::new(std::ffi::OsStr::from_bytes(name.as_bytes())));
                let bytes = whole.as_os_str().as_bytes();
                RelPath::parse(bytes.strip_prefix(b"/").unwrap_or(bytes)).map_err(|e| Failure::usage(e.to_string()))
            };
            Ok((PathBuf::from("/"), paths.iter().map(below).collect::<Result<_, _>>()?))
        }
    }
}

/// Runs until standard input ends.
///
/// # Errors
/// The first line is not a request, or the answer cannot be written.
pub fn run(settings: &Settings) -> Result<Exit, Failure> {
    let mut requests = std::io::stdin().lock().lines();
    let first = requests.next().and_then(Result::ok).unwrap_or_default();
    let hello: Hello = serde_json::from_str(&first).map_err(|e| Failure::usage(format!("not a request: {e}")))?;
    let node = match serve(settings, &hello) {
        Ok(node) => node,
        Err(failure) => {
            let error = Some(failure.message.clone());
            let exit = failure.exit as u8;
            reply(&Ready { v: 1, error, exit, ..Ready::default() })?;
            return Ok(failure.exit);
        }
    };
    let (from, _) = connection();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| node.run());
        scope.spawn(|| exit_when_abandoned(&node, &has_ended));
        for line in requests.map_while(Result::ok) {
            if let (Ok(request), Some(ip)) = (serde_json::from_str::<ConnectBack>(&line), from) {
                connect_back(&node, SocketAddr::new(ip, request.port), &request.token);
            }
        }
        has_ended.store(true, Ordering::Release);
        node.stopper().stop();
        node.end_sessions(Timeouts::default().handshake);
    });
    Ok(Exit::Done)
}

/// Ends this process after 20 minutes without a connection. ssh may never notice that the other host has lost its power, and the port
/// with its key to these paths must not stay open.
#[allow(clippy::disallowed_methods, reason = "the main thread waits for a line from ssh that may never come")]
fn exit_when_abandoned(node: &Node, has_ended: &AtomicBool) {
    const IDLE_MAX: Duration = Duration::from_secs(20 * 60);
    const CHECK_EVERY: Duration = Duration::from_millis(100);
    let mut last_connected = Instant::now();
    while !has_ended.load(Ordering::Acquire) {
        if node.connections() > 0 {
            last_connected = Instant::now();
        }
        if last_connected.elapsed() > IDLE_MAX {
            std::process::exit(Exit::Unreachable as i32);
        }
        std::thread::sleep(CHECK_EVERY);
    }
}

fn serve(settings: &Settings, hello: &Hello) -> Result<Node, Failure> {
    let (dir, paths) = export_of(hello)?;
    let (rights, writable) = match hello.role {
        Role::Source => (Rights::Read, false),
        Role::Target => (Rights::Write, true),
    };
    let export = Export::here(EXPORT, dir, writable);
    let (config, key) = loopback_node::prepare(settings, ([0u16; 8], 0).into(), EXPORT, Some(export), rights)?;
    let node =
        Node::bind(config.clone()).or_else(|_| Node::bind(NodeConfig { listen: ([0u8; 4], 0).into(), ..config }))?;
    let ready = Ready {
        v: 1,
        port: node.address().map_err(node::NodeError::Host)?.port(),
        key: key.expose_text(),
        places: paths.iter().map(|path| STANDARD.encode(path.as_bytes())).collect(),
        address: connection().1,
        ..Ready::default()
    };
    reply(&ready)?;
    Ok(node)
}

/// Connects to the client, sends the token, and serves the connection as if the client had opened it.
fn connect_back(node: &Node, to: SocketAddr, token: &str) {
    let digits = token.as_bytes().chunks(2).map_while(|pair| std::str::from_utf8(pair).ok());
    let token: Vec<u8> = digits.map_while(|pair| u8::from_str_radix(pair, 16).ok()).collect();
    let connected = TcpStream::connect_timeout(&to, Duration::from_secs(10)).and_then(|socket| {
        (&socket).write_all(&[&CONNECT_BACK_MAGIC[..], &token].concat())?;
        Ok(socket)
    });
    // After a failure the client gets no connection, and stops waiting after its timeout.
    if let Ok(socket) = connected {
        node.adopt(socket, to);
    }
}
