//! Local ends of a transfer: the directory that a path is opened in, and which symbolic links are followed.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use engine::scan::SourceRoot;
use model::Locator;
use model::name::{Name, RelPath};
use store::Store;
use store::ends::{self, DisklessStore};
use store::pipe::Pipe;
use store::posix::{Links, Posix};

use crate::failure::Failure;

/// A local target: the store it is in, its path there, and the store's directory if it has one.
pub struct LocalTarget {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The target's path in it.
    pub path: RelPath,
    /// The directory that the store is rooted in.
    pub root: Option<PathBuf>,
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    let fault = match error.kind() {
        std::io::ErrorKind::NotFound => model::Fault::Missing,
        _ => model::Fault::Storage,
    };
    let message = format!("cannot {doing} {}: {error}", model::name::show_bytes(path.as_os_str().as_bytes()));
    Failure { exit: fault.into(), fault, message }
}

fn rel_path(path: &Path) -> Result<RelPath, Failure> {
    RelPath::parse(path.as_os_str().as_bytes()).map_err(|e| Failure::usage(e.to_string()))
}

/// Splits a path into a directory and its last component. Symbolic links in the directory part are followed, because the user
/// typed them; a link as the last component is followed only with `follow`.
fn split(path: &Path, follow: bool) -> Result<(PathBuf, RelPath), Failure> {
    let has_name = matches!(path.components().next_back(), Some(Component::Normal(_)));
    if has_name && !follow {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = fs::canonicalize(parent).map_err(|e| cannot("find", path, &e))?;
        return Ok((parent, rel_path(Path::new(path.file_name().unwrap_or_default()))?));
    }
    let canonical = fs::canonicalize(path).map_err(|e| cannot("find", path, &e))?;
    match (canonical.parent(), canonical.file_name()) {
        (Some(parent), Some(name)) => Ok((parent.to_owned(), rel_path(Path::new(name))?)),
        _ => Ok((canonical, RelPath::root())),
    }
}

/// Opens a local source.
///
/// # Errors
/// The path does not exist or cannot be opened, or the locator cannot be read from.
pub fn source(locator: &Locator) -> Result<SourceRoot, Failure> {
    match locator {
        Locator::Local(path) => {
            let (dir, below) = split(path, locator.into_dir())?;
            let store = Arc::new(Posix::open(&dir, Links::Inside)?.following_links_anywhere().hiding_unfinished());
            // The root directory has no name of its own.
            let name = below.name().or_else(|| Name::new(b"root").ok());
            let name = name.ok_or_else(|| Failure::usage("that path has no name"))?;
            Ok(SourceRoot { store, path: below, name })
        }
        Locator::Zero(size) => {
            let store = Arc::new(DisklessStore::Zero(size.0));
            Ok(SourceRoot { store, path: RelPath::root(), name: ends::zero_name() })
        }
        Locator::Pipe => {
            let store = Arc::new(Pipe::new(descriptor(std::io::stdin())?));
            let name = Name::new(b"stdin").map_err(|e| Failure::usage(e.to_string()))?;
            Ok(SourceRoot { store, path: RelPath::root(), name })
        }
        other => Err(Failure::usage(format!("{other} cannot be read from"))),
    }
}

/// The directory of a local source, and the source's path in it, for a node that opens it.
///
/// # Errors
/// The source does not exist, or its attributes cannot be read.
pub fn split_source(path: &Path) -> Result<(PathBuf, RelPath), Failure> {
    let (dir, below) = split(path, path.as_os_str().as_bytes().ends_with(b"/"))?;
    Posix::open(&dir, Links::Inside)?.hiding_unfinished().stat(&below)?;
    Ok((dir, below))
}

fn descriptor(stream: impl std::os::fd::AsFd) -> Result<OwnedFd, Failure> {
    stream.as_fd().try_clone_to_owned().map_err(|e| Failure::local(format!("cannot use standard input or output: {e}")))
}

/// Opens a local target.
///
/// # Errors
/// The target's directory cannot be opened, or the locator cannot be written to.
pub fn target(locator: &Locator) -> Result<LocalTarget, Failure> {
    match locator {
        Locator::Local(path) => {
            let (root, below) = if path.exists() { split(path, true)? } else { split_missing(path)? };
            let store = Arc::new(Posix::open(&root, Links::Refuse)?.hiding_unfinished());
            Ok(LocalTarget { store, path: below, root: Some(root) })
        }
        Locator::Null => Ok(LocalTarget { store: Arc::new(DisklessStore::Null), path: RelPath::root(), root: None }),
        Locator::Pipe => {
            let store = Arc::new(Pipe::new(descriptor(std::io::stdout())?));
            Ok(LocalTarget { store, path: RelPath::root(), root: None })
        }
        other => Err(Failure::usage(format!("{other} cannot be written to"))),
    }
}

/// For a target that does not exist yet: the nearest directory above it that exists, and the path below that.
fn split_missing(path: &Path) -> Result<(PathBuf, RelPath), Failure> {
    let mut below: Vec<&OsStr> = Vec::new();
    let mut above = path;
    loop {
        match above.components().next_back() {
            Some(Component::Normal(name)) => below.push(name),
            Some(Component::CurDir) => {}
            _ => return Err(cannot("find", above, &std::io::ErrorKind::NotFound.into())),
        }
        above = above.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if above.exists() {
            break;
        }
    }
    let root = fs::canonicalize(above).map_err(|e| cannot("find", above, &e))?;
    let rest: PathBuf = below.iter().rev().collect();
    Ok((root, rel_path(&rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(path: &Path) -> Locator {
        Locator::Local(path.to_owned())
    }

    #[test]
    fn targets_are_rooted_in_existing_directories() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(base.join("d")).unwrap();
        std::os::unix::fs::symlink("d", base.join("link")).unwrap();
        let resolved =
            |path: &str| target(&local(&base.join(path))).map(|t| (t.root.unwrap(), t.path.to_string())).unwrap();
        assert_eq!(resolved("d"), (base.clone(), "d".into()));
        assert_eq!(resolved("link"), (base.clone(), "d".into()), "a link the user names is followed");
        assert_eq!(resolved("d/new/er"), (base.join("d"), "new/er".into()));
        assert_eq!(resolved("link/new/"), (base.join("d"), "new".into()));
        assert!(target(&local(&base.join("no/../x"))).is_err());
    }

    #[test]
    fn sources_keep_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(base.join("d")).unwrap();
        std::os::unix::fs::symlink("d", base.join("link")).unwrap();
        let name = |path: PathBuf| source(&local(&path)).map(|s| (s.name.to_string(), s.path.to_string())).unwrap();
        assert_eq!(name(base.join("d")), ("d".into(), "d".into()));
        assert_eq!(name(base.join("link")), ("link".into(), "link".into()), "a link is copied as a link");
        assert_eq!(name(base.join("link/")), ("d".into(), "d".into()), "a slash asks for what it points to");
        assert_eq!(name(base.join("d/.")), ("d".into(), "d".into()));
        assert_eq!(name(PathBuf::from("/")), ("root".into(), String::new()));
        assert!(source(&local(&base.join("d/.."))).is_ok());
        assert!(source(&Locator::Null).is_err());
    }
}
