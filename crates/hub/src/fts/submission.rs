//! Turns a submission of the FTS API into an order of the hub.

mod checks;
mod params;

use std::collections::BTreeMap;

use model::v1::hub::{FileOrder, JobOptions, JobOrder};
use model::{Fault, Refusal};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::forms::{FtsFacts, storage, user_dn, vo};
use crate::roles::Member;
use crate::tokens::FileTokens;
use params::Params;

/// The document that clients send. Unknown fields are ignored, as in FTS.
#[derive(Debug, Deserialize)]
pub struct Submission {
    /// The files.
    #[serde(default)]
    files: Vec<FtsFile>,
    /// How they are transferred.
    #[serde(default)]
    params: Option<Map<String, Value>>,
    /// Files to delete, which the hub refuses.
    #[serde(default)]
    delete: Value,
}

/// A file of a submission.
#[derive(Deserialize)]
pub(super) struct FtsFile {
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    destinations: Vec<String>,
    #[serde(default)]
    filesize: Option<f64>,
    #[serde(default)]
    checksum: Option<String>,
    #[serde(default)]
    checksums: Option<String>,
    #[serde(default)]
    activity: Option<String>,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    staging_metadata: Value,
    #[serde(default)]
    archive_metadata: Value,
    #[serde(default)]
    scitag: Option<i64>,
    #[serde(default)]
    selection_strategy: Option<String>,
    #[serde(default)]
    source_tokens: Option<Vec<String>>,
    #[serde(default)]
    destination_tokens: Option<Vec<String>>,
}

impl std::fmt::Debug for FtsFile {
    /// Without its tokens.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sources, destinations) = (&self.sources, &self.destinations);
        f.debug_struct("FtsFile").field("sources", sources).field("destinations", destinations).finish_non_exhaustive()
    }
}

/// An order, with the facts that only the FTS API uses.
#[derive(Debug)]
pub struct FtsSubmission {
    /// The order.
    pub order: JobOrder,
    /// The facts that are stored for the FTS API.
    pub facts: FtsFacts,
    /// The tokens of each file's sources, in the order of the files; empty for files without tokens.
    pub tokens: Vec<Vec<FileTokens>>,
}

fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

impl Submission {
    /// Whether the submission asks for deletions.
    pub fn is_deletion(&self) -> bool {
        !self.delete.is_null()
    }

    /// Makes an order, in the name of the member who submits.
    ///
    /// # Errors
    /// The submission is inconsistent, or asks for something that the hub does not do; one sentence says which.
    pub fn order(self, member: &Member, auth_method: &str) -> Result<FtsSubmission, Refusal> {
        let all_params = self.params.unwrap_or_default();
        let params = Params(&all_params);
        params.check()?;
        checks::files(&self.files, &params)?;
        let activity = self.files.iter().find_map(|file| file.activity.clone());
        let (first, last) = (self.files.first(), self.files.last());
        let facts = FtsFacts {
            user_dn: user_dn(member),
            delegation: String::new(),
            source_se: first.and_then(|file| file.sources.first()).map(|url| storage(url)).unwrap_or_default(),
            dest_se: last.and_then(|file| file.destinations.first()).map(|url| storage(url)).unwrap_or_default(),
            selection_strategy: first.and_then(|file| file.selection_strategy.clone()),
            params: all_params
                .iter()
                .filter(|(name, value)| !is_secret(name) && !value.is_null())
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        };
        let order = JobOrder {
            id: Some(params.id(member)?),
            community: Some(vo(member)),
            activity,
            priority: params.number("priority").map(|priority| priority.clamp(1, 5) as u8),
            options: JobOptions {
                overwrite: params.is_set("overwrite") || params.is_set("overwrite_on_retry"),
                overwrite_hops: params.is_set("overwrite_hop"),
                retries: params.retries(),
                queue_for_s: params.queue_for_s()?,
                multihop: params.is_set("multihop"),
                in_order: first.and_then(|file| file.selection_strategy.as_deref()) == Some("orderly"),
                scitag: first.and_then(|file| file.scitag).and_then(|tag| u16::try_from(tag).ok()),
                ..JobOptions::default()
            },
            metadata: params.job_metadata(auth_method)?,
            ..JobOrder::default()
        };
        let mut files = Vec::with_capacity(self.files.len());
        let mut tokens = Vec::new();
        for file in self.files {
            add_files(file, &mut files, &mut tokens);
        }
        Ok(FtsSubmission { order: JobOrder { files, ..order }, facts, tokens })
    }
}

/// Whether a parameter is a secret that is never returned.
fn is_secret(name: &str) -> bool {
    ["credential", "s3_secret"].contains(&name)
}

/// Adds the files of one entry, one for each destination, and their tokens.
fn add_files(file: FtsFile, files: &mut Vec<FileOrder>, tokens: &mut Vec<Vec<FileTokens>>) {
    let metadata: BTreeMap<String, Value> = match file.metadata {
        Value::Null => BTreeMap::new(),
        Value::Object(map) => map.into_iter().collect(),
        label => BTreeMap::from([("label".to_owned(), label)]),
    };
    // `ADLER32` without a value means that FTS reads the digest from the source: the order has no value to compare with.
    let checksum = file.checksum.or(file.checksums).filter(|text| text.contains(':'));
    let source_tokens = file.source_tokens.unwrap_or_default();
    let target_tokens = file.destination_tokens.unwrap_or_default();
    for (at, destination) in file.destinations.into_iter().enumerate() {
        let target = target_tokens.get(at).cloned().unwrap_or_default();
        let both = |source: &String| FileTokens { source: source.clone(), target: target.clone() };
        tokens.push(source_tokens.iter().map(both).collect());
        files.push(FileOrder {
            sources: file.sources.clone(),
            target: destination,
            bytes: file.filesize.filter(|bytes| *bytes > 0.0).map(|bytes| bytes as u64),
            checksum: checksum.clone(),
            metadata: metadata.clone(),
        });
    }
}

#[cfg(test)]
mod tests;
