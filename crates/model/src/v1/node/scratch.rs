//! Scratch places of a node: directories with a quota, a lifetime and a key of their own, each for one exercise.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::Uuid;

/// An order for a scratch place.
///
/// The client chooses the id. The same order sent again by the same principal renews the place; the answer then has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScratchOrder {
    /// The id, chosen by the client: a UUID, best of version 7.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// How long the place exists unless it is renewed, seconds: 1 to 60.
    #[schema(minimum = 1, maximum = 60)]
    pub lifetime_s: u32,
    /// The most bytes of its files, finished or not.
    pub quota_bytes: u64,
}

/// The renewal of a scratch place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScratchChange {
    /// How long the place exists from now on unless it is renewed again, seconds: 1 to 60.
    #[schema(minimum = 1, maximum = 60)]
    pub lifetime_s: u32,
}

/// An order for files in a scratch place. The node makes them in the background.
///
/// The content of a file follows from the seed, the path and the size (`model::seeded_bytes`), so anybody can compute it again, and it
/// does not compress. The same order sent twice in a row is carried out once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScratchFiles {
    /// The seed of the content of all files of this order.
    pub seed: u64,
    /// The files, at most 10,000. Together with the files that are there already they fit into the quota.
    pub files: Vec<ScratchFile>,
}

/// A file of a scratch place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScratchFile {
    /// The path below the place. Missing directories are created; an existing file is replaced.
    pub path: String,
    /// The size, bytes.
    pub bytes: u64,
}

/// A scratch place.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScratchPlace {
    /// The id.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The path of the place at the node: `/exercise/ID`.
    pub place: String,
    /// The access key of the place: it reads, writes and removes below `place`, and nowhere else. It is in the answer to the order that
    /// created the place, and in no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When the lifetime ends unless the place is renewed (RFC 3339).
    pub expires: String,
    /// The most bytes of its files.
    pub quota_bytes: u64,
    /// The bytes of its files, finished or not.
    pub used_bytes: u64,
    /// Files that the node has made.
    pub files_made: u64,
    /// Bytes of files that the node has written, those of an unfinished file included.
    pub bytes_made: u64,
    /// Files that were ordered from the node.
    pub files_ordered: u64,
    /// Why a file could not be made; the files that were ordered and not made by then are given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Debug for ScratchPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchPlace")
            .field("place", &self.place)
            .field("key", if self.key.is_some() { &"…" } else { &"none" })
            .field("expires", &self.expires)
            .field("quota_bytes", &self.quota_bytes)
            .field("used_bytes", &self.used_bytes)
            .field("files_made", &self.files_made)
            .field("files_ordered", &self.files_ordered)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_place_is_sent_once_and_not_printed() {
        let place = ScratchPlace { key: Some("k3y".into()), ..ScratchPlace::default() };
        assert!(!format!("{place:?}").contains("k3y"));
        assert!(serde_json::to_string(&place).unwrap().contains("k3y"));
        let shown = serde_json::to_value(ScratchPlace::default()).unwrap();
        assert!(shown.get("key").is_none() && shown.get("error").is_none());
    }

    #[test]
    fn a_misspelt_field_of_an_order_is_refused() {
        let id = Uuid::nil();
        let order = |field: &str| format!(r#"{{"id":"{id}","lifetime_s":60,"{field}":5}}"#);
        assert!(serde_json::from_str::<ScratchOrder>(&order("quota_bytes")).is_ok());
        assert!(serde_json::from_str::<ScratchOrder>(&order("quota")).is_err());
        assert!(serde_json::from_str::<ScratchFiles>(r#"{"seed":1,"files":[{"path":"a","size":1}]}"#).is_err());
    }
}
