//! What is said of names: words and their values in JSON.

use std::collections::BTreeMap;

use sqlx::{AnyConnection, Row};

use super::history;
use crate::database::{Database, Result};

/// Words that are set, by their values in JSON, or taken away.
pub type MetadataChange = BTreeMap<String, Option<String>>;

impl Database {
    /// What is said of a name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn metadata(&self, name: i64) -> Result<BTreeMap<String, String>> {
        let sql = "SELECT word, value FROM metadata WHERE id = $1";
        let rows = sqlx::query(sql).bind(name).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Changes what is said of a name.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn change_metadata(&self, name: i64, account: String, change: MetadataChange, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(apply(connection, name, account, change, now))).await
    }
}

/// Says something of a name that nothing is said of yet.
pub(super) async fn insert_all(
    connection: &mut AnyConnection,
    name: i64,
    words: &BTreeMap<String, String>,
) -> Result<()> {
    for (word, value) in words {
        set(connection, name, word, value).await?;
    }
    Ok(())
}

async fn set(connection: &mut AnyConnection, name: i64, word: &str, value: &str) -> Result<()> {
    let sql = "INSERT INTO metadata (id, word, value) VALUES ($1, $2, $3) \
               ON CONFLICT (id, word) DO UPDATE SET value = excluded.value";
    sqlx::query(sql).bind(name).bind(word).bind(value).execute(connection).await?;
    Ok(())
}

async fn apply(
    connection: &mut AnyConnection,
    name: i64,
    account: String,
    change: MetadataChange,
    now: i64,
) -> Result<()> {
    for (word, value) in &change {
        match value {
            Some(value) => set(connection, name, word, value).await?,
            None => {
                let sql = "DELETE FROM metadata WHERE id = $1 AND word = $2";
                sqlx::query(sql).bind(name).bind(word).execute(&mut *connection).await?;
            }
        }
    }
    let sql = "UPDATE names SET changed = $1 WHERE id = $2";
    sqlx::query(sql).bind(now).bind(name).execute(&mut *connection).await?;
    let words: Vec<&String> = change.keys().collect();
    history::append(connection, name, &account, "changed", &serde_json::json!({"metadata": words}), now).await
}
