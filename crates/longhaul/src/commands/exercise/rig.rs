//! The lab of an exercise: an emulated network with a node at each site, and agents where clients of other tools run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use exercise::agent::limits::CLIENTS_MAX;
use exercise::run::{NodeProcess, RunLab};
use exercise::{Exercise, FaultKind, FlowTool, LabNetwork};
use lab::scenario::Change;
use lab::{Lab, Scenario};
use parking_lot::Mutex;

use super::tool_servers::{self, ToolServer};
use crate::emulated::{Launcher, Process, Relay, Service, SiteNetwork};
use crate::failure::Failure;

const NODE_PORT: u16 = 7411;
const AGENT_PORT: u16 = 7420;
/// Where relays listen: the controller is not in the lab.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A running lab.
pub struct LabRig<'a> {
    network: SiteNetwork,
    lab: Arc<Lab>,
    program: PathBuf,
    dir: &'a Path,
    stop: &'a AtomicBool,
    nodes: BTreeMap<String, RigNode>,
    agents: BTreeMap<String, RigAgent>,
    /// Servers of other tools, by the site and the tool.
    servers: BTreeMap<(String, &'static str), ToolServer>,
}

/// The node of a site.
struct RigNode {
    process: Mutex<Option<Process>>,
    state: PathBuf,
    address: String,
    key: String,
    relay: Relay,
}

/// The agent of a site.
struct RigAgent {
    key: String,
    relay: Relay,
    _process: Process,
}

/// How to reach a service of a lab.
pub struct LabAddress {
    /// For the controller.
    pub control: SocketAddr,
    /// For the other sites, `HOST:PORT`.
    pub peer: String,
    /// The text of the key.
    pub key: String,
}

impl<'a> LabRig<'a> {
    /// Brings up the lab of an exercise, with a node at each site that flows use, and an agent at each target of clients of other tools.
    ///
    /// # Errors
    /// The scenario is not valid, the lab cannot be made, or a service does not start.
    pub fn up(
        exercise: &Exercise,
        network: &LabNetwork,
        dir: &'a Path,
        stop: &'a AtomicBool,
    ) -> Result<LabRig<'a>, Failure> {
        let scenario = scenario(network)?;
        let lab = Arc::new(Lab::up("exercise", &scenario, dir)?);
        let program = std::env::current_exe().map_err(|error| cannot("find its own program", &error))?;
        let mut rig = LabRig {
            network: SiteNetwork::Lab(Arc::clone(&lab)),
            lab,
            program,
            dir,
            stop,
            nodes: BTreeMap::new(),
            agents: BTreeMap::new(),
            servers: BTreeMap::new(),
        };
        for site in exercise.used_sites() {
            let node = rig.start_node(site)?;
            rig.nodes.insert(site.to_owned(), node);
        }
        for (site, tool) in sources_of_clients(exercise) {
            let Some(tool) = tool_servers::with_server(tool) else { continue };
            let server = tool_servers::start(tool, &rig.launcher(), site, &rig.scratch(site))?;
            rig.servers.insert((site.to_owned(), tool), server);
        }
        for site in targets_of_clients(exercise) {
            let agent = rig.start_agent(site)?;
            rig.agents.insert(site.to_owned(), agent);
        }
        Ok(rig)
    }

    /// How to reach the node of a site.
    pub fn node(&self, site: &str) -> Option<LabAddress> {
        let node = self.nodes.get(site)?;
        Some(LabAddress { control: node.relay.address, peer: node.address.clone(), key: node.key.clone() })
    }

    /// How to reach the agent of a site.
    pub fn agent(&self, site: &str) -> Option<LabAddress> {
        let agent = self.agents.get(site)?;
        Some(LabAddress { control: agent.relay.address, peer: String::new(), key: agent.key.clone() })
    }

    /// The servers of other tools at a site: the name of the tool, and the URL of the directory of all scratch places.
    pub fn servers(&self, site: &str) -> BTreeMap<String, String> {
        let of_site = self.servers.iter().filter(|((at, _), _)| at == site);
        of_site.map(|((_, tool), server)| ((*tool).to_owned(), server.url.clone())).collect()
    }

    /// The directory of the scratch places of a site.
    fn scratch(&self, site: &str) -> PathBuf {
        self.dir.join(format!("scratch-{site}"))
    }

    /// What is emulated, in a sentence.
    pub fn describe(&self) -> String {
        let (sites, paths) = (self.lab.scenario().sites.len(), self.lab.scenario().paths.len());
        format!(
            "all paths: {sites} sites and {paths} paths on one machine; disks and processors are shared by all sites"
        )
    }

    fn launcher(&self) -> Launcher<'_> {
        Launcher { network: &self.network, program: &self.program, dir: self.dir, stop: self.stop }
    }

    fn start_node(&self, site: &str) -> Result<RigNode, Failure> {
        let state = self.dir.join(format!("node-{site}"));
        fs::create_dir_all(&state).map_err(|error| cannot("make a directory", &error))?;
        let Service { process, address, .. } = self.serve(site, &state)?;
        let key = self.launcher().run(&["grant", "--export", "exercise", "--write", "--state"], &state)?;
        let relay = self.relay(site, NODE_PORT)?;
        Ok(RigNode { process: Mutex::new(Some(process)), state, address, key, relay })
    }

    fn serve(&self, site: &str, state: &Path) -> Result<Service, Failure> {
        let scratch = self.scratch(site);
        fs::create_dir_all(&scratch).map_err(|error| cannot("make a directory", &error))?;
        let listen = self.network.listen(site, NODE_PORT)?;
        let words = ["serve", "--listen", &listen, "--responders", "iperf3", "--state"].map(str::to_owned).into_iter();
        let words = words.chain([state.display().to_string(), "--exercise".to_owned(), scratch.display().to_string()]);
        self.launcher().serve(site, &format!("node-{site}"), &words.collect::<Vec<_>>())
    }

    fn start_agent(&self, site: &str) -> Result<RigAgent, Failure> {
        let work = self.dir.join(format!("work-{site}"));
        fs::create_dir_all(&work).map_err(|error| cannot("make a directory", &error))?;
        let listen = self.network.listen(site, AGENT_PORT)?;
        let state = self.dir.join(format!("agent-{site}"));
        // Nobody else uses an agent of a lab: the exercise alone says how many clients run.
        let clients_max = CLIENTS_MAX.to_string();
        let words = ["exercise", "agent", "--clients-max", &clients_max, "--listen", &listen, "--work"];
        let words = words.map(str::to_owned).into_iter();
        let words = words.chain([work.display().to_string(), "--state".to_owned(), state.display().to_string()]);
        let service = self.launcher().serve(site, &format!("agent-{site}"), &words.collect::<Vec<_>>())?;
        let printed = fs::read_to_string(&service.output).unwrap_or_default();
        let key = printed.lines().find_map(|line| line.strip_prefix("key "));
        let key = key.ok_or_else(|| Failure::local(format!("the agent of {site} prints no key")))?.to_owned();
        Ok(RigAgent { key, relay: self.relay(site, AGENT_PORT)?, _process: service.process })
    }

    fn relay(&self, site: &str, port: u16) -> Result<Relay, Failure> {
        let relay = self.network.relay(site, LOOPBACK, port)?;
        relay.ok_or_else(|| Failure::local("a lab has relays".to_owned()))
    }
}

impl RunLab for LabRig<'_> {
    fn begin(&self, fault: &FaultKind, lasts: Option<Duration>) -> Result<(), String> {
        match fault {
            FaultKind::Path { path, settings } => self.set(path, settings, lasts),
            FaultKind::Node { site } => {
                let node = self.nodes.get(site).ok_or_else(|| format!("there is no node at {site}"))?;
                node.process.lock().take();
                Ok(())
            }
        }
    }

    fn end(&self, fault: &FaultKind) -> Result<(), String> {
        match fault {
            FaultKind::Path { .. } => Ok(()),
            FaultKind::Node { site } => {
                let node = self.nodes.get(site).ok_or_else(|| format!("there is no node at {site}"))?;
                let service = self.serve(site, &node.state).map_err(|error| error.message)?;
                *node.process.lock() = Some(service.process);
                Ok(())
            }
        }
    }

    fn node_process(&self, site: &str) -> Option<NodeProcess> {
        let id = self.nodes.get(site)?.process.lock().as_ref()?.id();
        let pages: u64 = fs::read_to_string(format!("/proc/{id}/statm")).ok()?.split(' ').nth(1)?.parse().ok()?;
        let descriptors = fs::read_dir(format!("/proc/{id}/fd")).ok()?.count() as u64;
        Some(NodeProcess { resident_bytes: pages * rustix::param::page_size() as u64, descriptors })
    }
}

impl LabRig<'_> {
    fn set(&self, path: &str, settings: &[String], lasts: Option<Duration>) -> Result<(), String> {
        let words = settings.iter().map(|setting| match setting.split_once('=') {
            Some((word, value)) => Ok((word.to_owned(), value.to_owned())),
            None => Err(format!("{setting:?} is no setting; write loss = \"1%\"")),
        });
        let words = words.collect::<Result<Vec<_>, String>>()?;
        let change =
            Change::read(self.lab.scenario(), path, None, None, &words).map_err(|problem| problem.to_string())?;
        self.lab.change(change, lasts).map_err(|error| error.to_string())
    }
}

fn scenario(network: &LabNetwork) -> Result<Scenario, Failure> {
    let (name, text) = match network {
        LabNetwork::Text(text) => ("the network of the lab".to_owned(), text.clone()),
        LabNetwork::Scenario(name) => {
            let shipped = lab::scenario::shipped(name).map(|shipped| shipped.text.to_owned());
            let text = match shipped {
                Some(text) => text,
                None => fs::read_to_string(name).map_err(|error| {
                    Failure::usage(format!(
                        "{name}: {error}; `longhaul lab scenarios` lists those that come with the program"
                    ))
                })?,
            };
            (name.clone(), text)
        }
    };
    let read = Scenario::read(&text).and_then(Scenario::for_lab);
    read.map_err(|problem| Failure::usage(format!("{name}: {problem}")))
}

/// The flows of clients of other tools: the sites, and the tool.
fn client_flows(exercise: &Exercise) -> impl Iterator<Item = (&str, &str, &str)> {
    let searched = exercise.search.iter().map(|search| &search.flow);
    let flows = exercise.flows().map(|(_, flow)| flow).chain(searched);
    flows.filter_map(|flow| match &flow.class.tool {
        FlowTool::Client(tool) => Some((flow.from.as_str(), flow.to.as_str(), tool.as_str())),
        FlowTool::Longhaul | FlowTool::Hub => None,
    })
}

/// The sites that need an agent: clients of other tools run at the target of their flow.
fn targets_of_clients(exercise: &Exercise) -> BTreeSet<&str> {
    client_flows(exercise).map(|(_, to, _)| to).collect()
}

/// The sites from which clients of other tools fetch, and these tools.
fn sources_of_clients(exercise: &Exercise) -> BTreeSet<(&str, &str)> {
    client_flows(exercise).map(|(from, _, tool)| (from, tool)).collect()
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot {what}: {error}"))
}
