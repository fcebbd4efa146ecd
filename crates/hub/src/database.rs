//! The state of a hub, in SQLite or PostgreSQL by the same SQL.
//!
//! One thread writes ([`writer`]): it commits what has come together as one transaction, so that the cost of reaching the disk is shared.
//! Readers have connections of their own and wait for nobody.

pub mod claims;
pub mod collaboration;
pub mod delegations;
pub mod events;
pub mod fts;
pub mod jobs;
pub mod members;
pub mod messages;
mod numbers;
pub mod outcomes;
pub mod queues;
pub mod roles;
mod rows;
pub mod submissions;
mod writer;

use std::path::Path;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyPool, ConnectOptions, Executor};

use crate::limits;
pub use writer::{Writer, WriterEnd};

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, for a hub on one machine.
    Sqlite,
    /// A server, for hubs on several machines.
    Postgres,
}

/// Why the database does not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// It is none that the hub knows.
    #[error("{0:?} is no database of a hub: sqlite:FILE or postgres://USER@HOST/NAME")]
    Unknown(String),
    /// It cannot be opened.
    #[error("cannot open the database {name}: {source}")]
    Open {
        /// Without its password.
        name: String,
        /// Why.
        source: sqlx::Error,
    },
    /// Its tables cannot be brought to this version.
    #[error("cannot bring the database to this version: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A statement failed.
    #[error("the database: {0}")]
    Statement(#[from] sqlx::Error),
    /// The hub stops, and writes no more.
    #[error("the hub is stopping")]
    Stopping,
    /// What others had written in the same transaction could not be committed.
    #[error("the database could not commit: {0}")]
    Commit(String),
}

/// What database calls give.
pub type Result<T> = std::result::Result<T, DatabaseError>;

/// An open database.
#[derive(Clone, Debug)]
pub struct Database {
    /// Connections of readers.
    pub pool: AnyPool,
    /// What writes.
    pub writer: Writer,
    kind: Kind,
}

impl Database {
    /// Opens a database by its URL, brings its tables to this version, and begins to write.
    ///
    /// # Errors
    /// It cannot be opened or migrated.
    pub async fn open(url: &str) -> Result<(Database, WriterEnd)> {
        sqlx::any::install_default_drivers();
        let file = file_of(url);
        let (kind, url) = normal(url)?;
        let name = web::target::redacted(&url);
        let open = |source| DatabaseError::Open { name: name.clone(), source };
        if kind == Kind::Sqlite {
            make_private(file).map_err(|error| open(sqlx::Error::Io(error)))?;
        }
        let options: AnyConnectOptions = url.parse().map_err(open)?;
        let options = options.disable_statement_logging();
        let pool = pool_options(kind).connect_with(options).await.map_err(open)?;
        match kind {
            Kind::Sqlite => sqlx::migrate!("migrations/sqlite").run(&pool).await?,
            Kind::Postgres => sqlx::migrate!("migrations/postgres").run(&pool).await?,
        }
        let (writer, end) = Writer::start(pool.clone(), kind).map_err(|error| open(sqlx::Error::Io(error)))?;
        Ok((Database { pool, writer, kind }, end))
    }

    /// Which database it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// Makes the file of a database that is yet to be: it holds keys, so its owner alone reads it. What SQLite puts beside it is as it is.
fn make_private(file: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file).map(drop)
}

/// The file of `sqlite:FILE`, which may begin with slashes as in a URL.
fn file_of(url: &str) -> &str {
    let file = url.strip_prefix("sqlite:").unwrap_or_default();
    file.split('?').next().unwrap_or_default().trim_start_matches("//")
}

/// `sqlite:FILE` and `postgres://…`, as the driver reads them.
fn normal(url: &str) -> Result<(Kind, String)> {
    if url.starts_with("sqlite:") {
        let file = file_of(url);
        if file.is_empty() {
            return Err(DatabaseError::Unknown(url.to_owned()));
        }
        let absolute = std::path::absolute(Path::new(file)).map_err(|_| DatabaseError::Unknown(url.to_owned()))?;
        return Ok((
            Kind::Sqlite,
            format!("sqlite://{}?mode=rwc", web::target::encode(absolute.as_os_str().as_encoded_bytes())),
        ));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok((Kind::Postgres, url.to_owned()));
    }
    Err(DatabaseError::Unknown(web::target::redacted(url)))
}

fn pool_options(kind: Kind) -> AnyPoolOptions {
    let options = AnyPoolOptions::new()
        .max_connections(limits::CONNECTIONS_MAX)
        .acquire_timeout(Duration::from_secs(30))
        .test_before_acquire(kind == Kind::Postgres);
    // What was answered with "accepted" is on disk: FULL, and not NORMAL, which a power cut may take back.
    const SQLITE: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 30000; \
                          PRAGMA cache_size = -4000; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864";
    // Notices are of tables that are there already.
    const POSTGRES: &str = "SET client_min_messages = warning";
    options.after_connect(move |connection, _| {
        Box::pin(async move {
            connection.execute(if kind == Kind::Sqlite { SQLITE } else { POSTGRES }).await?;
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_new_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (_database, _) = Database::open(&format!("sqlite:{}/hub.db", dir.path().display())).await.unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap().flatten() {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
        }
    }

    #[test]
    fn a_database_is_a_file_or_a_server() {
        assert_eq!(normal("sqlite:/var/a b.db").unwrap(), (Kind::Sqlite, "sqlite:///var/a%20b.db?mode=rwc".into()));
        assert_eq!(normal("sqlite:///var/a.db").unwrap().1, "sqlite:///var/a.db?mode=rwc");
        assert_eq!(normal("postgres://u@h/n").unwrap().0, Kind::Postgres);
        for unknown in ["", "sqlite:", "mysql://u:secret@h/n", "/var/a.db"] {
            let error = normal(unknown).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
