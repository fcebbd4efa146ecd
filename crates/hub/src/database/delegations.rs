//! Proxy certificates (RFC 3820) that users have delegated to the hub, and the certificate requests that they sign to delegate one.

use std::fmt;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::{Database, Result};

/// A key that the hub has made, and the certificate request that its owner signs to delegate a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct DelegationRequest {
    /// The id of the delegation.
    pub id: String,
    /// The full name of its owner, as in jobs.
    pub owner: String,
    /// The private key, PKCS#8 in base64. It never leaves the hub.
    pub private_key: String,
    /// The certificate request (PKCS#10), PEM.
    pub request: String,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
}

/// A proxy with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Delegation {
    /// Its id.
    pub id: String,
    /// The full name of its owner, as in jobs.
    pub owner: String,
    /// The private key, PKCS#8 in base64.
    pub private_key: String,
    /// The proxy and the certificates above it, PEM.
    pub chain: String,
    /// The VOMS attributes that were verified when it was delegated.
    pub attributes: Vec<String>,
    /// When it ends, milliseconds since 1970.
    pub expires: i64,
}

// Private keys must not get into logs.
impl fmt::Debug for DelegationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegationRequest").field("id", &self.id).field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl fmt::Debug for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delegation").field("id", &self.id).field("owner", &self.owner).finish_non_exhaustive()
    }
}

const REQUEST: &str =
    "SELECT id, owner, private_key, request, created FROM delegation_requests WHERE id = $1 AND owner = $2";
const DELEGATION: &str =
    "SELECT id, owner, private_key, chain, attributes, expires FROM delegations WHERE id = $1 AND owner = $2";

fn read_request(row: &AnyRow) -> Result<DelegationRequest> {
    Ok(DelegationRequest {
        id: row.try_get(0)?,
        owner: row.try_get(1)?,
        private_key: row.try_get(2)?,
        request: row.try_get(3)?,
        created: row.try_get(4)?,
    })
}

fn read_delegation(row: &AnyRow) -> Result<Delegation> {
    Ok(Delegation {
        id: row.try_get(0)?,
        owner: row.try_get(1)?,
        private_key: row.try_get(2)?,
        chain: row.try_get(3)?,
        attributes: serde_json::from_str(&row.try_get::<String, _>(4)?).unwrap_or_default(),
        expires: row.try_get(5)?,
    })
}

impl Database {
    /// The request of an owner, unless it was made before a time.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn delegation_request(&self, id: &str, owner: &str, since: i64) -> Result<Option<DelegationRequest>> {
        let row = sqlx::query(REQUEST).bind(id).bind(owner).fetch_optional(&self.pool).await?;
        let request = row.as_ref().map(read_request).transpose()?;
        Ok(request.filter(|request| request.created >= since))
    }

    /// Stores a request, and returns the valid one: a stored request that was made since a time takes precedence. Requests from before that
    /// time are removed.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn keep_delegation_request(&self, request: DelegationRequest, since: i64) -> Result<DelegationRequest> {
        self.writer.change(move |connection| Box::pin(keep_request(connection, request, since))).await
    }

    /// Stores a delegation in place of an earlier one with the same id, and removes delegations that have ended.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn keep_delegation(&self, delegation: Delegation, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(keep(connection, delegation, now))).await
    }

    /// The delegation of an owner, if it has not ended.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn delegation(&self, id: &str, owner: &str, now: i64) -> Result<Option<Delegation>> {
        let row = sqlx::query(DELEGATION).bind(id).bind(owner).fetch_optional(&self.pool).await?;
        let delegation = row.as_ref().map(read_delegation).transpose()?;
        Ok(delegation.filter(|delegation| delegation.expires > now))
    }

    /// Removes a delegation and its request; returns whether there was a delegation.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn remove_delegation(&self, id: String, owner: String) -> Result<bool> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "DELETE FROM delegation_requests WHERE id = $1 AND owner = $2";
                    sqlx::query(sql).bind(&id).bind(&owner).execute(&mut *connection).await?;
                    let sql = "DELETE FROM delegations WHERE id = $1 AND owner = $2";
                    let deleted = sqlx::query(sql).bind(&id).bind(&owner).execute(&mut *connection).await?;
                    Ok(deleted.rows_affected() > 0)
                })
            })
            .await
    }

    /// The delegation that a job was submitted with: its id and owner.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn delegation_of_job(&self, number: i64) -> Result<Option<(String, String)>> {
        let sql = "SELECT fts, owner FROM jobs WHERE number = $1";
        let Some(row) = sqlx::query(sql).bind(number).fetch_optional(&self.pool).await? else { return Ok(None) };
        let (facts, owner): (Option<String>, String) = (row.try_get(0)?, row.try_get(1)?);
        let facts: serde_json::Value = facts.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let id = facts["delegation"].as_str().filter(|id| !id.is_empty());
        Ok(id.map(|id| (id.to_owned(), owner)))
    }
}

async fn keep_request(
    connection: &mut AnyConnection,
    request: DelegationRequest,
    since: i64,
) -> Result<DelegationRequest> {
    sqlx::query("DELETE FROM delegation_requests WHERE created < $1").bind(since).execute(&mut *connection).await?;
    let sql = "INSERT INTO delegation_requests (id, owner, private_key, request, created) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (id, owner) DO NOTHING";
    let query = sqlx::query(sql).bind(&request.id).bind(&request.owner).bind(&request.private_key);
    query.bind(&request.request).bind(request.created).execute(&mut *connection).await?;
    read_request(&sqlx::query(REQUEST).bind(&request.id).bind(&request.owner).fetch_one(&mut *connection).await?)
}

async fn keep(connection: &mut AnyConnection, delegation: Delegation, now: i64) -> Result<()> {
    sqlx::query("DELETE FROM delegations WHERE expires <= $1").bind(now).execute(&mut *connection).await?;
    let sql = "INSERT INTO delegations (id, owner, private_key, chain, attributes, expires) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (id, owner) DO UPDATE SET private_key = excluded.private_key, chain = excluded.chain, \
               attributes = excluded.attributes, expires = excluded.expires";
    let attributes = serde_json::to_string(&delegation.attributes).unwrap_or_default();
    let query = sqlx::query(sql).bind(delegation.id).bind(delegation.owner).bind(delegation.private_key);
    query.bind(delegation.chain).bind(attributes).bind(delegation.expires).execute(&mut *connection).await?;
    Ok(())
}
