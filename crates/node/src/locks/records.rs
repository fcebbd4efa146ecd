//! Locks in the state directory, which outlive a restart.

use client::StateDir;
use model::name::RelPath;
use serde::{Deserialize, Serialize};
use web::dav::lock::Scope;
use web::target;

use super::{Lock, unix_seconds};

/// A lock in the form of the file.
#[derive(Serialize, Deserialize)]
struct Row {
    token: String,
    export: String,
    /// Escaped as in addresses: a name need not be text.
    path: String,
    shared: bool,
    deep: bool,
    owner: String,
    holder: String,
    expires: i64,
}

/// The locks that have not expired. A file that cannot be read counts as empty: locks end by themselves.
pub(super) fn read(state: &StateDir) -> Vec<Lock> {
    let bytes = state.locks().unwrap_or_else(|error| {
        tracing::error!(%error, "the stored locks cannot be read; they are dropped");
        None
    });
    let rows: Vec<Row> = match bytes.map(|bytes| serde_json::from_slice(&bytes)) {
        Some(Ok(rows)) => rows,
        Some(Err(error)) => {
            tracing::error!(%error, "the stored locks cannot be parsed; they are dropped");
            Vec::new()
        }
        None => Vec::new(),
    };
    rows.into_iter().filter(|row| row.expires > unix_seconds()).filter_map(lock).collect()
}

fn lock(row: Row) -> Option<Lock> {
    let path = target::parse(&format!("/{}", row.path)).ok()?.path;
    let scope = if row.shared { Scope::Shared } else { Scope::Exclusive };
    let Row { token, export, deep, owner, holder, expires, .. } = row;
    Some(Lock { token, export, path, scope, is_deep: deep, owner, holder, expires })
}

fn escaped(path: &RelPath) -> String {
    target::encode(path.as_bytes())
}

/// Writes the locks to the state directory. After a failure they exist only until the process ends.
pub(super) fn write<'a>(state: &StateDir, locks: impl Iterator<Item = &'a Lock>) {
    let rows: Vec<Row> = locks
        .map(|lock| Row {
            token: lock.token.clone(),
            export: lock.export.clone(),
            path: escaped(&lock.path),
            shared: lock.scope == Scope::Shared,
            deep: lock.is_deep,
            owner: lock.owner.clone(),
            holder: lock.holder.clone(),
            expires: lock.expires,
        })
        .collect();
    let written = serde_json::to_vec(&rows).map_err(|error| error.to_string());
    let written = written.and_then(|bytes| state.store_locks(&bytes).map_err(|error| error.to_string()));
    if let Err(error) = written {
        tracing::error!(%error, "locks cannot be written; they end with this process");
    }
}
