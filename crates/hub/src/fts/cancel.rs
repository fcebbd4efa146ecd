//! The FTS API: requests that cancel jobs and files.

use model::v1::hub::{JobChange, Role};
use serde_json::json;
use web::Refused;

use super::forms::job as job_form;
use super::jobs::{Answers, require_job};
use super::{FtsRequest, FtsResult, json_answer};
use crate::database::jobs::{JobFilter, StoredJob};
use crate::state::unavailable;
use crate::states::{FileState, JobKind};

/// The most jobs that are read and cancelled at once.
const PAGE: i64 = 500;
/// The most files that one request cancels.
const FILES_MAX: usize = 10_000;

/// `DELETE /jobs/ID[,ID…]`.
pub(super) async fn jobs(request: FtsRequest, ids: &str) -> FtsResult {
    let mut answers = Answers::default();
    for id in ids.split(',') {
        let Some(job) = answers.job(&request, id).await? else { continue };
        let changed = cancel(&request, job).await?;
        let mut form = job_form(&require_job(&request, id).await?);
        if changed {
            // Clients expect the final state at once, though a transfer that runs ends later.
            form.insert("job_state".to_owned(), json!("CANCELED"));
        } else {
            form.insert("http_status".to_owned(), json!("304 Not Modified"));
        }
        answers.add(form);
    }
    answers.respond(ids)
}

/// Cancels a job; returns false if it has ended already.
pub(super) async fn cancel(request: &FtsRequest, job: StoredJob) -> Result<bool, Refused> {
    let change = JobChange { cancel: true, ..JobChange::default() };
    Ok(request.hub.change_job(job, change, request.member.owner.clone()).await?)
}

/// `DELETE /jobs/ID/files/FILE[,FILE…]`: the state of one as a text, of several as a list.
pub(super) async fn files(request: FtsRequest, id: &str, files: &str) -> FtsResult {
    let job = require_job(&request, id).await?;
    if job.kind != JobKind::Independent {
        let reason = "files of a job with several sources or hops belong together: cancel the job";
        return Err(Refused::new(400, reason));
    }
    let unknown = |file: &str| Refused::new(404, format!("No file with the id \"{file}\" has been found in the job"));
    let mut numbers = Vec::new();
    for file in files.split(',') {
        let number: i64 = file.parse().map_err(|_| unknown(file))?;
        let is_own = (job.first_file..job.first_file + job.file_rows).contains(&number);
        numbers.push(if is_own { number } else { return Err(unknown(file)) });
    }
    if numbers.len() > FILES_MAX {
        return Err(Refused::new(400, format!("one request cancels {FILES_MAX} files at most")));
    }
    let states = request.hub.cancel_files(numbers).await?;
    let words: Vec<&str> = states.into_iter().map(|state| state.map_or("FAILED", word)).collect();
    match words.as_slice() {
        [one] => json_answer(200, one),
        several => json_answer(200, &several),
    }
}

fn word(state: FileState) -> &'static str {
    super::forms::state_word(state.word())
}

/// `DELETE /jobs/all` and `DELETE /jobs/vo/VO`.
pub(super) async fn all(request: FtsRequest, vo: Option<&str>) -> FtsResult {
    let member = &request.member;
    member.require(if vo.is_some() { Role::Operator } else { Role::Admin })?;
    if vo.is_some_and(|vo| !member.may_change("", vo)) {
        return Err(Refused::new(403, "these are jobs of another community"));
    }
    let filter =
        JobFilter { community: vo.unwrap_or_default().to_owned(), unended: true, limit: PAGE, ..JobFilter::default() };
    let (files, jobs) = cancel_all(&request, filter, |_| true).await?;
    json_answer(200, &json!({"affected_files": files, "affected_dm": 0, "affected_jobs": jobs.len()}))
}

/// Cancels the jobs that match; returns the number of their unended files, and their ids.
pub(super) async fn cancel_all(
    request: &FtsRequest,
    mut filter: JobFilter,
    is_wanted: impl Fn(&StoredJob) -> bool,
) -> Result<(u64, Vec<String>), Refused> {
    let mut files = 0;
    let mut ids = Vec::new();
    loop {
        let page = request.hub.database.jobs(&filter).await.map_err(unavailable)?;
        let Some(last) = page.last() else { return Ok((files, ids)) };
        filter.before = Some(last.number);
        for job in page.into_iter().filter(&is_wanted) {
            let id = job.job.id.to_string();
            let unended = job.job.queued + job.job.running;
            if cancel(request, job).await? {
                files += unended;
                ids.push(id);
            }
        }
    }
}
