//! The log of the events of jobs: events in their order, appended and never changed. Streams of events are read from it.

use sqlx::{AnyConnection, AnyPool, Row};

use super::Result;
use super::numbers::take_numbers;
use database::rows::insert;

/// An event of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number: later events have larger ones.
    pub number: i64,
    /// When it happened, milliseconds since 1970.
    pub at: i64,
    /// The job's id.
    pub job: String,
    /// The owner of the job.
    pub owner: String,
    /// `submitted`, `started`, `file`, `ended`, …
    pub kind: String,
    /// The facts, JSON.
    pub body: String,
}

/// An event to be appended.
pub(super) struct NewEvent {
    pub at: i64,
    pub job: String,
    pub owner: String,
    pub kind: &'static str,
    pub body: String,
}

/// Appends events.
pub(super) async fn append(connection: &mut AnyConnection, events: &[NewEvent]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let first = take_numbers(connection, "events", events.len()).await?;
    append_from(connection, first, events).await
}

/// Appends events whose numbers were taken before.
pub(super) async fn append_from(connection: &mut AnyConnection, first: i64, events: &[NewEvent]) -> Result<()> {
    let events: Vec<(i64, &NewEvent)> = (first..).zip(events).collect();
    Ok(insert(connection, "events (number, at, job, owner, kind, body)", 6, &events, |query, (number, event)| {
        let query = query.bind(*number).bind(event.at).bind(event.job.as_str()).bind(event.owner.as_str());
        query.bind(event.kind).bind(event.body.as_str())
    })
    .await?)
}

/// Events with numbers above `number`, oldest first, of one job or of all jobs.
///
/// # Errors
/// The database cannot be read.
pub async fn after(pool: &AnyPool, number: i64, job: Option<&str>, limit: i64) -> Result<Vec<Event>> {
    let sql = "SELECT number, at, job, owner, kind, body FROM events WHERE number > $1 AND ($2 = '' OR job = $2) \
               ORDER BY number LIMIT $3";
    let rows = sqlx::query(sql).bind(number).bind(job.unwrap_or_default()).bind(limit).fetch_all(pool).await?;
    rows.iter()
        .map(|row| {
            Ok(Event {
                number: row.try_get(0)?,
                at: row.try_get(1)?,
                job: row.try_get(2)?,
                owner: row.try_get(3)?,
                kind: row.try_get(4)?,
                body: row.try_get(5)?,
            })
        })
        .collect()
}

/// The number of the last event.
///
/// # Errors
/// The database cannot be read.
pub async fn last(pool: &AnyPool) -> Result<i64> {
    let row = sqlx::query("SELECT COALESCE(MAX(number), 0) FROM events").fetch_one(pool).await?;
    Ok(row.try_get(0)?)
}
