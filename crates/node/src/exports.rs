//! Exports: the directories that a node offers, by name; or places on other people's servers.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use model::RelPath;
use store::Store;
use store::guarded;
use store::posix::{Links, Posix};

use crate::tape::{Archiving, TapeLibrary, TapeProgram};

/// A directory offered under a name.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name: no slash, no colon.
    pub name: String,
    /// The directory; of a place elsewhere its address.
    pub dir: PathBuf,
    /// Whether anything below it may be changed.
    pub writable: bool,
    /// What it is where it is no directory of this host.
    pub abroad: Option<Arc<dyn Store>>,
    /// What brings files of it from tape, and takes them there.
    pub tape: Option<TapeProgram>,
    /// Over HTTP a directory goes with all that is in it (RFC 4918, section 9.6.1); otherwise only an empty one.
    pub recursive_delete: bool,
}

impl Export {
    /// A directory of this host.
    pub fn here(name: impl Into<String>, dir: impl Into<PathBuf>, writable: bool) -> Export {
        Export { name: name.into(), dir: dir.into(), writable, abroad: None, tape: None, recursive_delete: true }
    }
}

/// Why an export cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Not `NAME=DIR`.
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
        /// Its name.
        name: String,
        /// Why.
        source: store::Error,
    },
    /// The node itself answers there.
    #[error("{0:?} cannot name an export: the node itself answers below /{0} over HTTP; give it another name")]
    Reserved(String),
    /// Two of one name.
    #[error("the export {0} is named twice")]
    Twice(String),
}

/// Names whose places over HTTP are the node's own, or nobody's: browsers and clients ask for them unasked.
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

/// A directory with its mode, and the program for tape that may stand behind it.
fn with_tape(dir: &str) -> (&str, Option<&str>) {
    let at = [":ro,tape=", ":rw,tape="].into_iter().filter_map(|mark| dir.find(mark)).min();
    match at {
        Some(at) => (&dir[..at + ":rw".len()], Some(&dir[at + ":rw,tape=".len()..])),
        None => (dir, None),
    }
}

/// An export with its open store.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub export: Export,
    pub store: Arc<dyn Store>,
    /// The tape behind it.
    pub tape: Option<Arc<TapeLibrary>>,
}

impl Served {
    /// Opens the directory. It stays open: a directory moved while the node runs is still the one that was meant.
    pub fn open(export: Export, state: &Path) -> Result<Served, ExportError> {
        if let Some(store) = &export.abroad {
            return Ok(Served { store: Arc::clone(store), tape: None, export });
        }
        let store = Posix::open(&export.dir, Links::Inside)
            .map_err(|source| ExportError::Directory { name: export.name.clone(), source })?;
        // Of all there is nothing lies outside.
        let store = if export.dir == Path::new("/") { store.of_the_user() } else { store };
        // That it opens does not say that anything in it can be reached.
        std::fs::metadata(export.dir.join(".")).map_err(|error| {
            let path = export.dir.display().to_string();
            let source = store::Error::Io { doing: "enter", path, source: error };
            ExportError::Directory { name: export.name.clone(), source }
        })?;
        let store: Arc<dyn Store> = Arc::new(store.without_privilege_bits().hiding_unfinished());
        let Some(program) = export.tape.clone() else { return Ok(Served { export, store, tape: None }) };
        let tape = Arc::new(TapeLibrary::new(program, &export.name, export.dir.clone(), state));
        let store = guarded(store, RelPath::root(), Arc::new(Archiving(Arc::clone(&tape))));
        Ok(Served { export, store, tape: Some(tape) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
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
