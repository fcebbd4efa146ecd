//! Exports: the directories, or places on remote servers, that a node offers by name.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use model::RelPath;
use store::Store;
use store::guarded;
use store::posix::{Links, Posix};

use crate::tape::{ArchiveGuard, TapeLibrary, TapeProgram};

/// A directory, or a place on a remote server, that a node offers under a name.
#[derive(Clone, Debug)]
pub struct Export {
    /// The name: no slash, no colon.
    pub name: String,
    /// The directory; for a place on a remote server its address.
    pub dir: PathBuf,
    /// Whether anything below it may be changed.
    pub writable: bool,
    /// The store of a place on a remote server; none for a directory of this host.
    pub remote_store: Option<Arc<dyn Store>>,
    /// The program that recalls files from tape and archives them to tape.
    pub tape: Option<TapeProgram>,
    /// Whether HTTP removes a directory with its content (RFC 4918, section 9.6.1); otherwise only an empty directory is removed.
    pub recursive_delete: bool,
}

impl Export {
    /// A directory of this host.
    pub fn here(name: impl Into<String>, dir: impl Into<PathBuf>, writable: bool) -> Export {
        Export { name: name.into(), dir: dir.into(), writable, remote_store: None, tape: None, recursive_delete: true }
    }
}

/// Why an export cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The text is not of the form `NAME=DIR`.
    #[error(
        "{0:?} is not an export; write NAME=DIR, NAME=DIR:ro or NAME=DIR:rw, and ,tape=PROGRAM behind it where there is tape"
    )]
    Form(String),
    /// The name cannot stand in a locator.
    #[error("{0:?} cannot name an export: no slash, no colon, not empty, not . or ..")]
    Name(String),
    /// The directory cannot be used.
    #[error("the export {name} cannot be served")]
    Directory {
        /// The export's name.
        name: String,
        /// Why.
        source: store::Error,
    },
    /// The node itself answers below this name over HTTP.
    #[error("{0:?} cannot name an export: the node itself answers below /{0} over HTTP; give it another name")]
    Reserved(String),
    /// Two exports have one name.
    #[error("the export {0} is named twice")]
    Twice(String),
    /// The name belongs to the export that holds the scratch places.
    #[error("the export {0} holds the scratch places (--exercise); give the other export of that name another name")]
    Exercise(String),
    /// Another node has its scratch places in the directory.
    #[error(
        "the directory {} holds the scratch places of another node that runs; name another one by --exercise", .0.display()
    )]
    InUse(PathBuf),
}

/// Names that no export can have: over HTTP the node itself answers below them, or browsers request them by themselves.
const RESERVED: [&str; 7] = ["api", "metrics", "pscheduler", ".well-known", ".oauth2", "favicon.ico", "robots.txt"];

/// Whether no export can have this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether an export may have this name.
fn check_name(name: &str) -> Result<(), ExportError> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', ':', '\0']) {
        return Err(ExportError::Name(name.into()));
    }
    if is_reserved(name) {
        return Err(ExportError::Reserved(name.into()));
    }
    Ok(())
}

impl FromStr for Export {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Export, ExportError> {
        let (name, dir) = text.split_once('=').ok_or_else(|| ExportError::Form(text.into()))?;
        check_name(name)?;
        let (dir, tape) = with_tape(dir);
        let tape = tape.map(|tape| TapeProgram::parse(tape).map_err(|_| ExportError::Form(text.into()))).transpose()?;
        let (dir, writable) = match dir.strip_suffix(":rw") {
            Some(dir) => (dir, true),
            None => (dir.strip_suffix(":ro").unwrap_or(dir), false),
        };
        if dir.is_empty() {
            return Err(ExportError::Form(text.into()));
        }
        Ok(Export { tape, ..Export::here(name, dir, writable) })
    }
}

/// Splits a directory with its mode from the tape program that may follow.
fn with_tape(dir: &str) -> (&str, Option<&str>) {
    let at = [":ro,tape=", ":rw,tape="].into_iter().filter_map(|mark| dir.find(mark)).min();
    match at {
        Some(at) => (&dir[..at + ":rw".len()], Some(&dir[at + ":rw,tape=".len()..])),
        None => (dir, None),
    }
}

/// An export with its open store.
#[derive(Clone, Debug)]
pub(crate) struct ServedExport {
    pub export: Export,
    pub store: Arc<dyn Store>,
    /// The tape library of the export.
    pub tape: Option<Arc<TapeLibrary>>,
}

impl ServedExport {
    /// Opens the directory, which stays open: a directory that is moved while the node runs is still the exported one.
    ///
    /// # Errors
    /// The directory cannot be opened or entered.
    pub fn open(export: Export, state: &Path) -> Result<ServedExport, ExportError> {
        if let Some(store) = &export.remote_store {
            return Ok(ServedExport { store: Arc::clone(store), tape: None, export });
        }
        let store = Posix::open(&export.dir, Links::Inside)
            .map_err(|source| ExportError::Directory { name: export.name.clone(), source })?;
        // Nothing lies outside the root directory.
        let store = if export.dir == Path::new("/") { store.following_links_anywhere() } else { store };
        // A directory may be opened without the permission to enter it.
        std::fs::metadata(export.dir.join(".")).map_err(|error| {
            let path = export.dir.display().to_string();
            let source = store::Error::Io { doing: "enter", path, source: error };
            ExportError::Directory { name: export.name.clone(), source }
        })?;
        let store: Arc<dyn Store> = Arc::new(store.without_privilege_bits().hiding_unfinished());
        let Some(program) = export.tape.clone() else { return Ok(ServedExport { export, store, tape: None }) };
        let tape = Arc::new(TapeLibrary::new(program, &export.name, export.dir.clone(), state));
        let store = guarded(store, RelPath::root(), Arc::new(ArchiveGuard(Arc::clone(&tape))));
        Ok(ServedExport { export, store, tape: Some(tape) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_is_parsed_from_its_text() {
        let read = |text: &str| text.parse::<Export>().map(|e| (e.name, e.dir.display().to_string(), e.writable)).ok();
        assert_eq!(read("d=/data"), Some(("d".into(), "/data".into(), false)));
        assert_eq!(read("d=/data:ro"), Some(("d".into(), "/data".into(), false)));
        assert_eq!(read("d=/data:rw"), Some(("d".into(), "/data".into(), true)));
        assert_eq!(read("d=/a=b:c"), Some(("d".into(), "/a=b:c".into(), false)));
        assert_eq!(read("d=/data:rw,tape=/opt/hsm -v"), Some(("d".into(), "/data".into(), true)));
        let export: Export = "d=/data:ro,tape=/opt/hsm -v".parse().unwrap();
        assert_eq!(export.tape, TapeProgram::parse("/opt/hsm -v").ok());
        for bad in [
            "/data",
            "=x",
            "a/b=/x",
            "a:b=/x",
            "..=/x",
            "d=",
            "d=:rw",
            "d=/x:rw,tape=",
            "api=/x",
            "metrics=/x:rw",
            "favicon.ico=/x",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
