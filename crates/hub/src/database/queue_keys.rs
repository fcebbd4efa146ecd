//! The keys of queues: the attributes that the files of one queue have in common.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::Result;
use super::numbers::take_numbers;
use database::rows::Query;

/// The key of a queue: files with the same path, owner and terms wait together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueKey {
    /// The endpoint that is read.
    pub source: String,
    /// The endpoint that is written.
    pub target: String,
    /// The community.
    pub community: String,
    /// The activity within it.
    pub activity: String,
    /// The owner of the jobs.
    pub owner: String,
    /// The priority, 1 to 5; [`PAUSED`](crate::states::PAUSED) if no file is taken from the queue.
    pub priority: i64,
    /// The deadline by which its files are promised to arrive, milliseconds since 1970; 0 without a promise.
    pub deadline: i64,
    /// The number of the job that has a limit, and so queues of its own; 0 for all others.
    pub limited_job: i64,
}

/// The number of the queue with a key; the queue is made if there is none.
pub(super) async fn queue_id(connection: &mut AnyConnection, key: &QueueKey) -> Result<i64> {
    const FIND: &str = "SELECT id FROM queues WHERE source = $1 AND target = $2 AND community = $3 AND activity = $4 \
                        AND owner = $5 AND priority = $6 AND deadline = $7 AND limited = $8";
    const MAKE: &str = "INSERT INTO queues (source, target, community, activity, owner, priority, deadline, limited, id) \
                        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
    if let Some(row) = bind_key(FIND, key).fetch_optional(&mut *connection).await? {
        return Ok(row.try_get(0)?);
    }
    let id = take_numbers(connection, "queues", 1).await?;
    bind_key(MAKE, key).bind(id).execute(&mut *connection).await?;
    // Another hub may have made it at the same time.
    Ok(bind_key(FIND, key).fetch_one(&mut *connection).await?.try_get(0)?)
}

/// The key in the columns 1 to 8 of a row: source, target, community, activity, owner, priority, deadline, limited.
pub(super) fn read_key(row: &AnyRow) -> Result<QueueKey> {
    Ok(QueueKey {
        source: row.try_get(1)?,
        target: row.try_get(2)?,
        community: row.try_get(3)?,
        activity: row.try_get(4)?,
        owner: row.try_get(5)?,
        priority: row.try_get(6)?,
        deadline: row.try_get(7)?,
        limited_job: row.try_get(8)?,
    })
}

fn bind_key<'q>(sql: &'static str, key: &'q QueueKey) -> Query<'q> {
    let QueueKey { source, target, community, activity, owner, priority, deadline, limited_job } = key;
    let query = sqlx::query(sql).bind(source.as_str()).bind(target.as_str()).bind(community.as_str());
    query.bind(activity.as_str()).bind(owner.as_str()).bind(*priority).bind(*deadline).bind(*limited_job)
}
