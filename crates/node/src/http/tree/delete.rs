//! DELETE: a file, or a directory with its content (RFC 4918, section 9.6.1). The principal needs the right to remove each entry.
//! An entry that cannot be removed stays, with the directories above it, and is reported.

use auth::Action;
use model::{Kind, RelPath};
use store::{Overseer, PathRules};
use web::dav::Depth;

use super::failures::EntryFailures;
use super::{brief, conditions};
use crate::access::ResolvedPath;
use crate::http::refused::{Outcome, RequestFailure, refuse, status_in_store};
use crate::http::request_context::RequestContext;

/// Entries between two checks of the client's connection.
const CHECK_EVERY: u32 = 64;

/// Answers DELETE.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(403, "the root cannot be removed")) };
    let resolved = context.resolve(Action::Remove, &export, &path)?;
    let shown = context.shown_target();
    if resolved.path.is_root() {
        return Err(refuse(403, "the root of an export, or of the part that a key opens, cannot be removed"));
    }
    // Locked, so that the removed entry is the one that the conditions were evaluated against.
    let name_lock = context.service.services.unfinished.lock_name(&resolved);
    conditions(context, &resolved)?;
    let stat = resolved.store.stat(&resolved.path)?;
    if stat.meta.kind != Kind::Dir {
        if context.target.is_dir {
            return Err(refuse(404, format!("{shown} is not a directory, but the path ends with a slash")));
        }
        context.evaluate_if()?;
        resolved.store.remove(&resolved.path)?;
        drop(name_lock);
        return brief(context, 204);
    }
    context.evaluate_if()?;
    // The removal of a tree takes time, and the conditions do not cover the entries below.
    drop(name_lock);
    match Depth::parse(context.request().headers.get("depth")) {
        Ok(Depth::Infinity) => {}
        _ => return Err(refuse(400, "DELETE of a directory has Depth infinity, or none")),
    }
    let failures = tree(context, &resolved, &(export, path))?;
    if failures.is_empty() { brief(context, 204) } else { failures.answer(context) }
}

/// Removes a directory with its content, or only an empty one if the export is configured so.
pub(super) fn tree(
    context: &RequestContext<'_>,
    resolved: &ResolvedPath,
    place: &(String, RelPath),
) -> Outcome<EntryFailures> {
    let (export, path) = place;
    if !context.service.access_control.deletes_trees(export) {
        if resolved.store.list(&resolved.path)?.next().is_some() {
            let why = format!(
                "the directory /{export}/{path} is not empty, and this export removes only empty ones \
                 (recursive_delete = false): remove its entries first"
            );
            return Err(refuse(409, why));
        }
        resolved.store.remove(&resolved.path)?;
        return Ok(EntryFailures::default());
    }
    // Checked first: the content of a directory that stays is not removed.
    context.service.access_control.locks.may_remove_entry(export, path, &context.submitted)?;
    let Some(name) = resolved.path.name() else {
        return Err(refuse(403, "the root of what your credential opens cannot be removed"));
    };
    // No link is followed from here on, even if a directory is replaced by one meanwhile.
    let store = store::below_of(&resolved.store, &resolved.path.parent(), PathRules::FreelyThenNoLink)?;
    let mut removal = Removal { context, place, failures: EntryFailures::default(), entries: 0, broken: None };
    let removed = store::remove_tree(&*store, &RelPath::root().join(&name), &mut removal);
    let Removal { mut failures, entries, broken, .. } = removal;
    if let Some(broken) = broken {
        return Err(broken);
    }
    failures.is_partial = entries > 0;
    match removed? {
        false if failures.is_empty() => Err(refuse(499, "the client hung up before the whole tree was removed")),
        _ => Ok(failures),
    }
}

/// The removal of a tree for a principal.
struct Removal<'a, 'b> {
    context: &'a RequestContext<'b>,
    place: &'a (String, RelPath),
    failures: EntryFailures,
    entries: u32,
    /// The failure that ended the removal.
    broken: Option<RequestFailure>,
}

impl Removal<'_, '_> {
    /// The path in the export of an entry of the store, which is rooted above the tree.
    fn in_export(&self, path: &RelPath) -> RelPath {
        self.place.1.parent().join_path(path)
    }
}

impl Overseer for Removal<'_, '_> {
    fn continues(&mut self) -> bool {
        self.entries += 1;
        !self.entries.is_multiple_of(CHECK_EVERY) || !self.context.exchange.is_closed_by_peer()
    }

    fn may_remove(&mut self, path: &RelPath) -> store::Result<()> {
        match self.context.check_allowed(Action::Remove, &self.place.0, &self.in_export(path)) {
            Ok(()) => Ok(()),
            Err(RequestFailure::Refused(_)) => {
                Err(store::Error::io("remove", path, std::io::Error::from(std::io::ErrorKind::PermissionDenied)))
            }
            Err(broken) => {
                self.broken = Some(broken);
                Err(store::Error::io("remove", path, std::io::Error::from(std::io::ErrorKind::Interrupted)))
            }
        }
    }

    fn stays(&mut self, path: &RelPath, why: store::Error) -> store::Result<()> {
        if self.broken.is_some() {
            return Err(why);
        }
        let path = self.in_export(path);
        self.failures.add(&self.place.0, &path, status_in_store(&why), why.to_string());
        Ok(())
    }
}
