//! A transfer in public JSON: the same document in `longhaul job`, in a node's API and in its events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Receipt;

/// What a transfer is doing, or what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It waits for others to end.
    #[default]
    Queued,
    /// It moves.
    Running,
    /// Somebody paused it.
    Paused,
    /// It waits: for space, a path, or a verification; `waiting_for` says for what.
    Waiting,
    /// Everything arrived and was verified.
    Done,
    /// Something did not arrive; the receipt names it.
    Partial,
    /// Nothing, or not enough, arrived.
    Failed,
    /// It was interrupted; the same command run again goes on with it.
    Interrupted,
    /// Somebody ended it.
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

/// A transfer, as whoever ordered it sees it. It holds no secrets: there is no field for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Transfer {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// What it is doing, or what became of it.
    pub state: Stage,
    /// What the answering side does in it: `send`, `receive`, `carry` (between two nodes), or `copy` (from or to a server).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Where the bytes come from.
    pub source: Vec<String>,
    /// Where they go.
    pub target: String,
    /// When a node was asked for it (RFC 3339).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// When it began last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Bytes arrived so far, with what was there already and holes.
    pub bytes: u64,
    /// Of `bytes`: payload that crossed the path.
    #[serde(default)]
    pub sent_bytes: u64,
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
    /// The limit in force; 0 for none.
    pub limit_bit_s: u64,
    /// Streams in use.
    pub streams: u32,
    /// Seconds from its start, to now or to its end.
    pub seconds: f64,
    /// Time to the end, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_s: Option<f64>,
    /// By how much `eta_s` may be off, either way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_error_s: Option<f64>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waiting_for: String,
    /// Entries that did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// The exit code that goes with its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The receipt, once it has ended: of `longhaul job`; a node's API has it at `/receipt`.
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

/// A change to a transfer that has not ended. What is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// The new limit; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bit_s: Option<u64>,
    /// How long the limit holds, seconds, unless it is said again; for ever unless said. Afterwards there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_for_s: Option<u64>,
    /// The new number of streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Pause, or go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// End it; what has arrived stays.
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
