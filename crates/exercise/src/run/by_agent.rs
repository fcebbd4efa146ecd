//! Rounds that clients of another tool move, by the agent of a site: they fetch from the source, from its node or from a server of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::AccessKey;
use model::id::Uuid;
use web::api_client::ApiError;

use super::Runner;
use super::lease::Leases;
use super::prepare::{class_files, source_directory};
use super::round::{RoundDriver, RoundEnd, RoundSample};
use crate::agent::{
    AgentApi, ToolRunCredentials, ToolRunDirection, ToolRunFile, ToolRunOrder, ToolRunState, ToolRunStatus,
};
use crate::data_set::DataFile;
use crate::file::ExerciseFlow;

/// The lifetime of a run without renewal, seconds.
const LIFETIME_S: u32 = 60;
/// How often a run is renewed.
const RENEWAL: Duration = Duration::from_secs(10);
/// The status of an agent that does not know a run.
const UNKNOWN: u16 = 404;
/// The rise of a limit, as a factor, for which clients begin again: what they have fetched of unfinished files is lost.
const LIMIT_RISE: f64 = 1.2;
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
    /// The run was stopped to begin again with another limit.
    begins_again: bool,
    /// The limit of the next round, bit/s: that of a run which goes on may be a little lower.
    next_limit_bit_s: Option<u64>,
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
    Ok(Box::new(AgentDriver {
        agent,
        source,
        order,
        renewed: Instant::now(),
        begins_again: false,
        next_limit_bit_s: None,
    }))
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
            target: self
                .arrives_in
                .as_ref()
                .map_or_else(|| "null:".to_owned(), |dir| format!("{id}/{dir}/{}", file.path)),
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

impl AgentDriver {
    /// The state of the run; none if the agent does not know it.
    fn status(&mut self) -> Result<Option<ToolRunStatus>, String> {
        let status = if self.renewed.elapsed() >= RENEWAL {
            self.renewed = Instant::now();
            self.agent.renew(self.order.id, LIFETIME_S)
        } else {
            self.agent.run(self.order.id)
        };
        match status {
            Ok(status) => Ok(Some(status)),
            Err(ApiError::Refused { problem, .. }) if problem.status == UNKNOWN => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl RoundDriver for AgentDriver {
    fn begin(&mut self) -> Result<(), String> {
        self.order.id = Uuid::now_v7();
        self.order.files = self.source.files();
        self.order.credentials = self.source.credentials();
        self.order.limit_bit_s = self.next_limit_bit_s;
        self.renewed = Instant::now();
        self.begins_again = false;
        self.agent.start(&self.order).map(drop).map_err(|error| error.to_string())
    }

    fn sample(&mut self) -> Result<Option<RoundSample>, String> {
        let Some(status) = self.status()? else {
            self.order.id = Uuid::nil();
            let error = "the agent has forgotten the run; was it restarted?".to_owned();
            return Ok(Some(RoundSample { end: Some(RoundEnd::failed(error)), ..RoundSample::default() }));
        };
        let state = match status.state {
            ToolRunState::Running => None,
            ToolRunState::Done => Some("done"),
            ToolRunState::Failed => Some("failed"),
            ToolRunState::Stopped => Some("cancelled"),
        };
        let begins_again = self.begins_again && status.state == ToolRunState::Stopped;
        let error = status.errors.first().cloned().or(status.reason.clone()).filter(|_| !begins_again);
        let end = state.map(|state| RoundEnd {
            state: state.to_owned(),
            failed: status.files_failed,
            error,
            cpu_s: Some(status.cpu_s),
            begins_again,
            ..RoundEnd::default()
        });
        if end.is_some() {
            self.order.id = Uuid::nil();
        }
        Ok(Some(RoundSample { bytes: status.bytes_done, files: status.files_done, waiting_for: String::new(), end }))
    }

    fn limit(&mut self, limit_bit_s: u64) -> Result<(), String> {
        self.next_limit_bit_s = Some(limit_bit_s).filter(|limit| *limit > 0);
        if !self.order.id.is_nil() && is_another_limit(self.order.limit_bit_s, self.next_limit_bit_s) {
            // A process of another tool cannot be given another limit: the round begins again with it.
            self.begins_again = true;
            self.cancel();
        }
        Ok(())
    }

    fn cancel(&mut self) {
        if self.order.id.is_nil() {
            return;
        }
        if let Err(error) = self.agent.stop(self.order.id) {
            tracing::warn!(%error, run = %self.order.id, "the clients of an agent cannot be stopped; they end with their lifetime");
        }
    }
}

/// Whether clients must begin again with a limit: if it is lower than theirs, or much higher.
fn is_another_limit(present: Option<u64>, wanted: Option<u64>) -> bool {
    match (present, wanted) {
        (None, None) => false,
        (None, Some(_)) | (Some(_), None) => true,
        (Some(present), Some(wanted)) => wanted < present || wanted as f64 > present as f64 * LIMIT_RISE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_begin_again_for_a_lower_limit_and_for_a_much_higher_one() {
        assert!(is_another_limit(Some(100), Some(99)) && is_another_limit(Some(100), Some(130)));
        assert!(!is_another_limit(Some(100), Some(100)) && !is_another_limit(Some(100), Some(115)));
        assert!(is_another_limit(None, Some(1)) && is_another_limit(Some(1), None) && !is_another_limit(None, None));
    }
}
