//! Jobs: requests that submit, list, change and cancel them.

use model::v1::hub::{Files, Job, JobChange, JobOrder, JobTransfer, JobTransfers, Jobs, WhoAmI};
use uuid::Uuid;
use web::Refused;

use super::{ApiRequest, ApiResult, json, not_promised};
use crate::admission::check_limit;
use crate::database::jobs::{JobFilter, StoredJob};
use crate::database::submissions::SubmitResult;
use crate::database::transfers::TransferRow;
use crate::estimates;
use crate::state::{SubmitError, unavailable};
use crate::time;

/// Jobs on a page, unless the request gives a limit.
const PAGE: usize = 100;
/// Files on a page, unless the request gives a limit.
const FILES_PAGE: usize = 1000;

/// GET /api/v1/whoami.
pub(super) async fn whoami(request: ApiRequest) -> ApiResult {
    let member = &request.member;
    let (owner, community) = (member.owner.clone(), member.community.clone());
    json(200, &WhoAmI { owner, role: member.role.word().to_owned(), community })
}

/// POST /api/v1/jobs.
pub(super) async fn submit(request: ApiRequest) -> ApiResult {
    let order: JobOrder = request.read("a job")?;
    let hub = &request.hub;
    let (job, submitted) = match hub.submit(&order, &request.member, |_| ()).await {
        Ok(stored) => stored,
        Err(SubmitError::NotPromised { text, offer: Some(offer) }) => return Ok(not_promised(&text, offer)),
        Err(why) => return Err(why.into()),
    };
    match submitted {
        SubmitResult::New => json(201, &job),
        SubmitResult::Known => json(200, &find(&request, &job.id.to_string()).await?.job),
        SubmitResult::Conflict => Err(Refused::new(409, format!("{} is the id of another job", job.id))),
    }
}

/// The job with an id, if the member may see it.
async fn find(request: &ApiRequest, id: &str) -> Result<StoredJob, Refused> {
    let none = || Refused::new(404, format!("there is no job {id} here, or none that you may know of"));
    let job = request.hub.database.job(id).await.map_err(unavailable)?.ok_or_else(none)?;
    if !request.member.may_change(&job.job.owner, &job.job.community) {
        return Err(none());
    }
    Ok(job)
}

/// The job of the request's path.
pub(super) async fn requested_job(request: &ApiRequest) -> Result<StoredJob, Refused> {
    find(request, &request.id).await
}

/// POST /api/v1/estimates.
pub(super) async fn estimate(request: ApiRequest) -> ApiResult {
    let order: JobOrder = request.read("a job")?;
    let hub = &request.hub;
    let (topology, snapshot) = (hub.topology.load(), hub.snapshot.load());
    json(200, &estimates::estimate(&order, &request.member, &topology, &snapshot, time::now())?)
}

/// GET /api/v1/jobs.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let limit = request.limit(PAGE)?;
    let is_user = !request.member.may_change("", &request.member.community);
    let owner = if is_user { request.member.owner.clone() } else { request.parameter("owner").unwrap_or_default() };
    let own_community = request.member.community.clone();
    let community = if own_community.is_empty() || is_user {
        request.parameter("community").unwrap_or_default()
    } else {
        own_community
    };
    let unended = match request.parameter("state").as_deref() {
        None | Some("all") => false,
        Some("unended") => true,
        Some(other) => return Err(Refused::new(400, format!("state={other}: unended or all"))),
    };
    let filter = JobFilter { owner, community, unended, before: request.number("before")?, limit };
    let jobs = request.hub.database.jobs(&filter).await.map_err(unavailable)?;
    let next = jobs.last().filter(|_| jobs.len() as i64 == limit).map(|last| last.number);
    json(200, &Jobs { jobs: jobs.into_iter().map(|stored| stored.job).collect(), next })
}

/// GET /api/v1/jobs/ID.
pub(super) async fn show(request: ApiRequest) -> ApiResult {
    json(200, &requested_job(&request).await?.job)
}

/// GET /api/v1/jobs/ID/files.
pub(super) async fn files(request: ApiRequest) -> ApiResult {
    let job = requested_job(&request).await?;
    let limit = request.limit(FILES_PAGE)?;
    let after = request.number("after")?.unwrap_or(0);
    let files = request.hub.database.files(&job, after, limit).await.map_err(unavailable)?;
    let next = files.last().filter(|_| files.len() as i64 == limit).map(|last| last.number);
    json(200, &Files { files, next })
}

/// GET /api/v1/jobs/ID/transfers.
pub(super) async fn transfers(request: ApiRequest) -> ApiResult {
    let job = requested_job(&request).await?;
    let rows = request.hub.database.job_transfers(&job, request.limit(PAGE)?).await.map_err(unavailable)?;
    let snapshot = request.hub.snapshot.load();
    let to_api = |row: TransferRow| {
        let progress = row.id.parse().ok().and_then(|id: Uuid| snapshot.progress.get(&id).copied());
        let rate = progress.map_or(row.rate as f64, |progress| progress.rate);
        JobTransfer {
            carrier: row.carrier,
            files: row.files.max(0) as u64,
            bytes: row.bytes.max(0) as u64,
            arrived_bytes: progress.map(|progress| progress.bytes),
            rate_bit_s: (rate * 8.0) as u64,
            created: time::show(row.created),
            id: row.id,
        }
    };
    json(200, &JobTransfers { transfers: rows.into_iter().map(to_api).collect() })
}

/// PATCH /api/v1/jobs/ID.
pub(super) async fn change(request: ApiRequest) -> ApiResult {
    let change: JobChange = request.read("a change")?;
    if change.priority.is_some_and(|priority| !(1..=5).contains(&priority)) {
        return Err(Refused::new(400, "priority is 1 to 5"));
    }
    json(if change.cancel { 202 } else { 200 }, &apply_change(&request, change).await?)
}

/// DELETE /api/v1/jobs/ID.
pub(super) async fn cancel(request: ApiRequest) -> ApiResult {
    json(202, &apply_change(&request, JobChange { cancel: true, ..JobChange::default() }).await?)
}

/// Changes the job of the request's path; returns it as it is then.
async fn apply_change(request: &ApiRequest, change: JobChange) -> Result<Job, Refused> {
    let job = requested_job(request).await?;
    check_limit(job.job.deadline.is_some(), change.limit_bit_s)?;
    let id = job.job.id.to_string();
    let by = request.member.owner.clone();
    if !request.hub.change_job(job, change, by).await? {
        return Err(Refused::new(409, format!("the job {id} has ended")));
    }
    Ok(find(request, &id).await?.job)
}
