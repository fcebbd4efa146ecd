//! COPY within this node (RFC 4918, section 9.8).

use auth::Action;
use model::{Kind, Name, RelPath, Timestamp};
use serve::buffer;
use store::{Extent, FileAnnouncement, Finish, Source, Writes};

use super::failures::EntryFailures;
use super::{EndKinds, SourceAndTarget, brief, check_ends, ends, remove_replaced};
use crate::access::ResolvedPath;
use crate::clock::now;
use crate::dead_properties;
use crate::http::refused::{Outcome, RequestFailure, RequestOutcome, refuse};
use crate::http::request_context::RequestContext;
use crate::new_file;

/// Levels of directories that are copied at once.
const DEPTH_MAX: usize = 256;

/// Answers COPY.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let ends = ends(context, Action::Read, Action::Create)?;
    let shallow = match context.request().headers.get("depth").map(str::trim) {
        Some("0") => true,
        None => false,
        Some(other) if other.eq_ignore_ascii_case("infinity") => false,
        Some(_) => return Err(refuse(400, "COPY has Depth 0 or infinity")),
    };
    let kinds = check_ends(context, &ends)?;
    can_be_copied(&ends, &kinds)?;
    let failures = remove_replaced(context, &ends, &kinds)?;
    if !failures.is_empty() {
        return failures.answer(context);
    }
    let SourceAndTarget { from, to, source, place, .. } = &ends;
    let mut copy = TreeCopy { context, from: &source.0, to: &place.0, bytes: 0, failures };
    let from = StoreEntry { resolved: from, path: from.path.clone() };
    let to = StoreEntry { resolved: to, path: to.path.clone() };
    match kinds.kind {
        Kind::Dir if shallow => {
            to.resolved.store.make_dir(&to.path)?;
            properties(&from, &to);
        }
        Kind::Dir => copy.directory(&from, &to, (&source.1, &place.1), DEPTH_MAX)?,
        _ => copy.bytes += file(context, &from, &to, kinds.replaces.is_some())?,
    }
    let TreeCopy { bytes, mut failures, .. } = copy;
    failures.is_partial = true;
    let status = if kinds.replaces.is_some() { 204 } else { 201 };
    let done = if failures.is_empty() { brief(context, status) } else { failures.answer(context) };
    done.map(|done| RequestOutcome { bytes, ..done })
}

/// Checks before the target is removed, as far as possible, that the source can be read and fits.
fn can_be_copied(ends: &SourceAndTarget, kinds: &EndKinds) -> Outcome<()> {
    let SourceAndTarget { from, to, .. } = ends;
    match kinds.kind {
        Kind::Dir => from.store.list(&from.path).map(drop).map_err(Into::into),
        Kind::Special => Err(refuse(409, "a FIFO, a socket or a device cannot be copied")),
        _ => {
            let size = from.store.open(&from.path)?.stat()?.meta.size;
            Ok(new_file::check_room(&*to.store, &to.path, size)?)
        }
    }
}

/// An entry of a store.
struct StoreEntry<'a> {
    resolved: &'a ResolvedPath,
    path: RelPath,
}

impl StoreEntry<'_> {
    fn join(&self, name: &Name) -> Self {
        StoreEntry { resolved: self.resolved, path: self.path.join(name) }
    }
}

/// A copy of a tree.
struct TreeCopy<'a, 'b> {
    context: &'a RequestContext<'b>,
    /// The exports.
    from: &'a str,
    to: &'a str,
    bytes: u64,
    failures: EntryFailures,
}

impl TreeCopy<'_, '_> {
    /// Copies a directory; `places` are the paths of both ends in their exports. An entry that cannot be copied is reported, and the
    /// others are copied nevertheless.
    fn directory(
        &mut self,
        from: &StoreEntry<'_>,
        to: &StoreEntry<'_>,
        places: (&RelPath, &RelPath),
        levels: usize,
    ) -> Outcome<()> {
        if levels == 0 {
            return Err(refuse(409, format!("directories lie more than {DEPTH_MAX} deep in each other")));
        }
        to.resolved.store.make_dir(&to.path)?;
        properties(from, to);
        let names: Result<Vec<_>, _> = from.resolved.store.list(&from.path)?.finished().collect();
        for (name, stat) in names? {
            let source = from.join(&name);
            let target = to.join(&name);
            let places = (&places.0.join(&name), &places.1.join(&name));
            let may = || {
                self.context.check_allowed(Action::Read, self.from, places.0)?;
                self.context.check_allowed(Action::Create, self.to, places.1)
            };
            let stat = may().and_then(|()| stat.map_err(RequestFailure::from));
            let copied = stat.and_then(|stat| match stat.meta.kind {
                Kind::Dir => self.directory(&source, &target, places, levels - 1),
                Kind::File => file(self.context, &source, &target, false).map(|bytes| self.bytes += bytes),
                Kind::Symlink => symlink(self.context, &source, &target, stat.meta.mtime),
                Kind::Special => Ok(()),
            });
            if let Err(failure) = copied {
                self.failures.note(self.to, places.1, failure)?;
            }
        }
        Ok(())
    }
}

fn symlink(context: &RequestContext<'_>, from: &StoreEntry<'_>, to: &StoreEntry<'_>, mtime: Timestamp) -> Outcome<()> {
    let link_target = from.resolved.store.read_link(&from.path)?;
    let tag = context.service.services.unfinished.tag(to.resolved);
    to.resolved.store.make_symlink(&to.path, &link_target, mtime, false, &tag).map_err(Into::into)
}

/// Copies dead properties (RFC 4918, section 9.8.2); a failure leaves the copy without them.
fn properties(from: &StoreEntry<'_>, to: &StoreEntry<'_>) {
    let kept = dead_properties::copy((&*from.resolved.store, &from.path), (&*to.resolved.store, &to.path));
    if let Err(error) = kept {
        tracing::warn!(%error, "a copy has lost the properties of its source");
    }
}

fn file(context: &RequestContext<'_>, from: &StoreEntry<'_>, to: &StoreEntry<'_>, replace: bool) -> Outcome<u64> {
    let source = from.resolved.store.open(&from.path)?;
    let stat = source.stat()?;
    let size = stat.meta.size;
    new_file::check_room(&*to.resolved.store, &to.path, size)?;
    let resolved = ResolvedPath { path: to.path.clone(), ..to.resolved.clone() };
    let tag = context.service.services.unfinished.tag(&resolved);
    let sink = new_file::UncommittedSink(resolved.store.create(&to.path, &tag)?);
    let now = now();
    sink.0.announce(&FileAnnouncement { size: Some(size), mtime: now, replace })?;
    let with_holes = to.resolved.store.capabilities().writes == Writes::Anywhere;
    copy_data(&*source, size, with_holes, &mut |piece, at| sink.0.write_at(piece, at))?;
    let mode = stat.meta.mode & 0o777;
    sink.0.commit(&Finish { size, mode, mtime: now, durable: false, replace, attributes: None })?;
    properties(from, to);
    Ok(size)
}

/// Copies the bytes of a file, without its holes if those may be left out.
fn copy_data(
    source: &dyn Source,
    size: u64,
    with_holes: bool,
    write: &mut dyn FnMut(&[u8], u64) -> store::Result<()>,
) -> Outcome<()> {
    buffer::with(|buffer| {
        let mut at = 0;
        while at < size {
            let extent = if with_holes { source.extent(at, size)? } else { Extent::Data(size) };
            match extent {
                Extent::Hole(end) => at = end,
                Extent::Data(end) => {
                    let most = (end - at).min(buffer.len() as u64) as usize;
                    let got = source.read_at(&mut buffer[..most], at)?;
                    if got == 0 {
                        return Err(refuse(409, "the source became shorter while it was copied"));
                    }
                    write(&buffer[..got], at)?;
                    at += got as u64;
                }
            }
        }
        Ok(())
    })
}
