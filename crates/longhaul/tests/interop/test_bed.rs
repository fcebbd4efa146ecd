//! The test bed: all servers of a run, and their shared files.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::clients::is_installed;
use crate::firefly::Collector;
use crate::node::Node;
use crate::pki::Pki;
use crate::test_nodes::{self, NodeKind};
use crate::tokens::Tokens;
use crate::xrootd::{Xrootd, XrootdRole};

/// The process of a server.
pub enum Process {
    Node(Node),
    Stock(Xrootd),
    /// Not installed.
    Absent,
}

/// A server: an `http`, an `https` and perhaps a `root` one on one port, with the exports `data` and `pub`.
pub struct Server {
    pub process: Process,
    pub port: u16,
    /// The directory of `/` on the disk.
    pub files: PathBuf,
}

impl Server {
    fn of_node(node: Node) -> Server {
        let files = node.data("").parent().unwrap().to_owned();
        Server { port: node.port, files, process: Process::Node(node) }
    }

    fn stock(pki: &Pki, tokens: Option<&Tokens>) -> Server {
        // The keys of its tokens are put in place with the Python that gfal2 runs on.
        let seeded = tokens.is_none() || Path::new("/usr/bin/python3").exists();
        if !is_installed("xrootd") || !is_installed("setpriv") || !seeded {
            return Server { process: Process::Absent, port: 0, files: PathBuf::new() };
        }
        let xrootd = Xrootd::start(pki, XrootdRole::Storage(tokens));
        Server { port: xrootd.port, files: xrootd.files(), process: Process::Stock(xrootd) }
    }

    /// Whether it runs.
    pub fn is_there(&self) -> bool {
        !matches!(self.process, Process::Absent)
    }

    /// Makes a key for it, where it is a Longhaul node.
    pub fn grant(&self, options: &[&str]) -> Option<String> {
        match &self.process {
            Process::Node(node) => Some(node.grant(options)),
            _ => None,
        }
    }

    /// Its log.
    pub fn log(&self) -> String {
        match &self.process {
            Process::Node(node) => node.log(),
            Process::Stock(xrootd) => xrootd.log(),
            Process::Absent => String::new(),
        }
    }
}

/// The test bed of a run.
pub struct TestBed {
    pub pki: Pki,
    pub tokens: Tokens,
    /// The tested server, which admits anonymous clients.
    pub open: Server,
    /// The tested server, which demands credentials.
    pub closed: Server,
    /// The tested server, which connects to no local address.
    pub cautious: Server,
    /// The stock server, which admits anonymous clients.
    pub stock: Server,
    /// The stock server, which demands tokens.
    pub guarded: Server,
    pub collector: Collector,
    /// The last field, so that it is dropped last.
    _dir: TempDir,
}

impl TestBed {
    /// Starts all servers; with `against_stock`, stock servers replace the nodes.
    pub fn start(against_stock: bool) -> TestBed {
        let dir = tempfile::Builder::new().prefix("interop-").tempdir().unwrap();
        open_to_all(dir.path());
        let (pki, tokens) = (Pki::make(dir.path()), Tokens::new());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let collector = Collector::start(socket);
        let subject = |kind: NodeKind| {
            if against_stock {
                Server::stock(&pki, (kind == NodeKind::Closed).then_some(&tokens))
            } else {
                Server::of_node(test_nodes::start(kind, &pki, &tokens, collector.address))
            }
        };
        TestBed {
            open: subject(NodeKind::Open),
            closed: subject(NodeKind::Closed),
            cautious: subject(NodeKind::Cautious),
            stock: Server::stock(&pki, None),
            guarded: Server::stock(&pki, Some(&tokens)),
            pki,
            tokens,
            collector,
            _dir: dir,
        }
    }
}

/// Lets servers that run as another user read and write below a path.
pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = if path.is_dir() { 0o777 } else { 0o666 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
