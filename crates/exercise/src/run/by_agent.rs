//! Rounds that clients of another tool move, by the agent of a site: they fetch from the node at the source.

use std::time::{Duration, Instant};

use auth::AccessKey;
use model::id::Uuid;

use super::Runner;
use super::prepare::{class_files, source_directory};
use super::round::{RoundDriver, RoundEnd, RoundSample};
use crate::agent::{AgentApi, ToolRunCredentials, ToolRunDirection, ToolRunFile, ToolRunOrder, ToolRunState};
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
    order: ToolRunOrder,
    renewed: Instant,
    /// Whether a limit was changed after the run began: it holds from the next round on.
    began: bool,
}

/// What moves a flow by the agent of its target.
///
/// # Errors
/// The target has no agent, a site is not connected, or the files are at no place from which a client could fetch them.
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
    let key = runner.leases.key(&flow.from);
    let fingerprint = key.parse::<AccessKey>().ok().map(|key| key.node.to_string());
    let credentials = ToolRunCredentials { bearer: Some(key), fingerprint };
    let exercise = runner.inputs.exercise;
    let scheme = if tool == LONGHAUL { "lh" } else { source.scheme };
    let base =
        format!("{scheme}://{}{}/{}", source.peer, runner.leases.place(&flow.from), source_directory(&flow.class));
    let files: Vec<ToolRunFile> = if tool == IPERF3 {
        let (_, bytes) = flow.class.volume(exercise.scale);
        vec![ToolRunFile { source: source.peer.clone(), target: "null:".into(), bytes }]
    } else {
        let target = |path: &str| {
            if flow.class.medium.writes() { format!("flow-{number}/{path}") } else { "null:".to_owned() }
        };
        let files = class_files(&flow.class, exercise.scale, exercise.seed).into_iter();
        let copied = |file: crate::data_set::DataFile| ToolRunFile {
            source: format!("{base}/{}", file.path),
            target: target(&file.path),
            bytes: file.bytes,
        };
        files.map(copied).collect()
    };
    let order = ToolRunOrder {
        id: Uuid::nil(),
        tool: tool.to_owned(),
        direction: ToolRunDirection::Get,
        files,
        credentials,
        streams: flow.class.streams,
        window_bytes: flow.class.window_bytes,
        limit_bit_s: None,
        clients: flow.class.clients,
        seconds: None,
        lifetime_s: LIFETIME_S,
    };
    Ok(Box::new(AgentDriver { agent, order, renewed: Instant::now(), began: false }))
}

impl RoundDriver for AgentDriver {
    fn begin(&mut self) -> Result<(), String> {
        self.order.id = Uuid::now_v7();
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
