//! The locks of rules on replicas.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::counts::Counts;
use super::rule_rows::RuleRow;
use super::states::{LockState, ReplicaState};
use super::{UNDO_MS, stores};
use crate::database::Result;
use database::rows::{id_list, insert};

/// Sets the state of all locks of a replica.
pub(super) async fn set(
    connection: &mut AnyConnection,
    file: i64,
    store: i64,
    state: LockState,
    counts: &mut Counts,
) -> Result<()> {
    let sql = "SELECT rule, state, bytes FROM locks WHERE file = $1 AND store = $2 AND state <> $3";
    let rows = sqlx::query(sql).bind(file).bind(store).bind(state.code()).fetch_all(&mut *connection).await?;
    if rows.is_empty() {
        return Ok(());
    }
    for row in &rows {
        counts.lock(row.try_get(0)?, LockState::of_code(row.try_get(1)?), Some(state), row.try_get(2)?);
    }
    let sql = "UPDATE locks SET state = $1 WHERE file = $2 AND store = $3";
    sqlx::query(sql).bind(state.code()).bind(file).bind(store).execute(connection).await?;
    Ok(())
}

/// Sets the state of all locks of several replicas at an endpoint, except those that are ok; `files` is a list for SQL.
pub(super) async fn set_missing(
    connection: &mut AnyConnection,
    store: i64,
    files: &str,
    state: LockState,
    counts: &mut Counts,
) -> Result<()> {
    let sql = format!(
        "SELECT rule, state, bytes FROM locks WHERE store = $1 AND file IN {files} AND state <> $2 AND state <> $3"
    );
    let query = sqlx::query(AssertSqlSafe(sql)).bind(store).bind(state.code()).bind(LockState::Ok.code());
    for row in query.fetch_all(&mut *connection).await? {
        counts.lock(row.try_get(0)?, LockState::of_code(row.try_get(1)?), Some(state), row.try_get(2)?);
    }
    let sql = format!("UPDATE locks SET state = $1 WHERE store = $2 AND file IN {files} AND state <> $3");
    let query = sqlx::query(AssertSqlSafe(sql)).bind(state.code()).bind(store).bind(LockState::Ok.code());
    query.execute(connection).await?;
    Ok(())
}

/// The files in a list that a rule holds.
pub(super) async fn held_by(connection: &mut AnyConnection, rule: i64, files: &[(i64, i64)]) -> Result<HashSet<i64>> {
    if files.is_empty() {
        return Ok(HashSet::new());
    }
    let files = id_list(files.iter().map(|(file, _)| *file));
    let sql = AssertSqlSafe(format!("SELECT DISTINCT file FROM locks WHERE rule = $1 AND file IN {files}"));
    let rows = sqlx::query(sql).bind(rule).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The state of a file at an endpoint.
#[derive(Clone, Copy, Debug)]
struct ReplicaFacts {
    state: ReplicaState,
    /// Whether a rule holds it.
    is_held: bool,
}

/// The states of files at an endpoint; files without a replica are left out.
async fn replica_facts(
    connection: &mut AnyConnection,
    store: i64,
    files: &[(i64, i64)],
) -> Result<HashMap<i64, ReplicaFacts>> {
    let files = id_list(files.iter().map(|(file, _)| *file));
    let sql = AssertSqlSafe(format!("SELECT file, state, locks FROM replicas WHERE store = $1 AND file IN {files}"));
    let mut all = HashMap::new();
    for row in sqlx::query(sql).bind(store).fetch_all(connection).await? {
        // A state that a newer hub has written counts as a bad copy.
        let state = ReplicaState::of_code(row.try_get(1)?).unwrap_or(ReplicaState::Bad);
        all.insert(row.try_get(0)?, ReplicaFacts { state, is_held: row.try_get::<i64, _>(2)? > 0 });
    }
    Ok(all)
}

/// The bytes for which an endpoint needs new space: those of files that it does not have, and of available copies that no rule holds, since
/// such a copy may be deleted to make room.
pub(super) async fn missing_bytes(connection: &mut AnyConnection, endpoint: &str, files: &[(i64, i64)]) -> Result<i64> {
    let store = stores::id_or_new(connection, endpoint).await?;
    let known = replica_facts(connection, store, files).await?;
    let is_reserved =
        |file: &i64| known.get(file).is_some_and(|known| known.is_held || known.state != ReplicaState::Available);
    Ok(files.iter().filter(|(file, _)| !is_reserved(file)).map(|(_, bytes)| *bytes).sum())
}

/// Locks files at an endpoint for a rule. Files without a replica there get one with the state `wanted`.
pub(super) async fn hold(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    endpoint: &str,
    files: &[(i64, i64)],
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    let store = stores::id_or_new(connection, endpoint).await?;
    let known = replica_facts(connection, store, files).await?;
    let new: Vec<(i64, i64)> = files.iter().copied().filter(|(file, _)| !known.contains_key(file)).collect();
    let into = "replicas (file, store, state, bytes, locks, created)";
    insert(connection, into, 6, &new, |query, (file, bytes)| {
        query.bind(*file).bind(store).bind(ReplicaState::Wanted.code()).bind(*bytes).bind(1i64).bind(now)
    })
    .await?;
    let mut without_source: HashSet<i64> = HashSet::new();
    if !known.is_empty() {
        // A bad replica is made again, if the file has another copy as its source.
        let ids = id_list(known.keys().copied());
        let sql = format!(
            "UPDATE replicas SET locks = locks + 1, unlocked = NULL, state = CASE WHEN state = $1 \
             AND EXISTS (SELECT 1 FROM replicas o WHERE o.file = replicas.file AND o.state = 0) THEN $2 ELSE state END \
             WHERE store = $3 AND file IN {ids} RETURNING file, state"
        );
        let query = sqlx::query(AssertSqlSafe(sql)).bind(ReplicaState::Bad.code()).bind(ReplicaState::Wanted.code());
        for row in query.bind(store).fetch_all(&mut *connection).await? {
            if row.try_get::<i64, _>(1)? == ReplicaState::Bad.code() {
                without_source.insert(row.try_get(0)?);
            }
        }
    }
    let is_available = |file: &i64| known.get(file).is_some_and(|known| known.state == ReplicaState::Available);
    let state = |file: &i64| {
        if is_available(file) {
            LockState::Ok
        } else if without_source.contains(file) {
            LockState::Stuck
        } else {
            LockState::Replicating
        }
    };
    let into = "locks (rule, file, store, state, bytes)";
    insert(connection, into, 5, files, |query, (file, bytes)| {
        query.bind(rule.number).bind(*file).bind(store).bind(state(file).code()).bind(*bytes)
    })
    .await?;
    for (file, bytes) in files {
        counts.lock(rule.number, None, Some(state(file)), *bytes);
    }
    let sum = |files: &[(i64, i64)]| files.iter().map(|(_, bytes)| *bytes).sum::<i64>();
    counts.hold(&rule.account, store, files.len() as i64, sum(files));
    counts.store(store, new.len() as i64, sum(&new));
    let is_spare = |file: &i64| is_available(file) && known.get(file).is_some_and(|known| !known.is_held);
    let spare: i64 = files.iter().filter(|(file, _)| is_spare(file)).map(|(_, bytes)| *bytes).sum();
    counts.spare(store, -spare);
    Ok(())
}

/// Releases a rule's locks on files. A replica without locks may be deleted after [`UNDO_MS`]; one that was only wanted is removed.
pub(super) async fn release(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    files: &[i64],
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let ids = id_list(files.iter().copied());
    let sql = format!("DELETE FROM locks WHERE rule = $1 AND file IN {ids} RETURNING file, store, state, bytes");
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(rule.number).fetch_all(&mut *connection).await?;
    let mut by_store: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in &rows {
        let (file, store, bytes): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
        counts.lock(rule.number, LockState::of_code(row.try_get(2)?), None, bytes);
        counts.hold(&rule.account, store, -1, -bytes);
        by_store.entry(store).or_default().push(file);
    }
    for (store, files) in by_store {
        let ids = id_list(files.iter().copied());
        let sql = format!(
            "UPDATE replicas SET locks = locks - 1, unlocked = CASE WHEN locks = 1 THEN $1 ELSE unlocked END \
             WHERE store = $2 AND file IN {ids} RETURNING state, locks, bytes"
        );
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(now + UNDO_MS).bind(store).fetch_all(&mut *connection).await?;
        for row in &rows {
            let (state, locks, bytes): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if state == ReplicaState::Available.code() && locks == 0 {
                counts.spare(store, bytes);
            }
        }
        let sql = format!(
            "DELETE FROM replicas WHERE store = $1 AND locks = 0 AND state = $2 AND file IN {ids} RETURNING bytes"
        );
        let query = sqlx::query(AssertSqlSafe(sql)).bind(store).bind(ReplicaState::Wanted.code());
        for row in query.fetch_all(&mut *connection).await? {
            counts.store(store, -1, -row.try_get::<i64, _>(0)?);
        }
    }
    Ok(())
}
