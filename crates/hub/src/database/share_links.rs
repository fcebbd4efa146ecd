//! Share links to files and folders.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::{Database, Result};

/// How long an expired link is still listed for its owner, milliseconds.
const KEPT_MS: i64 = 30 * 86_400_000;

/// A stored link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareLinkRow {
    /// Its id, for its owner.
    pub id: String,
    /// SHA-256 of its token, hexadecimal.
    pub token_sha256: String,
    /// The member who shares.
    pub owner: String,
    /// The URL of the file, or of the folder with a slash at its end.
    pub target: String,
    /// `read` or `drop`.
    pub kind: String,
    /// The digest of the password; empty if there is none.
    pub password_hash: String,
    /// Its salt.
    pub password_salt: String,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it ends, milliseconds since 1970.
    pub expires: i64,
    /// How often it has been opened.
    pub opened: i64,
    /// The number of wrong passwords since the last right one.
    pub failures: i64,
    /// No password is accepted before this time, milliseconds since 1970.
    pub locked_until: i64,
}

const ROW: &str = "SELECT id, token_sha256, owner, target, kind, password_hash, password_salt, created, expires, opened, failures, locked_until \
                   FROM share_links";

fn read(row: &AnyRow) -> Result<ShareLinkRow> {
    Ok(ShareLinkRow {
        id: row.try_get(0)?,
        token_sha256: row.try_get(1)?,
        owner: row.try_get(2)?,
        target: row.try_get(3)?,
        kind: row.try_get(4)?,
        password_hash: row.try_get(5)?,
        password_salt: row.try_get(6)?,
        created: row.try_get(7)?,
        expires: row.try_get(8)?,
        opened: row.try_get(9)?,
        failures: row.try_get(10)?,
        locked_until: row.try_get(11)?,
    })
}

impl Database {
    /// Stores a link, and removes those that expired long ago.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn add_share_link(&self, row: ShareLinkRow) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "DELETE FROM share_links WHERE expires < $1";
                    sqlx::query(sql).bind(row.created - KEPT_MS).execute(&mut *connection).await?;
                    let sql = "INSERT INTO share_links (id, token_sha256, owner, target, kind, password_hash, password_salt, created, expires) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
                    let query = sqlx::query(sql).bind(row.id).bind(row.token_sha256).bind(row.owner).bind(row.target);
                    let query = query.bind(row.kind).bind(row.password_hash).bind(row.password_salt);
                    query.bind(row.created).bind(row.expires).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Links, the latest first; those of one owner, unless `owner` is empty.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn share_links(&self, owner: &str, limit: i64) -> Result<Vec<ShareLinkRow>> {
        let of_owner = if owner.is_empty() { "$1 = $1" } else { "owner = $1" };
        let sql = AssertSqlSafe(format!("{ROW} WHERE {of_owner} ORDER BY created DESC LIMIT $2"));
        sqlx::query(sql).bind(owner).bind(limit).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// A link by its id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn share_link(&self, id: &str) -> Result<Option<ShareLinkRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE id = $1"));
        sqlx::query(sql).bind(id).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// A link by the digest of its token.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn share_link_of_token(&self, token_sha256: &str) -> Result<Option<ShareLinkRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE token_sha256 = $1"));
        sqlx::query(sql).bind(token_sha256).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// Records that a link was opened, with the right password.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn record_link_opened(&self, id: String) -> Result<()> {
        let sql = "UPDATE share_links SET opened = opened + 1, failures = 0 WHERE id = $1";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query(sql).bind(id).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Counts an attempt before its password is checked, so that a client cannot try several at the same time. After `tries_max` wrong
    /// passwords the link is locked for `locked_ms`. Returns false if the link is locked now.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_password_try(&self, id: String, now: i64, tries_max: i64, locked_ms: i64) -> Result<bool> {
        let sql = "UPDATE share_links SET \
                   locked_until = CASE WHEN failures + 1 >= $1 THEN $2 ELSE locked_until END, \
                   failures = CASE WHEN failures + 1 >= $1 THEN 0 ELSE failures + 1 END \
                   WHERE id = $3 AND locked_until <= $4";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(sql).bind(tries_max).bind(now + locked_ms).bind(id).bind(now);
                    Ok(query.execute(connection).await?.rows_affected() > 0)
                })
            })
            .await
    }

    /// Ends a link.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn remove_share_link(&self, id: String) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM share_links WHERE id = $1").bind(id).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
