//! Browser sessions of the portal.

use model::v1::hub::Role;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::{Database, Result};

/// The most sessions of one owner; a further one ends the least recently used one.
const SESSIONS_PER_OWNER_MAX: i64 = 64;

/// A stored session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// SHA-256 of its id, hexadecimal.
    pub id_sha256: String,
    /// The member that it stands for.
    pub owner: String,
    /// The member's role.
    pub role: Role,
    /// The community that the member submits for; empty for any.
    pub community: String,
    /// The grant that it was begun with; empty for another credential.
    pub grant_id: String,
    /// When it began, milliseconds since 1970.
    pub created: i64,
    /// When its last request came, milliseconds since 1970, updated once a minute.
    pub used: i64,
    /// When it ends at the latest, milliseconds since 1970.
    pub expires: i64,
}

const ROW: &str = "SELECT id_sha256, owner, role, community, grant_id, created, used, expires FROM sessions";

fn read(row: &AnyRow) -> Result<SessionRow> {
    Ok(SessionRow {
        id_sha256: row.try_get(0)?,
        owner: row.try_get(1)?,
        role: Role::of_word(&row.try_get::<String, _>(2)?).unwrap_or_default(),
        community: row.try_get(3)?,
        grant_id: row.try_get(4)?,
        created: row.try_get(5)?,
        used: row.try_get(6)?,
        expires: row.try_get(7)?,
    })
}

impl Database {
    /// Stores a session, and removes those that have ended.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn begin_session(&self, row: SessionRow) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let ended = "DELETE FROM sessions WHERE expires <= $1";
                    sqlx::query(ended).bind(row.created).execute(&mut *connection).await?;
                    let many = "DELETE FROM sessions WHERE owner = $1 AND id_sha256 IN \
                                (SELECT id_sha256 FROM sessions WHERE owner = $1 ORDER BY used DESC LIMIT 1000 OFFSET $2)";
                    sqlx::query(many).bind(&row.owner).bind(SESSIONS_PER_OWNER_MAX - 1).execute(&mut *connection).await?;
                    let sql = "INSERT INTO sessions (id_sha256, owner, role, community, grant_id, created, used, expires) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
                    let query = sqlx::query(sql).bind(row.id_sha256).bind(row.owner).bind(row.role.word());
                    let query = query.bind(row.community).bind(row.grant_id).bind(row.created).bind(row.used);
                    query.bind(row.expires).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// A session by the digest of its id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn session(&self, id_sha256: &str) -> Result<Option<SessionRow>> {
        let sql = sqlx::AssertSqlSafe(format!("{ROW} WHERE id_sha256 = $1"));
        sqlx::query(sql).bind(id_sha256).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// Records that a request came in a session.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn use_session(&self, id_sha256: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "UPDATE sessions SET used = $1 WHERE id_sha256 = $2";
                    sqlx::query(sql).bind(now).bind(id_sha256).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Ends a session.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn end_session(&self, id_sha256: String) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "DELETE FROM sessions WHERE id_sha256 = $1";
                    sqlx::query(sql).bind(id_sha256).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
