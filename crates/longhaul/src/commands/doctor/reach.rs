//! Whether the node of this host runs, whether its peers can be reached, and whether they reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use auth::{AccessKey, Grant, Rights};
use client::StateDir;
use engine::session::{Connect, Session};
use engine::{Timeouts, Trust};
use model::{DEFAULT_PORT, HostPort, Locator, NodePlace, RelPath};
use serde_json::Value;
use wire::frame::Request;

use super::Diagnosis;
use crate::args::Doctor;
use crate::commands::grant::{host_and_port, now};
use crate::commands::installed_node::InstalledNode;
use crate::failure::Failure;
use crate::random::random;
use crate::settings::Settings;

/// The bytes that a peer sends.
const BYTES: u64 = 1_000_000;
/// The time for which the key for that is valid, seconds.
const KEY_SECONDS: i64 = 600;

/// The node of this host, its peers, and the client that connects to them.
pub struct Reach<'a> {
    settings: &'a Settings,
    state: PathBuf,
    /// The address of the node that was started last with this state.
    last: Option<SocketAddr>,
    /// The address at which peers reach it.
    at: String,
    peers: Vec<HostPort>,
}

impl<'a> Reach<'a> {
    /// Reads the addresses.
    ///
    /// # Errors
    /// An address is malformed.
    pub fn new(doctor: &Doctor, node: &InstalledNode, settings: &'a Settings) -> Result<Reach<'a>, Failure> {
        // A state directory that does not exist must not be made.
        let last = node.state.is_dir().then(|| StateDir::open(&node.state).ok()?.last_address()).flatten();
        let parse = |word: &String| {
            let text = if word.contains("://") { word.clone() } else { format!("lh://{word}") };
            match Locator::parse(text.as_ref()) {
                Ok(Locator::Node { at, place: NodePlace::Exports, .. }) => Ok(at),
                _ => Err(Failure::usage(format!("--peer {word}: write lh://HOST, lh://HOST:PORT or lh://[v6]:PORT"))),
            }
        };
        let peers = doctor.peer.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let at = host_and_port(doctor.at.as_deref(), last)?;
        Ok(Reach { settings, state: node.state.clone(), last, at, peers })
    }

    /// The port of the node.
    pub fn port(&self) -> u16 {
        self.last.map_or(DEFAULT_PORT, |address| address.port())
    }

    /// Checks the node of this host, then each peer.
    pub fn check(&self, tell: &mut impl FnMut(Diagnosis)) {
        let node = self.node();
        let runs = node.status != super::CheckStatus::Critical;
        tell(node);
        for peer in &self.peers {
            let is_reached = self.peer(peer, tell);
            if is_reached && runs {
                tell(self.reached_from(peer));
            }
        }
        if self.peers.is_empty() {
            tell(Diagnosis::unknown(
                "from outside",
                "nobody elsewhere was asked to connect to this node",
                "longhaul doctor --peer lh://HOST, with a node at another site",
            ));
        }
    }

    /// Connects to the node at the address that it stored.
    fn node(&self) -> Diagnosis {
        let remedy = "start it (systemctl start longhaul); `systemctl status longhaul` says why it ended";
        let Some(address) = self.last else {
            return Diagnosis::problem("node", "none was ever started with this state directory", remedy);
        };
        let near = SocketAddr::new(near(address.ip()), address.port());
        match self.own_software(near) {
            Err(why) => Diagnosis::problem("node", format!("{near}: {why}"), remedy),
            Ok(software) => {
                if software == engine::SOFTWARE {
                    return Diagnosis::well("node", format!("it answers at {near}, {software}"));
                }
                let found = format!("the node at {near} is {software}, and this program is {}", engine::SOFTWARE);
                Diagnosis::warning("node", found, "restart it (systemctl restart longhaul): transfers go on afterwards")
            }
        }
    }

    /// The software of the node of this host.
    fn own_software(&self, near: SocketAddr) -> Result<String, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let key = self.make_key().map_err(|failure| failure.message)?;
        let at = HostPort { host: near.ip().to_string(), port: near.port() };
        let connect = Connect::new(Trust::Fingerprints(vec![key.key.node]), std::slice::from_ref(&key.key));
        let session = Session::connect(&at, &connect.map_err(|error| text(&error))?);
        session.and_then(software).map_err(|error| text(&error))
    }

    /// Connects to a peer; whether it answers.
    fn peer(&self, peer: &HostPort, tell: &mut impl FnMut(Diagnosis)) -> bool {
        let check = format!("peer {peer}");
        let answer = self.settings.connect(peer, false, Timeouts::default()).and_then(|session| {
            let ms = session.connected_after().as_secs_f64() * 1e3;
            Ok((software(session)?, ms))
        });
        match answer {
            Err(failure) => {
                let remedy = "ask its operator, and look at the firewalls between the sites";
                tell(Diagnosis::problem(check, failure.message, remedy));
                false
            }
            Ok((software, ms)) => {
                let found = format!("it answers in {ms:.0} ms, {software}");
                tell(if software == engine::SOFTWARE {
                    Diagnosis::well(check, found)
                } else {
                    let remedy = "neighbouring versions work together; update the older one when you can";
                    Diagnosis::warning(check, format!("{found}; this program is {}", engine::SOFTWARE), remedy)
                });
                true
            }
        }
    }

    /// Has a peer send bytes to this node, which it has to connect to.
    fn reached_from(&self, peer: &HostPort) -> Diagnosis {
        let check = format!("from {peer}");
        let remedy = format!(
            "let TCP from {} to {} through all firewalls; --at names another address of this node",
            peer.host, self.at
        );
        let target = format!("lh://{}/null:", self.at);
        let sent =
            self.make_key().map_err(|failure| failure.message).and_then(|own| self.copy(peer, &target, &own.key));
        match sent {
            Err(why) => Diagnosis::problem(check, why, remedy),
            Ok(receipt) => {
                let legs = receipt["carried"].as_array().map_or(0, Vec::len);
                if legs == 1 {
                    return Diagnosis::well(
                        check,
                        format!("it reaches this node at {}, and sent {BYTES} bytes", self.at),
                    );
                }
                let found = format!("{peer} did not connect to this node itself: the bytes went by way of this client");
                Diagnosis::unknown(check, found, "its operator permits such copies in its access.toml ([third_party])")
            }
        }
    }

    /// Runs `longhaul cp` from a peer to this node; its receipt.
    fn copy(&self, peer: &HostPort, target: &str, own: &AccessKey) -> Result<Value, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut keys: Vec<String> = self.settings.keys().iter().map(AccessKey::expose_text).collect();
        keys.push(own.expose_text());
        let mut command = Command::new(program);
        command.args(["cp", "--json", &format!("lh://{peer}/zero:{BYTES}"), target]);
        if let Ok(state) = self.settings.state_path() {
            // It knows the peer since this command connected to it.
            command.arg("--state").arg(state);
        }
        command.env("LONGHAUL_KEY", keys.join(",")).stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default();
        if output.status.success() {
            return Ok(last);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = last["message"].as_str().or_else(|| last["error"].as_str()).map(str::to_owned);
        Err(why.unwrap_or_else(|| said.lines().last().unwrap_or("the copy failed").to_owned()))
    }

    /// Makes a key to this node, which ends with the guard.
    fn make_key(&self) -> Result<OwnKey, Failure> {
        let state = StateDir::open(&self.state)?;
        let (id, secret) = (random()?, random()?);
        let export = state.last_exports().and_then(|all| all.into_iter().next()).unwrap_or_else(|| "doctor".to_owned());
        let mut grant = Grant::new(id, &secret, export, &RelPath::root(), Rights::Create, now());
        grant.name = "longhaul doctor".to_owned();
        grant.expires = Some(grant.created + KEY_SECONDS);
        let key = AccessKey::new(id, secret, state.fingerprint()?);
        let grant_id = grant.id.clone();
        state.change_grants(|grants| grants.list.push(grant))?;
        Ok(OwnKey { key, grant_id, state })
    }
}

/// A key to this node, whose grant is removed when it is dropped.
struct OwnKey {
    key: AccessKey,
    grant_id: String,
    state: StateDir,
}

impl Drop for OwnKey {
    fn drop(&mut self) {
        // It ends by itself in any case.
        let _ = self.state.change_grants(|grants| grants.list.retain(|grant| grant.id != self.grant_id));
    }
}

/// The software of a node, which it states with its first answer.
fn software(mut session: Session) -> engine::Result<String> {
    session.query(Request::List(NodePlace::Exports), |_| ())?;
    let software = session.node_software().to_owned();
    session.close();
    Ok(software)
}

/// The address at which this host reaches a service that listens at an address.
fn near(listen: IpAddr) -> IpAddr {
    match listen {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}
