//! An agent: runs clients of other tools on its host for an exercise, as a service with a lifetime for everything that it starts.
//!
//! A controller orders runs ([`ToolRunOrder`]) by [`AgentApi`] and renews them. A run that is not renewed is stopped within its
//! lifetime of at most a minute, so that nothing goes on when the controller is gone. A tool is run by a fixed template of arguments
//! from checked fields, never by a shell; credentials are not among the arguments; local paths lie below one directory.
//!
//! What this module does not know: exercises, phases, goals, where the key comes from.

mod addresses;
mod api;
mod arguments;
mod checked_order;
mod installed;
mod iperf3_report;
pub mod limits;
mod local_file;
mod process;
mod process_counters;
mod run_table;
mod service;
mod tool_run;
mod tools;
mod words;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use auth::AccessKey;
use auth::trust::{HTTP_BY_KEY_ALPN, provider};
use model::Fault;
use serve::tls::TlsSettings;
use serve::{Server, Stop, Timeouts};

pub use self::api::AgentApi;
use self::installed::InstalledTools;
use self::process::Launcher;
use self::run_table::RunTable;
use self::service::AgentService;
use self::tool_run::RunSettings;
pub use self::tools::names as tool_names;
pub use self::words::{
    AgentHealth, AgentTool, AgentTools, ToolRunCredentials, ToolRunDirection, ToolRunFile, ToolRunOrder,
    ToolRunRenewal, ToolRunState, ToolRunStatus,
};
pub use serve::tls::Certificate;

/// How long open connections may go on when the agent stops.
const CLOSING: Duration = Duration::from_secs(2);

/// What an agent is started with.
pub struct AgentConfig {
    /// The listener of its port.
    pub listener: TcpListener,
    /// Its certificate and private key; none for HTTP in clear text.
    pub identity: Option<Certificate>,
    /// The key that clients of its API must show.
    pub key: AccessKey,
    /// The names of the tools that it may run; none for all that are known.
    pub tools: Option<Vec<String>>,
    /// The directory that all local paths lie below.
    pub directory: PathBuf,
    /// The most processes at once.
    pub clients_max: u32,
    /// The program that is run for the tool `longhaul`; none if there is none.
    pub longhaul: Option<PathBuf>,
    /// The state directory for processes of `longhaul`.
    pub state: Option<PathBuf>,
    /// The authorities that clients trust instead of those of the system: a PEM file.
    pub authorities: Option<PathBuf>,
}

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The directory of local files cannot be used.
    #[error("cannot use the directory {}: {why}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A tool that is not known.
    #[error("{name:?} is not a tool that an agent knows; it knows {known}")]
    Tool {
        /// The name.
        name: String,
        /// The names of all tools.
        known: String,
    },
    /// The most clients are too few or too many.
    #[error("an agent runs 1 to {max} clients at once, and not {0}", max = limits::CLIENTS_MAX)]
    Clients(u32),
    /// A path is not text.
    #[error("{} is not text (UTF-8), as an argument of a tool must be", .0.display())]
    Path(PathBuf),
    /// The certificate and the key do not belong together.
    #[error("the identity cannot be used: {0}")]
    Identity(String),
    /// The host has no descriptors left, or cannot wait for connections.
    #[error("this host cannot serve connections")]
    Host(#[from] io::Error),
}

impl AgentError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            AgentError::Directory { .. } | AgentError::Tool { .. } | AgentError::Clients(_) | AgentError::Path(_) => {
                Fault::Config
            }
            AgentError::Identity(_) | AgentError::Host(_) => Fault::Local,
        }
    }
}

/// A listening agent. Clones are handles of the same agent.
#[derive(Clone)]
pub struct Agent {
    server: Server<AgentService>,
}

impl Agent {
    /// Checks the settings, and asks each tool for its version. From here on connections wait; [`Agent::run`] serves them.
    ///
    /// # Errors
    /// A setting is wrong, or the host has no descriptors left.
    pub fn new(config: AgentConfig) -> Result<Agent, AgentError> {
        if !(1..=limits::CLIENTS_MAX).contains(&config.clients_max) {
            return Err(AgentError::Clients(config.clients_max));
        }
        let directory = open_directory(&config.directory)?;
        let settings_path = |path: Option<PathBuf>| {
            let text =
                |path: PathBuf| path.into_os_string().into_string().map_err(|text| AgentError::Path(text.into()));
            path.map(text).transpose()
        };
        let authorities = settings_path(config.authorities)?;
        let state = settings_path(config.state)?;
        let launcher = Launcher::new(&directory);
        let ends_with_agent = launcher.ends_with_agent();
        if !ends_with_agent {
            tracing::warn!(
                "clients go on if this process is killed by SIGKILL: setpriv has no --pdeathsig here (util-linux 2.33 has it)"
            );
        }
        if rustix::process::geteuid().is_root() {
            tracing::warn!(
                "clients run as root here; start the agent as a user that may write to its directory and do little else"
            );
        }
        let tools = InstalledTools::find(config.tools.as_deref(), config.longhaul.as_deref(), &launcher);
        let known = || tool_names().collect::<Vec<_>>().join(", ");
        let tools = tools.map_err(|name| AgentError::Tool { name, known: known() })?;
        let tls = config.identity.as_ref().map(tls_settings).transpose()?;
        let runs = RunTable::new(RunSettings { launcher, authorities, state }, config.clients_max);
        let service = AgentService { key: config.key, tools, ends_with_agent, runs, has_tls: tls.is_some() };
        Ok(Agent { server: Server::new(config.listener, Arc::new(service), tls, Timeouts::default())? })
    }

    /// The address that the agent listens on.
    ///
    /// # Errors
    /// The system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.server.address()
    }

    /// The tools, with their versions.
    pub fn tools(&self) -> Vec<AgentTool> {
        self.server.service().tools.describe()
    }

    /// A handle that stops the agent from another thread.
    pub fn stopper(&self) -> Stop {
        self.server.stopper()
    }

    /// Serves until stopped. Then it ends all clients, and returns when none is left.
    ///
    /// # Errors
    /// This host cannot wait for connections.
    pub fn run(&self) -> Result<(), AgentError> {
        let served = self.server.run();
        self.server.service().runs.close();
        self.server.close_idle();
        self.server.wait_until_closed(CLOSING);
        Ok(served?)
    }
}

/// Checks the directory of local files, and makes it if it is missing. Returns its path without links.
fn open_directory(path: &Path) -> Result<PathBuf, AgentError> {
    let fail = |why: String| AgentError::Directory { path: path.to_owned(), why };
    std::fs::create_dir_all(path).map_err(|error| fail(error.to_string()))?;
    let directory = path.canonicalize().map_err(|error| fail(error.to_string()))?;
    addresses::check_directory(&directory).map_err(fail)?;
    Ok(directory)
}

/// The TLS settings: clients verify the agent by its key.
fn tls_settings(identity: &Certificate) -> Result<TlsSettings, AgentError> {
    let provider = provider();
    let settings = TlsSettings::new(&provider, identity, None)
        .and_then(|settings| settings.with_http_by_name(&provider, HTTP_BY_KEY_ALPN, identity));
    settings.map_err(|error| AgentError::Identity(error.to_string()))
}
