//! The metadata of names: keys (`word` in the tables) and their values in JSON.

use std::collections::{BTreeMap, HashMap};

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{history, uncompared};
use crate::database::{Database, Result};

/// Keys of metadata, each with its new value in JSON, or with `None` to remove the key.
pub type MetadataChange = BTreeMap<String, Option<String>>;

impl Database {
    /// The metadata of a name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn metadata(&self, name: i64) -> Result<BTreeMap<String, String>> {
        let sql = "SELECT word, value FROM metadata WHERE id = $1";
        let rows = sqlx::query(sql).bind(name).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// The metadata of names, by their ids.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn metadata_of(&self, names: &[i64]) -> Result<HashMap<i64, BTreeMap<String, String>>> {
        let mut all: HashMap<i64, BTreeMap<String, String>> = HashMap::new();
        for chunk in names.chunks(1000) {
            let ids = database::rows::id_list(chunk.iter().copied());
            let sql = AssertSqlSafe(format!("SELECT id, word, value FROM metadata WHERE id IN {ids}"));
            for row in sqlx::query(sql).fetch_all(&self.pool).await? {
                all.entry(row.try_get(0)?).or_default().insert(row.try_get(1)?, row.try_get(2)?);
            }
        }
        Ok(all)
    }

    /// Changes the metadata of a name.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn change_metadata(&self, name: i64, account: String, change: MetadataChange, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(apply(connection, name, account, change, now))).await
    }
}

/// Inserts the metadata of a name that has none yet.
pub(super) async fn insert_all(
    connection: &mut AnyConnection,
    name: i64,
    pairs: &BTreeMap<String, String>,
) -> Result<()> {
    for (key, value) in pairs {
        set(connection, name, key, value).await?;
    }
    Ok(())
}

/// Adds the keys that the metadata of a name does not have yet.
pub(super) async fn add_missing(
    connection: &mut AnyConnection,
    name: i64,
    pairs: &BTreeMap<String, String>,
) -> Result<()> {
    let mut is_new = false;
    for (key, value) in pairs {
        let sql = "INSERT INTO metadata (id, word, value) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let query = sqlx::query(sql).bind(name).bind(key).bind(value);
        is_new |= query.execute(&mut *connection).await?.rows_affected() > 0;
    }
    if is_new {
        uncompared::queue(connection, name).await?;
    }
    Ok(())
}

async fn set(connection: &mut AnyConnection, name: i64, key: &str, value: &str) -> Result<()> {
    let sql = "INSERT INTO metadata (id, word, value) VALUES ($1, $2, $3) \
               ON CONFLICT (id, word) DO UPDATE SET value = excluded.value";
    sqlx::query(sql).bind(name).bind(key).bind(value).execute(connection).await?;
    Ok(())
}

async fn apply(
    connection: &mut AnyConnection,
    name: i64,
    account: String,
    change: MetadataChange,
    now: i64,
) -> Result<()> {
    for (key, value) in &change {
        match value {
            Some(value) => set(connection, name, key, value).await?,
            None => {
                let sql = "DELETE FROM metadata WHERE id = $1 AND word = $2";
                sqlx::query(sql).bind(name).bind(key).execute(&mut *connection).await?;
            }
        }
    }
    let sql = "UPDATE names SET changed = $1 WHERE id = $2";
    sqlx::query(sql).bind(now).bind(name).execute(&mut *connection).await?;
    uncompared::queue(connection, name).await?;
    let keys: Vec<&String> = change.keys().collect();
    history::append(connection, name, &account, "changed", &serde_json::json!({"metadata": keys}), now).await
}
