//! Requests and responses of a node's API (`/api/v1`): orders of an orchestrator, and their states.
//!
//! A field here is a promise to programs, as everywhere in `v1`. Requests refuse unknown fields, so that the author of a request
//! finds a misspelt one; responses may have more fields in a later version.

mod probes;
mod schedules;

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::Uuid;

pub use probes::{
    LatencyProbe, LimitsProbe, PathProbe, Probe, ProbeKey, ProbeOrder, ProbeStage, ProbeTest, Probes, TcpProbe,
    UdpProbe,
};
pub use schedules::{
    Delays, Found, Measurement, Measurements, PortLoss, Repeat, Schedule, ScheduleStatus, ScheduledTest, Schedules,
    StreamReport, StreamTest,
};

/// A transfer to be made. One end is a place of the node that is asked, always; the other is another node or a server.
///
/// The client chooses the id. The same order sent twice is one transfer; credentials do not count when two are compared, so that
/// one may be sent again with a newer token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Chosen by whoever orders, best a UUID of version 7.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// Where the bytes come from: places of this node (`/EXPORT/PATH`), or all of one other node (`lh://HOST/EXPORT/PATH`) or
    /// server (`https://…`, `davs://…`, `s3://BUCKET/KEY`). None with `files`.
    #[serde(default)]
    pub source: Vec<String>,
    /// Where they go, written alike. With a slash at its end, or with several sources, they go below it. Empty with `files`.
    #[serde(default)]
    pub target: String,
    /// Instead of `source` and `target`: files one by one, 10,000 at most. All sources are at one end, in one export or on one server,
    /// and so are all targets; directories are made where they are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<OrderFile>,
    /// How to treat what it meets.
    #[serde(default)]
    pub options: Options,
    /// The most payload to send, bit/s; 0 for no limit.
    #[serde(default)]
    pub limit_bit_s: u64,
    /// How long the limit holds, seconds, unless a change says one again; for ever unless said. Afterwards there is none: so whoever
    /// steers from afar can be lost without the transfer crawling for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_for_s: Option<u64>,
    /// How many streams; 0 leaves it to the node.
    #[serde(default)]
    pub streams: u32,
    /// Begin paused.
    #[serde(default)]
    pub paused: bool,
    /// Congestion control of its streams, where both hosts have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// How long to keep trying without progress, seconds; 900 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_for_s: Option<u64>,
    /// Payload in clear, where the other node allows it.
    #[serde(default)]
    pub plain: bool,
    /// The fingerprint of the other node. An access key says it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who one is at the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

impl Order {
    /// An order from one source to one target, with the default of everything else.
    pub fn new(id: Uuid, source: impl Into<String>, target: impl Into<String>) -> Order {
        Order {
            id,
            source: vec![source.into()],
            target: target.into(),
            files: Vec::new(),
            options: Options::default(),
            limit_bit_s: 0,
            limit_for_s: None,
            streams: 0,
            paused: false,
            congestion: None,
            retry_for_s: None,
            plain: false,
            node: None,
            credentials: None,
        }
    }

    /// The same without secrets.
    #[must_use]
    pub fn without_credentials(&self) -> Order {
        Order { credentials: None, ..self.clone() }
    }
}

/// One of many files of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderFile {
    /// Where its bytes come from.
    pub source: String,
    /// Where they go: the file itself.
    pub target: String,
    /// Its size, where it is known: another one is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// `ALGORITHM:VALUE`, a digest that it must have: with another one it is not put in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// What became of a file of a transfer that was ordered file by file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileResult {
    /// Its place in the order's `files`.
    pub index: u64,
    /// It is at its target, verified.
    pub done: bool,
    /// Its bytes.
    pub bytes: u64,
    /// Whose fault it was that it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A page of files that have ended, in the order in which they did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileResults {
    /// The files.
    pub files: Vec<FileResult>,
    /// Where the next page begins (`?after=`): how many have been told.
    pub next: u64,
}

/// How a transfer treats what it meets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Directories may be copied.
    pub recursive: bool,
    /// A symbolic link at the source is copied as what it leads to.
    pub copy_links: bool,
    /// When an existing target counts as already there: `none`, `exists`, `size`, `mtime` or `digest`; `mtime` unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<String>,
    /// An existing target that differs is an error.
    pub no_overwrite: bool,
    /// Data reaches stable storage before a file counts as done.
    pub durable: bool,
    /// Whole-file digests; `crc32c` unless said, an empty list for none (memory ends only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Vec<String>>,
    /// What the source lacks is removed at the target, when all the rest is done: nothing where it is more than half of a target of
    /// more than 100 entries.
    pub delete: bool,
    /// With `delete`: nothing where it is more than so many entries, instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delete: Option<u64>,
    /// With `delete`: however many they are.
    pub force: bool,
    /// Nothing is changed; the receipt says what would be.
    pub dry_run: bool,
    /// Owners are kept.
    pub owner: bool,
    /// Extended attributes and ACLs are kept.
    pub xattrs: bool,
    /// How long a full target is waited for, seconds; 600 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_space_s: Option<u64>,
    /// Which entries take part; the first rule that fits decides, and none that fits means yes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

/// A rule on which entries take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// What fits takes part, or is left out.
    pub include: bool,
    /// The pattern, as for `longhaul cp --include`.
    pub pattern: String,
}

/// Who one is at the other end. Kept with the order while it is under way, never told again, removed with its end.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Credentials {
    /// An access key of the other node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub key: Option<String>,
    /// A bearer token for a WebDAV server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub token: Option<String>,
    /// A certificate that a WebDAV server is shown where it asks for one, and its key: PEM, as proxies of the grid are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub certificate: Option<String>,
    /// A key to an S3 server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |there: bool| if there { "…" } else { "none" };
        write!(f, "Credentials {{ key: {}, token: {}, ", has(self.key.is_some()), has(self.token.is_some()))?;
        write!(f, "certificate: {}, s3: {} }}", has(self.certificate.is_some()), has(self.s3.is_some()))
    }
}

/// An S3 server, and a key to it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct S3 {
    /// `https://HOST[:PORT]`; Amazon's own unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The region; `us-east-1` unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The bucket's name comes before the host rather than before the path.
    pub virtual_hosted: bool,
    /// The key's id; without one the bucket is open to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub secret_access_key: Option<String>,
    /// The token of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub session_token: Option<String>,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3").field("endpoint", &self.endpoint).field("region", &self.region).finish_non_exhaustive()
    }
}

/// Whether a node is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or `stopping`.
    pub status: String,
}

/// What a node can do for whoever asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// The program and its version.
    pub software: String,
    /// The node's fingerprint.
    pub node: String,
    /// Where it listens, `ADDRESS:PORT`.
    pub addresses: Vec<String>,
    /// The exports that whoever asks may know of.
    pub exports: Vec<Export>,
    /// What it speaks on its port.
    pub protocols: Vec<String>,
    /// Schemes that the other end of a transfer may have.
    pub schemes: Vec<String>,
    /// Bounds.
    pub limits: Limits,
    /// What it is busy with.
    pub load: Load,
}

/// An export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// Its name: the first part of a place.
    pub name: String,
    /// Whether anything below it may be changed at all.
    pub writable: bool,
    /// It lies on somebody else's server.
    pub elsewhere: bool,
}

/// Bounds of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// Transfers under way at once; what is ordered beyond waits for its turn.
    pub running_max: u64,
    /// Of them, those of one who orders.
    pub running_each_max: u64,
    /// Transfers that have not ended; more are refused.
    pub unended_max: u64,
    /// Transfers that have ended and are remembered.
    pub remembered_max: u64,
    /// Transfers on a page.
    pub page_max: u64,
    /// Bytes of an order.
    pub body_bytes_max: u64,
    /// Streams of events at once.
    pub event_streams_max: u64,
    /// Tests of one who orders that have not ended; one runs at a time.
    #[serde(default)]
    pub probes_unended_max: u64,
    /// The longest test, seconds.
    #[serde(default)]
    pub probe_seconds_max: u64,
}

/// What a node is busy with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Load {
    /// Transfers under way, everybody's.
    pub running: u64,
    /// Transfers that wait for their turn, everybody's.
    pub queued: u64,
    /// Processors of the host.
    pub processors: u64,
    /// Processes that run or wait to, on average over the last minute, in hundredths of a process.
    pub load_percent: u64,
}

/// Why a request was not answered as it would like (RFC 9457, `application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The status in words.
    pub title: String,
    /// The status.
    pub status: u16,
    /// Whose fault: `config`, `auth`, `missing`, …
    pub fault: String,
    /// What, where and the remedy, in one sentence.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Credentials {
        let s3 = S3 { secret_access_key: Some("s3cret".into()), ..S3::default() };
        let certificate = Some("c3rtificate".into());
        Credentials { key: Some("k3y".into()), token: Some("t0ken".into()), certificate, s3: Some(s3) }
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut order = Order::new(Uuid::nil(), "/data/a", "lh://h/data/");
        order.credentials = Some(secrets());
        let text = format!("{order:?} {:?}", secrets().s3);
        assert!(!["s3cret", "k3y", "t0ken", "c3rtificate"].iter().any(|secret| text.contains(secret)), "{text}");
        assert_eq!(order.without_credentials().credentials, None);
    }
}
