//! One file on its way, by push, pull or local copy, and what its attempts leave to each other.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::client::{Client, Running, unfinished, words};
use crate::kept::{assert_nothing_kept, at_rest, covered};
use crate::node::Node;
use crate::tree::pattern;
use crate::wait::{LONG, until};

pub const MIB: u64 = 1 << 20;
/// A file of six seconds at [`SLOW`], not of whole blocks.
pub const SIZE: usize = (12 << 20) + 12_345;
pub const SLOW: &str = "16Mbit/s";
/// An attempt is ended when so much is written down.
pub const ENOUGH: u64 = 2 * MIB;
/// What two streams may have on the way when an attempt ends.
pub const IN_FLIGHT: u64 = 8 * MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Push,
    Pull,
    Local,
}

pub const WAYS: [Way; 3] = [Way::Push, Way::Pull, Way::Local];

/// One file on its way.
pub struct Ends {
    pub way: Way,
    pub node: Node,
    pub client: Client,
    pub source: PathBuf,
    pub target: PathBuf,
}

impl Ends {
    pub fn empty(way: Way) -> Ends {
        let (node, client) = (Node::open(), Client::new());
        let source = if way == Way::Pull { node.data("s") } else { client.path("s") };
        let dir = if way == Way::Push { node.data("t") } else { client.path("t") };
        fs::create_dir(&dir).unwrap();
        Ends { way, node, client, source, target: dir.join("f") }
    }

    pub fn new(way: Way) -> Ends {
        let ends = Ends::empty(way);
        fs::write(&ends.source, pattern(SIZE)).unwrap();
        ends
    }

    /// The state directory of the end that writes.
    pub fn state(&self) -> PathBuf {
        if self.way == Way::Push { self.node.state() } else { self.client.state() }
    }

    pub fn dir(&self) -> &Path {
        self.target.parent().unwrap()
    }

    pub fn words(&self, more: &[&str]) -> Vec<OsString> {
        let from = if self.way == Way::Pull { self.node.at("data/s").into() } else { OsString::from(&self.source) };
        let to = if self.way == Way::Push { self.node.at("data/t/f").into() } else { OsString::from(&self.target) };
        let mut words = words!["-r", from, to, "--streams", "2"];
        words.extend(more.iter().map(OsString::from));
        words
    }

    /// A slow attempt, well within the file.
    pub fn begin(&self, more: &[&str]) -> Running {
        let slow = words!["--json", "--limit", SLOW];
        let running = self.client.begin([words!["cp"], self.words(more), slow].concat());
        until("much of it is written down", LONG, || covered(&self.state()) >= ENOUGH);
        running
    }

    /// An attempt whose client is killed. Returns what is written down afterwards.
    pub fn killed(&self, more: &[&str]) -> u64 {
        let mut running = self.begin(more);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        self.rest()
    }

    pub fn rest(&self) -> u64 {
        until("nobody writes any more", LONG, || at_rest(&self.state()));
        assert!(!self.target.exists() && unfinished(self.dir()).len() == 1);
        covered(&self.state())
    }

    pub fn part(&self) -> PathBuf {
        unfinished(self.dir()).remove(0)
    }

    /// The same command at full speed completes the file and leaves nothing else.
    pub fn completes(&self, more: &[&str]) -> Value {
        let receipt = self.client.cp(0, self.words(more));
        self.assert_arrived(&receipt);
        receipt
    }

    pub fn assert_arrived(&self, receipt: &Value) {
        assert_eq!((&receipt["state"], &receipt["files"]), (&"done".into(), &1.into()), "{receipt}");
        assert!(fs::read(&self.source).unwrap() == fs::read(&self.target).unwrap(), "{:?}: it differs", self.way);
        assert_nothing_kept(self.dir(), &self.state());
    }

    /// Completes it without sending again what is written down.
    pub fn goes_on(&self, there: u64, more: &[&str]) -> Value {
        let receipt = self.completes(more);
        assert!(there >= ENOUGH && resumed(&receipt) >= there, "{:?}: {there} were there: {receipt}", self.way);
        assert!(count(&receipt, "resent_bytes") <= IN_FLIGHT, "{receipt}");
        let crossed: u64 = receipt["streams"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).sum();
        let missing = count(&receipt, "bytes") - resumed(&receipt);
        assert!(crossed <= missing + count(&receipt, "resent_bytes"), "{missing} were missing: {receipt}");
        receipt
    }
}

pub fn count(receipt: &Value, what: &str) -> u64 {
    receipt[what].as_u64().unwrap_or_else(|| panic!("no {what} in {receipt}"))
}

pub fn resumed(receipt: &Value) -> u64 {
    count(receipt, "resumed_bytes")
}

/// Runs a body for each of these at once.
pub fn each<T: Copy + Send>(of: impl IntoIterator<Item = T>, body: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for one in of {
            let body = &body;
            scope.spawn(move || body(one));
        }
    });
}
