//! A copy of one file, by push, pull or local copy, and the state that its attempts leave to each other.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::client::{Client, Running, unfinished, words};
use crate::node::Node;
use crate::tree::pattern;
use crate::unfinished_state::{assert_nothing_kept, covered, has_no_writer};
use crate::wait::{LONG, until};

pub const MIB: u64 = 1 << 20;
/// A file of six seconds at [`SLOW`], not of whole blocks.
pub const SIZE: usize = (12 << 20) + 12_345;
pub const SLOW: &str = "16Mbit/s";
/// An attempt is ended when the journal has this many bytes.
pub const ENOUGH: u64 = 2 * MIB;
/// The most bytes that two streams may have in flight when an attempt ends.
pub const IN_FLIGHT: u64 = 8 * MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    Push,
    Pull,
    Local,
}

pub const COPY_KINDS: [CopyKind; 3] = [CopyKind::Push, CopyKind::Pull, CopyKind::Local];

/// A copy of one file.
pub struct FileCopy {
    pub kind: CopyKind,
    pub node: Node,
    pub client: Client,
    pub source: PathBuf,
    pub target: PathBuf,
}

impl FileCopy {
    /// The two ends of a copy, without a source file.
    pub fn empty(kind: CopyKind) -> FileCopy {
        let (node, client) = (Node::open(), Client::new());
        let source = if kind == CopyKind::Pull { node.data("s") } else { client.path("s") };
        let dir = if kind == CopyKind::Push { node.data("t") } else { client.path("t") };
        fs::create_dir(&dir).unwrap();
        FileCopy { kind, node, client, source, target: dir.join("f") }
    }

    /// The same, with a source file of [`SIZE`] bytes.
    pub fn new(kind: CopyKind) -> FileCopy {
        let copy = FileCopy::empty(kind);
        fs::write(&copy.source, pattern(SIZE)).unwrap();
        copy
    }

    /// The state directory of the end that writes.
    pub fn state(&self) -> PathBuf {
        if self.kind == CopyKind::Push { self.node.state() } else { self.client.state() }
    }

    /// The directory of the target.
    pub fn dir(&self) -> &Path {
        self.target.parent().unwrap()
    }

    /// The words after `cp`.
    pub fn words(&self, more: &[&str]) -> Vec<OsString> {
        let from =
            if self.kind == CopyKind::Pull { self.node.at("data/s").into() } else { OsString::from(&self.source) };
        let to =
            if self.kind == CopyKind::Push { self.node.at("data/t/f").into() } else { OsString::from(&self.target) };
        let mut words = words!["-r", from, to, "--streams", "2"];
        words.extend(more.iter().map(OsString::from));
        words
    }

    /// Starts a slow attempt, and waits until the journal covers [`ENOUGH`] bytes.
    pub fn begin(&self, more: &[&str]) -> Running {
        let slow = words!["--json", "--limit", SLOW];
        let running = self.client.begin([words!["cp"], self.words(more), slow].concat());
        until("the journal covers enough", LONG, || covered(&self.state()) >= ENOUGH);
        running
    }

    /// Runs an attempt whose client is killed. Returns the bytes that the journal has afterwards.
    pub fn run_killed(&self, more: &[&str]) -> u64 {
        let mut running = self.begin(more);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        self.settled_bytes()
    }

    /// Waits until no process writes any more. Returns the bytes that the journal covers.
    pub fn settled_bytes(&self) -> u64 {
        until("no process writes any more", LONG, || has_no_writer(&self.state()));
        assert!(!self.target.exists() && unfinished(self.dir()).len() == 1);
        covered(&self.state())
    }

    /// The unfinished file.
    pub fn part(&self) -> PathBuf {
        unfinished(self.dir()).remove(0)
    }

    /// Asserts that the same command at full speed completes the file and leaves nothing else.
    pub fn assert_completes(&self, more: &[&str]) -> Value {
        let receipt = self.client.cp(0, self.words(more));
        self.assert_arrived(&receipt);
        receipt
    }

    /// Asserts that the receipt and the target are right, and that nothing unfinished is left.
    pub fn assert_arrived(&self, receipt: &Value) {
        assert_eq!((&receipt["state"], &receipt["files"]), (&"done".into(), &1.into()), "{receipt}");
        assert!(fs::read(&self.source).unwrap() == fs::read(&self.target).unwrap(), "{:?}: it differs", self.kind);
        assert_nothing_kept(self.dir(), &self.state());
    }

    /// Asserts that the same command completes the file without sending again the bytes of the journal.
    pub fn assert_resumes(&self, journalled: u64, more: &[&str]) -> Value {
        let receipt = self.assert_completes(more);
        assert!(
            journalled >= ENOUGH && resumed(&receipt) >= journalled,
            "{:?}: {journalled} were in the journal: {receipt}",
            self.kind
        );
        assert!(count(&receipt, "resent_bytes") <= IN_FLIGHT, "{receipt}");
        let stream_bytes: u64 =
            receipt["streams"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).sum();
        let missing = count(&receipt, "bytes") - resumed(&receipt);
        assert!(stream_bytes <= missing + count(&receipt, "resent_bytes"), "{missing} were missing: {receipt}");
        receipt
    }
}

/// A number of a receipt.
pub fn count(receipt: &Value, what: &str) -> u64 {
    receipt[what].as_u64().unwrap_or_else(|| panic!("no {what} in {receipt}"))
}

/// The bytes that the receipt says were resumed.
pub fn resumed(receipt: &Value) -> u64 {
    count(receipt, "resumed_bytes")
}

/// Runs a body for each of these items, all at the same time.
pub fn each<T: Copy + Send>(items: impl IntoIterator<Item = T>, body: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for item in items {
            let body = &body;
            scope.spawn(move || body(item));
        }
    });
}
