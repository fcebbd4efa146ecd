//! The far end of a copy over ssh: a node that ssh starts at the other host for this one copy. The connection to it is opened by
//! whichever end can reach the other. The far end ends with the copy.
//!
//! ssh carries a few lines of JSON and nothing else: the paths, the port on which the far end listens, and an access key to these
//! paths, which is valid as long as the far end runs. The data goes over connections of its own: to that port, or, where a
//! firewall blocks it, from the far end back to this host. A connection back sends a token that went over ssh, so that no
//! other host can take its place.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::AccessKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use engine::Timeouts;
use engine::dial::{self, Dial};
use model::fault::{Exit, Fault};
use model::locator::NodePlace;
use model::{HostPort, RelPath};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::printer::Printer;
use crate::random::random;

/// Which end of the copy the far end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The paths are read.
    Source,
    /// The one path is written.
    Target,
}

/// The first line to the far end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Always 1.
    pub v: u32,
    /// Which end of the copy the far end is.
    pub role: Role,
    /// The paths, base64.
    pub paths: Vec<String>,
}

/// The answer of the far end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ready {
    /// Always 1.
    pub v: u32,
    /// Where it listens.
    #[serde(default)]
    pub port: u16,
    /// The access key for it.
    #[serde(default)]
    pub key: String,
    /// The paths below its one export, base64.
    #[serde(default)]
    pub places: Vec<String>,
    /// The address of the far end's host to which ssh connected.
    #[serde(default)]
    pub address: String,
    /// Why the far end did not start.
    #[serde(default)]
    pub error: Option<String>,
    /// The exit code of that error.
    #[serde(default)]
    pub exit: u8,
}

/// Asks the far end to connect back.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConnectBack {
    /// The port to connect to, at the address that ssh came from.
    pub port: u16,
    /// The token to send first, hexadecimal.
    pub token: String,
}

/// The name of the far end's one export.
pub const EXPORT: &str = "far";
/// What a connection back starts with, before the token.
pub const CONNECT_BACK_MAGIC: [u8; 4] = *b"LHB1";
/// Length of the token, bytes.
pub const TOKEN_BYTES: usize = 16;

/// How long a connection back may take to show its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to try the far end's port before it is asked to connect back. A firewall that drops packets gives no answer.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(3);

/// The far end of a copy: a node that ssh started. It ends when this is dropped.
pub struct FarEnd {
    /// The address where it listens, as this host knows it.
    pub at: HostPort,
    /// The access key for it.
    pub key: AccessKey,
    /// The paths, below its export.
    pub places: Vec<NodePlace>,
    dial: Arc<FarDial>,
    child: Mutex<Child>,
}

/// Makes connections to the far end.
struct FarDial {
    candidates: Vec<HostPort>,
    direction: Mutex<Option<DialDirection>>,
    back: Mutex<BackChannel>,
}

/// Which end opens the connections.
#[derive(Clone, Copy)]
enum DialDirection {
    Forward(SocketAddr),
    Back,
}

/// Connections from the far end to this host, for where the far end's port cannot be reached.
struct BackChannel {
    requests: Option<ChildStdin>,
    listener: Option<TcpListener>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The host's name as ssh resolves it: only ssh knows the aliases of its configuration.
fn host_name(words: &[&str], login: &str) -> String {
    let typed = login.rsplit_once('@').map_or(login, |(_, host)| host).to_owned();
    let output = Command::new(words[0]).args(&words[1..]).args(["-G", login]).stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("hostname ")).map_or(typed, str::to_owned)
}

/// Starts the far end. `command` is ssh with its options.
///
/// # Errors
/// The command cannot be run, ssh cannot log in, or the far end cannot offer the paths.
pub fn start(command: &str, login: &str, role: Role, paths: &[&[u8]]) -> Result<FarEnd, Failure> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let Some(program) = words.first() else { return Err(Failure::usage("--ssh names no command")) };
    let host = login.rsplit('@').next().unwrap_or_default();
    if host.is_empty() || host.starts_with('-') || login.starts_with('-') {
        return Err(Failure::usage(format!("{login} is not a host")));
    }
    let cannot = |e: io::Error| Failure::local(format!("cannot run {program}: {e} (--ssh names another command)"));
    let mut child = Command::new(program)
        .args(&words[1..])
        .args([login, "longhaul", "far-end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let (Some(mut requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::local("ssh has no standard input or output"));
    };
    let hello = Hello { v: 1, role, paths: paths.iter().map(|path| STANDARD.encode(path)).collect() };
    let ready = exchange_hello(&mut requests, answers, &hello).map_err(|why| start_failure(&mut child, login, &why))?;
    if let Some(message) = ready.error {
        let exit = [Exit::Failed, Exit::Usage, Exit::Storage].into_iter().find(|exit| *exit as u8 == ready.exit);
        let fault = if exit == Some(Exit::Storage) { Fault::Storage } else { Fault::Missing };
        return Err(Failure { exit: exit.unwrap_or(Exit::Failed), fault, message: format!("{login}: {message}") });
    }
    let key: AccessKey = ready.key.parse().map_err(|e| Failure::local(format!("{login}: {e}")))?;
    let places = ready.places.iter().map(|path| place(path)).collect::<Option<Vec<_>>>();
    let places = places.filter(|places| places.len() == paths.len());
    let places = places.ok_or_else(|| Failure::local(format!("{login} does not say where the paths are")))?;
    let mut hosts = vec![host_name(&words, login), ready.address];
    hosts.dedup();
    hosts.retain(|host| !host.is_empty());
    let candidates: Vec<HostPort> = hosts.into_iter().map(|host| HostPort { host, port: ready.port }).collect();
    let at = candidates.first().cloned().ok_or_else(|| Failure::local(format!("{login} has no address")))?;
    Printer::note(&format!("the far end listens on {at} for this copy"));
    let back = Mutex::new(BackChannel { requests: Some(requests), listener: None });
    let dial = Arc::new(FarDial { candidates, direction: Mutex::new(None), back });
    Ok(FarEnd { at, key, places, dial, child: Mutex::new(child) })
}

fn place(encoded: &str) -> Option<NodePlace> {
    let path = RelPath::parse(&STANDARD.decode(encoded).ok()?).ok()?;
    Some(NodePlace::Path { export: EXPORT.into(), path })
}

fn exchange_hello(requests: &mut ChildStdin, answers: ChildStdout, hello: &Hello) -> Result<Ready, String> {
    let line = serde_json::to_string(hello).map_err(|e| e.to_string())? + "\n";
    requests.write_all(line.as_bytes()).map_err(|e| e.to_string())?;
    let mut answers = BufReader::new(answers);
    let mut line = String::new();
    // Lines that a login script prints are skipped.
    for _ in 0..100 {
        line.clear();
        if answers.read_line(&mut line).map_err(|e| e.to_string())? == 0 {
            break;
        }
        if let Ok(ready) = serde_json::from_str(&line) {
            return Ok(ready);
        }
    }
    Err("it did not answer".into())
}

/// The failure of a far end that did not start, by the exit status of ssh.
fn start_failure(child: &mut Child, login: &str, why: &str) -> Failure {
    let (exit, fault, reason) = match child.wait().ok().and_then(|status| status.code()) {
        Some(127) => {
            let reason = "longhaul is not there, or not in the PATH of commands that ssh runs; install it there".into();
            (Exit::Failed, Fault::Config, reason)
        }
        Some(255) => (Exit::Unreachable, Fault::Path, "ssh could not connect or log in (its message is above)".into()),
        Some(code) => (Exit::Failed, Fault::Peer, format!("the far end ended with {code}: {why}")),
        None => (Exit::Failed, Fault::Peer, format!("the far end ended: {why}")),
    };
    Failure { exit, fault, message: format!("{login}: {reason}") }
}

impl FarEnd {
    /// The dialer of connections to the far end.
    pub fn dialer(&self) -> Arc<dyn Dial> {
        self.dial.clone()
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        // The far end stops when its standard input ends.
        drop(self.dial.back.lock().requests.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut child = self.child.lock();
        while Instant::now() < deadline {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Dial for FarDial {
    fn dial(&self, timeouts: &Timeouts) -> io::Result<TcpStream> {
        let mut direction = self.direction.lock();
        match *direction {
            Some(DialDirection::Forward(address)) => {
                drop(direction);
                dial::dial_address(address, timeouts)
            }
            Some(DialDirection::Back) => {
                drop(direction);
                self.dial_back(timeouts)
            }
            None => match self.dial_forward(timeouts) {
                Ok((socket, address)) => {
                    *direction = Some(DialDirection::Forward(address));
                    Ok(socket)
                }
                Err(error) => {
                    Printer::note(&format!(
                        "the far end's port cannot be reached ({error}); asking it to connect back"
                    ));
                    let socket = self.dial_back(timeouts)?;
                    *direction = Some(DialDirection::Back);
                    Ok(socket)
                }
            },
        }
    }
}

impl FarDial {
    fn dial_forward(&self, timeouts: &Timeouts) -> io::Result<(TcpStream, SocketAddr)> {
        let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "no address");
        let timeouts = Timeouts { connect: timeouts.connect.min(FORWARD_TIMEOUT), ..*timeouts };
        for at in &self.candidates {
            let addresses = match (at.host.as_str(), at.port).to_socket_addrs() {
                Ok(addresses) => addresses,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            for address in addresses {
                match dial::dial_address(address, &timeouts) {
                    Ok(socket) => return Ok((socket, address)),
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    /// Requests one connection at a time, so that the connection that sends the token is the requested one.
    fn dial_back(&self, timeouts: &Timeouts) -> io::Result<TcpStream> {
        let mut back = self.back.lock();
        let token: [u8; TOKEN_BYTES] = random().map_err(|e| io::Error::other(e.message))?;
        let port = back.listen()?;
        let request = serde_json::to_string(&ConnectBack { port, token: hex(&token) })? + "\n";
        let requests = back.requests.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        requests.write_all(request.as_bytes())?;
        let listener = back.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let socket = accept(listener, &token, timeouts.connect)?;
        sys::tcp::set_common(&socket, timeouts.pace.gone_after)?;
        Ok(socket)
    }
}

impl BackChannel {
    fn listen(&mut self) -> io::Result<u16> {
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => {
                let any = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
                any.set_nonblocking(true)?;
                Printer::note(&format!("waiting for the far end on port {} of this host", any.local_addr()?.port()));
                any
            }
        };
        let port = listener.local_addr()?.port();
        self.listener = Some(listener);
        Ok(port)
    }
}

/// Waits at most `within` for the connection that shows the token. Other connections are closed.
fn accept(listener: &TcpListener, token: &[u8], within: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the far end did not connect back"));
        }
        match listener.accept() {
            Ok((mut socket, _)) => {
                socket.set_nonblocking(false)?;
                // A connection that sends nothing must not delay the far end's connection.
                socket.set_read_timeout(Some(left.min(TOKEN_TIMEOUT)))?;
                let mut shown = [0; CONNECT_BACK_MAGIC.len() + TOKEN_BYTES];
                if socket.read_exact(&mut shown).is_ok() && shown[..4] == CONNECT_BACK_MAGIC && shown[4..] == *token {
                    socket.set_read_timeout(None)?;
                    return Ok(socket);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(2)),
            Err(e) => return Err(e),
        }
    }
}
