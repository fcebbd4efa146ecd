//! The grants in a hub's database, for commands that make, list and revoke keys while no hub runs.

use tokio::runtime::Runtime;

pub use crate::database::roles::KeyGrant;
use crate::database::{Database, DatabaseError, WriterEnd};

/// The grants in a hub's database.
pub struct Keys {
    runtime: Runtime,
    database: Database,
    _writer: WriterEnd,
}

impl Keys {
    /// Opens the database of a hub by its URL; a running hub may use it at the same time.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(url: &str) -> Result<Keys, DatabaseError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| DatabaseError::Statement(sqlx::Error::Io(error)))?;
        let (database, writer) = runtime.block_on(Database::open(url))?;
        Ok(Keys { runtime, database, _writer: writer })
    }

    /// Adds a grant.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn add(&self, grant: KeyGrant) -> Result<(), DatabaseError> {
        self.runtime.block_on(self.database.add_role_grant(grant))
    }

    /// All grants, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn list(&self) -> Result<Vec<KeyGrant>, DatabaseError> {
        self.runtime.block_on(self.database.role_grants())
    }

    /// Revokes a grant; returns whether there was one.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn revoke(&self, id: &str) -> Result<bool, DatabaseError> {
        self.runtime.block_on(self.database.revoke_role_grant(id.to_owned()))
    }
}
