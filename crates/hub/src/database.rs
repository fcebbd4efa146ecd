//! The database of a hub: SQLite or PostgreSQL, with the same SQL.
//!
//! One thread writes ([`writer`]). It commits all writes that wait in one transaction, so that they share the cost of a commit.
//! Readers have their own connections and never wait for the writer.

pub mod actions;
pub mod catalogue;
pub mod claims;
pub mod collaboration;
pub mod delegations;
pub mod deletions;
pub mod events;
pub mod exercises;
pub mod fts;
pub mod hubs;
pub mod jobs;
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
pub mod site_records;
pub mod stages;
pub mod submissions;
pub mod transfers;
mod writer;

use database::Migrations;
use sqlx::AnyPool;

use crate::limits;
pub use database::Kind;
pub use writer::{Writer, WriterEnd};

/// An error of the hub's database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The database cannot be opened, or its tables cannot be brought to this version.
    #[error(transparent)]
    Open(#[from] database::OpenError),
    /// A statement failed.
    #[error("the database: {0}")]
    Statement(#[from] sqlx::Error),
    /// The change contradicts the stored state.
    #[error("{0}")]
    Refused(String),
    /// The hub stops: no further change is stored.
    #[error("the hub is stopping")]
    Stopping,
    /// The transaction of the change could not be committed; none of its changes is stored.
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
    /// Sends changes to the thread that writes.
    pub writer: Writer,
    kind: Kind,
}

static MIGRATIONS: Migrations =
    Migrations { sqlite: sqlx::migrate!("migrations/sqlite"), postgres: sqlx::migrate!("migrations/postgres") };

impl Database {
    /// Opens a database by its URL, brings its tables to this version, and begins to write.
    ///
    /// # Errors
    /// The database cannot be opened or migrated.
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
    use sqlx::migrate::Migrator;

    use super::*;

    #[tokio::test]
    async fn a_database_can_be_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/hub.db", dir.path().display());
        drop(Database::open(&url).await.unwrap());
        assert_eq!(Database::open(&url).await.unwrap().0.kind(), Kind::Sqlite);
    }

    /// A job of one file that waits, with the columns of the first step.
    const WAITING_JOB: [&str; 4] = [
        "INSERT INTO queues (id, source, target, community, activity, owner, priority, deadline, queued, queued_bytes) \
         VALUES (5, 'a', 'b', 'c', 'd', 'o', 3, 0, 1, 1000)",
        "INSERT INTO jobs (number, id, owner, community, activity, priority, kind, first_file, file_rows, files, queued, bytes, submitted, \
         options, metadata, digest) VALUES (7, 'j7', 'o', 'c', 'd', 3, 0, 9, 1, 1, 1, 1000, 1700000000000, '{}', 'null', 'x')",
        "INSERT INTO files (id, job, at, queue, state, bytes) VALUES (9, 7, 0, 5, 0, 1000)",
        "INSERT INTO file_facts (id, source, target) VALUES (9, 'lh://a/f', 'lh://b/f')",
    ];

    #[tokio::test]
    async fn a_job_of_every_former_version_waits_on() {
        for last in MIGRATIONS.sqlite.iter().map(|migration| migration.version) {
            let dir = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}/hub.db", dir.path().display());
            let steps = MIGRATIONS.sqlite.iter().filter(|migration| migration.version <= last).cloned().collect();
            let former = Migrations { sqlite: Migrator::with_migrations(steps), postgres: Migrator::DEFAULT };
            let (pool, _) = database::open(&url, &former, 1).await.unwrap();
            for statement in WAITING_JOB {
                sqlx::query(statement).execute(&pool).await.unwrap_or_else(|error| panic!("step {last}: {error}"));
            }
            pool.close().await;
            let (database, _end) = Database::open(&url).await.unwrap_or_else(|error| panic!("step {last}: {error}"));
            let select = "SELECT jobs.id, jobs.limit_bit_s, files.state, files.bytes, queues.queued_bytes, queues.limited FROM jobs \
                          JOIN files ON files.job = jobs.number JOIN queues ON queues.id = files.queue";
            let jobs: Vec<(String, i64, i64, i64, i64, i64)> =
                sqlx::query_as(select).fetch_all(&database.pool).await.unwrap();
            assert_eq!(jobs, [("j7".to_owned(), 0, 0, 1000, 1000, 0)], "step {last}");
        }
    }
}
