//! The JSON of the agent's API: what a controller sends, and what an agent answers.

use std::fmt;

use model::id::Uuid;
use serde::{Deserialize, Serialize};

/// The health of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHealth {
    /// Always 1.
    pub v: u32,
    /// Always `ok`.
    pub status: String,
    /// The version of the program.
    pub version: String,
    /// Processes of clients that unfinished runs have reserved.
    pub clients: u32,
    /// The most processes of clients at once.
    pub clients_max: u32,
}

/// The tools of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTools {
    /// Always 1.
    pub v: u32,
    /// Whether the kernel kills the clients if the agent dies; needs `setpriv --pdeathsig` (util-linux 2.33).
    pub ends_with_agent: bool,
    /// Every tool that the agent was allowed to run.
    pub tools: Vec<AgentTool>,
}

/// A tool of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTool {
    /// Its name in orders.
    pub tool: String,
    /// The first line that it prints with `--version`; none if it cannot be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it cannot be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Whether it can limit its rate.
    pub can_limit: bool,
    /// The most streams of a process.
    pub streams_max: u32,
    /// Whether the buffers of its sockets can be set.
    pub can_set_window: bool,
}

/// The direction of the data, as the host of the agent sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRunDirection {
    /// From a server to the host of the agent.
    Get,
    /// From the host of the agent to a server.
    Put,
}

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRunFile {
    /// A URL (get), or a path below the agent's directory (put). For iperf3 it is the server in both directions: `HOST:PORT`.
    pub source: String,
    /// A path below the agent's directory or `null:` (get), or a URL (put). For iperf3 it is always `null:`.
    pub target: String,
    /// Its size, bytes. A copy that ends with another size has failed.
    pub bytes: u64,
}

/// What clients show to a server, and how they verify it.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRunCredentials {
    /// A token or an access key, which is sent as `Authorization: Bearer …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
    /// The fingerprint of the server's public key (`SHA256:…`), which curl verifies instead of an authority. Other tools verify the
    /// server's certificate by authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl fmt::Debug for ToolRunCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bearer = self.bearer.as_ref().map(|_| "…");
        f.debug_struct("ToolRunCredentials").field("bearer", &bearer).field("fingerprint", &self.fingerprint).finish()
    }
}

/// An order: run clients of a tool over files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRunOrder {
    /// The id of the run. The same order sent again is the same run.
    pub id: Uuid,
    /// The name of the tool.
    pub tool: String,
    /// The direction of the data.
    pub direction: ToolRunDirection,
    /// The files. Each process copies `files_each` of them, and the next process takes the next ones.
    pub files: Vec<ToolRunFile>,
    /// Files of each process, one after another. More than one only for tools that can do that, and if the files of a process are in one
    /// local directory under the names that they have on the server.
    #[serde(default = "one_file")]
    pub files_each: u32,
    /// What clients show to the server.
    #[serde(default)]
    pub credentials: ToolRunCredentials,
    /// Streams of each process; without it the tool's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Buffers of each socket, bytes; without it the tool's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// The limit of all processes of the run together, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
    /// The most processes at once.
    pub clients: u32,
    /// How long each test lasts, seconds; for iperf3 only, and instead of `bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// The SciTag of the traffic; tools that have no word for it leave their traffic without a mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
    /// The run is stopped after this time unless it is renewed, seconds: 1 to 60.
    pub lifetime_s: u32,
}

fn one_file() -> u32 {
    1
}

/// Renews a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRunRenewal {
    /// The run is stopped after this time from now unless it is renewed again, seconds: 1 to 60.
    pub lifetime_s: u32,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRunState {
    /// It runs, or its processes are being ended.
    Running,
    /// All files were copied.
    Done,
    /// All files were tried, and some were not copied.
    Failed,
    /// It was stopped before its last file; `reason` says why.
    Stopped,
}

impl ToolRunState {
    /// Whether the run has ended.
    pub fn is_last(self) -> bool {
        self != ToolRunState::Running
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRunStatus {
    /// Its id.
    pub id: Uuid,
    /// Its tool.
    pub tool: String,
    /// Its state.
    pub state: ToolRunState,
    /// Why it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Files of the order.
    pub files: u64,
    /// Files that were copied.
    pub files_done: u64,
    /// Files that were tried and not copied.
    pub files_failed: u64,
    /// Bytes of the copied files, and what can be seen of those that are being copied. The number falls when a copy fails.
    pub bytes_done: u64,
    /// Processes that run.
    pub processes: u32,
    /// Processor time of all processes so far, user and system, seconds.
    pub cpu_s: f64,
    /// TCP retransmissions, where the tool reports them (iperf3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// The first errors, each with its file and the end of what the tool wrote to stderr.
    pub errors: Vec<String>,
    /// When the run began (RFC 3339).
    pub started: String,
    /// When the run ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_no_unknown_fields_and_does_not_show_its_bearer() {
        let text = r#"{"id": "0190b5c8-0000-7000-8000-000000000001", "tool": "curl", "direction": "get",
            "files": [{"source": "https://h/f", "target": "null:", "bytes": 1}],
            "credentials": {"bearer": "s3cret"}, "clients": 1, "lifetime_s": 30}"#;
        let order: ToolRunOrder = serde_json::from_str(text).unwrap();
        assert_eq!(order.credentials.bearer.as_deref(), Some("s3cret"));
        assert!(!format!("{order:?}").contains("s3cret"));
        let again: ToolRunOrder = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
        assert_eq!(again, order);
        assert!(serde_json::from_str::<ToolRunOrder>(&text.replace("\"clients\"", "\"client\"")).is_err());
        assert!(serde_json::from_str::<ToolRunRenewal>(r#"{"lifetime_s": 3, "x": 1}"#).is_err());
    }
}
