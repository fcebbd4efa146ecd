//! The FTS API: jobs that have ended.

use web::Refused;

use super::forms::job as job_form;
use super::{FtsRequest, FtsResult, jobs, json_answer};

/// `GET /archive`, with the parameters of `GET /jobs`.
pub(super) async fn list(request: FtsRequest) -> FtsResult {
    json_answer(200, &jobs::matching_jobs(&request, false, |job| job.job.ended.is_some()).await?)
}

/// `GET /archive/ID[/FIELD]`.
pub(super) async fn show(request: FtsRequest, id: &str, field: Option<&str>) -> FtsResult {
    let job = jobs::require_job(&request, id).await?;
    if job.job.ended.is_none() {
        return Err(Refused::new(404, format!("The job \"{id}\" has not ended: it is among /jobs")));
    }
    let form = job_form(&job);
    match field.map(|name| (name, form.get(name))) {
        None => json_answer(200, &form),
        Some((_, Some(value))) => json_answer(200, value),
        Some((name, None)) => Err(Refused::new(404, format!("No such field {name}"))),
    }
}
