//! Audits: the files at an endpoint, compared with the catalogue.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request to start an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuditOrder {
    /// Audit only this directory, relative to the storage directory of the endpoint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub below: String,
    /// A listing made by another program, at most 1,000,000 files. Without one, the hub lists the endpoint itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<Vec<ListedFile>>,
    /// When the listing was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
}

/// A file of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListedFile {
    /// The path, relative to the storage directory of the endpoint.
    pub path: String,
    /// The size in bytes, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// When the content changed last, seconds since 1970, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_s: Option<i64>,
}

/// The state of an audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditState {
    /// The endpoint is being listed, or the audit waits for that.
    #[default]
    Listing,
    /// All files have been compared.
    Done,
    /// The endpoint could not be listed.
    Failed,
    /// Files that the catalogue does not know of are being deleted.
    Cleaning,
    /// The files that the catalogue does not know of have been deleted.
    Cleaned,
}

/// An audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// The number of the audit.
    pub number: i64,
    /// The endpoint.
    pub endpoint: String,
    /// The audit covers only this directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub below: String,
    /// The account that ordered the audit.
    pub account: String,
    /// The state of the audit.
    pub state: AuditState,
    /// When the listing was begun.
    pub begun: String,
    /// When the comparison ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The number of files listed.
    pub listed: u64,
    /// Replicas that are missing at the endpoint. The hub checks each of them again before it counts as bad.
    pub missing: u64,
    /// Replicas with a wrong size. The hub checks each of them again as well.
    pub wrong_size: u64,
    /// Files older than a day that the catalogue does not know of (dark files).
    pub dark: u64,
    /// The bytes of the dark files whose size is known.
    pub dark_bytes: u64,
    /// The number of dark files that have been deleted.
    pub deleted: u64,
    /// Why the audit failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Audits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audits {
    /// The audits, newest first.
    pub audits: Vec<Audit>,
}

/// A finding of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditFinding {
    /// `missing`, `size` or `dark`.
    pub kind: String,
    /// The path, relative to the storage directory of the endpoint.
    pub path: String,
    /// The size at the endpoint in bytes, if the file exists and its size is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A page of the findings of an audit; the hub keeps 100,000 findings of each audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditFindings {
    /// The findings, in the order in which they were found.
    pub findings: Vec<AuditFinding>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
