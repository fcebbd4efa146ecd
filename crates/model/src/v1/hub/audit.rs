//! Audits: the files at an endpoint, compared with the catalogue.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An audit that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuditOrder {
    /// Only what is below this directory of the endpoint's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub below: String,
    /// A listing that somebody else has made, 1,000,000 files at most; the hub lists by itself unless there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<Vec<ListedFile>>,
    /// When that listing was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
}

/// A file of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListedFile {
    /// Below the directory of the endpoint.
    pub path: String,
    /// Its size, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// When its content changed last, seconds since 1970, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_s: Option<i64>,
}

/// How far an audit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditState {
    /// The endpoint is being listed, or waits for it.
    #[default]
    Listing,
    /// All has been compared.
    Done,
    /// The endpoint could not be listed.
    Failed,
    /// Files that the catalogue does not know of are being deleted.
    Cleaning,
    /// They have been.
    Cleaned,
}

/// An audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// Its number.
    pub number: i64,
    /// The endpoint.
    pub endpoint: String,
    /// Only what is below this directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub below: String,
    /// Who ordered it.
    pub account: String,
    /// How far it is.
    pub state: AuditState,
    /// When the listing was begun.
    pub begun: String,
    /// When all had been compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Files that have been listed.
    pub listed: u64,
    /// Copies that should be there and are not. They are asked for again, one by one, before they count as bad.
    pub missing: u64,
    /// Copies with another size. They are asked for again as well.
    pub wrong_size: u64,
    /// Files that the catalogue does not know of, older than a day.
    pub dark: u64,
    /// Their bytes, as far as they are known.
    pub dark_bytes: u64,
    /// Of these, those that have been deleted.
    pub deleted: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Audits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audits {
    /// The newest first.
    pub audits: Vec<Audit>,
}

/// Something that an audit has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditFinding {
    /// `missing`, `size` or `dark`.
    pub kind: String,
    /// Below the directory of the endpoint.
    pub path: String,
    /// Its size there, where it is there and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A page of what an audit has found; 100,000 are kept of each audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditFindings {
    /// In the order in which they were found.
    pub findings: Vec<AuditFinding>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
