//! Grants: keys with roles. `longhaul hub grant` writes them, even while no hub runs; a hub reads them at each login.

use model::v1::hub::Role;
use sqlx::Row;

use super::{Database, Result};

/// The grant behind a key of a hub. The hub stores a hash of the key's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyGrant {
    /// Its id, hexadecimal.
    pub id: String,
    /// The role that it gives.
    pub role: Role,
    /// The community that its holder may submit for; empty for all.
    pub community: String,
    /// The name of its holder, who owns the jobs that are submitted with it.
    pub name: String,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it ends, milliseconds since 1970.
    pub expires: Option<i64>,
    /// SHA-256 of the secret, hexadecimal. The secret is 32 random bytes, so a slow hash would add nothing.
    pub secret_sha256: String,
}

fn read(row: &sqlx::any::AnyRow) -> Result<KeyGrant> {
    Ok(KeyGrant {
        id: row.try_get(0)?,
        // A role that only a newer hub knows counts as the role of a user.
        role: Role::of_word(&row.try_get::<String, _>(1)?).unwrap_or_default(),
        community: row.try_get(2)?,
        name: row.try_get(3)?,
        created: row.try_get(4)?,
        expires: row.try_get(5)?,
        secret_sha256: row.try_get(6)?,
    })
}

impl Database {
    /// Adds a grant.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn add_role_grant(&self, grant: KeyGrant) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "INSERT INTO grants (id, role, community, name, created, expires, secret_sha256) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7)";
                    let query =
                        sqlx::query(sql).bind(grant.id).bind(grant.role.word()).bind(grant.community).bind(grant.name);
                    query
                        .bind(grant.created)
                        .bind(grant.expires)
                        .bind(grant.secret_sha256)
                        .execute(&mut *connection)
                        .await?;
                    Ok(())
                })
            })
            .await
    }

    /// The grant with an id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn role_grant(&self, id: &str) -> Result<Option<KeyGrant>> {
        let sql = "SELECT id, role, community, name, created, expires, secret_sha256 FROM grants WHERE id = $1";
        sqlx::query(sql).bind(id).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// All grants, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn role_grants(&self) -> Result<Vec<KeyGrant>> {
        let sql = "SELECT id, role, community, name, created, expires, secret_sha256 FROM grants ORDER BY created, id";
        sqlx::query(sql).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// Revokes a grant; returns whether there was one.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn revoke_role_grant(&self, id: String) -> Result<bool> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let done =
                        sqlx::query("DELETE FROM grants WHERE id = $1").bind(id).execute(&mut *connection).await?;
                    Ok(done.rows_affected() > 0)
                })
            })
            .await
    }
}
