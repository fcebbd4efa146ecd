//! The user's configuration of the client, `~/.config/longhaul/config.toml`: nodes by a short name, and defaults of copies.
//!
//! ```toml
//! [defaults]
//! limit = "2Gbit/s"
//!
//! [node.cern]
//! address = "dtn.cern.example:7411"
//! key-file = "cern.key"        # beside this file
//! plain = true
//! ```
//!
//! Precedence, highest first: the command line, the environment, a node's settings, the defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::{HostPort, Locator, locator};
use serde::Deserialize;

use crate::copy_defaults::{CopyDefaults, checksums, limit};
use crate::failure::Failure;
use crate::toml_file;

/// Names that no node may have: before a colon they mean something else in a locator.
const RESERVED: [&str; 4] = ["null", "zero", "lh", "file"];

/// The configuration file, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    node: BTreeMap<String, Node>,
}

/// The defaults of copies, as they are written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    limit: Option<String>,
    plain: Option<bool>,
    checksum: Option<String>,
}

/// A node, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    address: String,
    #[serde(rename = "key-file")]
    key_file: Option<PathBuf>,
    limit: Option<String>,
    plain: Option<bool>,
    checksum: Option<String>,
}

/// A node that has a name.
#[derive(Debug)]
pub struct NamedNode {
    /// Where it listens.
    pub at: HostPort,
    /// The file with access keys for it.
    pub key_file: Option<PathBuf>,
    copy_defaults: CopyDefaults,
}

/// The configuration of a client.
#[derive(Debug, Default)]
pub struct ClientConfig {
    copy_defaults: CopyDefaults,
    nodes: BTreeMap<String, NamedNode>,
}

/// The path of the configuration file; none without a home directory.
pub fn path() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(base.join("longhaul/config.toml"))
}

impl ClientConfig {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is wrong.
    pub fn load() -> Result<ClientConfig, Failure> {
        match path() {
            Some(path) if path.exists() => ClientConfig::read(&path),
            _ => Ok(ClientConfig::default()),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`ClientConfig::load`].
    pub fn read(path: &Path) -> Result<ClientConfig, Failure> {
        let file: File = toml_file::read(path)?;
        let fail = |at: &str, why: String| Failure::usage(format!("{}: {at}: {why}", path.display()));
        let copy_defaults = file.defaults.copy_defaults().map_err(|why| fail("[defaults]", why))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let mut nodes = BTreeMap::new();
        for (name, node) in file.node {
            let node = check_name(&name).and_then(|()| node.read(&copy_defaults, dir));
            let node = node.map_err(|why| fail(&format!("[node.{name}]"), why))?;
            nodes.insert(name, node);
        }
        Ok(ClientConfig { copy_defaults, nodes })
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The node of this name.
    pub fn named(&self, name: &str) -> Option<&NamedNode> {
        self.nodes.get(name)
    }

    /// The node at this address, if it has a name.
    pub fn node(&self, at: &HostPort) -> Option<&NamedNode> {
        self.nodes.values().find(|node| node.at == *at)
    }

    /// The locator that `NAME:PATH` stands for; none where NAME is not the name of a node.
    ///
    /// # Errors
    /// PATH is no valid path.
    pub fn locator(&self, text: &[u8]) -> Option<Result<Locator, Failure>> {
        let at = text.iter().position(|byte| *byte == b':')?;
        let node = self.nodes.get(std::str::from_utf8(&text[..at]).ok()?)?;
        Some(Locator::on_node(&node.at, &text[at + 1..]).map_err(Failure::from))
    }

    /// The defaults of a copy from or to this node, or of a copy without a node.
    pub fn copy_defaults(&self, node: Option<&HostPort>) -> &CopyDefaults {
        node.and_then(|at| self.node(at)).map_or(&self.copy_defaults, |named| &named.copy_defaults)
    }
}

impl Defaults {
    fn copy_defaults(&self) -> Result<CopyDefaults, String> {
        let limit = self.limit.as_deref().map(limit).transpose().map_err(|why| format!("limit: {why}"))?;
        let checksum = self.checksum.as_deref().map(checksums).transpose().map_err(|why| format!("checksum: {why}"))?;
        Ok(CopyDefaults { limit, plain: self.plain.unwrap_or(false), checksum })
    }
}

impl Node {
    fn read(self, defaults: &CopyDefaults, dir: &Path) -> Result<NamedNode, String> {
        let address = self.address.strip_prefix("lh://").unwrap_or(&self.address).trim_end_matches('/');
        let at = address.parse().map_err(|why| format!("address: {why}; write HOST or HOST:PORT"))?;
        let own = Defaults { limit: self.limit, plain: self.plain, checksum: self.checksum }.copy_defaults()?;
        let copy_defaults = CopyDefaults {
            limit: own.limit.or(defaults.limit),
            plain: self.plain.unwrap_or(defaults.plain),
            checksum: own.checksum.or_else(|| defaults.checksum.clone()),
        };
        Ok(NamedNode { at, key_file: self.key_file.map(|file| resolve_file(dir, &file)), copy_defaults })
    }
}

/// The path of a file that the configuration names: `~` is the home directory; other paths are relative to the configuration.
fn resolve_file(dir: &Path, file: &Path) -> PathBuf {
    match (file.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => dir.join(file),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_permitted = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_permitted) {
        return Err("a node's name has letters, digits, - _ and . only".to_owned());
    }
    if RESERVED.contains(&name) || locator::REMOTE_SCHEMES.contains(&name) {
        return Err(format!("`{name}:` has another meaning in a locator; take another name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
