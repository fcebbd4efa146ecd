//! Folders of endpoints, as the portal shows them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The contents of a folder of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Folder {
    /// The URL of the folder, as in the request.
    pub at: String,
    /// The endpoint of the folder.
    pub endpoint: String,
    /// The entries: folders first, then files, each sorted by name.
    pub entries: Vec<FolderEntry>,
    /// The number of entries left out: beyond the largest number, or leftovers of unfinished transfers.
    pub left_out: u64,
}

/// A file or folder in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FolderEntry {
    /// The name as text; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The name in a URL, percent-encoded.
    pub href: String,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The size of a file, bytes.
    pub bytes: u64,
    /// When it was changed last, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// A reference to a file or folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileUrl {
    /// The URL at an endpoint.
    pub at: String,
}

/// A signed link to a file. Anybody who has the link can read the file until the link expires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Download {
    /// The URL.
    pub url: String,
    /// When the link expires.
    pub expires: String,
}
