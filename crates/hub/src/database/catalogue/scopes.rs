//! Scopes, and the accounts that they belong to.

use sqlx::{AnyConnection, Row};

use crate::database::{Database, Result};

impl Database {
    /// The account that a scope belongs to; `None` if there is no such scope.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn scope_account(&self, scope: &str) -> Result<Option<String>> {
        let row =
            sqlx::query("SELECT account FROM scopes WHERE name = $1").bind(scope).fetch_optional(&self.pool).await?;
        row.map(|row| Ok(row.try_get(0)?)).transpose()
    }

    /// All scopes by name, each with its account and the time when it was made, milliseconds since 1970.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn scopes(&self) -> Result<Vec<(String, String, i64)>> {
        let rows = sqlx::query("SELECT name, account, created FROM scopes ORDER BY name").fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
    }

    /// Makes a scope for an account, unless it exists; returns the account that it belongs to.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn make_scope(&self, scope: String, account: String, now: i64) -> Result<String> {
        self.writer.change(move |connection| Box::pin(make(connection, scope, account, now))).await
    }
}

async fn make(connection: &mut AnyConnection, scope: String, account: String, now: i64) -> Result<String> {
    let sql = "INSERT INTO scopes (name, account, created) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    sqlx::query(sql).bind(&scope).bind(&account).bind(now).execute(&mut *connection).await?;
    let row = sqlx::query("SELECT account FROM scopes WHERE name = $1").bind(&scope).fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}
