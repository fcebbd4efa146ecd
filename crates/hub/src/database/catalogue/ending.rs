//! The end of names. Until its end a name can be kept. Then its rules end, it is detached from the names that contain it, its copies are
//! deleted, and the name is removed; its history stays.

use model::v1::hub::DataKind;
use replicas::DataName;
use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::closure::ABOVE;
use super::contents::{self, Child};
use super::names::{self, DataRow, ROW};
use super::{history, pending};
use crate::database::{Database, DatabaseError, Result};

/// The most names that one transaction handles.
const NAMES_MAX: i64 = 20;
/// The most children of a name that one transaction removes from it.
const CHILDREN_MAX: i64 = 1_000;

/// The files, bytes and copies that the removal of a name would remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalPreview {
    /// Files that are removed: no other name contains them.
    pub files: i64,
    /// Their bytes.
    pub bytes: i64,
    /// Copies of them.
    pub copies: i64,
    /// Files that stay, because another name contains them.
    pub kept_files: i64,
    /// The accounts with rules for it or for names that contain it, each with the community of the rule.
    pub holders: Vec<(String, String)>,
}

impl RemovalPreview {
    /// The accounts with rules for it, or for names that contain it.
    pub fn accounts(&self) -> Vec<String> {
        let mut accounts: Vec<String> = self.holders.iter().map(|(account, _)| account.clone()).collect();
        accounts.dedup();
        accounts
    }
}

/// Selects the files that only the dataset `$1` contains and that are of its scope. Files of other scopes stay, even if the owner of the
/// dataset has attached them.
const EXCLUSIVE_FILES: &str = "SELECT c.child FROM contents c JOIN names p ON p.id = c.parent JOIN names f ON f.id = c.child \
                               WHERE c.parent = $1 AND f.scope = p.scope \
                               AND NOT EXISTS (SELECT 1 FROM contents o WHERE o.child = c.child AND o.parent <> $1)";

impl Database {
    /// The files, bytes and copies that the removal of a name would remove.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn removal_preview(&self, name: &DataRow) -> Result<RemovalPreview> {
        let sql = format!(
            "{ABOVE} SELECT DISTINCT account, community FROM rules WHERE name IN (SELECT id FROM above) OR name IN ({EXCLUSIVE_FILES}) \
             ORDER BY account, community"
        );
        let rules = sqlx::query(AssertSqlSafe(sql)).bind(name.id).fetch_all(&self.pool).await?;
        let holders = rules.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_>>()?;
        let files = match name.kind {
            DataKind::File => "SELECT CAST($1 AS BIGINT)",
            DataKind::Dataset => EXCLUSIVE_FILES,
            DataKind::Container => return Ok(RemovalPreview { holders, ..RemovalPreview::default() }),
        };
        let sql = format!("SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM names WHERE id IN ({files})");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(name.id).fetch_one(&self.pool).await?;
        let (files_count, bytes): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let sql = format!("SELECT COUNT(*) FROM replicas WHERE file IN ({files})");
        let copies: i64 = sqlx::query(AssertSqlSafe(sql)).bind(name.id).fetch_one(&self.pool).await?.try_get(0)?;
        let kept_files = if name.kind == DataKind::Dataset { name.entries - files_count } else { 0 };
        Ok(RemovalPreview { files: files_count, bytes, copies, kept_files, holders })
    }

    /// Sets or clears the end of a name, and of the files that only it contains.
    ///
    /// # Errors
    /// There is no such name, or the database cannot be written: nothing has changed.
    pub async fn end_name(&self, name: DataName, account: String, at: Option<i64>, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(end_name(connection, name, account, at, now))).await
    }

    /// Takes the next steps with names that have ended; returns whether there were any.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn end_names(&self, now: i64) -> Result<bool> {
        self.writer.change(move |connection| Box::pin(end_names(connection, now))).await
    }
}

async fn end_name(
    connection: &mut AnyConnection,
    name: DataName,
    account: String,
    at: Option<i64>,
    now: i64,
) -> Result<()> {
    let row = names::find(connection, &name).await?;
    if row.monotonic && at.is_some() && row.kind != DataKind::File {
        return Err(DatabaseError::Refused(format!("{name} only grows: it cannot be removed")));
    }
    if row.has_ended(now) {
        return Err(DatabaseError::Refused(format!("{name} has been removed: it cannot be restored")));
    }
    if at.is_some() {
        require_not_in_monotonic(connection, &row).await?;
    }
    if row.kind == DataKind::Dataset {
        // A file with an end of its own keeps it, and so does one whose removal has begun.
        let sql = match at {
            Some(_) => format!(
                "UPDATE names SET expires = $2, ends_with = $1 WHERE (expires IS NULL OR (ends_with = $1 AND expires > 0)) AND id IN ({EXCLUSIVE_FILES})"
            ),
            None => "UPDATE names SET expires = $2, ends_with = NULL WHERE ends_with = $1 AND expires > 0".to_owned(),
        };
        sqlx::query(AssertSqlSafe(sql)).bind(row.id).bind(at).execute(&mut *connection).await?;
    }
    let sql = "UPDATE names SET expires = $1, ends_with = NULL, changed = $2 WHERE id = $3";
    sqlx::query(sql).bind(at).bind(now).bind(row.id).execute(&mut *connection).await?;
    let kind = if at.is_some() { "ending" } else { "kept" };
    history::append(connection, row.id, &account, kind, &json!({"at": at}), now).await
}

/// Refuses an end for a name in a monotonic dataset or container.
async fn require_not_in_monotonic(connection: &mut AnyConnection, name: &DataRow) -> Result<()> {
    let sql = format!("{ROW} WHERE monotonic = 1 AND id IN (SELECT parent FROM contents WHERE child = $1) LIMIT 1");
    let Some(row) = sqlx::query(AssertSqlSafe(sql)).bind(name.id).fetch_optional(connection).await? else {
        return Ok(());
    };
    let parent = names::read(&row)?.name;
    Err(DatabaseError::Refused(format!("{} is in {parent}, which only grows: it cannot be removed", name.name)))
}

async fn end_names(connection: &mut AnyConnection, now: i64) -> Result<bool> {
    // Files that wait for the deletion of their copies are not selected.
    let sql = format!(
        "{ROW} WHERE expires <= $1 AND (kind > 0 OR EXISTS (SELECT 1 FROM contents c WHERE c.child = names.id) \
         OR EXISTS (SELECT 1 FROM rules u WHERE u.name = names.id AND (u.expires IS NULL OR u.expires > $1)) \
         OR NOT EXISTS (SELECT 1 FROM replicas r WHERE r.file = names.id)) ORDER BY expires, id LIMIT $2"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(NAMES_MAX).fetch_all(&mut *connection).await?;
    let mut was_busy = false;
    for row in &rows {
        was_busy |= step(connection, &names::read(row)?, now).await?;
    }
    Ok(was_busy)
}

/// Makes an end final once its removal has begun, even if the clock is set back. The dataset that the name ends with is then final, too:
/// otherwise it could be restored without its file.
pub(super) async fn end_for_good(connection: &mut AnyConnection, name: i64) -> Result<()> {
    let sql = "UPDATE names SET expires = 0 WHERE expires > 0 AND (id = $1 OR id IN (SELECT ends_with FROM names WHERE id = $1))";
    sqlx::query(sql).bind(name).execute(connection).await?;
    Ok(())
}

/// Takes the next step with a name that has ended; returns false if it has to wait for others.
async fn step(connection: &mut AnyConnection, name: &DataRow, now: i64) -> Result<bool> {
    end_for_good(connection, name.id).await?;
    let sql = "UPDATE rules SET expires = $1 WHERE name = $2 AND (expires IS NULL OR expires > $1)";
    if sqlx::query(sql).bind(now).bind(name.id).execute(&mut *connection).await?.rows_affected() > 0 {
        return Ok(true);
    }
    let parents = sqlx::query("SELECT parent FROM contents WHERE child = $1").bind(name.id);
    let parents = parents.fetch_all(&mut *connection).await?;
    let child = Child { id: name.id, kind: name.kind, bytes: name.bytes };
    for parent in &parents {
        let parent = names::by_id(connection, parent.try_get(0)?).await?;
        contents::remove_children(connection, &parent, &[child], "hub", now).await?;
    }
    // The rules of the names above need the list of its files to release them.
    if pending::is_releasing(connection, name.id).await? {
        return Ok(!parents.is_empty());
    }
    let sql = "SELECT id, kind, bytes FROM names WHERE id IN (SELECT child FROM contents WHERE parent = $1 LIMIT $2)";
    let rows = sqlx::query(sql).bind(name.id).bind(CHILDREN_MAX).fetch_all(&mut *connection).await?;
    if !rows.is_empty() {
        let children = rows.iter().map(Child::read).collect::<Result<Vec<_>>>()?;
        contents::remove_children(connection, name, &children, "hub", now).await?;
        return Ok(true);
    }
    if is_needed(connection, name.id).await? {
        return Ok(!parents.is_empty());
    }
    for sql in [
        "DELETE FROM metadata WHERE id = $1",
        "DELETE FROM suspicions WHERE file = $1",
        "DELETE FROM names WHERE id = $1",
    ] {
        sqlx::query(sql).bind(name.id).execute(&mut *connection).await?;
    }
    history::append(connection, name.id, "hub", "removed", &json!({"name": name.name.to_string()}), now).await?;
    Ok(true)
}

/// Whether rules or copies still refer to a name.
async fn is_needed(connection: &mut AnyConnection, name: i64) -> Result<bool> {
    for sql in [
        "SELECT COUNT(*) FROM rules WHERE name = $1",
        "SELECT COUNT(*) FROM replicas WHERE file = $1",
        "SELECT COUNT(*) FROM evaluations WHERE name = $1",
    ] {
        let count: i64 = sqlx::query(sql).bind(name).fetch_one(&mut *connection).await?.try_get(0)?;
        if count > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
