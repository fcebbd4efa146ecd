//! The contents of datasets and containers.

use std::collections::HashSet;

use model::v1::hub::DataKind;
use replicas::DataName;
use serde_json::json;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::closure::above;
use super::names::{self, DataRow, ROW};
use super::states::kind_of_code;
use super::{history, pending};
use crate::database::{Database, DatabaseError, Result};
use database::rows::{id_list, insert};

/// A name that another name contains, or is about to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub id: i64,
    pub kind: DataKind,
    pub bytes: i64,
}

impl Child {
    /// Reads a row of number, kind and bytes.
    pub fn read(row: &AnyRow) -> Result<Child> {
        Ok(Child { id: row.try_get(0)?, kind: kind_of_code(row.try_get(1)?), bytes: row.try_get(2)? })
    }
}

impl Database {
    /// The names with ids above `after` that a name contains directly, by id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn contents(&self, name: i64, after: i64, limit: i64) -> Result<Vec<DataRow>> {
        let sql = format!(
            "{ROW} WHERE id IN (SELECT child FROM contents WHERE parent = $1 AND child > $2 ORDER BY child LIMIT $3) ORDER BY id"
        );
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(name).bind(after).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(names::read).collect()
    }

    /// The names that contain a name directly.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn parents(&self, name: i64) -> Result<Vec<DataRow>> {
        let sql = format!("{ROW} WHERE id IN (SELECT parent FROM contents WHERE child = $1) ORDER BY scope, name");
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(name).fetch_all(&self.pool).await?;
        rows.iter().map(names::read).collect()
    }

    /// Attaches names to a dataset or container.
    ///
    /// # Errors
    /// The parent cannot contain them, or the database cannot be written: nothing has changed.
    pub async fn attach(&self, parent: DataName, children: Vec<DataName>, account: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let parent = names::find(connection, &parent).await?;
                    let children = as_children(connection, &children).await?;
                    attach(connection, &parent, &children, &account, now).await
                })
            })
            .await
    }

    /// Detaches names from a dataset or container.
    ///
    /// # Errors
    /// The parent is monotonic, or the database cannot be written: nothing has changed.
    pub async fn detach(&self, parent: DataName, children: Vec<DataName>, account: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let parent = names::find(connection, &parent).await?;
                    let children = as_children(connection, &children).await?;
                    detach(connection, &parent, &children, &account, now).await
                })
            })
            .await
    }
}

/// These names as children of another one; a name that does not exist is refused.
async fn as_children(connection: &mut AnyConnection, wanted: &[DataName]) -> Result<Vec<Child>> {
    let found = names::find_all(connection, wanted).await?;
    let child = |name: &DataName| match found.get(name) {
        Some(row) => Ok(Child { id: row.id, kind: row.kind, bytes: row.bytes }),
        None => Err(DatabaseError::Refused(format!("there is no {name} here"))),
    };
    wanted.iter().map(child).collect()
}

/// The children in a list that a name contains directly.
async fn contained_in(connection: &mut AnyConnection, parent: i64, children: &[Child]) -> Result<HashSet<i64>> {
    let mut within = HashSet::new();
    for chunk in children.chunks(1000) {
        let ids = id_list(chunk.iter().map(|child| child.id));
        let sql = AssertSqlSafe(format!("SELECT child FROM contents WHERE parent = $1 AND child IN {ids}"));
        for row in sqlx::query(sql).bind(parent).fetch_all(&mut *connection).await? {
            within.insert(row.try_get(0)?);
        }
    }
    Ok(within)
}

/// Attaches names to a dataset or container; names that it contains already are skipped.
pub(super) async fn attach(
    connection: &mut AnyConnection,
    parent: &DataRow,
    children: &[Child],
    account: &str,
    now: i64,
) -> Result<()> {
    let within = contained_in(connection, parent.id, children).await?;
    let mut seen = HashSet::new();
    let new: Vec<Child> =
        children.iter().copied().filter(|child| !within.contains(&child.id) && seen.insert(child.id)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let above = above(connection, parent.id).await?;
    check(parent, &new, &above)?;
    require_not_removed(connection, parent, &new, now).await?;
    cancel_end(connection, &new, now).await?;
    if parent.monotonic {
        require_no_end(connection, parent, &new).await?;
    }
    insert(connection, "contents (parent, child)", 2, &new, |query, child| query.bind(parent.id).bind(child.id))
        .await?;
    count(connection, parent, &new, 1, now).await?;
    for child in new.iter().filter(|child| child.kind != DataKind::File) {
        pending::add(connection, &above, child.id, 0, now).await?;
    }
    // New files have the highest numbers: those before the first of them need not be evaluated again.
    if let Some(first) = new.iter().filter(|child| child.kind == DataKind::File).map(|child| child.id).min() {
        pending::add(connection, &above, parent.id, first - 1, now).await?;
    }
    history::append(connection, parent.id, account, "attached", &json!({"entries": new.len()}), now).await
}

/// Checks that a name can contain others; `above` has the name and all names that contain it.
fn check(parent: &DataRow, children: &[Child], above: &[i64]) -> Result<()> {
    let refused = |why: &str| Err(DatabaseError::Refused(format!("{} {why}", parent.name)));
    if parent.kind == DataKind::File {
        return refused("is a file, which cannot contain names");
    }
    if !parent.open {
        return refused("is closed: nothing can be attached to it any more");
    }
    let fits = |child: &Child| (child.kind == DataKind::File) == (parent.kind == DataKind::Dataset);
    if !children.iter().all(fits) {
        return match parent.kind {
            DataKind::Dataset => refused("is a dataset, which contains files; a container contains datasets"),
            _ => refused("is a container, which contains datasets and containers; a dataset contains files"),
        };
    }
    if children.iter().any(|child| above.binary_search(&child.id).is_ok()) {
        return refused("is one of the names to be attached, or lies below one: that would be a circle");
    }
    Ok(())
}

/// Refuses names that have been removed, even if their files are still being deleted.
async fn require_not_removed(
    connection: &mut AnyConnection,
    parent: &DataRow,
    children: &[Child],
    now: i64,
) -> Result<()> {
    let removed = |name: &DataName| DatabaseError::Refused(format!("{name} has been removed"));
    if parent.has_ended(now) {
        return Err(removed(&parent.name));
    }
    for chunk in children.chunks(1000) {
        let ids = id_list(chunk.iter().map(|child| child.id));
        let sql = AssertSqlSafe(format!("{ROW} WHERE id IN {ids} AND expires <= $1 LIMIT 1"));
        if let Some(row) = sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await? {
            return Err(removed(&names::read(&row)?.name));
        }
    }
    Ok(())
}

/// Cancels the end of files that would end with a dataset: another name contains them now, or that dataset contains them no longer. What has
/// ended stays so, because its copies may be deleted already.
async fn cancel_end(connection: &mut AnyConnection, children: &[Child], now: i64) -> Result<()> {
    for chunk in children.chunks(1000) {
        let ids = id_list(chunk.iter().map(|child| child.id));
        let sql = format!(
            "UPDATE names SET expires = NULL, ends_with = NULL WHERE ends_with IS NOT NULL AND expires > $1 AND id IN {ids}"
        );
        sqlx::query(AssertSqlSafe(sql)).bind(now).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Refuses names that have an end: a monotonic parent keeps its names.
async fn require_no_end(connection: &mut AnyConnection, parent: &DataRow, children: &[Child]) -> Result<()> {
    for chunk in children.chunks(1000) {
        let ids = id_list(chunk.iter().map(|child| child.id));
        let sql = AssertSqlSafe(format!("{ROW} WHERE id IN {ids} AND expires IS NOT NULL LIMIT 1"));
        if let Some(row) = sqlx::query(sql).fetch_optional(&mut *connection).await? {
            let (name, into) = (names::read(&row)?.name, &parent.name);
            return Err(DatabaseError::Refused(format!(
                "{name} has an end, and {into} only grows: clear `expires` first"
            )));
        }
    }
    Ok(())
}

/// Adds the children to the counters of their parent; with `sign` -1 it subtracts them.
async fn count(
    connection: &mut AnyConnection,
    parent: &DataRow,
    children: &[Child],
    sign: i64,
    now: i64,
) -> Result<()> {
    let entries = children.len() as i64 * sign;
    let bytes: i64 = children.iter().filter(|child| child.kind == DataKind::File).map(|child| child.bytes).sum();
    let sql = "UPDATE names SET entries = entries + $1, bytes = bytes + $2, changed = $3 WHERE id = $4";
    sqlx::query(sql).bind(entries).bind(bytes * sign).bind(now).bind(parent.id).execute(connection).await?;
    Ok(())
}

async fn detach(
    connection: &mut AnyConnection,
    parent: &DataRow,
    children: &[Child],
    account: &str,
    now: i64,
) -> Result<()> {
    if parent.monotonic {
        return Err(DatabaseError::Refused(format!("{} only grows: nothing can be detached from it", parent.name)));
    }
    if !parent.has_ended(now) {
        let within = contained_in(connection, parent.id, children).await?;
        let within: Vec<Child> = children.iter().copied().filter(|child| within.contains(&child.id)).collect();
        cancel_end(connection, &within, now).await?;
    }
    remove_children(connection, parent, children, account, now).await
}

/// Removes names from a dataset or container; names that it does not contain are skipped.
pub(super) async fn remove_children(
    connection: &mut AnyConnection,
    parent: &DataRow,
    children: &[Child],
    account: &str,
    now: i64,
) -> Result<()> {
    let within = contained_in(connection, parent.id, children).await?;
    let removed: Vec<Child> = children.iter().copied().filter(|child| within.contains(&child.id)).collect();
    for child in &removed {
        let sql = "DELETE FROM contents WHERE parent = $1 AND child = $2";
        sqlx::query(sql).bind(parent.id).bind(child.id).execute(&mut *connection).await?;
    }
    if removed.is_empty() {
        return Ok(());
    }
    count(connection, parent, &removed, -1, now).await?;
    let above = above(connection, parent.id).await?;
    for child in &removed {
        pending::add_released(connection, &above, child.id, now).await?;
    }
    history::append(connection, parent.id, account, "detached", &json!({"entries": removed.len()}), now).await
}
