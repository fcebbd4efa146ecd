//! The queues, the shares of the resources, and the reasons why files wait.

use model::v1::hub::{Constraint, ConstraintKind, File, QueueLine, Queues, Shares, Why};
use web::Refused;

use super::{ApiRequest, ApiResult, jobs, json};
use crate::database::queues::Queue;
use crate::snapshot::{Decision, Snapshot};
use crate::state::unavailable;
use crate::time;

fn bits(bytes: f64) -> u64 {
    (bytes * 8.0).round() as u64
}

/// GET /api/v1/queues.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    lines(request, |_| true).await
}

/// GET /api/v1/reservations.
pub(super) async fn reservations(request: ApiRequest) -> ApiResult {
    lines(request, |queue| queue.key.deadline > 0).await
}

async fn lines(request: ApiRequest, is_wanted: fn(&Queue) -> bool) -> ApiResult {
    let snapshot = request.hub.snapshot.load_full();
    let queues = request.hub.database.queues().await.map_err(unavailable)?;
    let may_see = |queue: &&Queue| request.member.may_change(&queue.key.owner, &queue.key.community);
    let seen = queues.iter().filter(|queue| is_wanted(queue)).filter(may_see);
    json(200, &Queues { queues: seen.map(|queue| line(queue, snapshot.queues.get(&queue.id))).collect() })
}

fn line(queue: &Queue, decision: Option<&Decision>) -> QueueLine {
    let promised = decision.and_then(|decision| decision.promised);
    QueueLine {
        number: queue.id,
        source: queue.key.source.clone(),
        target: queue.key.target.clone(),
        community: queue.key.community.clone(),
        activity: queue.key.activity.clone(),
        owner: queue.key.owner.clone(),
        priority: queue.key.priority as u8,
        queued: queue.queued.max(0) as u64,
        queued_bytes: queue.queued_bytes.max(0) as u64,
        running: queue.running.max(0) as u64,
        allocated_bit_s: decision.filter(|decision| decision.rate.is_finite()).map(|decision| bits(decision.rate)),
        used_bit_s: decision.map_or(0, |decision| bits(decision.used)),
        constraint: decision.map(|decision| decision.constraint.clone()).unwrap_or_default(),
        deadline: (queue.key.deadline > 0).then(|| time::show(queue.key.deadline)),
        promised_bit_s: promised.map(|promise| bits(promise.floor)),
        late_bytes: promised.map(|promise| promise.late_bytes as u64).filter(|bytes| *bytes > 0),
    }
}

/// GET /api/v1/shares.
pub(super) async fn shares(request: ApiRequest) -> ApiResult {
    json(200, &Shares { resources: request.hub.snapshot.load().resources.clone() })
}

/// GET /api/v1/jobs/ID/why.
pub(super) async fn why(request: ApiRequest) -> ApiResult {
    let job = jobs::requested_job(&request).await?;
    let limit = request.limit(100)?;
    let mut after = request.number("after")?.unwrap_or(0);
    let snapshot = request.hub.snapshot.load_full();
    let mut answers = Vec::new();
    let database = &request.hub.database;
    // Only files that wait have a reason: pages are read until there are enough of them.
    while (answers.len() as i64) < limit {
        let files = database.files(&job, after, 1000).await.map_err(unavailable)?;
        let Some(last) = files.last() else { break };
        after = last.number;
        for file in files.into_iter().filter(|file| ["queued", "standby"].contains(&file.state.as_str())) {
            if answers.len() as i64 == limit {
                break;
            }
            answers.push(explain(&request, &snapshot, file).await?);
        }
    }
    json(200, &answers)
}

async fn explain(request: &ApiRequest, snapshot: &Snapshot, file: File) -> Result<Why, Refused> {
    let database = &request.hub.database;
    let mut why = Why {
        file: file.number,
        source: file.source.clone(),
        target: file.target.clone(),
        state: file.state.clone(),
        ..Why::default()
    };
    if file.state == "standby" {
        let text = "it begins when another source has failed, or when the hop before it is done".to_owned();
        why.constraint = Constraint { kind: ConstraintKind::Standby, name: String::new(), text };
        return Ok(why);
    }
    let Some(queue) = database.queue_of(file.number).await.map_err(unavailable)? else { return Ok(why) };
    why.position = database.position(queue.id, file.number).await.map_err(unavailable)?.max(0) as u64;
    let bytes_before = database.bytes_before(queue.id, file.number).await.map_err(unavailable)?;
    let decision = snapshot.queues.get(&queue.id);
    if let Some(not_before) = &file.not_before {
        let reason = file.error.as_deref().unwrap_or("the last attempt failed");
        let text = format!("{reason}; it is tried again at {not_before}");
        why.constraint = Constraint { kind: ConstraintKind::Retry, name: String::new(), text };
        why.expected_start = Some(not_before.clone());
        return Ok(why);
    }
    let Some(decision) = decision else {
        why.constraint.text = "the scheduler takes it into account in its next round, within a second".to_owned();
        return Ok(why);
    };
    why.constraint = decision.constraint.clone();
    why.held_by.clone_from(&decision.held_by);
    if why.constraint.kind == ConstraintKind::None && why.position > 0 {
        let text = format!("{} files of {} are before it", why.position, queue.key.owner);
        why.constraint = Constraint { kind: ConstraintKind::Turn, name: queue.key.owner.clone(), text };
    }
    let rate = if decision.used > 0.0 { decision.used.min(decision.rate) } else { decision.rate };
    if rate.is_finite() && rate > 0.0 {
        let after = |bytes: f64| time::show(time::now() + (bytes / rate * 1000.0).min(1e15) as i64);
        let ahead = (bytes_before + queue.running_bytes).max(0) as f64;
        why.expected_start = Some(after(ahead));
        why.expected_end = Some(after(ahead + file.bytes as f64));
    }
    Ok(why)
}
