//! `longhaul exercise agent`: an agent in the foreground.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use auth::{AccessKey, Fingerprint};
use exercise::agent::{Agent, AgentConfig, AgentError, Certificate};
use model::Exit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Common, ExerciseAgent};
use crate::commands::serve;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::random::random;
use crate::settings::{Settings, read_key_file};

/// The default port of an agent.
const AGENT_PORT: u16 = 7420;
/// The default directory of local files, below the state directory.
const WORK: &str = "exercise";

/// Runs the agent until a signal ends it.
///
/// # Errors
/// A setting is wrong, a file cannot be read, or the agent cannot listen.
pub fn run(args: &ExerciseAgent, common: &Common, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let state = settings.state()?;
    let identity = state.identity()?;
    let fingerprint = state.fingerprint()?;
    let key = match &common.key_file {
        Some(file) => key_of_file(file, fingerprint)?,
        None => AccessKey::new(random()?, random()?, fingerprint),
    };
    // A client runs in the directory of local files, so all its paths are absolute.
    let state_path = absolute(state.path())?;
    let directory = args.work.as_deref().map_or_else(|| Ok(state_path.join(WORK)), absolute)?;
    let authorities = common.cacert.as_deref().map(absolute).transpose()?;
    let listener = listen(&serve::addresses_at(args.listen.as_deref(), AGENT_PORT)?)?;
    serve::init_log(printer);
    // Signals are handled before the agent is ready: a supervisor may send one as soon as it is.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| Failure::local(format!("cannot handle signals: {e}")))?;
    let config = AgentConfig {
        listener,
        identity: Some(Certificate { chain: identity.chain, key: identity.key }),
        key: key.clone(),
        tools: Some(args.tools.clone()).filter(|tools| !tools.is_empty()),
        directory,
        clients_max: args.clients_max,
        longhaul: std::env::current_exe().ok(),
        state: Some(state_path),
        authorities,
    };
    let agent = Agent::new(config).map_err(failed)?;
    for tool in agent.tools() {
        if let Some(why) = &tool.missing {
            tracing::info!(tool = tool.tool, why, "this tool cannot be run");
        }
    }
    let address = agent.address().map_err(AgentError::Host).map_err(failed)?;
    let mut ready = format!("listening on https://{address}\n");
    if common.key_file.is_none() {
        ready.push_str(&format!("key {}\n", key.expose_text()));
    }
    // Both lines at once: a reader that has seen the first one has the second one.
    printer.page(&ready).map_err(|error| Failure::local(format!("cannot write to stdout: {error}")))?;
    let stopper = agent.stopper();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    agent.run().map_err(failed)?;
    Ok(Exit::Done)
}

/// Listens on the first address whose family this host has (errno 97: EAFNOSUPPORT).
fn listen(addresses: &[SocketAddr]) -> Result<TcpListener, Failure> {
    let mut failure = Failure::local("there is no address to listen on");
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => {
                let is_family = error.raw_os_error() == Some(97);
                failure = Failure::local(format!("cannot listen on {address}: {error}"));
                if !is_family {
                    break;
                }
            }
        }
    }
    Err(failure)
}

/// The key in a file. It must name this host's identity, since controllers verify the agent by it.
fn key_of_file(file: &Path, fingerprint: Fingerprint) -> Result<AccessKey, Failure> {
    let name = file.display();
    let mut keys = read_key_file(file)?;
    let key = keys.pop().filter(|_| keys.is_empty());
    let key = key.ok_or_else(|| {
        Failure::usage(format!("{name} must have one key: the key that controllers show to this agent"))
    })?;
    if key.node == fingerprint {
        return Ok(key);
    }
    Err(Failure::usage(format!(
        "the key in {name} is for {}, and this agent is {fingerprint}: start it once without --key-file, and keep the key that it prints",
        key.node
    )))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn failed(error: AgentError) -> Failure {
    Failure::from_chain(error.fault(), &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_has_one_key_for_this_agent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let (own, other) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let text = |node| AccessKey::new([3; 8], [4; 32], node).expose_text();
        let read = |content: String| {
            std::fs::write(&file, content).unwrap();
            key_of_file(&file, own).map(|key| key.expose_text()).map_err(|failure| failure.message)
        };
        assert_eq!(read(format!("# agent\n{}\n", text(own))), Ok(text(own)));
        assert!(read(text(other)).unwrap_err().contains("keep the key that it prints"));
        assert!(read(format!("{}\n{}\n", text(own), text(own))).unwrap_err().contains("must have one key"));
        assert!(read(String::new()).unwrap_err().contains("must have one key"));
    }

    #[test]
    fn a_listener_takes_the_first_address_that_the_host_has() {
        let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
        assert!(listen(&[loopback]).unwrap().local_addr().unwrap().port() > 0);
        // An address of documentation (RFC 5737) is not one of this host.
        let foreign: SocketAddr = ([192, 0, 2, 1], 1).into();
        assert!(listen(&[foreign, loopback]).unwrap_err().message.contains("cannot listen on 192.0.2.1:1"));
    }

    #[test]
    fn the_help_names_every_tool() {
        let command = <crate::args::Args as clap::CommandFactory>::command();
        let agent = command.find_subcommand("exercise").unwrap().find_subcommand("agent").unwrap();
        assert!(agent.get_long_about().unwrap().to_string().contains("key lhk1_…"), "the key is not explained");
        let tools = agent.get_arguments().find(|argument| argument.get_long() == Some("tool")).unwrap();
        let help = tools.get_help().unwrap().to_string();
        for name in exercise::agent::tool_names() {
            assert!(help.contains(name), "{name} in {help:?}");
        }
        let clients = agent.get_arguments().find(|argument| argument.get_long() == Some("clients-max")).unwrap();
        assert_eq!(clients.get_default_values(), [exercise::agent::limits::CLIENTS_DEFAULT.to_string().as_str()]);
    }
}
