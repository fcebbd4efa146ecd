//! `longhaul cp --metalink`: copies the files that a Metalink describes, each from all places that the Metalink names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::Write;

use model::locator::NodePlace;
use model::{Algorithm, Exit, Locator};
use store::Source;
use tempfile::NamedTempFile;
use web::metalink::{self, DOCUMENT_BYTES_MAX, DescribedFile};

use crate::args::Cp;
use crate::copy_defaults::Checksums;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::remote_stores;
use crate::settings::Settings;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Files that are in the same directories: the directories, the preferred one first, and lines of a list of files.
#[derive(Default)]
struct FileGroup {
    lines: String,
    algorithms: BTreeSet<Algorithm>,
}

/// Runs the command.
///
/// # Errors
/// The Metalink cannot be read or followed, or a copy cannot begin.
pub(super) fn run(cp: &Cp, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let [document, target] = &cp.locators[..] else {
        return Err(Failure::usage("--metalink takes one Metalink and one target, the directory for its files"));
    };
    let text = read(document, settings)?;
    let shown = document.to_string_lossy();
    let described = metalink::parse(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    let mut groups: BTreeMap<Vec<OsString>, FileGroup> = BTreeMap::new();
    for file in &described {
        let (dirs, name) = places(file, settings)?;
        let group = groups.entry(dirs).or_default();
        group.lines += &format!("{name}\t{}", file.path);
        match file.digest {
            Some(digest) => {
                group.lines += &format!("\t{digest}");
                group.algorithms.insert(digest.algorithm());
            }
            None => {
                Printer::note(&format!("{shown} states no digest of {}: its bytes are compared with none", file.path))
            }
        }
        group.lines.push('\n');
    }
    let mut exit = Exit::Done;
    for (dirs, group) in groups {
        match copy(cp, dirs, &group, target, settings, printer)? {
            Exit::Done => {}
            other => exit = other,
        }
    }
    Ok(exit)
}

/// Copies files that are in the same directories.
fn copy(
    cp: &Cp,
    mut dirs: Vec<OsString>,
    group: &FileGroup,
    target: &OsStr,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::local(format!("cannot write the list of files: {error}"));
    let mut list = NamedTempFile::new().map_err(failed)?;
    list.write_all(group.lines.as_bytes()).and_then(|()| list.flush()).map_err(failed)?;
    let first = dirs.remove(0);
    let mut algorithms = cp.checksums().to_vec();
    algorithms.extend(group.algorithms.iter().filter(|one| !cp.checksums().contains(one)));
    let copy = Cp {
        metalink: false,
        recursive: true,
        files_from: Some(list.path().to_owned()),
        mirror: dirs,
        checksum: Some(Checksums(algorithms)),
        locators: vec![first, target.to_owned()],
        ..cp.clone()
    };
    super::run(&copy, settings, printer)
}

/// The text of a Metalink.
fn read(document: &OsStr, settings: &Settings) -> Result<String, Failure> {
    let locator = settings.locator(document)?;
    let root = remote_stores::source(&locator, settings)?;
    let source = root.store.open(&root.path)?;
    let text = String::from_utf8(read_whole(&*source)?);
    text.map_err(|_| Failure::usage(format!("{locator} is not a Metalink: it is not text in UTF-8")))
}

/// The bytes of a document; one more than the most that are read where it is longer.
fn read_whole(source: &dyn Source) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; READ_BYTES];
    while bytes.len() <= DOCUMENT_BYTES_MAX {
        match source.read_at(&mut piece, bytes.len() as u64)? {
            0 => break,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    Ok(bytes)
}

/// The directories in which a file is, the preferred one first, and its name there. Places with another name are left out, and those
/// on this host: a document from elsewhere must not choose files here.
fn places(file: &DescribedFile, settings: &Settings) -> Result<(Vec<OsString>, String), Failure> {
    let mut name: Option<String> = None;
    let mut dirs = Vec::new();
    for url in &file.urls {
        let leave_out = |why: &str| Printer::note(&format!("{}: the place {url} is left out: {why}", file.path));
        let here = match name_at(url, settings) {
            Ok(here) => here,
            Err(failure) => {
                leave_out(&failure.message);
                continue;
            }
        };
        let Some((dir, _)) = url.rsplit_once('/') else { continue };
        if name.as_ref().is_some_and(|name| *name != here) {
            leave_out("the file has another name there");
            continue;
        }
        name = Some(here);
        dirs.push(OsString::from(format!("{dir}/")));
    }
    let name =
        name.ok_or_else(|| Failure::usage(format!("the Metalink names no place of {} that can be used", file.path)))?;
    Ok((dirs, name))
}

/// The name of the file at a URL.
fn name_at(url: &str, settings: &Settings) -> Result<String, Failure> {
    if url.contains('?') {
        return Err(Failure::usage("an address with parameters stands for one file, and cannot be taken apart"));
    }
    let locator = settings.locator(OsStr::new(url))?;
    let path = match &locator {
        Locator::Remote { .. } => remote_stores::remote_store(&locator, settings)?.map(|remote| remote.path),
        Locator::Node { place: NodePlace::Path { path, .. }, .. } => Some(path.clone()),
        _ => None,
    };
    let name = path.and_then(|path| path.name());
    let name = name.ok_or_else(|| Failure::usage("it is no file on a node or a server"))?;
    Ok(name.to_string())
}
