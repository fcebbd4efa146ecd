//! The JSON of a transfer: the same document in `longhaul job`, in a node's API and in its events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Receipt;

/// The state of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The transfer waits for other transfers to end.
    #[default]
    Queued,
    /// The transfer runs.
    Running,
    /// The transfer is paused.
    Paused,
    /// The transfer waits for space, a path or a verification; `waiting_for` says which.
    Waiting,
    /// All entries arrived and were verified.
    Done,
    /// Some entries did not arrive; the receipt names them.
    Partial,
    /// The transfer failed: nothing arrived, or not enough.
    Failed,
    /// The transfer was interrupted; the same command, run again, continues it.
    Interrupted,
    /// A client cancelled the transfer.
    Cancelled,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 9] = [
        Stage::Queued,
        Stage::Running,
        Stage::Paused,
        Stage::Waiting,
        Stage::Done,
        Stage::Partial,
        Stage::Failed,
        Stage::Interrupted,
        Stage::Cancelled,
    ];

    /// Whether the transfer has ended.
    pub fn is_last(self) -> bool {
        match self {
            Stage::Queued | Stage::Running | Stage::Paused | Stage::Waiting => false,
            Stage::Done | Stage::Partial | Stage::Failed | Stage::Interrupted | Stage::Cancelled => true,
        }
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Stage::Queued => "queued",
            Stage::Running => "running",
            Stage::Paused => "paused",
            Stage::Waiting => "waiting",
            Stage::Done => "done",
            Stage::Partial => "partial",
            Stage::Failed => "failed",
            Stage::Interrupted => "interrupted",
            Stage::Cancelled => "cancelled",
        }
    }
}

/// A transfer, for the principal that ordered it. It has no field for secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Transfer {
    /// The id of the transfer.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The state of the transfer.
    pub state: Stage,
    /// The role of the answering process: `send`, `receive`, `carry` (between two nodes), or `copy` (from or to a server).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// The sources.
    pub source: Vec<String>,
    /// The target.
    pub target: String,
    /// When the transfer was ordered from a node (RFC 3339).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// When the transfer last began to run (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When the transfer ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Bytes that are at the target so far, including bytes that were there already and holes.
    pub bytes: u64,
    /// The part of `bytes` that was sent over the path as payload.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes of all files found so far; final when `scanned` is true.
    pub bytes_total: u64,
    /// Files that have arrived or were already in place.
    pub files: u64,
    /// Files found so far.
    pub files_total: u64,
    /// Whether the totals are final.
    pub scanned: bool,
    /// The rate of the last few seconds, bit/s.
    pub rate_bit_s: u64,
    /// The limit in force, bit/s; 0 for none.
    pub limit_bit_s: u64,
    /// The number of streams in use.
    pub streams: u32,
    /// The time from the start until now, or until the end, seconds.
    pub seconds: f64,
    /// The estimated time to the end, seconds, if it can be estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_s: Option<f64>,
    /// The error of `eta_s` in either direction, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_error_s: Option<f64>,
    /// What the transfer waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waiting_for: String,
    /// The number of entries that did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// The exit code of `longhaul` for this result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Why the transfer failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The receipt of an ended transfer, only in `longhaul job`. A node's API returns it at `/receipt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<Receipt>>,
}

/// A page of transfers, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Transfers {
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub next: Option<Uuid>,
}

/// A change of a transfer that has not ended. Fields that are left out do not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// The new limit, bit/s; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
    /// How long the new limit holds, seconds; default: until the transfer ends. A later change of the limit replaces this time.
    /// Afterwards there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_for_s: Option<u64>,
    /// The new number of streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Pauses the transfer (true) or continues it (false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Cancels the transfer; data that has arrived stays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
}

impl Change {
    /// The change that this one and then `next` amount to. A cancelled transfer stays cancelled.
    #[must_use]
    pub fn then(self, next: &Change) -> Change {
        Change {
            limit_bit_s: next.limit_bit_s.or(self.limit_bit_s),
            limit_for_s: if next.limit_bit_s.is_some() { next.limit_for_s } else { self.limit_for_s },
            streams: next.streams.or(self.streams),
            paused: next.paused.or(self.paused),
            cancel: next.cancel || self.cancel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_one_word() {
        for stage in Stage::ALL {
            assert_eq!(stage.word(), format!("{stage:?}").to_lowercase());
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.word());
        }
    }

    #[test]
    fn a_later_change_leaves_what_it_does_not_name() {
        let paused = Change { paused: Some(true), cancel: true, ..Change::default() };
        let both = paused.then(&Change { limit_bit_s: Some(7), ..Change::default() });
        assert_eq!((both.limit_bit_s, both.paused, both.streams, both.cancel), (Some(7), Some(true), None, true));
        assert_eq!(both.then(&Change { paused: Some(false), ..Change::default() }).paused, Some(false));
        let for_a_while = both.then(&Change { limit_bit_s: Some(8), limit_for_s: Some(60), ..Change::default() });
        assert_eq!(for_a_while.then(&paused).limit_for_s, Some(60));
        assert_eq!(for_a_while.then(&both).limit_for_s, None, "a limit comes with its time");
    }
}
