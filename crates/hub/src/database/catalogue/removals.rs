//! Selects the copies that are deleted next: copies without locks whose file has another copy, and copies of files that have ended.
//!
//! A copy is marked before it is deleted at its endpoint, in the same transaction that checks for another copy. So one of the last two
//! copies stays.

use std::sync::Arc;

use replicas::DataName;
use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::counts::Counts;
use super::ending::end_for_good;
use super::replicas::wake_for_source;
use super::states::{LockState, ReplicaState};
use super::stores::{self, StoreUse};
use super::{history, locks, suspicions};
use crate::database::{Database, Result};
use crate::topology::{StoragePlace, Topology};

/// The most copies of one batch.
const FILES_MAX: i64 = 100;
/// How long the lease of a hub on a copy lasts, milliseconds: longer than a server may take to answer.
const LEASE_MS: i64 = 10 * 60_000;
/// The pause before the deletion of a copy is tried again, milliseconds.
const RETRY_MS: i64 = 10 * 60_000;

/// A copy that has been selected for deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// The number of the file.
    pub file: i64,
    /// Its name.
    pub name: DataName,
    /// The number of the endpoint.
    pub store: i64,
    /// The endpoint.
    pub endpoint: String,
    /// Its path there, if it is not the path of the endpoint's naming.
    pub path: Option<String>,
    /// Its size.
    pub bytes: i64,
}

const COLUMNS: &str = "SELECT r.file, n.scope, n.name, r.store, s.endpoint, r.path, r.bytes FROM replicas r \
                       JOIN names n ON n.id = r.file JOIN stores s ON s.id = r.store";
/// A copy without locks, of a file with another copy that is not suspected.
const SPARE: &str = "r.locks = 0 AND r.unlocked <= $2 AND r.state IN (0, 3) \
                     AND EXISTS (SELECT 1 FROM replicas o WHERE o.file = r.file AND o.store <> r.store AND o.state = 0 \
                     AND NOT EXISTS (SELECT 1 FROM suspicions c WHERE c.file = o.file AND c.store = o.store))";
/// A copy that became the last one after its deletion had begun, of a file that has not ended.
const LAST: &str = "r.was = 0 AND (n.expires IS NULL OR n.expires > $1) \
                    AND NOT EXISTS (SELECT 1 FROM replicas o WHERE o.file = r.file AND o.store <> r.store AND o.state = 0)";

fn read(row: &sqlx::any::AnyRow) -> Result<Removal> {
    let (scope, name): (String, String) = (row.try_get(1)?, row.try_get(2)?);
    let name = DataName::new(&scope, &name).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(Removal {
        file: row.try_get(0)?,
        name,
        store: row.try_get(3)?,
        endpoint: row.try_get(4)?,
        path: row.try_get(5)?,
        bytes: row.try_get(6)?,
    })
}

impl Database {
    /// Selects copies to delete now, and marks them with a lease.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_removals(&self, topology: Arc<Topology>, now: i64) -> Result<Vec<Removal>> {
        self.writer.change(move |connection| Box::pin(take(connection, topology, now))).await
    }

    /// Copies at an endpoint that could be deleted now, in the order in which they are deleted when space is needed: those read longest ago
    /// first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn removable(&self, store: i64, now: i64, limit: i64) -> Result<Vec<Removal>> {
        let sql = format!("{COLUMNS} WHERE r.store = $1 AND {SPARE} ORDER BY r.accessed, r.file LIMIT $3");
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(store).bind(now).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(read).collect()
    }

    /// Records that copies have been deleted.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn record_removed(&self, removals: Vec<Removal>, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(record_removed(connection, removals, now))).await
    }

    /// Records that copies could not be deleted.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn record_not_removed(&self, removals: Vec<(Removal, String)>, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(record_not_removed(connection, removals, now))).await
    }
}

async fn take(connection: &mut AnyConnection, topology: Arc<Topology>, now: i64) -> Result<Vec<Removal>> {
    let mut counts = Counts::default();
    let mut taken = interrupted(connection, now).await?;
    taken.extend(copies_of_ended_files(connection, now).await?);
    taken.retain(|removal| topology.storage.contains_key(&removal.endpoint));
    mark(connection, &taken, &mut counts, now).await?;
    let stores = stores::all(connection).await?;
    for place in topology.storage.values() {
        let Some(used) = stores.get(&place.endpoint) else { continue };
        if (taken.len() as i64) < FILES_MAX && !topology.refuses(&place.endpoint) {
            // The copies are marked before the next endpoint is examined: if both of two copies could be deleted, the second one counts as
            // the last.
            let spare = spare_copies(connection, place, *used, now).await?;
            mark(connection, &spare, &mut counts, now).await?;
            taken.extend(spare);
        }
    }
    counts.apply(connection, now).await?;
    Ok(taken)
}

/// Marks copies as being deleted, with a lease.
async fn mark(connection: &mut AnyConnection, removals: &[Removal], counts: &mut Counts, now: i64) -> Result<()> {
    for removal in removals {
        mark_one(connection, removal, counts, now).await?;
    }
    Ok(())
}

async fn mark_one(connection: &mut AnyConnection, removal: &Removal, counts: &mut Counts, now: i64) -> Result<()> {
    let sql = "SELECT state FROM replicas WHERE file = $1 AND store = $2";
    let row = sqlx::query(sql).bind(removal.file).bind(removal.store).fetch_one(&mut *connection).await?;
    let before: i64 = row.try_get(0)?;
    if before == ReplicaState::Available.code() {
        counts.spare(removal.store, -removal.bytes);
    }
    let sql = "UPDATE replicas SET was = CASE WHEN state = $1 THEN was ELSE state END, state = $1, not_before = $2 \
               WHERE file = $3 AND store = $4";
    let query = sqlx::query(sql).bind(ReplicaState::Deleting.code()).bind(now + LEASE_MS);
    query.bind(removal.file).bind(removal.store).execute(connection).await?;
    Ok(())
}

/// Copies whose deletion was begun by a hub that was killed. A copy that is the last one by now is kept.
async fn interrupted(connection: &mut AnyConnection, now: i64) -> Result<Vec<Removal>> {
    let sql = format!("{COLUMNS} WHERE r.state = 4 AND r.not_before <= $1 AND {LAST} LIMIT $2");
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(FILES_MAX).fetch_all(&mut *connection).await?;
    let why = "the hub that was deleting it has stopped, and no other copy is left";
    let kept = rows.iter().map(|row| Ok((read(row)?, why.to_owned()))).collect::<Result<_>>()?;
    record_not_removed(connection, kept, now).await?;
    let sql = format!("{COLUMNS} WHERE r.state = 4 AND r.not_before <= $1 ORDER BY r.not_before LIMIT $2");
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(FILES_MAX).fetch_all(connection).await?;
    rows.iter().map(read).collect()
}

/// Copies of files that have ended, the last copy included.
async fn copies_of_ended_files(connection: &mut AnyConnection, now: i64) -> Result<Vec<Removal>> {
    let sql = format!(
        "{COLUMNS} WHERE n.expires <= $1 AND n.kind = 0 AND r.locks = 0 AND r.state IN (0, 3) ORDER BY n.expires, r.file LIMIT $2"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(FILES_MAX).fetch_all(&mut *connection).await?;
    let ended: Vec<Removal> = rows.iter().map(read).collect::<Result<_>>()?;
    for removal in &ended {
        end_for_good(connection, removal.file).await?;
    }
    Ok(ended)
}

/// Copies without locks whose deletion makes space at an endpoint that is filled above its high-water mark.
async fn spare_copies(
    connection: &mut AnyConnection,
    place: &StoragePlace,
    used: StoreUse,
    now: i64,
) -> Result<Vec<Removal>> {
    let Some(mut to_free) = place.to_free(used.bytes) else { return Ok(Vec::new()) };
    let sql = format!("{COLUMNS} WHERE r.store = $1 AND {SPARE} ORDER BY r.accessed, r.file LIMIT $3");
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(used.id).bind(now).bind(FILES_MAX).fetch_all(connection).await?;
    let mut taken = Vec::new();
    for row in &rows {
        if to_free <= 0 {
            break;
        }
        let removal = read(row)?;
        to_free -= removal.bytes;
        taken.push(removal);
    }
    Ok(taken)
}

async fn record_removed(connection: &mut AnyConnection, removals: Vec<Removal>, now: i64) -> Result<()> {
    let mut counts = Counts::default();
    for removal in removals {
        let sql = "DELETE FROM replicas WHERE file = $1 AND store = $2 AND state = 4 AND locks = 0";
        let query = sqlx::query(sql).bind(removal.file).bind(removal.store);
        if query.execute(&mut *connection).await?.rows_affected() > 0 {
            counts.store(removal.store, -1, -removal.bytes);
        } else {
            // A rule has locked it in the meantime: it is copied again.
            let sql = "UPDATE replicas SET state = $1, not_before = 0 WHERE file = $2 AND store = $3 AND state = 4";
            let query = sqlx::query(sql).bind(ReplicaState::Wanted.code()).bind(removal.file).bind(removal.store);
            query.execute(&mut *connection).await?;
        }
        let facts = json!({"endpoint": removal.endpoint});
        history::append(connection, removal.file, "hub", "replica_removed", &facts, now).await?;
    }
    counts.apply(connection, now).await
}

async fn record_not_removed(connection: &mut AnyConnection, removals: Vec<(Removal, String)>, now: i64) -> Result<()> {
    let mut counts = Counts::default();
    for (removal, why) in removals {
        let sql = "UPDATE replicas SET state = was, error = $1, not_before = 0, \
                   unlocked = CASE WHEN locks = 0 THEN $2 ELSE NULL END \
                   WHERE file = $3 AND store = $4 AND state = 4 RETURNING state, locks";
        let query = sqlx::query(sql).bind(&why).bind(now + RETRY_MS).bind(removal.file).bind(removal.store);
        let Some(row) = query.fetch_optional(&mut *connection).await? else { continue };
        let (state, held): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        // The server may have deleted the file although its answer was lost.
        suspicions::note(connection, removal.file, &removal.endpoint, &why, now).await?;
        match (state == ReplicaState::Available.code(), held > 0) {
            (true, true) => locks::set(connection, removal.file, removal.store, LockState::Ok, &mut counts).await?,
            (true, false) => counts.spare(removal.store, removal.bytes),
            // A bad copy that a rule has locked in the meantime is made again.
            (false, true) => suspicions::make_again(connection, removal.file, &mut counts).await?,
            (false, false) => {}
        }
        if state == ReplicaState::Available.code() {
            wake_for_source(connection, removal.file, &mut counts).await?;
        }
    }
    counts.apply(connection, now).await
}
