//! Names: finds, lists and changes them.

use std::collections::{BTreeMap, HashMap};

use model::v1::hub::DataKind;
use replicas::DataName;
use serde_json::json;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::states::{kind_code, kind_of_code};
use super::{history, uncompared};
use crate::database::{Database, DatabaseError, Result};
use database::rows::select_by_text;

/// A name of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct DataRow {
    /// Its number.
    pub id: i64,
    /// `scope:name`.
    pub name: DataName,
    /// File, dataset or container.
    pub kind: DataKind,
    /// The account that it belongs to.
    pub account: String,
    /// When it was entered, milliseconds since 1970.
    pub created: i64,
    /// When it changed last.
    pub changed: i64,
    /// The size of a file; for a dataset the sum of its files.
    pub bytes: i64,
    /// The number of names that it contains directly.
    pub entries: i64,
    /// 8 hexadecimal digits.
    pub adler32: Option<String>,
    /// 32 hexadecimal digits.
    pub md5: Option<String>,
    /// Whether names may be attached to it.
    pub open: bool,
    /// Whether it is monotonic: names are attached to it, and never detached.
    pub monotonic: bool,
    /// When it is removed, milliseconds since 1970.
    pub expires: Option<i64>,
}

impl DataRow {
    /// Whether the name has been removed; its files and copies may still be being deleted.
    pub fn has_ended(&self, now: i64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// The names that a page lists.
#[derive(Clone, Debug, Default)]
pub struct NameFilter {
    /// The scope.
    pub scope: String,
    /// A pattern, in which `*` stands for any characters; empty for all names.
    pub pattern: String,
    /// The kind; `None` for all kinds.
    pub kind: Option<DataKind>,
    /// Keys of metadata that a name must have, with these values in JSON.
    pub metadata: Vec<(String, String)>,
    /// The list begins after this name.
    pub after: String,
    /// The most names of a page.
    pub limit: i64,
}

pub(super) const ROW: &str = "SELECT id, scope, name, kind, account, created, changed, bytes, entries, adler32, md5, open, monotonic, \
                              expires FROM names";

pub(super) fn read(row: &AnyRow) -> Result<DataRow> {
    let (scope, name): (String, String) = (row.try_get(1)?, row.try_get(2)?);
    let name = DataName::new(&scope, &name).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(DataRow {
        id: row.try_get(0)?,
        name,
        kind: kind_of_code(row.try_get(3)?),
        account: row.try_get(4)?,
        created: row.try_get(5)?,
        changed: row.try_get(6)?,
        bytes: row.try_get(7)?,
        entries: row.try_get(8)?,
        adler32: row.try_get(9)?,
        md5: row.try_get(10)?,
        open: row.try_get::<i64, _>(11)? != 0,
        monotonic: row.try_get::<i64, _>(12)? != 0,
        expires: row.try_get(13)?,
    })
}

impl Database {
    /// A name; `None` if it is not in the catalogue.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn data(&self, name: &DataName) -> Result<Option<DataRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE scope = $1 AND name = $2"));
        let row = sqlx::query(sql).bind(name.scope()).bind(name.name()).fetch_optional(&self.pool).await?;
        row.as_ref().map(read).transpose()
    }

    /// Names by their numbers; numbers without a name are left out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn data_of(&self, ids: &[i64]) -> Result<HashMap<i64, DataRow>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = format!("{ROW} WHERE id IN {}", database::rows::id_list(ids.iter().copied()));
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&self.pool).await?;
        rows.iter().map(|row| read(row).map(|row| (row.id, row))).collect()
    }

    /// A page of names, in their order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn data_list(&self, filter: &NameFilter) -> Result<Vec<DataRow>> {
        let mut sql = format!("{ROW} WHERE scope = $1 AND name > $2");
        if filter.kind.is_some() {
            sql += " AND kind = $3";
        }
        if !filter.pattern.is_empty() {
            sql += " AND name LIKE $4 ESCAPE '\\'";
        }
        for at in 0..filter.metadata.len() {
            let (key, value) = (6 + 2 * at, 7 + 2 * at);
            sql += &format!(" AND id IN (SELECT id FROM metadata WHERE word = ${key} AND value = ${value})");
        }
        // The statement uses every parameter, so that their numbers do not depend on the conditions that it has.
        sql += " AND $3 = $3 AND $4 = $4 ORDER BY name LIMIT $5";
        let query = sqlx::query(AssertSqlSafe(sql)).bind(filter.scope.as_str()).bind(filter.after.as_str());
        let query = query.bind(filter.kind.map_or(-1, kind_code)).bind(like(&filter.pattern)).bind(filter.limit);
        let query =
            filter.metadata.iter().fold(query, |query, (key, value)| query.bind(key.as_str()).bind(value.as_str()));
        query.fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// Opens or closes a name.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn change_data(&self, name: i64, account: String, open: Option<bool>, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(change(connection, name, account, open, now))).await
    }
}

/// A pattern with `*` as a pattern of `LIKE`.
fn like(pattern: &str) -> String {
    pattern.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_").replace('*', "%")
}

/// A name, within a transaction.
pub(super) async fn find(connection: &mut AnyConnection, name: &DataName) -> Result<DataRow> {
    let sql = AssertSqlSafe(format!("{ROW} WHERE scope = $1 AND name = $2"));
    let row = sqlx::query(sql).bind(name.scope()).bind(name.name()).fetch_optional(connection).await?;
    row.as_ref().map(read).transpose()?.ok_or_else(|| DatabaseError::Refused(format!("there is no {name} here")))
}

/// A name by its number, within a transaction.
pub(super) async fn by_id(connection: &mut AnyConnection, id: i64) -> Result<DataRow> {
    let sql = AssertSqlSafe(format!("{ROW} WHERE id = $1"));
    read(&sqlx::query(sql).bind(id).fetch_one(connection).await?)
}

/// The rows of the names in a list that exist, by name.
pub(super) async fn find_all(connection: &mut AnyConnection, names: &[DataName]) -> Result<HashMap<DataName, DataRow>> {
    let mut by_scope: BTreeMap<&str, Vec<&DataName>> = BTreeMap::new();
    names.iter().for_each(|name| by_scope.entry(name.scope()).or_default().push(name));
    let mut found = HashMap::new();
    for (scope, names) in by_scope {
        // A scope has no characters that need quoting.
        let select = format!("{ROW} WHERE scope = '{scope}' AND name IN");
        for row in select_by_text(connection, &select, &names, |name| name.name()).await? {
            let row = read(&row)?;
            found.insert(row.name.clone(), row);
        }
    }
    Ok(found)
}

async fn change(
    connection: &mut AnyConnection,
    name: i64,
    account: String,
    open: Option<bool>,
    now: i64,
) -> Result<()> {
    if let Some(open) = open {
        let sql = "UPDATE names SET open = $1, changed = $2 WHERE id = $3";
        sqlx::query(sql).bind(i64::from(open)).bind(now).bind(name).execute(&mut *connection).await?;
        history::append(connection, name, &account, if open { "opened" } else { "closed" }, &json!({}), now).await?;
        if !open {
            uncompared::queue(connection, name).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_quoted_for_sql() {
        assert_eq!(like("run_7*%"), "run\\_7%\\%");
    }
}
