//! Opens the database of a service by its URL, SQLite or PostgreSQL, brings its tables to this version, and executes statements with many
//! rows. Both databases are given the same SQL.
//!
//! What this crate does not know: which tables there are, who reads and writes them.

pub mod rows;

use std::path::Path;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AnyPool, ConnectOptions, Connection, Executor};

/// The kind of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, for a service on one machine.
    Sqlite,
    /// A server, for several machines.
    Postgres,
}

/// The migrations that bring tables to this version.
#[derive(Debug)]
pub struct Migrations {
    /// Those of SQLite.
    pub sqlite: Migrator,
    /// Those of PostgreSQL.
    pub postgres: Migrator,
}

/// Why a database was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no known kind of database.
    #[error("{0:?} is no database: sqlite:FILE or postgres://USER@HOST/NAME")]
    Unknown(String),
    /// The database cannot be opened.
    #[error("cannot open the database {name}: {source}")]
    Open {
        /// Its URL, without the password.
        name: String,
        /// The error of the driver.
        source: sqlx::Error,
    },
    /// A newer version of the service has changed its tables.
    #[error(
        "a newer version of longhaul has changed the database {name} (its tables have step {step}, and this version knows the steps up to \
         {known}): run that version, or restore a backup from before"
    )]
    Newer {
        /// Its URL, without the password.
        name: String,
        /// A migration that this version does not know.
        step: i64,
        /// The last migration that this version knows.
        known: i64,
    },
    /// Its tables cannot be brought to this version.
    #[error("cannot bring the database to this version: {0}")]
    Migrate(MigrateError),
}

/// Opens a database by its URL and brings its tables to this version.
///
/// # Errors
/// It cannot be opened or migrated.
pub async fn open(url: &str, migrations: &Migrations, connections_max: u32) -> Result<(AnyPool, Kind), OpenError> {
    sqlx::any::install_default_drivers();
    let file = file_of(url);
    let (kind, url) = driver_url(url)?;
    let name = web::target::redacted(&url);
    let failed = |source| OpenError::Open { name: name.clone(), source };
    if kind == Kind::Sqlite {
        make_private(file).map_err(|error| failed(sqlx::Error::Io(error)))?;
    }
    let options: AnyConnectOptions = url.parse().map_err(failed)?;
    let options = options.disable_statement_logging();
    let pool = pool_options(kind, connections_max).connect_with(options).await.map_err(failed)?;
    let migrator = match kind {
        Kind::Sqlite => &migrations.sqlite,
        Kind::Postgres => &migrations.postgres,
    };
    migrator.run(&pool).await.map_err(|error| match error {
        MigrateError::VersionMissing(step) => {
            let known = migrator.iter().map(|migration| migration.version).max().unwrap_or_default();
            OpenError::Newer { name, step, known }
        }
        error => OpenError::Migrate(error),
    })?;
    Ok((pool, kind))
}

/// Copies an SQLite database, as it is at one moment, into a file that does not exist yet. A service may be using it.
///
/// # Errors
/// The database cannot be read, or the file cannot be written.
pub async fn copy_sqlite(from: &Path, to: &Path) -> Result<(), sqlx::Error> {
    make_private(&to.to_string_lossy()).map_err(sqlx::Error::Io)?;
    let options = SqliteConnectOptions::new().filename(from).busy_timeout(Duration::from_secs(30));
    let mut source = options.disable_statement_logging().connect().await?;
    sqlx::query("VACUUM INTO ?").bind(to.to_string_lossy().into_owned()).execute(&mut source).await?;
    source.close().await
}

/// Makes the file of a new database. It holds keys, so its owner alone may read it; SQLite makes the files beside it with the same mode.
fn make_private(file: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file).map(drop)
}

/// The file of `sqlite:FILE`, which may begin with slashes as in a URL.
fn file_of(url: &str) -> &str {
    let file = url.strip_prefix("sqlite:").unwrap_or_default();
    file.split('?').next().unwrap_or_default().trim_start_matches("//")
}

/// The kind of a database, and its URL in the form that the driver reads.
fn driver_url(url: &str) -> Result<(Kind, String), OpenError> {
    if url.starts_with("sqlite:") {
        let file = file_of(url);
        if file.is_empty() {
            return Err(OpenError::Unknown(url.to_owned()));
        }
        let absolute = std::path::absolute(Path::new(file)).map_err(|_| OpenError::Unknown(url.to_owned()))?;
        return Ok((
            Kind::Sqlite,
            format!("sqlite://{}?mode=rwc", web::target::encode(absolute.as_os_str().as_encoded_bytes())),
        ));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok((Kind::Postgres, url.to_owned()));
    }
    Err(OpenError::Unknown(web::target::redacted(url)))
}

fn pool_options(kind: Kind, connections_max: u32) -> AnyPoolOptions {
    let options = AnyPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(Duration::from_secs(30))
        .test_before_acquire(kind == Kind::Postgres);
    // A client that was answered "accepted" may rely on it: FULL writes to disk before the answer, whereas a power cut may undo a commit
    // with NORMAL.
    const SQLITE: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 30000; \
                          PRAGMA cache_size = -4000; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864";
    // `warning` silences the notices about tables that exist already.
    // Writers take turns by a lock: `read committed` lets each of them read the state at its turn, not the state when it began to wait.
    const POSTGRES: &str = "SET client_min_messages = warning; SET default_transaction_isolation = 'read committed'";
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
    async fn only_the_owner_may_read_a_new_database() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/new.db", dir.path().display());
        let none = Migrations { sqlite: Migrator::DEFAULT, postgres: Migrator::DEFAULT };
        let _pool = open(&url, &none, 2).await.unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap().flatten() {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
        }
    }

    #[tokio::test]
    async fn a_database_is_copied_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let none = Migrations { sqlite: Migrator::DEFAULT, postgres: Migrator::DEFAULT };
        let url = |name: &str| format!("sqlite:{}", dir.path().join(name).display());
        let (pool, _) = open(&url("one.db"), &none, 2).await.unwrap();
        pool.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)").await.unwrap();
        pool.execute("INSERT INTO t VALUES (7)").await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO t VALUES (8)").execute(&mut *transaction).await.unwrap();
        copy_sqlite(&dir.path().join("one.db"), &dir.path().join("two.db")).await.unwrap();
        let (copy, _) = open(&url("two.db"), &none, 1).await.unwrap();
        let rows: Vec<(i64,)> = sqlx::query_as("SELECT n FROM t").fetch_all(&copy).await.unwrap();
        assert_eq!(rows, [(7,)], "what is committed, and nothing else");
    }

    #[tokio::test]
    async fn a_database_of_a_newer_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/newer.db", dir.path().display());
        let none = Migrations { sqlite: Migrator::DEFAULT, postgres: Migrator::DEFAULT };
        let (pool, _) = open(&url, &none, 1).await.unwrap();
        let step = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                    VALUES (9, 'later', TRUE, X'00', 0)";
        pool.execute(step).await.unwrap();
        pool.close().await;
        let error = open(&url, &none, 1).await.unwrap_err();
        assert!(matches!(error, OpenError::Newer { step: 9, known: 0, .. }), "{error}");
        assert!(error.to_string().contains("newer.db") && error.to_string().contains("backup"), "{error}");
    }

    #[test]
    fn a_database_is_a_file_or_a_server() {
        assert_eq!(driver_url("sqlite:/var/a b.db").unwrap(), (Kind::Sqlite, "sqlite:///var/a%20b.db?mode=rwc".into()));
        assert_eq!(driver_url("sqlite:///var/a.db").unwrap().1, "sqlite:///var/a.db?mode=rwc");
        assert_eq!(driver_url("postgres://u@h/n").unwrap().0, Kind::Postgres);
        for unknown in ["", "sqlite:", "mysql://u:secret@h/n", "/var/a.db"] {
            let error = driver_url(unknown).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
