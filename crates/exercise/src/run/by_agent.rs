//! Rounds that clients of another tool move, by the agent of a site: they fetch from the source, from its node or from a server of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::AccessKey;
use model::id::Uuid;

use super::Runner;
use super::lease::Leases;
use super::prepare::{class_files, source_directory};
use super::round::{RoundDriver, RoundEnd, RoundSample};
use crate::agent::{AgentApi, ToolRunCredentials, ToolRunDirection, ToolRunFile, ToolRunOrder, ToolRunState};
use crate::data_set::DataFile;
use crate::file::ExerciseFlow;

/// The lifetime of a run without renewal, seconds.
const LIFETIME_S: u32 = 60;
/// How often a run is renewed.
const RENEWAL: Duration = Duration::from_secs(10);
/// The tool that tests a path and moves no files.
const IPERF3: &str = "iperf3";
/// The tool that reads nodes by their own protocol.
const LONGHAUL: &str = "longhaul";

/// Moves rounds by an agent.
struct AgentDriver {
    agent: AgentApi,
    source: FlowSource,
    order: ToolRunOrder,
    renewed: Instant,
    /// Whether a limit was changed after the run began: it holds from the next round on.
    began: bool,
}

/// Where the clients of a flow fetch its files.
struct FlowSource {
    server: ToolServer,
    leases: Arc<Leases>,
    site: String,
    directory: String,
    files: Vec<DataFile>,
    /// The directory of the files that arrive; none if they are discarded.
    arrives_in: Option<String>,
}

/// The server at the source.
enum ToolServer {
    /// The node: a scheme, and `HOST:PORT`.
    Node(&'static str, String),
    /// A server of the tool, which serves the directory of all scratch places of the site: its URL.
    Own(String),
    /// A test of the path to the node, `HOST:PORT`, with this many bytes.
    Test(String, u64),
}

/// What moves a flow by the agent of its target.
///
/// # Errors
/// The target has no agent, or a site is not connected.
pub(super) fn driver(
    runner: &Runner<'_>,
    number: usize,
    flow: &ExerciseFlow,
    tool: &str,
) -> Result<Box<dyn RoundDriver>, String> {
    let (Some(source), Some(target)) = (runner.sites.get(flow.from.as_str()), runner.sites.get(flow.to.as_str()))
    else {
        return Err(format!("{} or {} is not connected", flow.from, flow.to));
    };
    let Some(agent) = target.agent.clone() else {
        return Err(format!(
            "{} has no agent to run {tool}; start `longhaul exercise agent` there, and write agent = \"https://HOST:PORT\" in [site.{}]",
            flow.to, flow.to
        ));
    };
    let exercise = runner.inputs.exercise;
    let server = match source.servers.get(tool) {
        _ if tool == IPERF3 => ToolServer::Test(source.peer.clone(), flow.class.volume(exercise.scale).1),
        Some(url) => ToolServer::Own(url.trim_end_matches('/').to_owned()),
        None => ToolServer::Node(if tool == LONGHAUL { "lh" } else { source.scheme }, source.peer.clone()),
    };
    let source = FlowSource {
        server,
        leases: Arc::clone(&runner.leases),
        site: flow.from.clone(),
        directory: source_directory(&flow.class),
        files: class_files(&flow.class, exercise.scale, exercise.seed),
        arrives_in: flow.class.medium.writes().then(|| format!("flow-{number}")),
    };
    let order = ToolRunOrder {
        id: Uuid::nil(),
        tool: tool.to_owned(),
        direction: ToolRunDirection::Get,
        files: Vec::new(),
        files_each: flow.class.files_each,
        credentials: ToolRunCredentials::default(),
        streams: flow.class.streams,
        window_bytes: flow.class.window_bytes,
        limit_bit_s: None,
        clients: flow.class.clients,
        seconds: None,
        scitag: exercise.scitag,
        lifetime_s: LIFETIME_S,
    };
    Ok(Box::new(AgentDriver { agent, source, order, renewed: Instant::now(), began: false }))
}

impl FlowSource {
    /// The files of a round, at the scratch place that the site has now: a node that was restarted has another one.
    fn files(&self) -> Vec<ToolRunFile> {
        let place = self.leases.place(&self.site);
        let id = place.rsplit('/').next().unwrap_or_default();
        let base = match &self.server {
            ToolServer::Test(peer, bytes) => {
                return vec![ToolRunFile { source: peer.clone(), target: "null:".into(), bytes: *bytes }];
            }
            ToolServer::Node(scheme, peer) => format!("{scheme}://{peer}{place}"),
            ToolServer::Own(url) => format!("{url}/{id}"),
        };
        let file = |file: &DataFile| ToolRunFile {
            source: format!("{base}/{}/{}", self.directory, file.path),
            target: self.arrives_in.as_ref().map_or_else(|| "null:".to_owned(), |dir| format!("{dir}/{}", file.path)),
            bytes: file.bytes,
        };
        self.files.iter().map(file).collect()
    }

    /// The key of the scratch place, for its node; other servers get none.
    fn credentials(&self) -> ToolRunCredentials {
        if !matches!(self.server, ToolServer::Node(..)) {
            return ToolRunCredentials::default();
        }
        let key = self.leases.key(&self.site);
        let fingerprint = key.parse::<AccessKey>().ok().map(|key| key.node.to_string());
        ToolRunCredentials { bearer: Some(key), fingerprint }
    }
}

impl RoundDriver for AgentDriver {
    fn begin(&mut self) -> Result<(), String> {
        self.order.id = Uuid::now_v7();
        self.order.files = self.source.files();
        self.order.credentials = self.source.credentials();
        self.renewed = Instant::now();
        self.began = true;
        self.agent.start(&self.order).map(drop).map_err(|error| error.to_string())
    }

    fn sample(&mut self) -> Result<Option<RoundSample>, String> {
        let status = if self.renewed.elapsed() >= RENEWAL {
            self.renewed = Instant::now();
            self.agent.renew(self.order.id, LIFETIME_S)
        } else {
            self.agent.run(self.order.id)
        };
        let status = status.map_err(|error| error.to_string())?;
        let state = match status.state {
            ToolRunState::Running => None,
            ToolRunState::Done => Some("done"),
            ToolRunState::Failed => Some("failed"),
            ToolRunState::Stopped => Some("cancelled"),
        };
        let end = state.map(|state| RoundEnd {
            state: state.to_owned(),
            failed: status.files_failed,
            verdict: String::new(),
            error: status.errors.first().cloned().or(status.reason.clone()),
            cpu_s: Some(status.cpu_s),
        });
        Ok(Some(RoundSample { bytes: status.bytes_done, files: status.files_done, waiting_for: String::new(), end }))
    }

    fn limit(&mut self, limit_bit_s: u64) -> Result<(), String> {
        let limit = Some(limit_bit_s).filter(|limit| *limit > 0);
        if self.began && limit != self.order.limit_bit_s {
            // A process of another tool cannot be given another limit: the round begins again with it.
            self.cancel();
        }
        self.order.limit_bit_s = limit;
        Ok(())
    }

    fn cancel(&mut self) {
        if let Err(error) = self.agent.stop(self.order.id) {
            tracing::warn!(%error, run = %self.order.id, "the clients of an agent cannot be stopped; they end with their lifetime");
        }
    }
}
