//! Repeats: orders that are submitted every day or week at a time.

use std::sync::Arc;
use std::time::Duration;

use model::v1::hub::{Every, JobOrder, Repeat, RepeatOrder};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use uuid::Uuid;
use web::Refused;

use crate::admission::admit;
use crate::catalogue::refused;
use crate::database::DatabaseError;
use crate::database::repeats::RepeatRow;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// How often the hub looks for repeats that are due.
const POLL_EVERY: Duration = Duration::from_secs(5);
const DAY_MS: i64 = 86_400_000;
/// The most repeats of one owner.
const REPEATS_PER_OWNER_MAX: usize = 100;

fn span_ms(every: Every) -> i64 {
    match every {
        Every::Day => DAY_MS,
        Every::Week => 7 * DAY_MS,
    }
}

/// Reads a time of the day, `HH:MM` in UTC; returns milliseconds after midnight.
fn parse_time_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number =
        |text: &str, most: i64| text.parse::<i64>().ok().filter(|it| text.len() == 2 && (0..most).contains(it));
    Some((number(hours, 24)? * 60 + number(minutes, 60)?) * 60_000)
}

/// When a repeat is first due: the next occurrence of its time of the day.
fn next_after(now: i64, at: i64) -> i64 {
    let today = now - now.rem_euclid(DAY_MS) + at;
    if today > now { today } else { today + DAY_MS }
}

/// When a repeat is due next: a whole number of periods after it was due, and after now.
fn next_due(now: i64, was_due: i64, every: Every) -> i64 {
    let span = span_ms(every);
    let missed = (now - was_due).max(0) / span;
    was_due + (missed + 1) * span
}

/// Makes a repeat.
///
/// # Errors
/// The order could not be submitted, its time is invalid, or the member has too many repeats.
pub async fn make(hub: &HubState, member: &Member, wanted: RepeatOrder) -> Result<Repeat, Refused> {
    let at = parse_time_of_day(&wanted.at).ok_or_else(|| Refused::new(400, "at is a time of the day, UTC: 02:30"))?;
    if wanted.order.id.is_some() || wanted.order.deadline.is_some() {
        return Err(Refused::new(400, "an order that is repeated has neither an id nor a deadline"));
    }
    let now = time::now();
    admit(&wanted.order, member, &hub.topology.load(), now)?;
    let own = hub.database.repeats(&member.owner).await.map_err(refused)?;
    if own.len() >= REPEATS_PER_OWNER_MAX {
        return Err(Refused::new(409, format!("you have {REPEATS_PER_OWNER_MAX} repeats already: end one of them")));
    }
    let row = RepeatRow {
        id: Uuid::now_v7().to_string(),
        owner: member.owner.clone(),
        community: member.community.clone(),
        order: serde_json::to_string(&wanted.order).unwrap_or_default(),
        every: if wanted.every == Every::Week { "week" } else { "day" }.to_owned(),
        at,
        next_run: next_after(now, at),
        created: now,
        ..RepeatRow::default()
    };
    hub.database.add_repeat(row.clone()).await.map_err(refused)?;
    Ok(to_api(&row))
}

fn every(row: &RepeatRow) -> Every {
    if row.every == "week" { Every::Week } else { Every::Day }
}

/// A repeat as the type of the API.
pub fn to_api(row: &RepeatRow) -> Repeat {
    let order: JobOrder = serde_json::from_str(&row.order).unwrap_or_default();
    let first = order.files.first();
    Repeat {
        id: row.id.clone(),
        owner: row.owner.clone(),
        source: first.and_then(|file| file.sources.first()).map_or_else(String::new, |url| web::target::redacted(url)),
        target: first.map_or_else(String::new, |file| web::target::redacted(&file.target)),
        files: order.files.len() as u64,
        every: every(row),
        at: format!("{:02}:{:02}", row.at / 3_600_000, row.at / 60_000 % 60),
        next: time::show(row.next_run),
        last_job: Some(row.last_job.clone()).filter(|id| !id.is_empty()),
        error: Some(row.error.clone()).filter(|text| !text.is_empty()),
    }
}

/// The repeat with an id, if the member may end it.
///
/// # Errors
/// There is no such repeat, or it belongs to another member.
pub async fn of_id(hub: &HubState, member: &Member, id: &str) -> Result<RepeatRow, Refused> {
    let row = hub.database.repeat(id).await.map_err(refused)?;
    let row = row.filter(|row| member.may_change(&row.owner, &row.community));
    row.ok_or_else(|| Refused::new(404, format!("there is no repeat {id}, or none of yours")))
}

/// Submits repeats that are due until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        match submit_due(&hub).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "repeats cannot be read; the hub tries again"),
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
    }
}

/// Submits one repeat that is due; returns whether there was one. If several times were missed while no hub ran, it is submitted once.
async fn submit_due(hub: &HubState) -> Result<bool, DatabaseError> {
    let now = time::now();
    let Some(row) = hub.database.due_repeat(now).await? else { return Ok(false) };
    let (job, error) = match submit(hub, &row).await {
        Ok(id) => (id, String::new()),
        Err(reason) => (String::new(), reason),
    };
    let next = next_due(now, row.next_run, every(&row));
    hub.database.record_repeat(row.id, next, job, error).await?;
    Ok(true)
}

/// Submits the order of a repeat in the name of its owner; returns the id of the job, or why there is none.
async fn submit(hub: &HubState, row: &RepeatRow) -> Result<String, String> {
    let order: JobOrder =
        serde_json::from_str(&row.order).map_err(|error| format!("the order cannot be read: {error}"))?;
    // The id is derived from the repeat and its time, so that several hubs submit it as one job.
    let order = JobOrder { id: Some(job_id(row)), ..order };
    let member = hub.credentials.require_not_banned(Member::user(&row.owner, &row.community));
    let member = member.map_err(|refusal| refusal.reason)?;
    let result = hub.submit(&order, &member, |_| ()).await;
    result.map(|(job, _)| job.id.to_string()).map_err(|why| Refused::from(why).reason)
}

/// The id of the job of a repeat at its time.
fn job_id(row: &RepeatRow) -> Uuid {
    let digest = Sha256::digest(format!("{} {}", row.id, row.next_run));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_always_due_in_the_future() {
        let at = parse_time_of_day("02:30").unwrap();
        let day = |text: &str| time::parse(text).unwrap();
        assert_eq!(next_after(day("2026-11-27T01:00:00Z"), at), day("2026-11-27T02:30:00Z"));
        assert_eq!(next_after(day("2026-11-27T02:30:00Z"), at), day("2026-11-28T02:30:00Z"));
        let due = day("2026-11-27T02:30:00Z");
        assert_eq!(next_due(due + 1, due, Every::Day), day("2026-11-28T02:30:00Z"));
        assert_eq!(next_due(due + 1, due, Every::Week), day("2026-12-04T02:30:00Z"));
        // Three nights were missed: the repeat is due in the next night.
        assert_eq!(next_due(day("2026-11-30T12:00:00Z"), due, Every::Day), day("2026-12-01T02:30:00Z"));
    }

    #[test]
    fn a_time_of_the_day_is_hours_and_minutes() {
        assert_eq!(parse_time_of_day("23:59"), Some(86_340_000));
        for text in ["24:00", "2:30", "02:60", "0230", "aa:bb", "-1:00", ""] {
            assert_eq!(parse_time_of_day(text), None, "{text}");
        }
    }

    #[test]
    fn a_repeat_has_one_job_for_each_time() {
        let row = |id: &str, next_run| RepeatRow { id: id.to_owned(), next_run, ..RepeatRow::default() };
        assert_eq!(job_id(&row("a", 1)), job_id(&row("a", 1)));
        assert_ne!(job_id(&row("a", 1)), job_id(&row("a", 2)));
        assert_ne!(job_id(&row("a", 1)), job_id(&row("b", 1)));
    }
}
