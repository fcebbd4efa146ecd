//! The processes of a demo, and their settings.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::data;
use super::network::{DemoNetwork, HUB_SITE, SITES};
use crate::emulated::{Launcher, Process, Relay, Service, output_of};
use crate::failure::Failure;

/// Latitude and longitude of the sites, degrees.
const LOCATIONS: [(f64, f64); 3] = [(46.2, 6.1), (52.4, 4.9), (-31.9, 115.9)];
const NODE_PORT: u16 = 7411;
const HUB_PORT: u16 = 8446;
/// A running node.
struct Node {
    site: &'static str,
    /// `HOST:PORT`, for other nodes and the hub.
    address: String,
    /// `http://HOST:PORT`, for browsers.
    web: String,
    key: String,
    data: PathBuf,
    _relay: Option<Relay>,
    _process: Process,
}

/// Three nodes and a hub.
pub struct Collaboration {
    portal: SocketAddr,
    hub: String,
    key: String,
    program: PathBuf,
    dir: PathBuf,
    // Dropped in this order: the hub, the nodes, their network.
    _relay: Option<Relay>,
    _hub: Process,
    nodes: Vec<Node>,
    network: DemoNetwork,
}

impl Collaboration {
    /// Starts the nodes, then the hub.
    ///
    /// # Errors
    /// A process does not start, or a signal arrives meanwhile.
    pub fn start(
        network: DemoNetwork,
        listen: SocketAddr,
        dir: &Path,
        stop: &AtomicBool,
    ) -> Result<Collaboration, Failure> {
        let program = std::env::current_exe().map_err(|error| cannot("find its own program", &error))?;
        let site = |site: &str| dir.join(format!("data-{site}"));
        for name in SITES {
            fs::create_dir_all(site(name)).map_err(|error| cannot("make a directory", &error))?;
        }
        data::make(&site(SITES[0]), &site(SITES[1])).map_err(|error| cannot("write data", &error))?;
        let processes = Launcher { network: network.sites(), program: &program, dir, stop };
        let launcher = DemoLauncher { network: &network, processes };
        // The portal's address must be known before the nodes start: they allow requests of its pages (CORS).
        let relay = network.relay(HUB_SITE, listen, HUB_PORT)?;
        let portal = match &relay {
            Some(relay) => relay.address,
            None => free_port(listen)?,
        };
        let nodes = SITES.map(|site| launcher.node(site, portal)).into_iter().collect::<Result<Vec<_>, _>>()?;
        let state = dir.join("hub");
        let words = ["hub", "grant", "--role", "admin", "--name", "you", "--state"];
        let key = launcher.processes.run(&words, &state)?;
        let settings = dir.join("hub.toml");
        let watch = dir.join("watch.toml");
        let write = |path: &Path, text: String| fs::write(path, text).map_err(|error| cannot("write settings", &error));
        write(&settings, hub_settings(&nodes, &network))?;
        write(&watch, watch_settings(&nodes, dir)?)?;
        let at = if network.is_emulated() { network.listen(HUB_SITE, HUB_PORT)? } else { portal.to_string() };
        let words = ["hub", "serve", "--plain", "--listen", &at].map(str::to_owned).into_iter();
        let files = [("--config", &settings), ("--watch", &watch), ("--state", &state)];
        let files = files.into_iter().flat_map(|(word, path)| [word.to_owned(), path.display().to_string()]);
        let hub = launcher.processes.serve(HUB_SITE, "hub", &words.chain(files).collect::<Vec<_>>())?;
        Ok(Collaboration {
            portal,
            hub: format!("http://{at}"),
            key,
            program,
            dir: dir.to_owned(),
            _relay: relay,
            _hub: hub.process,
            nodes,
            network,
        })
    }

    /// The address of the portal.
    pub fn portal(&self) -> String {
        format!("http://{}", self.portal)
    }

    /// An access key with the role of an admin.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether a path loses packets.
    pub fn has_soft_failure(&self) -> bool {
        self.network.is_emulated()
    }

    /// Submits the transfers of a round: a night from amsterdam to perth, and in every second round a field from geneva to perth.
    /// Files of an earlier round are removed first, because a file that exists at the target is not moved again.
    ///
    /// # Errors
    /// The hub refuses a job.
    pub fn submit_round(&self, round: usize) -> Result<(), Failure> {
        let [geneva, amsterdam, perth] = self.nodes.as_slice() else { return Ok(()) };
        let target = format!("round-{}", round % 3);
        let _ = fs::remove_dir_all(perth.data.join(&target));
        self.submit(amsterdam, "night", perth, &format!("{target}/night"), "science")?;
        if round.is_multiple_of(2) {
            self.submit(geneva, "field-7", perth, &format!("{target}/field-7"), "survey")?;
        }
        Ok(())
    }

    fn submit(&self, from: &Node, source: &str, to: &Node, target: &str, community: &str) -> Result<(), Failure> {
        let [source, target] =
            [(from, source), (to, target)].map(|(node, path)| format!("lh://{}/data/{path}", node.address));
        let mut command = self.network.command(HUB_SITE, &self.program)?;
        command.args(["submit", "--quiet", "--recursive", "--community", community, &source, &target]);
        command.env("LONGHAUL_HUB", &self.hub).env("LONGHAUL_KEY", &self.key);
        command.env("LONGHAUL_STATE", self.dir.join("client"));
        output_of(command, "submit").map(drop)
    }
}

/// Starts the nodes of a demo.
struct DemoLauncher<'a> {
    network: &'a DemoNetwork,
    processes: Launcher<'a>,
}

impl DemoLauncher<'_> {
    fn node(&self, site: &'static str, portal: SocketAddr) -> Result<Node, Failure> {
        let dir = self.processes.dir;
        let state = dir.join(format!("node-{site}"));
        let data = dir.join(format!("data-{site}"));
        fs::create_dir_all(&state).map_err(|error| cannot("make a directory", &error))?;
        let access = "[macaroons]\n";
        fs::write(state.join("access.toml"), access).map_err(|error| cannot("write settings", &error))?;
        let listen = self.network.listen(site, NODE_PORT)?;
        let export = format!("data={}:rw", data.display());
        let portal = format!("http://{portal}");
        let words = ["serve", "--plain", "--audit", "--listen", &listen, "--export", &export, "--responders", "stamp"];
        let words = words.into_iter().chain(["--allow-origin", &portal, "--state"]).map(str::to_owned);
        let words = words.chain([state.display().to_string()]).collect::<Vec<_>>();
        let Service { process, address, .. } = self.processes.serve(site, site, &words)?;
        let key = self.processes.run(&["grant", "--export", "data", "--write", "--state"], &state)?;
        let relay = self.network.relay(site, SocketAddr::from(([127, 0, 0, 1], 0)), NODE_PORT)?;
        let web = relay.as_ref().map_or_else(|| address.clone(), |relay| relay.address.to_string());
        Ok(Node { site, address, web: format!("http://{web}"), key, data, _relay: relay, _process: process })
    }
}

/// The address, with a free port in place of port 0.
fn free_port(listen: SocketAddr) -> Result<SocketAddr, Failure> {
    let listener = std::net::TcpListener::bind(listen);
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| Failure::local(format!("cannot listen on {listen}: {error}")))
}

/// The hub's settings: sites, endpoints, links and communities. The mark of the link from amsterdam to perth is half of its capacity.
fn hub_settings(nodes: &[Node], network: &DemoNetwork) -> String {
    let mut text = String::new();
    for (node, (latitude, longitude)) in nodes.iter().zip(LOCATIONS) {
        let Node { site, address, web, key, .. } = node;
        text += &format!("[site.{site}]\ntitle = \"{site}\"\nlocation = [{latitude:?}, {longitude:?}]\n");
        text += &format!(
            "[endpoint.{site}]\nsite = \"{site}\"\nurls = [\"lh://{address}/\"]\nkey = \"{key}\"\nweb = \"{web}\"\n"
        );
        text += &format!("changeable = true\n[endpoint.{site}.storage]\nurl = \"lh://{address}/data/store\"\n");
        text += &format!("attributes = {{ region = \"{}\" }}\n", if *site == "perth" { "au" } else { "eu" });
    }
    let capacity = if network.is_emulated() { 300_000_000 } else { 1_000_000_000 };
    text += &format!("[link.amsterdam-perth]\ncapacity_bit_s = {capacity}\nmark = 0.5\n");
    text += &format!(
        "[link.geneva-perth]\ncapacity_bit_s = {capacity}\n[link.geneva-amsterdam]\ncapacity_bit_s = {capacity}\n"
    );
    for (from, to) in [("amsterdam", "perth"), ("geneva", "perth"), ("geneva", "amsterdam")] {
        text += &format!("[[route]]\nfrom = \"{from}\"\nto = \"{to}\"\nlinks = [\"{from}-{to}\"]\n");
    }
    text + "[community.science]\nshare = 2.0\n[community.survey]\nshare = 1.0\n"
}

/// The settings of the watch: all paths are tested, and the judge's times are shortened for a demo.
fn watch_settings(nodes: &[Node], dir: &Path) -> Result<String, Failure> {
    let mut text = "[judge]\nscale = 0.0167\nlearn = 4\n".to_owned();
    for (node, (latitude, longitude)) in nodes.iter().zip(LOCATIONS) {
        let key = dir.join(format!("watch-{}.key", node.site));
        fs::write(&key, &node.key).map_err(|error| cannot("write a key", &error))?;
        text += &format!(
            "[node.{}]\naddress = \"{}\"\nkey-file = \"{}\"\nlocation = [{latitude:?}, {longitude:?}]\nlink = \"300Mbit/s\"\n",
            node.site,
            node.address,
            key.display()
        );
    }
    Ok(text
        + &format!(
            "[[group]]\nname = \"all\"\nmembers = {SITES:?}\nlatency = {{ rate = 50, report = \"1s\", ports = 4 }}\n\
         path = {{ every = \"20s\" }}\nthroughput = {{ every = \"120s\", lasts = \"2s\", waits-for-transfers = true }}\n"
        ))
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot {what}: {error}"))
}
