//! The state of a hub, in SQLite or PostgreSQL by the same SQL.
//!
//! One thread writes ([`writer`]). It commits the writes that wait as one transaction, so that they share the cost of reaching the disk.
//! Readers have connections of their own and never wait for it.

pub mod actions;
pub mod catalogue;
pub mod claims;
pub mod collaboration;
pub mod delegations;
pub mod deletions;
pub mod events;
pub mod fts;
pub mod jobs;
pub mod members;
pub mod messages;
pub mod notices;
mod numbers;
pub mod outcomes;
mod pauses;
mod queue_keys;
mod queue_moves;
pub mod queues;
mod rate_limits;
pub mod repeats;
pub mod roles;
pub mod sessions;
pub mod share_links;
pub mod stages;
pub mod submissions;
pub mod transfers;
mod writer;

use database::Migrations;
use sqlx::AnyPool;

use crate::limits;
pub use database::Kind;
pub use writer::{Writer, WriterEnd};

/// Why the database does not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// It cannot be opened, or its tables cannot be brought to this version.
    #[error(transparent)]
    Open(#[from] database::OpenError),
    /// A statement failed.
    #[error("the database: {0}")]
    Statement(#[from] sqlx::Error),
    /// The change contradicts what is stored.
    #[error("{0}")]
    Refused(String),
    /// The hub stops, and writes no more.
    #[error("the hub is stopping")]
    Stopping,
    /// The transaction could not be committed, with all writes that it held.
    #[error("the database could not commit: {0}")]
    Commit(String),
}

/// The result of a call to the database.
pub type Result<T> = std::result::Result<T, DatabaseError>;

/// An open database.
#[derive(Clone, Debug)]
pub struct Database {
    /// Connections of readers.
    pub pool: AnyPool,
    /// Hands writes to the thread that makes them.
    pub writer: Writer,
    kind: Kind,
}

static MIGRATIONS: Migrations =
    Migrations { sqlite: sqlx::migrate!("migrations/sqlite"), postgres: sqlx::migrate!("migrations/postgres") };

impl Database {
    /// Opens a database by its URL, brings its tables to this version, and begins to write.
    ///
    /// # Errors
    /// It cannot be opened or migrated.
    pub async fn open(url: &str) -> Result<(Database, WriterEnd)> {
        let (pool, kind) = database::open(url, &MIGRATIONS, limits::CONNECTIONS_MAX).await?;
        let (writer, end) = Writer::start(pool.clone(), kind).map_err(sqlx::Error::Io)?;
        Ok((Database { pool, writer, kind }, end))
    }

    /// The kind of the database.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_opened_twice_with_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/hub.db", dir.path().display());
        drop(Database::open(&url).await.unwrap());
        assert_eq!(Database::open(&url).await.unwrap().0.kind(), Kind::Sqlite);
    }
}
