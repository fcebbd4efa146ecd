//! The nodes that this user has connected to: `HOST:PORT FINGERPRINT`, one per line, in the state directory's `known_nodes`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use auth::Fingerprint;
use model::HostPort;

use crate::failure::Failure;

/// The list of known nodes.
pub struct KnownNodes {
    path: PathBuf,
}

impl KnownNodes {
    /// The list in a state directory.
    pub fn new(state: &Path) -> KnownNodes {
        KnownNodes { path: state.join("known_nodes") }
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failure(&self, doing: &str, error: &io::Error) -> Failure {
        Failure::local(format!("cannot {doing} {}: {error}", self.path.display()))
    }

    /// The fingerprint that a node showed at first contact.
    ///
    /// # Errors
    /// The file cannot be read, or the node's line is damaged.
    pub fn find(&self, node: &HostPort) -> Result<Option<Fingerprint>, Failure> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.failure("read", &e)),
        };
        let wanted = node.to_string();
        let line = text.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == wanted);
        let Some((_, fingerprint)) = line else { return Ok(None) };
        let damaged = |_| Failure::local(format!("the line of {wanted} in {} is damaged", self.path.display()));
        fingerprint.trim().parse().map(Some).map_err(damaged)
    }

    /// Remembers the fingerprint of a node. It replaces an earlier one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn pin(&self, node: &HostPort, fingerprint: Fingerprint) -> Result<(), Failure> {
        self.write(node, fingerprint).map_err(|e| self.failure("write", &e))
    }

    fn write(&self, node: &HostPort, fingerprint: Fingerprint) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        // The lock is a file of its own: the list itself is replaced.
        let lock = self.path.with_extension("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock)?;
        lock.lock()?;
        let name = node.to_string();
        let old = fs::read_to_string(&self.path).unwrap_or_default();
        let kept = old.lines().filter(|line| line.split(' ').next() != Some(&name));
        let text: String = kept.map(|line| format!("{line}\n")).chain([format!("{name} {fingerprint}\n")]).collect();
        let temporary = self.path.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        fs::rename(temporary, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_fingerprint_replaces_the_remembered_one() {
        let dir = tempfile::tempdir().unwrap();
        let known = KnownNodes::new(&dir.path().join("new"));
        let node: HostPort = "host.example:99".parse().unwrap();
        let other: HostPort = "[::1]:99".parse().unwrap();
        assert!(known.find(&node).unwrap().is_none());
        known.pin(&node, Fingerprint([1; 32])).unwrap();
        known.pin(&other, Fingerprint([2; 32])).unwrap();
        known.pin(&node, Fingerprint([3; 32])).unwrap();
        assert_eq!(known.find(&node).unwrap(), Some(Fingerprint([3; 32])));
        assert_eq!(known.find(&other).unwrap(), Some(Fingerprint([2; 32])));
        fs::write(known.path(), "host.example:99 rubbish\n").unwrap();
        assert!(known.find(&node).is_err());
    }
}
