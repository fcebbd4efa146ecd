//! The replicas of files.

use std::collections::{HashMap, HashSet};

use replicas::DataName;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::counts::Counts;
use super::locks;
use super::names::{self, DataRow};
use super::states::{LockState, ReplicaState};
use super::{copies, stores, suspicions};
use crate::database::{Database, DatabaseError, Result};
use database::rows::id_list;

/// An existing copy of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingReplica {
    /// The endpoint.
    pub endpoint: String,
    /// Its path there, if it is not the path of the endpoint's naming.
    pub path: Option<String>,
}

/// A file with its copies.
#[derive(Clone, Debug, PartialEq)]
pub struct FileRow {
    /// The file.
    pub file: DataRow,
    /// Its copies.
    pub replicas: Vec<ReplicaRow>,
}

/// A copy of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRow {
    /// The endpoint.
    pub endpoint: String,
    /// Its state.
    pub state: ReplicaState,
    /// Its path there, if it is not the path of the endpoint's naming.
    pub path: Option<String>,
    /// The number of rules that hold it.
    pub locks: i64,
    /// When it may be deleted, milliseconds since 1970; `None` while a rule holds it.
    pub unlocked: Option<i64>,
    /// The number of failed attempts to make it.
    pub attempts: i64,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

/// Counts of the copies of a name's files at one endpoint and in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// The endpoint.
    pub endpoint: String,
    /// The state.
    pub state: ReplicaState,
    /// Files.
    pub files: i64,
    /// Their bytes.
    pub bytes: i64,
}

/// SQL that selects the files of a name, each once: those of its datasets, or the name itself if it is a file.
pub(super) fn files_of(name: &DataRow, datasets: &[i64]) -> String {
    if datasets.is_empty() {
        return format!("SELECT id AS file FROM names WHERE id = {} AND kind = 0", name.id);
    }
    format!("SELECT DISTINCT child AS file FROM contents WHERE parent IN {}", id_list(datasets.iter().copied()))
}

impl Database {
    /// The files of a name with ids above `after`, with their copies, by id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn files_below(&self, name: &DataRow, after: i64, limit: i64) -> Result<Vec<FileRow>> {
        let datasets = self.datasets_below(name.id).await?;
        let files = files_of(name, &datasets);
        let sql = format!("SELECT file FROM ({files}) f WHERE file > $1 ORDER BY file LIMIT $2");
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(after).bind(limit).fetch_all(&self.pool).await?;
        let ids = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>>>()?;
        let mut files = self.data_of(&ids).await?;
        let mut copies = self.replicas_of(&ids).await?;
        let file = |id: &i64| {
            let file = files.remove(id)?;
            Some(FileRow { file, replicas: copies.remove(id).unwrap_or_default() })
        };
        Ok(ids.iter().filter_map(file).collect())
    }

    /// The copies of files, by the file's id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn replicas_of(&self, files: &[i64]) -> Result<HashMap<i64, Vec<ReplicaRow>>> {
        let mut all: HashMap<i64, Vec<ReplicaRow>> = HashMap::new();
        for chunk in files.chunks(1000) {
            let sql = format!(
                "SELECT r.file, s.endpoint, r.state, r.path, r.locks, r.unlocked, r.attempts, r.error FROM replicas r \
                 JOIN stores s ON s.id = r.store WHERE r.file IN {} ORDER BY r.file, s.endpoint",
                id_list(chunk.iter().copied())
            );
            for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(&self.pool).await? {
                all.entry(row.try_get(0)?).or_default().extend(read(&row)?);
            }
        }
        Ok(all)
    }

    /// The copies of a name's files, by endpoint and state.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn whereabouts(&self, name: &DataRow) -> Result<Vec<ReplicaCounts>> {
        let files = files_of(name, &self.datasets_below(name.id).await?);
        let sql = format!(
            "SELECT s.endpoint, r.state, COUNT(*), CAST(SUM(r.bytes) AS BIGINT) FROM ({files}) f JOIN replicas r ON r.file = f.file \
             JOIN stores s ON s.id = r.store GROUP BY s.endpoint, r.state ORDER BY s.endpoint, r.state"
        );
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&self.pool).await?;
        let mut all = Vec::new();
        for row in rows {
            let Some(state) = ReplicaState::of_code(row.try_get(1)?) else { continue };
            all.push(ReplicaCounts {
                endpoint: row.try_get(0)?,
                state,
                files: row.try_get(2)?,
                bytes: row.try_get(3)?,
            });
        }
        Ok(all)
    }

    /// The number of files of a name, and their bytes; each file counts once.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn total(&self, name: &DataRow) -> Result<(i64, i64)> {
        let files = files_of(name, &self.datasets_below(name.id).await?);
        let sql = format!(
            "SELECT COUNT(*), CAST(COALESCE(SUM(n.bytes), 0) AS BIGINT) FROM ({files}) f JOIN names n ON n.id = f.file"
        );
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&self.pool).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// Records existing copies of a file.
    ///
    /// # Errors
    /// There is no such file, or the database cannot be written: nothing has changed.
    pub async fn add_copies(&self, name: DataName, copies: Vec<ExistingReplica>, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(add(connection, name, copies, now))).await
    }
}

fn read(row: &AnyRow) -> Result<Option<ReplicaRow>> {
    let Some(state) = ReplicaState::of_code(row.try_get(2)?) else { return Ok(None) };
    Ok(Some(ReplicaRow {
        endpoint: row.try_get(1)?,
        state,
        path: row.try_get(3)?,
        locks: row.try_get(4)?,
        unlocked: row.try_get(5)?,
        attempts: row.try_get(6)?,
        error: row.try_get(7)?,
    }))
}

async fn add(connection: &mut AnyConnection, name: DataName, copies: Vec<ExistingReplica>, now: i64) -> Result<()> {
    let file = names::find(connection, &name).await?;
    if file.kind != model::v1::hub::DataKind::File {
        return Err(DatabaseError::Refused(format!("{name} is not a file: only files have copies")));
    }
    if file.has_ended(now) {
        return Err(DatabaseError::Refused(format!("{name} has been removed, and its copies are still being deleted")));
    }
    let mut counts = Counts::default();
    for copy in copies {
        let store = stores::id_or_new(connection, &copy.endpoint).await?;
        record_existing(connection, file.id, file.bytes, store, copy.path.as_deref(), &mut counts, now).await?;
    }
    counts.apply(connection, now).await
}

/// Records an existing copy, whatever state it had before. The locks of rules that waited for it become ok.
pub(super) async fn record_existing(
    connection: &mut AnyConnection,
    file: i64,
    bytes: i64,
    store: i64,
    path: Option<&str>,
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    let sql = "SELECT state FROM replicas WHERE file = $1 AND store = $2";
    let known = sqlx::query(sql).bind(file).bind(store).fetch_optional(&mut *connection).await?;
    match known.map(|row| row.try_get::<i64, _>(0)).transpose()?.map(ReplicaState::of_code) {
        Some(Some(ReplicaState::Available)) => Ok(()),
        // A copy that is entered now would be deleted a moment later.
        Some(Some(ReplicaState::Deleting)) => Err(deleting_error(connection, file, store).await?),
        Some(_) => record_arrived(connection, file, store, path, counts, now).await,
        None => {
            let sql = "INSERT INTO replicas (file, store, state, bytes, path, created, accessed, unlocked) \
                       VALUES ($1, $2, $3, $4, $5, $6, $6, $7)";
            let query = sqlx::query(sql).bind(file).bind(store).bind(ReplicaState::Available.code()).bind(bytes);
            query.bind(path).bind(now).bind(now + super::UNDO_MS).execute(&mut *connection).await?;
            counts.store(store, 1, bytes);
            counts.spare(store, bytes);
            wake_for_source(connection, file, counts).await
        }
    }
}

/// The copies in a list of files that are being deleted: the id of the file and the endpoint.
pub(super) async fn being_deleted(
    connection: &mut AnyConnection,
    files: impl Iterator<Item = i64>,
) -> Result<HashSet<(i64, String)>> {
    let sql = format!(
        "SELECT r.file, s.endpoint FROM replicas r JOIN stores s ON s.id = r.store WHERE r.state = 4 AND r.file IN {}",
        id_list(files.chain([0]))
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The refusal to enter a copy that is being deleted.
async fn deleting_error(connection: &mut AnyConnection, file: i64, store: i64) -> Result<DatabaseError> {
    let name = names::by_id(connection, file).await?.name;
    let sql = "SELECT endpoint FROM stores WHERE id = $1";
    let endpoint: String = sqlx::query(sql).bind(store).fetch_one(connection).await?.try_get(0)?;
    Ok(DatabaseError::Refused(format!(
        "the copy of {name} at {endpoint} is being deleted: check in some minutes whether it still exists, and enter it then"
    )))
}

/// Makes a copy available that was not. A copy that is being deleted does not change: the server may delete it later.
pub(super) async fn record_arrived(
    connection: &mut AnyConnection,
    file: i64,
    store: i64,
    path: Option<&str>,
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    let sql = "UPDATE replicas SET state = $1, created = $2, accessed = $2, attempts = 0, not_before = 0, error = NULL, \
               path = COALESCE($3, path), unlocked = CASE WHEN locks = 0 THEN $4 ELSE NULL END \
               WHERE file = $5 AND store = $6 AND state NOT IN ($1, $7) RETURNING locks, bytes";
    let query = sqlx::query(sql).bind(ReplicaState::Available.code()).bind(now).bind(path).bind(now + super::UNDO_MS);
    let query = query.bind(file).bind(store).bind(ReplicaState::Deleting.code());
    let Some(row) = query.fetch_optional(&mut *connection).await? else { return Ok(()) };
    if row.try_get::<i64, _>(0)? == 0 {
        counts.spare(store, row.try_get(1)?);
    }
    locks::set(connection, file, store, LockState::Ok, counts).await?;
    wake_for_source(connection, file, counts).await
}

/// Wakes the replicas of a file that wait for a source: the file has a new copy.
pub(super) async fn wake_for_source(connection: &mut AnyConnection, file: i64, counts: &mut Counts) -> Result<()> {
    copies::wake(connection, file).await?;
    suspicions::make_again(connection, file, counts).await
}
