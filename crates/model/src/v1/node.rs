//! Requests and responses of a node's API (`/api/v1`): orders of an orchestrator, and their states.
//!
//! A field here is a promise to programs, as everywhere in `v1`. Requests refuse unknown fields, so that the author of a request
//! finds a misspelt one; responses may have more fields in a later version.

mod probes;
mod schedules;
mod scratch;

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
pub use scratch::{ScratchChange, ScratchFile, ScratchFiles, ScratchOrder, ScratchPlace};

/// An order for a transfer. One end is a path of the node that receives the order; the other end is another node or a server.
///
/// The client chooses the id. The same order sent twice is one transfer. The comparison ignores credentials, so an order may be sent
/// again with a newer token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The id, chosen by the client: a UUID, best of version 7.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The sources: paths of this node (`/EXPORT/PATH`), or locators that are all at one other node (`lh://HOST/EXPORT/PATH`) or at one
    /// server (`https://…`, `davs://…`, `s3://BUCKET/KEY`). Empty with `files`.
    #[serde(default)]
    pub source: Vec<String>,
    /// The target, written like a source. If it ends in a slash, or if there are several sources, it is a directory and the sources are
    /// copied into it. Empty with `files`.
    #[serde(default)]
    pub target: String,
    /// A list of files instead of `source` and `target`, at most 10,000. All sources are in one export or on one server, and so are all
    /// targets. Missing directories are created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<OrderFile>,
    /// Options for links, existing targets, deletion and checks.
    #[serde(default)]
    pub options: Options,
    /// The highest rate of payload, bit/s; 0 for no limit.
    #[serde(default)]
    pub limit_bit_s: u64,
    /// How long the limit holds, seconds; default: until the transfer ends. A later change of the limit replaces this time. Afterwards
    /// there is no limit, so a transfer does not stay slow if the client that steers it disappears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_for_s: Option<u64>,
    /// The number of streams; with 0 the node decides.
    #[serde(default)]
    pub streams: u32,
    /// The transfer begins paused.
    #[serde(default)]
    pub paused: bool,
    /// The congestion control of the streams, if both hosts have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The SciTag of the traffic, 65 to 65535: 64 times the number of an experiment plus that of an activity (452: data challenge of the
    /// SKA). The node reports each stream to its collectors of fireflies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
    /// How long to keep trying without progress, seconds; default: 900.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_for_s: Option<u64>,
    /// Payload is not encrypted, if the other node allows that.
    #[serde(default)]
    pub plain: bool,
    /// The fingerprint of the other node. An access key contains it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The credentials for the other end.
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
            scitag: None,
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

/// A file of an order that lists its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderFile {
    /// The source of the file.
    pub source: String,
    /// The target: the path of the file itself, not of a directory.
    pub target: String,
    /// The size in bytes, if it is known. The transfer of the file fails if the source has another size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The digest that the file must have, `ALGORITHM:VALUE`. A file with another digest is not put in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// The result of one file of a transfer whose order lists its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileResult {
    /// The index in the order's `files`.
    pub index: u64,
    /// The file is at its target, verified.
    pub done: bool,
    /// The size of the file, bytes.
    pub bytes: u64,
    /// Whose fault the failure was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A page of finished files, in the order in which they finished.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileResults {
    /// The files.
    pub files: Vec<FileResult>,
    /// Where the next page begins (`?after=`): the number of files returned so far.
    pub next: u64,
}

/// Options of a transfer: links, existing targets, deletion, checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Directories may be copied.
    pub recursive: bool,
    /// Symbolic links at the source are followed: their targets are copied.
    pub copy_links: bool,
    /// By which comparison an existing target counts as up to date: `none`, `exists`, `size`, `mtime` or `digest`; default: `mtime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<String>,
    /// An existing target that differs is an error.
    pub no_overwrite: bool,
    /// Data reaches stable storage before a file counts as done.
    pub durable: bool,
    /// Digests of whole files; default: `crc32c`. An empty list for none (only if one end is `null:` or `zero:`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Vec<String>>,
    /// Entries that the source lacks are deleted at the target, after everything else is done. Nothing is deleted if they are more than
    /// half of a target with more than 100 entries.
    pub delete: bool,
    /// With `delete`: delete nothing if it would be more than this number of entries. It replaces the rule of one half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delete: Option<u64>,
    /// With `delete`: delete any number of entries.
    pub force: bool,
    /// Nothing is changed; the receipt says what would be changed.
    pub dry_run: bool,
    /// Owners are kept.
    pub owner: bool,
    /// Extended attributes and ACLs are kept.
    pub xattrs: bool,
    /// How long to wait for space at a full target, seconds; default: 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_space_s: Option<u64>,
    /// Rules that include or exclude entries. The first rule that matches decides; an entry that no rule matches is included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

/// A rule that includes or excludes entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Entries that match are included (true) or excluded (false).
    pub include: bool,
    /// The pattern, as for `longhaul cp --include`.
    pub pattern: String,
}

/// Credentials for the other end. The node keeps them until the transfer has ended, and never returns them.
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
    /// A client certificate for a WebDAV server that asks for one, with its private key: PEM, in the form of a grid proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub certificate: Option<String>,
    /// A key for an S3 server.
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

/// An S3 server, and a key for it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct S3 {
    /// `https://HOST[:PORT]`; default: Amazon S3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The region; default: `us-east-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The name of the bucket is part of the host name, not of the path.
    pub virtual_hosted: bool,
    /// The id of the key; left out for a public bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// The secret part of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub secret_access_key: Option<String>,
    /// The session token of a temporary key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub session_token: Option<String>,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3").field("endpoint", &self.endpoint).field("region", &self.region).finish_non_exhaustive()
    }
}

/// Whether a node is in service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or `stopping`.
    pub status: String,
}

/// What a node offers to the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// The program and its version.
    pub software: String,
    /// The node's fingerprint.
    pub node: String,
    /// The addresses that the node listens on, `ADDRESS:PORT`.
    pub addresses: Vec<String>,
    /// The exports that the client may see.
    pub exports: Vec<Export>,
    /// The protocols that the node speaks on its port.
    pub protocols: Vec<String>,
    /// The URL schemes that the other end of a transfer may have.
    pub schemes: Vec<String>,
    /// The limits of the node.
    pub limits: Limits,
    /// The load of the node.
    pub load: Load,
}

/// An export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// The name: the first part of a path of the node.
    pub name: String,
    /// Whether the export may be written at all.
    pub writable: bool,
    /// The export is a place on a remote server.
    pub elsewhere: bool,
}

/// The limits of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// The most transfers that run at once; further transfers wait in the queue.
    pub running_max: u64,
    /// The most transfers of one principal that run at once.
    pub running_each_max: u64,
    /// The most transfers that have not ended; further orders are refused.
    pub unended_max: u64,
    /// The most ended transfers that the node keeps.
    pub remembered_max: u64,
    /// The most transfers on a page.
    pub page_max: u64,
    /// The largest order, bytes.
    pub body_bytes_max: u64,
    /// The most event streams that are open at once.
    pub event_streams_max: u64,
    /// The most tests of one principal that have not ended; one runs at a time.
    #[serde(default)]
    pub probes_unended_max: u64,
    /// The longest test, seconds.
    #[serde(default)]
    pub probe_seconds_max: u64,
}

/// The load of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Load {
    /// Running transfers of all principals.
    pub running: u64,
    /// Queued transfers of all principals.
    pub queued: u64,
    /// The number of processors of the host.
    pub processors: u64,
    /// The load average of the last minute (processes that run or wait for a processor), times 100.
    pub load_percent: u64,
}

/// A refusal or failure of a request as a problem document (RFC 9457, `application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Whose fault it is: `config`, `auth`, `missing`, …
    pub fault: String,
    /// What failed, where, and the remedy, in one sentence.
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
