//! The public JSON, version 1: what `--json` prints and a receipt file holds.
//!
//! These types are separate from the internal ones because a field here is a promise to scripts. Names that are not UTF-8 appear
//! twice, escaped for people and as base64 in `…_b64`. Rates are bit/s, sizes bytes, times seconds.

mod end;
pub mod exercise;
pub mod flows;
pub mod hub;
mod lab;
pub mod node;
pub mod plan;
pub mod probe;
mod transfer;
pub mod tune;
pub mod watch;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use end::End;
pub use lab::{Lab, LabEmulator, LabLink, LabSite};
pub use transfer::{Change, Stage, Transfer, Transfers};

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Everything arrived and was verified.
    Done,
    /// Something did not arrive; `failures` names it.
    Partial,
    /// Nothing, or not enough, arrived.
    Failed,
    /// Stopped by the user; may be run again.
    Interrupted,
}

/// Seconds spent in each phase of a job, as seen by the client. Phases overlap; `connect` does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Phases {
    /// Name resolution, TCP and TLS.
    pub connect: f64,
    /// From the first request until the source's tree was known in full.
    pub scan: f64,
    /// From the first block until the last.
    pub transfer: f64,
    /// From the last block until the last file was verified and named.
    pub finish: f64,
}

/// The kernel's statistics of one stream at its end (Linux `TCP_INFO`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Number within the session, from 1; 0 is the control connection.
    pub id: u32,
    /// Payload bytes that this stream carried.
    pub bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_s: f64,
    /// Smallest round-trip time seen.
    pub min_rtt_s: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Segment size, bytes.
    pub mss_bytes: u32,
    /// The kernel's estimate of what the path delivers.
    pub delivery_rate_bit_s: u64,
    /// Time limited by the peer's receive window.
    pub receive_window_limited_s: f64,
    /// Time limited by our send buffer.
    pub send_buffer_limited_s: f64,
    /// Time with data in flight or waiting.
    pub busy_s: f64,
    /// Bytes that the kernel sent, those sent again included.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Of those, bytes sent again.
    #[serde(default)]
    pub resent_bytes: u64,
    /// The window that the receiver offered last.
    #[serde(default)]
    pub window_bytes: u64,
    /// Both ends scale their windows (RFC 7323); without it a window ends at 64 KiB.
    #[serde(default)]
    pub window_scaling: bool,
    /// Congestion control in force.
    pub congestion: String,
    /// `sealed` (encrypted) or `plain`.
    pub payload: String,
    /// Address and port at the end that wrote the receipt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Address and port of its peer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub peer_address: String,
}

/// What held the job back, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// `source`, `sender_cpu`, `network`, `receiver_cpu`, `target`, `cap`, `latency`, `outage`, `space`, `lock` or `unknown`.
    pub part: String,
    /// The numbers that say so.
    pub evidence: String,
    /// What could be done about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// A digest that was verified at both ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// Its name.
    pub algorithm: String,
    /// Files for which both ends agreed.
    pub files: u64,
    /// The value, where the job was a single file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Something that did not arrive, or was left out by design.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Miss {
    /// Path below the target, escaped where it is not UTF-8.
    pub path: String,
    /// The path's bytes in base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_b64: Option<String>,
    /// Whose fault: `storage`, `peer`, …
    pub fault: String,
    /// Why, in one sentence.
    pub reason: String,
}

/// The outcome of a file, printed when the file is done (`cp --verbose --json`).
#[derive(Clone, Debug, Serialize)]
pub struct FileOutcome {
    /// Version of this format.
    pub v: u32,
    /// `file`.
    pub event: &'static str,
    /// Its path, the source's name first.
    pub path: String,
    /// The path's bytes in base64, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_b64: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// `done`, `skipped` or `failed`.
    pub outcome: &'static str,
}

/// How payload crossed one leg of its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Carried {
    /// Where the leg begins: a locator, or `here` for the host of the program that ran the copy.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// `sealed` (by the protocol), `tls`, `plain` (in clear, or some of it), `local` (it did not leave the host), or `unseen` (between
    /// other people's servers).
    pub payload: String,
}

/// One of several sources of the same bytes, and what came from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mirror {
    /// Its locator, as typed.
    pub source: String,
    /// Bytes that it was the first to bring.
    pub bytes: u64,
    /// Why it was left out, of one file or of all; null where it was not.
    pub left_out: Option<String>,
    /// Files of which it brought bytes and no source reports a digest: only samples were compared with the first source.
    #[serde(default)]
    pub unproven_files: u64,
}

/// The receipt: what a finished job did. The last line of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// Always 1.
    pub v: u32,
    /// Always `receipt`.
    #[schema(value_type = String)]
    pub event: Cow<'static, str>,
    /// The transfer's id.
    pub transfer: String,
    /// How it ended.
    pub state: State,
    /// The exit code that goes with it.
    pub exit: u8,
    /// Where the bytes came from.
    pub source: Vec<String>,
    /// Where they went.
    pub target: String,
    /// Payload bytes of files that arrived in this job, holes included.
    pub bytes: u64,
    /// Files that arrived in this job.
    pub files: u64,
    /// Directories that exist at the target because of this job or before it.
    pub directories: u64,
    /// Symbolic links that were copied.
    pub links: u64,
    /// Files that were there already.
    pub skipped: u64,
    /// Bytes that `skipped` files stand for.
    pub skipped_bytes: u64,
    /// FIFOs, sockets and devices that were left out.
    pub special: u64,
    /// Entries that failed.
    pub failed: u64,
    /// The first failures and left-out entries, named; at most 1,000.
    pub failures: Vec<Miss>,
    /// Payload bytes that crossed more than once.
    pub resent_bytes: u64,
    /// Bytes of `bytes` that were there from an earlier attempt, verified at both ends, and not sent again.
    pub resumed_bytes: u64,
    /// Entries that were removed at the target because the source lacks them.
    pub deleted: u64,
    /// Payload that crossed the path for the first time: `bytes` without what was there from an earlier attempt and without holes, plus
    /// what crossed of files that did not arrive. `rate_bit_s` is its mean rate.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Of a job that did not come to its end: bytes of files that are not finished, kept for the next attempt.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Unfinished files that interrupted copies have left at the source, and that were left out.
    #[serde(default)]
    pub unfinished: u64,
    /// Files and links that were there already, and whose mode, time, owner, attributes or ACL were brought up to date.
    #[serde(default)]
    pub refreshed: u64,
    /// Nothing was changed: the numbers say what would be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Wall time from start to end.
    pub seconds: f64,
    /// Mean rate of `bytes` over `seconds`.
    pub rate_bit_s: u64,
    /// Where the time went.
    pub phases: Phases,
    /// Digests that both ends agreed on.
    pub digests: Vec<Verified>,
    /// One entry per TCP connection.
    pub streams: Vec<Stream>,
    /// What held the job back.
    pub limited_by: Limit,
    /// Both ends of the streams, as far as they reported; none where all went on the control connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<End>,
    /// How payload crossed each section of its path; none where there was none, or where an older program reported the copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Carried>,
    /// What each source brought, the first one first; none without `--mirror`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// Program versions at both ends.
    pub versions: Versions,
    /// Why the job failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Program and protocol versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Versions {
    /// This program.
    pub client: String,
    /// The node's.
    pub node: String,
    /// The wire protocol in force.
    pub protocol: u16,
}

/// A progress line of `--json`, about once a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// Always 1.
    pub v: u32,
    /// Always `progress`.
    pub event: &'static str,
    /// Bytes arrived so far.
    pub bytes: u64,
    /// Bytes known of so far; final once `scanned`.
    pub bytes_total: u64,
    /// Files arrived or found in place.
    pub files: u64,
    /// Files known of so far.
    pub files_total: u64,
    /// Whether the totals are final.
    pub scanned: bool,
    /// Rate over the last seconds.
    pub rate_bit_s: u64,
    /// The estimated time to the end, once the totals are final and enough data has arrived for an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_s: Option<f64>,
    /// The error of `eta_s` in either direction, from the variation of the rate so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_error_s: Option<f64>,
    /// Seconds since the start.
    pub seconds: f64,
    /// Why nothing moves, where that is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waiting_for: String,
}

/// One step of a dry run, a line of `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Always 1.
    pub v: u32,
    /// Always `would`.
    pub event: &'static str,
    /// `copy`, `mkdir`, `link` or `delete`.
    pub step: &'static str,
    /// Path below the target, escaped where it is not UTF-8.
    pub path: String,
    /// The path's bytes in base64, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_b64: Option<String>,
    /// Length of a file.
    pub bytes: u64,
}

/// A failed command, for `--json` where there is no receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Always 1.
    pub v: u32,
    /// Always `error`.
    pub event: &'static str,
    /// The exit code.
    pub exit: u8,
    /// Whose fault.
    pub fault: String,
    /// What, where and the remedy.
    pub message: String,
}
