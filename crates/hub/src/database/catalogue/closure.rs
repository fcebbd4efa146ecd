//! The names above and below a name, at any depth.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use crate::database::{Database, Result};

/// A name, and all names that contain it at any depth.
pub(super) const ABOVE: &str = "WITH RECURSIVE above(id) AS (SELECT CAST($1 AS BIGINT) UNION SELECT c.parent FROM contents c \
                     JOIN above a ON c.child = a.id)";
/// The datasets at or below a name: the name itself if it is a dataset, and all datasets that it contains. Only containers are followed:
/// the children of a dataset are files.
const BELOW: &str = "WITH RECURSIVE below(id) AS (SELECT CAST($1 AS BIGINT) UNION SELECT c.child FROM below b \
                     JOIN names p ON p.id = b.id AND p.kind = 2 JOIN contents c ON c.parent = b.id) \
                     SELECT b.id FROM below b JOIN names n ON n.id = b.id AND n.kind = 1 ORDER BY b.id";

impl Database {
    /// The datasets at or below a name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn datasets_below(&self, name: i64) -> Result<Vec<i64>> {
        let rows = sqlx::query(BELOW).bind(name).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}

/// The datasets at or below a name.
pub(super) async fn datasets_below(connection: &mut AnyConnection, name: i64) -> Result<Vec<i64>> {
    let rows = sqlx::query(BELOW).bind(name).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// A name, and all names that contain it.
pub(super) async fn above(connection: &mut AnyConnection, name: i64) -> Result<Vec<i64>> {
    let sql = AssertSqlSafe(format!("{ABOVE} SELECT id FROM above ORDER BY id"));
    let rows = sqlx::query(sql).bind(name).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
