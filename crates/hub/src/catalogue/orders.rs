//! Submits jobs to the queue that make the copies that rules need.

use model::Refusal;
use model::v1::hub::{FileOrder, JobOptions, JobOrder};
use serde_json::json;

use crate::database::catalogue::{CopyBatch, CopyFile};
use crate::roles::Member;
use crate::state::{HubState, SubmitError};
use crate::time;
use crate::topology::Topology;

/// Submits a batch for the account of its rule. If its deadline cannot be promised, the job is submitted without one.
///
/// # Errors
/// The queue refuses the job.
pub async fn submit(hub: &HubState, batch: &CopyBatch) -> Result<(), Refusal> {
    let member = Member::user(&batch.rule.account, &batch.rule.community);
    let mut order = order(batch, &hub.topology.load(), time::now());
    let submitted = match hub.submit(&order, &member, |_| ()).await {
        Err(SubmitError::NotPromised { text, .. }) => {
            tracing::info!(
                rule = batch.rule.id,
                text,
                "the deadline of a rule cannot be promised: its copies are made without one"
            );
            order.deadline = None;
            hub.submit(&order, &member, |_| ()).await
        }
        submitted => submitted,
    };
    match submitted {
        Ok(_) => Ok(()),
        Err(SubmitError::Refused(refusal)) => Err(refusal),
        Err(SubmitError::NotPromised { text, .. }) => Err(Refusal::new(model::Fault::Config, text)),
    }
}

/// The order of the job of a batch.
pub fn order(batch: &CopyBatch, topology: &Topology, now: i64) -> JobOrder {
    let rule = &batch.rule;
    JobOrder {
        id: batch.id.parse().ok(),
        files: batch.files.iter().map(|file| file_order(file, &batch.endpoint, topology)).collect(),
        community: Some(rule.community.clone()),
        activity: Some(rule.activity.clone()),
        priority: u8::try_from(rule.priority).ok(),
        deadline: rule.deadline.filter(|deadline| *deadline > now).map(time::show),
        // The catalogue has no replica at the target: a file of this name there is incomplete or an older version.
        options: JobOptions { overwrite: true, ..JobOptions::default() },
        metadata: [("rule".to_owned(), json!(rule.id))].into(),
        ..JobOrder::default()
    }
}

fn file_order(file: &CopyFile, endpoint: &str, topology: &Topology) -> FileOrder {
    let url = |endpoint: &str, path: Option<&str>| {
        topology.storage.get(endpoint).map(|place| place.url_of(&file.name, path)).unwrap_or_default()
    };
    let adler32 = file.adler32.as_ref().map(|value| format!("adler32:{value}"));
    FileOrder {
        sources: file.sources.iter().map(|source| url(&source.endpoint, source.path.as_deref())).collect(),
        target: url(endpoint, file.path.as_deref()),
        bytes: u64::try_from(file.bytes).ok(),
        checksum: adler32.or_else(|| file.md5.as_ref().map(|value| format!("md5:{value}"))),
        metadata: [("name".to_owned(), json!(file.name.to_string()))].into(),
    }
}
