//! Suspected copies: recorded when a read fails, then verified by checksum, and cleared or declared bad.

use model::Fault;
use replicas::DataName;
use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::counts::Counts;
use super::names::{self, ROW};
use super::states::{LockState, ReplicaState};
use super::{history, locks, stores};
use crate::database::{Database, DatabaseError, Result};

/// The most copies that are verified in one round.
const FILES_MAX: i64 = 20;
/// The pause before a copy is verified again if its endpoint could not decide it, milliseconds.
const RETRY_MS: i64 = 15 * 60_000;

/// A copy that may be damaged or lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspicion {
    /// The file.
    pub file: names::DataRow,
    /// The endpoint.
    pub endpoint: String,
    /// Its path there, if it is not the path of the endpoint's naming.
    pub path: Option<String>,
    /// Why it is suspected.
    pub why: String,
}

/// Whether a transfer that failed with this fault may have had a bad source.
pub(super) fn blames_source(fault: &str) -> bool {
    matches!(Fault::of_word(fault), Some(Fault::Missing | Fault::Integrity))
}

/// Records a suspected copy.
pub(super) async fn note(connection: &mut AnyConnection, file: i64, endpoint: &str, why: &str, now: i64) -> Result<()> {
    let sql = "INSERT INTO suspicions (file, store, at, why, not_before) SELECT r.file, r.store, $1, $2, 0 FROM replicas r \
               JOIN stores s ON s.id = r.store WHERE r.file = $3 AND s.endpoint = $4 AND r.state = 0 ON CONFLICT DO NOTHING";
    sqlx::query(sql).bind(now).bind(why).bind(file).bind(endpoint).execute(connection).await?;
    Ok(())
}

impl Database {
    /// The suspected copies that are to be verified now.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn suspicions(&self, now: i64) -> Result<Vec<Suspicion>> {
        let sql = "SELECT c.file, s.endpoint, r.path, c.why FROM suspicions c JOIN stores s ON s.id = c.store \
                   JOIN replicas r ON r.file = c.file AND r.store = c.store AND r.state = 0 WHERE c.not_before <= $1 ORDER BY c.at LIMIT $2";
        let rows = sqlx::query(sql).bind(now).bind(FILES_MAX).fetch_all(&self.pool).await?;
        let ids = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>>>()?;
        let files = self.data_of(&ids).await?;
        let mut found = Vec::new();
        for (row, id) in rows.iter().zip(ids) {
            let Some(file) = files.get(&id).cloned() else { continue };
            found.push(Suspicion { file, endpoint: row.try_get(1)?, path: row.try_get(2)?, why: row.try_get(3)? });
        }
        Ok(found)
    }

    /// Clears the suspicion of a copy: it is good.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn clear_suspicion(&self, file: i64, endpoint: String) -> Result<()> {
        self.writer.change(move |connection| Box::pin(clear(connection, file, endpoint))).await
    }

    /// Postpones a suspicion that could not be decided.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn postpone_suspicion(&self, file: i64, endpoint: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "UPDATE suspicions SET not_before = $1 WHERE file = $2 \
                               AND store IN (SELECT id FROM stores WHERE endpoint = $3)";
                    sqlx::query(sql).bind(now + RETRY_MS).bind(file).bind(endpoint).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Declares a copy bad, in the name of `by`. If a rule holds it, it is made again from another copy.
    ///
    /// # Errors
    /// There is no such copy, or the database cannot be written: nothing has changed.
    pub async fn declare_bad(&self, name: DataName, endpoint: String, by: String, why: String, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(declare(connection, name, endpoint, by, why, now))).await
    }
}

async fn clear(connection: &mut AnyConnection, file: i64, endpoint: String) -> Result<()> {
    let sql = "DELETE FROM suspicions WHERE file = $1 AND store IN (SELECT id FROM stores WHERE endpoint = $2)";
    sqlx::query(sql).bind(file).bind(endpoint).execute(connection).await?;
    Ok(())
}

async fn declare(
    connection: &mut AnyConnection,
    name: DataName,
    endpoint: String,
    by: String,
    why: String,
    now: i64,
) -> Result<()> {
    let file = names::find(connection, &name).await?.id;
    let store = stores::id_or_new(connection, &endpoint).await?;
    clear(connection, file, endpoint.clone()).await?;
    let sql = "UPDATE replicas SET state = $1, error = $2, unlocked = CASE WHEN locks = 0 THEN $3 ELSE NULL END \
               WHERE file = $4 AND store = $5 AND state = 0 RETURNING locks, bytes";
    let query = sqlx::query(sql).bind(ReplicaState::Bad.code()).bind(&why).bind(now).bind(file).bind(store);
    let Some(row) = query.fetch_optional(&mut *connection).await? else {
        return Err(DatabaseError::Refused(format!("no copy of {name} is available at {endpoint}")));
    };
    let mut counts = Counts::default();
    if row.try_get::<i64, _>(0)? == 0 {
        counts.spare(store, -row.try_get::<i64, _>(1)?);
    }
    locks::set(connection, file, store, LockState::Stuck, &mut counts).await?;
    let others = "SELECT COUNT(*) FROM replicas WHERE file = $1 AND state = 0";
    let others: i64 = sqlx::query(others).bind(file).fetch_one(&mut *connection).await?.try_get(0)?;
    if others > 0 {
        make_again(connection, file, &mut counts).await?;
    }
    let facts = json!({"endpoint": endpoint, "why": why, "copies_left": others});
    history::append(connection, file, &by, "replica_bad", &facts, now).await?;
    counts.apply(connection, now).await
}

/// Sets bad copies that rules hold back to the wanted state: the file has a source again.
pub(super) async fn make_again(connection: &mut AnyConnection, file: i64, counts: &mut Counts) -> Result<()> {
    let sql = "UPDATE replicas SET state = $1, attempts = 0, not_before = 0 WHERE file = $2 AND state = $3 AND locks > 0 RETURNING store";
    let query = sqlx::query(sql).bind(ReplicaState::Wanted.code()).bind(file).bind(ReplicaState::Bad.code());
    for row in query.fetch_all(&mut *connection).await? {
        locks::set(connection, file, row.try_get(0)?, LockState::Replicating, counts).await?;
    }
    Ok(())
}

impl Database {
    /// Lost files: a copy was declared bad, none is available, and a rule wants one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn lost(&self, limit: i64) -> Result<Vec<names::DataRow>> {
        let sql = format!(
            "{ROW} WHERE id IN (SELECT file FROM replicas WHERE state = 3) \
             AND EXISTS (SELECT 1 FROM replicas h WHERE h.file = names.id AND h.locks > 0) \
             AND NOT EXISTS (SELECT 1 FROM replicas o WHERE o.file = names.id AND o.state = 0) ORDER BY id LIMIT $1"
        );
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(names::read).collect()
    }
}
