//! Connects the sites of an exercise: nodes by the keys that their operators gave, or those of a lab.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::AccessKey;
use auth::trust::{HTTP_BY_KEY_ALPN, Trust, client_config};
use exercise::agent::AgentApi;
use exercise::run::RunSite;
use exercise::{Exercise, ExerciseSite};
use web::{Dialer, HttpUrl};

use super::rig::LabRig;
use crate::failure::Failure;
use crate::settings::read_key_file;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node may send nothing.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The sites that could be connected, and why the others could not.
#[derive(Default)]
pub struct ConnectedSites {
    /// Those that take part.
    pub sites: Vec<RunSite>,
    /// Those that are left out, and why.
    pub left_out: Vec<(String, String)>,
}

/// Connects all sites that flows use. A site that does not answer is left out; the others go on.
///
/// # Errors
/// A key cannot be read: that is a fault of the file, and not of a site.
pub fn connect(exercise: &Exercise, file_dir: &Path, rig: Option<&LabRig<'_>>) -> Result<ConnectedSites, Failure> {
    let mut connected = ConnectedSites::default();
    for name in exercise.used_sites() {
        let site = match rig {
            Some(rig) => lab_site(name, rig)?,
            None => real_site(name, &exercise.sites[name], file_dir)?,
        };
        match site.health() {
            Ok(()) => connected.sites.push(site),
            Err(why) => connected.left_out.push((name.to_owned(), why)),
        }
    }
    Ok(connected)
}

fn lab_site(name: &str, rig: &LabRig<'_>) -> Result<RunSite, Failure> {
    let address = rig.node(name).ok_or_else(|| Failure::local(format!("the lab has no node at {name}")))?;
    let agent = rig
        .agent(name)
        .map(|agent| {
            let origin = format!("https://{}/", agent.control);
            Ok::<_, Failure>(AgentApi::new(dialer(&agent.key)?, url(&origin)?, Some(&bearer(&agent.key))))
        })
        .transpose()?;
    Ok(RunSite {
        name: name.to_owned(),
        dialer: dialer(&address.key)?,
        origin: url(&format!("https://{}/", address.control))?,
        key: address.key,
        peer: address.peer,
        scheme: "https",
        agent,
        servers: rig.servers(name),
    })
}

fn real_site(name: &str, site: &ExerciseSite, file_dir: &Path) -> Result<RunSite, Failure> {
    let node = site.node.as_deref().unwrap_or_default();
    let key_file = site.key_file.as_deref().ok_or_else(|| {
        Failure::usage(format!(
            "[site.{name}] has no key_file; its operator makes the key with `longhaul grant --export exercise --write`"
        ))
    })?;
    let key = read_key(&file_dir.join(key_file))?;
    let agent = match (&site.agent, &site.agent_key_file) {
        (Some(agent), Some(file)) => {
            let key = read_key(&file_dir.join(file))?;
            Some(AgentApi::new(dialer(&key)?, url(agent)?, Some(&bearer(&key))))
        }
        (Some(_), None) => return Err(Failure::usage(format!("[site.{name}] has an agent and no agent_key_file"))),
        (None, _) => None,
    };
    let origin = url(node)?;
    let host = if origin.host().contains(':') { format!("[{}]", origin.host()) } else { origin.host().to_owned() };
    Ok(RunSite {
        name: name.to_owned(),
        dialer: dialer(&key)?,
        peer: format!("{host}:{}", origin.port()),
        origin,
        key,
        scheme: "https",
        agent,
        servers: site.servers.clone(),
    })
}

/// The one key in a file.
fn read_key(file: &Path) -> Result<String, Failure> {
    let mut keys = read_key_file(file)?;
    let key = keys.pop().filter(|_| keys.is_empty());
    key.map(|key| key.expose_text()).ok_or_else(|| Failure::usage(format!("{} must have one key", file.display())))
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

fn url(text: &str) -> Result<HttpUrl, Failure> {
    HttpUrl::parse(text).map_err(|error| Failure::usage(format!("{text}: {error}")))
}

/// Connects to the node or agent that a key names.
fn dialer(key: &str) -> Result<Dialer, Failure> {
    let key: AccessKey =
        key.parse().map_err(|error| Failure::usage(format!("a key of the exercise cannot be read: {error}")))?;
    let (tls, _) = client_config(&Trust::Fingerprints(vec![key.node]), vec![HTTP_BY_KEY_ALPN.to_vec()])
        .map_err(|error| Failure::local(format!("cannot set up TLS: {error}")))?;
    Ok(Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: CONNECT_TIMEOUT, silence: SILENCE_MAX })
}
