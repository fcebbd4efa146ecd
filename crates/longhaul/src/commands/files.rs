//! `ls`, `stat`, `mkdir`, `rm`, `mv`, `digest`: one request to a node, or the same operation on a local or remote store.

use std::ffi::OsStr;
use std::sync::Arc;

use base64::Engine;
use client::remote_store::RemoteStore;
use engine::Timeouts;
use jiff::Timestamp;
use model::locator::NodePlace;
use model::name::RelPath;
use model::units::Bytes;
use model::{Exit, Fault, HostPort, Kind, Locator, Meta, Refusal};
use serde::Serialize;
use store::Store;
use wire::frame::{Listed, Request};

use crate::args::{DigestArgs, LocatorArg, Ls, Mv, Rm};
use crate::failure::Failure;
use crate::local;
use crate::printer::Printer;
use crate::remote_stores;
use crate::settings::Settings;

/// An entry as JSON.
#[derive(Serialize)]
struct Entry {
    v: u32,
    event: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_b64: Option<String>,
    kind: &'static str,
    mode: String,
    size: u64,
    mtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    digests: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn time(line: &Listed) -> String {
    let at = Timestamp::new(line.meta.mtime.seconds, line.meta.mtime.nanos as i32);
    at.map_or_else(|_| line.meta.mtime.seconds.to_string(), |at| at.to_string())
}

fn json_entry(line: &Listed, event: &'static str) -> Entry {
    let bytes = line.path.as_bytes();
    Entry {
        v: 1,
        event,
        path: line.path.to_string(),
        path_b64: std::str::from_utf8(bytes).is_err().then(|| base64::engine::general_purpose::STANDARD.encode(bytes)),
        kind: line.meta.kind.word(),
        mode: format!("{:04o}", line.meta.mode),
        size: line.meta.size,
        mtime: time(line),
        target: line.link.as_ref().map(|l| model::name::show_bytes(l)),
        digests: line.digests.iter().map(ToString::to_string).collect(),
        error: line.failure.as_ref().map(|f| f.reason.clone()),
    }
}

/// Where an entry is: on a node, or in a store that this process opens itself.
enum EntryLocation {
    Node(HostPort, NodePlace),
    Store(Arc<dyn Store>, RelPath),
}

fn locate(text: &OsStr, settings: &Settings) -> Result<EntryLocation, Failure> {
    let locator = settings.locator(text)?;
    if let Some(RemoteStore { store, path, .. }) = remote_stores::remote_store(&locator, settings)? {
        return Ok(EntryLocation::Store(store, path));
    }
    match locator {
        Locator::Node { at, place, .. } => Ok(EntryLocation::Node(at, place)),
        here @ Locator::Local(_) => {
            let root = local::source(&here)?;
            Ok(EntryLocation::Store(root.store, root.path))
        }
        other => Err(Failure::usage(format!("{other} is neither a path nor a place on a node"))),
    }
}

/// Sends a request to a node. The access keys for the node are tried in turn until it accepts one.
pub(super) fn send_request(
    settings: &Settings,
    at: &HostPort,
    request: Request,
    mut lines: impl FnMut(Vec<Listed>),
) -> Result<(), Failure> {
    loop {
        let mut session = settings.connect(at, false, Timeouts::default())?;
        match session.query(request.clone(), &mut lines).map_err(Failure::from) {
            Err(refused) if refused.fault == Fault::Auth && settings.try_another_key(at) => {}
            result => {
                session.close();
                return result;
            }
        }
    }
}

fn stat_entry(store: &dyn Store, path: &RelPath, shown: RelPath) -> Result<Listed, Failure> {
    let stat = store.stat(path)?;
    let link = if stat.meta.kind == Kind::Symlink { Some(store.read_link(path)?) } else { None };
    Ok(Listed::plain(shown, stat.meta, link))
}

/// Shows one line of a listing.
fn show(line: &Listed, ls: &Ls, printer: &Printer) {
    if printer.is_json() {
        return printer.object(&json_entry(line, "entry"));
    }
    let slash = if line.meta.kind == Kind::Dir { "/" } else { "" };
    if !ls.long {
        return printer.line(&format!("{}{slash}", line.path));
    }
    let link = line.link.as_ref().map_or(String::new(), |to| format!(" -> {}", model::name::show_bytes(to)));
    let kind = line.meta.kind.letter();
    let mode = line.meta.mode;
    let size = line.meta.size;
    let size = if ls.human { Bytes(size).to_string() } else { size.to_string() };
    printer.line(&format!("{kind} {mode:04o} {size:>15} {:<30} {}{slash}{link}", time(line), line.path));
}

/// The most entries that are sorted before they are shown; a longer listing is sorted in parts of this size.
const SORTED_MAX: usize = 1_000_000;

/// Collects entries and shows them in the order of their names.
struct Listing<'a> {
    ls: &'a Ls,
    printer: &'a Printer,
    unsorted: Vec<Listed>,
    has_failures: bool,
}

impl Listing<'_> {
    fn add(&mut self, lines: Vec<Listed>) {
        self.unsorted.extend(lines);
        if self.unsorted.len() >= SORTED_MAX {
            self.show();
        }
    }

    fn show(&mut self) {
        self.unsorted.sort_by(|a, b| a.path.cmp(&b.path));
        for line in std::mem::take(&mut self.unsorted) {
            if let Some(failure) = &line.failure {
                Printer::note(&failure.reason);
                self.has_failures = true;
            } else {
                show(&line, self.ls, self.printer);
            }
        }
    }
}

/// `longhaul ls`.
///
/// # Errors
/// The path does not exist or cannot be listed, or the node refuses the request.
pub fn ls(ls: &Ls, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let mut listing = Listing { ls, printer, unsorted: Vec::new(), has_failures: false };
    let result = list(ls, settings, &mut listing);
    listing.show();
    result.map(|()| if listing.has_failures { Exit::Partial } else { Exit::Done })
}

fn list(ls: &Ls, settings: &Settings, listing: &mut Listing<'_>) -> Result<(), Failure> {
    let mut print = |lines| listing.add(lines);
    match locate(&ls.locator, settings)? {
        EntryLocation::Node(at, place) => send_request(settings, &at, Request::List(place), print)?,
        EntryLocation::Store(store, path) if store.is_dir(&path) => {
            for item in store.list(&path)?.finished() {
                let (name, stat) = item?;
                let shown = RelPath::root().join(&name);
                match stat {
                    Ok(_) => print(vec![stat_entry(&*store, &path.join(&name), shown)?]),
                    Err(error) => {
                        let failure = Some(Refusal::from_error(&error));
                        let mtime = model::Timestamp::default();
                        let meta = Meta { kind: Kind::Special, mode: 0, size: 0, mtime };
                        print(vec![Listed { failure, ..Listed::plain(shown, meta, None) }]);
                    }
                }
            }
        }
        EntryLocation::Store(store, path) => print(vec![stat_entry(&*store, &path, path.clone())?]),
    }
    Ok(())
}

/// `longhaul stat`.
///
/// # Errors
/// The path does not exist, or the node refuses the request.
pub fn stat(at: &LocatorArg, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let typed = model::name::show_bytes(std::os::unix::ffi::OsStrExt::as_bytes(at.locator.as_os_str()));
    let print = |lines: Vec<Listed>| {
        for line in lines {
            if printer.is_json() {
                printer.object(&Entry { path: typed.clone(), ..json_entry(&line, "entry") });
                continue;
            }
            printer.line(&format!("path   {typed}"));
            printer.line(&format!("kind   {}", line.meta.kind.word()));
            printer.line(&format!("size   {} bytes ({})", line.meta.size, Bytes(line.meta.size)));
            printer.line(&format!("mode   {:04o}", line.meta.mode));
            printer.line(&format!("mtime  {}", time(&line)));
            if let Some(link) = &line.link {
                printer.line(&format!("target {}", model::name::show_bytes(link)));
            }
        }
    };
    match locate(&at.locator, settings)? {
        EntryLocation::Node(at, place) => send_request(settings, &at, Request::Stat(place), print)?,
        EntryLocation::Store(store, path) => print(vec![stat_entry(&*store, &path, path.clone())?]),
    }
    Ok(Exit::Done)
}

/// `longhaul mkdir`.
///
/// # Errors
/// The directory cannot be made, or the node refuses the request.
pub fn mkdir(at: &LocatorArg, settings: &Settings) -> Result<Exit, Failure> {
    match settings.locator(&at.locator)? {
        Locator::Node { at, place, .. } => send_request(settings, &at, Request::Mkdir(place), |_| {})?,
        Locator::Remote { scheme, .. } if scheme == "s3" => {
            return Err(Failure::usage(
                "a bucket has no directories, so none can be made; it appears with the first file that is copied into it",
            ));
        }
        here => {
            let target = remote_stores::target(&here, settings)?;
            store::make_dirs(&*target.store, &target.path)?;
        }
    }
    Ok(Exit::Done)
}

/// `longhaul rm`.
///
/// # Errors
/// The path does not exist (unless `--force`) or cannot be removed, or the node refuses the request.
pub fn rm(rm: &Rm, settings: &Settings) -> Result<Exit, Failure> {
    match remove(rm, settings) {
        Err(failure) if rm.force && failure.fault == Fault::Missing => Ok(Exit::Done),
        removed => removed.map(|()| Exit::Done),
    }
}

fn remove(rm: &Rm, settings: &Settings) -> Result<(), Failure> {
    match locate(&rm.locator, settings)? {
        EntryLocation::Node(at, place) => send_request(settings, &at, Request::Remove(place, rm.recursive), |_| {})?,
        EntryLocation::Store(store, path) if rm.recursive => store::remove_all(&*store, &path)?,
        EntryLocation::Store(store, path) => store.remove(&path)?,
    }
    Ok(())
}

/// Whether a path has the name of an unfinished file, which the next attempt of its copy resumes or removes.
fn is_unfinished(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| store::posix::is_temporary_name(name.as_encoded_bytes()))
}

/// `longhaul mv`.
///
/// # Errors
/// The two paths are not on one node or server, or the rename fails.
pub fn mv(mv: &Mv, settings: &Settings) -> Result<Exit, Failure> {
    match (settings.locator(&mv.from)?, settings.locator(&mv.to)?) {
        (Locator::Node { at, place: from, .. }, Locator::Node { at: to_at, place: to, .. }) => {
            if at != to_at {
                return Err(Failure::usage("a rename stays on one node; copy with `longhaul cp`, then remove"));
            }
            send_request(settings, &at, Request::Rename(from, to), |_| {})?;
        }
        (Locator::Local(from), Locator::Local(to)) => {
            let into = if to.is_dir() { from.file_name().map(|name| to.join(name)) } else { None };
            let to = into.unwrap_or(to);
            if let Some(path) = [&from, &to].into_iter().find(|path| is_unfinished(path)) {
                return Err(store::Error::Unfinished(path.display().to_string()).into());
            }
            let fail = |e: std::io::Error| {
                store::Error::io("rename", &RelPath::parse(from.as_os_str().as_encoded_bytes()).unwrap_or_default(), e)
            };
            std::fs::rename(&from, &to).map_err(fail)?;
        }
        (from, to) => {
            let not_on_one_server =
                || Failure::usage("a rename stays on one node or server; copy with `longhaul cp`, then remove");
            let (from, to) = remote_stores::remote_store(&from, settings)?
                .zip(remote_stores::remote_store(&to, settings)?)
                .ok_or_else(not_on_one_server)?;
            if from.server != to.server {
                return Err(not_on_one_server());
            }
            let into = from.path.name().filter(|_| from.store.is_dir(&to.path));
            let to = into.map_or(to.path.clone(), |name| to.path.join(&name));
            from.store.rename(&from.path, &to, true)?;
        }
    }
    Ok(Exit::Done)
}

/// `longhaul digest`: prints digests in the format of `sha256sum`, with the algorithm before the value.
///
/// # Errors
/// The path cannot be read, or the node refuses the request.
pub fn digest(args: &DigestArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let typed = model::name::show_bytes(std::os::unix::ffi::OsStrExt::as_bytes(args.locator.as_os_str()));
    let mut failed = 0;
    let mut print = |lines: Vec<Listed>| {
        for line in lines {
            let shown = if line.path.is_root() {
                typed.clone()
            } else {
                format!("{}/{}", typed.trim_end_matches('/'), line.path)
            };
            if let Some(failure) = &line.failure {
                Printer::note(&failure.reason);
                failed += 1;
            }
            if printer.is_json() {
                printer.object(&Entry { path: shown, ..json_entry(&line, "digest") });
                continue;
            }
            line.digests.iter().for_each(|digest| printer.line(&format!("{digest}  {shown}")));
        }
    };
    match locate(&args.locator, settings)? {
        EntryLocation::Node(at, place) => {
            send_request(settings, &at, Request::Digest(place, args.checksum.clone()), print)?
        }
        EntryLocation::Store(store, path) => digest_tree(&*store, &path, &RelPath::root(), args, &mut print)?,
    }
    Ok(if failed > 0 { Exit::Partial } else { Exit::Done })
}

fn digest_tree(
    store: &dyn Store,
    path: &RelPath,
    shown: &RelPath,
    args: &DigestArgs,
    print: &mut dyn FnMut(Vec<Listed>),
) -> Result<(), Failure> {
    let mut line = stat_entry(store, path, shown.clone())?;
    match line.meta.kind {
        Kind::Dir => {
            for item in store.list(path)?.finished() {
                let (name, _) = item?;
                digest_tree(store, &path.join(&name), &shown.join(&name), args, print)?;
            }
        }
        Kind::File => {
            line.digests = store.digests(path, &args.checksum)?;
            // Digests that the server does not have are computed here, from the bytes.
            if line.digests.len() < args.checksum.len() {
                line.digests = store::digest::of_file(&*store.open(path)?, path, &args.checksum)?;
            }
            print(vec![line]);
        }
        _ => {}
    }
    Ok(())
}
