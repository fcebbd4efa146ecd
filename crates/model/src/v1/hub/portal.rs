//! Actions of people in the portal: share links, deletions, and the audit trail.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::folder::FolderEntry;

/// What a share link allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// Anybody who has the link can read the file or the folder.
    #[default]
    Read,
    /// Anybody who has the link can put new files into the folder (a drop box), but cannot see or change anything there.
    Drop,
}

/// A request to create a share link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareLinkOrder {
    /// The URL at an endpoint: of a file, or of a folder (ends in a slash).
    pub at: String,
    /// What the link allows.
    #[serde(default)]
    pub kind: ShareKind,
    /// How long the link is valid, seconds; default: one week, at most one year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_s: Option<u64>,
    /// A password that is required in addition to the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// A share link: a URL for people without an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareLink {
    /// The id, with which the owner can end the link.
    pub id: String,
    /// The path of the page below the hub's address. Returned only once, when the link is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The member who shares.
    pub owner: String,
    /// The URL of the shared file or folder.
    pub at: String,
    /// What the link allows.
    pub kind: ShareKind,
    /// Whether the link requires a password.
    pub has_password: bool,
    /// When the link was made.
    pub created: String,
    /// When the link expires.
    pub expires: String,
    /// How often the link has been opened.
    pub opened: u64,
}

/// Share links, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareLinks {
    /// The links.
    pub links: Vec<ShareLink>,
}

/// The request of a person who opens a share link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SharedQuery {
    /// For a shared folder, the path below it, percent-encoded; for a drop box, the name of the new file.
    pub path: String,
    /// The password, if the link requires one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// A ticket that an earlier answer gave for the password; valid for one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// What a share link opens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Shared {
    /// The name of the file or folder.
    pub name: String,
    /// What the link allows.
    pub kind: ShareKind,
    /// The member who shares it.
    pub owner: String,
    /// When the link expires.
    pub expires: String,
    /// The link requires a password, and the request had none. Nothing else is returned.
    pub needs_password: bool,
    /// Whether a folder is shared.
    pub is_folder: bool,
    /// The entries of the folder; for a file, the file itself; for a drop box, nothing.
    pub entries: Vec<FolderEntry>,
    /// A ticket that later requests can send instead of the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// A file or folder that a member has deleted and can restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deletion {
    /// The id, with which the file or folder can be restored.
    pub id: String,
    /// The member who deleted it.
    pub owner: String,
    /// The URL of the file or folder, before its deletion and after it is restored.
    pub at: String,
    /// When it was deleted.
    pub deleted: String,
    /// Until when it can be restored.
    pub expires: String,
}

/// Deletions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deletions {
    /// The deletions.
    pub deletions: Vec<Deletion>,
}

/// A request to rename a file or folder, or to move it to another folder of the same endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameOrder {
    /// The present URL.
    pub from: String,
    /// The new URL. It must not exist.
    pub to: String,
}

/// An entry of the audit trail: a request that changed something, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HubAction {
    /// The number of the entry; later entries have larger numbers.
    pub number: i64,
    /// The time of the request.
    pub at: String,
    /// The member who sent it.
    pub by: String,
    /// The address of the client.
    pub from: String,
    /// The `operationId` of the request in the OpenAPI document.
    pub what: String,
    /// The path of the request.
    pub path: String,
    /// The HTTP status of the answer.
    pub status: u16,
}

/// The audit trail, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HubActions {
    /// The entries.
    pub actions: Vec<HubAction>,
    /// Where the next page begins (`?before=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
