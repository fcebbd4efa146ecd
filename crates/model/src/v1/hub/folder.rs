//! Folders of endpoints, as people look into them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is in a folder of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Folder {
    /// Its URL, as it was asked for.
    pub at: String,
    /// The endpoint that it is at.
    pub endpoint: String,
    /// What is in it: folders first, each kind by name.
    pub entries: Vec<FolderEntry>,
    /// Entries that are not told, because there are too many, or they are what unfinished transfers left.
    pub left_out: u64,
}

/// A file or folder in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FolderEntry {
    /// Its name, as text; bytes that are no UTF-8 are replaced.
    pub name: String,
    /// Its name in a URL, percent-encoded.
    pub href: String,
    /// It is a folder.
    pub is_folder: bool,
    /// The size of a file.
    pub bytes: u64,
    /// When it was changed last, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// A file or folder that is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileUrl {
    /// Its URL at an endpoint.
    pub at: String,
}

/// A link to a file, signed by the server that has it: whoever has the link has the file, until it expires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Download {
    /// The link.
    pub url: String,
    /// When it expires.
    pub expires: String,
}
