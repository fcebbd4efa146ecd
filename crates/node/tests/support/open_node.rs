//! A node in the process of the test, on a free port of loopback, with its own directories, until it is dropped. Tests of other
//! crates include this file as well.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::Rights;
use client::StateDir;
use node::{Export, Node, NodeConfig};
use tempfile::TempDir;

/// A running node whose one export anybody may read and write.
pub struct OpenNode {
    dir: TempDir,
    pub node: Arc<Node>,
    pub address: SocketAddr,
}

impl OpenNode {
    /// Starts a node with an export of this name. Payload in clear is allowed.
    pub fn start(export: &str) -> OpenNode {
        OpenNode::start_with(export, |_| {})
    }

    /// Starts a node with an export of this name and a changed configuration.
    pub fn start_with(export: &str, change: impl FnOnce(&mut NodeConfig)) -> OpenNode {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join(export);
        fs::create_dir(&files).unwrap();
        let mut config = NodeConfig {
            exports: vec![Export::here(export, files, true)],
            anonymous: Some(Rights::Write),
            plain: true,
            // The peer of a test is on loopback, which anonymous clients' copies must not reach otherwise.
            serves_one_copy: true,
            ..NodeConfig::new(([127, 0, 0, 1], 0).into(), StateDir::open(&dir.path().join("state")).unwrap())
        };
        change(&mut config);
        let node = Arc::new(Node::bind(config).unwrap());
        let (address, runs) = (node.address().unwrap(), Arc::clone(&node));
        std::thread::spawn(move || runs.run().unwrap());
        OpenNode { dir, node, address }
    }

    /// The directory that holds the state directory, `state`, and the export's directory, by its name.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in that directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for OpenNode {
    fn drop(&mut self) {
        self.node.stopper().stop();
    }
}
