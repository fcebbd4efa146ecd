//! The FTS API: cancelling jobs and files.

use model::v1::hub::{JobChange, Role};
use serde_json::json;
use web::Refused;

use super::forms::job as job_form;
use super::jobs::{Answers, one};
use super::{Answered, FtsRequest, json_answer};
use crate::database::jobs::{JobFilter, StoredJob};
use crate::state::unavailable;
use crate::states::{FileState, JobKind};

/// Jobs that are read and ended at a time.
const PAGE: i64 = 500;
/// Files that one request ends.
const FILES_MAX: usize = 10_000;

/// `DELETE /jobs/ID[,ID…]`.
pub(super) async fn jobs(request: FtsRequest, ids: &str) -> Answered {
    let mut answers = Answers::default();
    for id in ids.split(',') {
        let Some(job) = answers.job(&request, id).await? else { continue };
        let changed = end(&request, job).await?;
        let mut form = job_form(&one(&request, id).await?);
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

/// Ends a job; false where it has ended already.
pub(super) async fn end(request: &FtsRequest, job: StoredJob) -> Result<bool, Refused> {
    let change = JobChange { cancel: true, ..JobChange::default() };
    Ok(request.hub.change_job(job, change, request.member.owner.clone()).await?)
}

/// `DELETE /jobs/ID/files/FILE[,FILE…]`: the state of one as a text, of several as a list.
pub(super) async fn files(request: FtsRequest, id: &str, files: &str) -> Answered {
    let job = one(&request, id).await?;
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
        return Err(Refused::new(400, format!("one request ends {FILES_MAX} files at the most")));
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
pub(super) async fn all(request: FtsRequest, vo: Option<&str>) -> Answered {
    let member = &request.member;
    member.require(if vo.is_some() { Role::Operator } else { Role::Admin })?;
    if vo.is_some_and(|vo| !member.may_change("", vo)) {
        return Err(Refused::new(403, "those are jobs of another community"));
    }
    let which =
        JobFilter { community: vo.unwrap_or_default().to_owned(), unended: true, limit: PAGE, ..JobFilter::default() };
    let (files, jobs) = end_all(&request, which, |_| true).await?;
    json_answer(200, &json!({"affected_files": files, "affected_dm": 0, "affected_jobs": jobs.len()}))
}

/// Ends the jobs that match; returns the number of their unended files, and their ids.
pub(super) async fn end_all(
    request: &FtsRequest,
    mut which: JobFilter,
    counts: impl Fn(&StoredJob) -> bool,
) -> Result<(u64, Vec<String>), Refused> {
    let (mut files, mut ids) = (0, Vec::new());
    loop {
        let page = request.hub.database.jobs(&which).await.map_err(unavailable)?;
        let Some(last) = page.last() else { return Ok((files, ids)) };
        which.before = Some(last.number);
        for job in page.into_iter().filter(&counts) {
            let (id, live) = (job.job.id.to_string(), job.job.queued + job.job.running);
            if end(request, job).await? {
                files += live;
                ids.push(id);
            }
        }
    }
}
