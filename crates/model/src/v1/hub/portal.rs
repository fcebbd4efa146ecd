//! What people do with files by the portal: links that they share, what they delete, and who has changed what.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::folder::FolderEntry;

/// What a link of somebody's is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// Whoever has it reads the file, or what is in the folder.
    #[default]
    Read,
    /// Whoever has it puts new files into the folder, and sees and changes nothing there.
    Drop,
}

/// A link that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareLinkOrder {
    /// The URL of a file, or of a folder with a slash at its end, at an endpoint.
    pub at: String,
    /// What for.
    #[serde(default)]
    pub kind: ShareKind,
    /// For how long, seconds; a week unless said, a year at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_s: Option<u64>,
    /// What whoever has the link must know besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// A link for people without an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareLink {
    /// Its id: with it its owner ends it.
    pub id: String,
    /// The page that it opens, below the hub's address; told once, when it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Who shares.
    pub owner: String,
    /// What is shared.
    pub at: String,
    /// What for.
    pub kind: ShareKind,
    /// It takes a password.
    pub has_password: bool,
    /// When it was made.
    pub created: String,
    /// When it ends.
    pub expires: String,
    /// How often somebody has opened it.
    pub opened: u64,
}

/// Links, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareLinks {
    /// The links.
    pub links: Vec<ShareLink>,
}

/// What somebody shows who opens a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SharedQuery {
    /// Of a shared folder: the path below it, percent-encoded; of a drop box, the name of the new file.
    pub path: String,
    /// The password, where it takes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The ticket that was given for the password: it counts for an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// What is behind a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Shared {
    /// The name of the file or folder.
    pub name: String,
    /// What for.
    pub kind: ShareKind,
    /// Who shares it.
    pub owner: String,
    /// When the link ends.
    pub expires: String,
    /// It takes a password, and none has been shown: nothing else is told.
    pub needs_password: bool,
    /// It is a folder.
    pub is_folder: bool,
    /// What is in the folder; of a file, the file itself; of a drop box, nothing.
    pub entries: Vec<FolderEntry>,
    /// Stands for the password from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// What somebody has deleted, and can take back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deletion {
    /// Its id: with it the file or folder is taken back.
    pub id: String,
    /// Who has deleted it.
    pub owner: String,
    /// Where it was, and will be again.
    pub at: String,
    /// When it was deleted.
    pub deleted: String,
    /// From when on it cannot be taken back.
    pub expires: String,
}

/// Deletions, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deletions {
    /// The deletions.
    pub deletions: Vec<Deletion>,
}

/// A file or folder that is to have another name, or another folder of the same endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameOrder {
    /// Its URL.
    pub from: String,
    /// Its URL then. Nothing may be there.
    pub to: String,
}

/// A request that changed something, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HubAction {
    /// Its number: later ones have larger ones.
    pub number: i64,
    /// When.
    pub at: String,
    /// Who.
    pub by: String,
    /// From which address.
    pub from: String,
    /// What: the operation's id in the API's document.
    pub what: String,
    /// Of what: the path.
    pub path: String,
    /// What was answered.
    pub status: u16,
}

/// The audit trail, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HubActions {
    /// The actions.
    pub actions: Vec<HubAction>,
    /// Where the next page begins (`?before=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
