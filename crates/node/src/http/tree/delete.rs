//! DELETE: a file, or a directory with its content (RFC 4918, section 9.6.1). The principal needs the right to remove each entry.
//! An entry that cannot be removed stays, with the directories above it, and is reported.

use auth::Action;
use model::{Kind, RelPath};
use store::{Overseer, Reached};
use web::dav::Depth;

use super::failures::EntryFailures;
use super::{brief, conditions};
use crate::access::ResolvedPath;
use crate::http::refused::{Outcome, Trouble, refuse, status_in_store};
use crate::http::request_context::RequestContext;

/// Entries between two checks of the client's connection.
const LOOK_EVERY: u32 = 64;

/// Answers DELETE.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(403, "the root cannot be removed")) };
    let reach = context.reach(Action::Remove, &export, &path)?;
    let shown = context.shown();
    if reach.path.is_root() {
        return Err(refuse(403, "the top of an export, or of what a key opens, cannot be removed"));
    }
    // Locked, so that the removed entry is the one that the conditions were evaluated against.
    let turn = context.web.unfinished.turn(&reach);
    conditions(context, &reach)?;
    let stat = reach.store.stat(&reach.path)?;
    if stat.meta.kind != Kind::Dir {
        if context.target.is_dir {
            return Err(refuse(404, format!("{shown} is no directory, as the slash at its end says")));
        }
        context.judge_if()?;
        reach.store.remove(&reach.path)?;
        drop(turn);
        return brief(context, 204);
    }
    context.judge_if()?;
    // The removal of a tree takes time, and the conditions do not cover the entries below.
    drop(turn);
    match Depth::parse(context.request().headers.get("depth")) {
        Ok(Depth::Infinity) => {}
        _ => return Err(refuse(400, "DELETE of a directory has Depth infinity, or none")),
    }
    let stayed = tree(context, &reach, &(export, path))?;
    if stayed.is_empty() { brief(context, 204) } else { stayed.answer(context) }
}

/// Removes a directory with its content; an export may keep directories that are not empty.
pub(super) fn tree(
    context: &RequestContext<'_>,
    reach: &ResolvedPath,
    place: &(String, RelPath),
) -> Outcome<EntryFailures> {
    let (export, path) = place;
    if !context.web.rules.deletes_trees(export) {
        if reach.store.list(&reach.path)?.next().is_some() {
            let why = format!(
                "the directory /{export}/{path} is not empty, and this export keeps such (recursive_delete = false): remove \
                 what is in it first"
            );
            return Err(refuse(409, why));
        }
        reach.store.remove(&reach.path)?;
        return Ok(EntryFailures::default());
    }
    // Checked first: the content of a directory that stays is not removed.
    context.web.rules.locks.may_go_empty(export, path, &context.shown)?;
    let Some(name) = reach.path.name() else { return Err(refuse(403, "the top of what is open stays")) };
    // No link is followed from here on, even if a directory is replaced by one meanwhile.
    let store = store::below_of(&reach.store, &reach.path.parent(), Reached::FreelyThenNoLink)?;
    let mut removal = Removal { context, place, stayed: EntryFailures::default(), entries: 0, broken: None };
    let removed = store::remove_tree(&*store, &RelPath::root().join(&name), &mut removal);
    let Removal { mut stayed, entries, broken, .. } = removal;
    if let Some(broken) = broken {
        return Err(broken);
    }
    stayed.is_partial = entries > 0;
    match removed? {
        false if stayed.is_empty() => Err(refuse(499, "the client hung up before all of the tree was gone")),
        _ => Ok(stayed),
    }
}

/// The removal of a tree for a principal.
struct Removal<'a, 'b> {
    context: &'a RequestContext<'b>,
    place: &'a (String, RelPath),
    stayed: EntryFailures,
    entries: u32,
    /// The failure that ended the removal.
    broken: Option<Trouble>,
}

impl Removal<'_, '_> {
    /// The path in the export of an entry of the store, which is rooted above the tree.
    fn in_export(&self, path: &RelPath) -> RelPath {
        self.place.1.parent().join_path(path)
    }
}

impl Overseer for Removal<'_, '_> {
    fn goes_on(&mut self) -> bool {
        self.entries += 1;
        !self.entries.is_multiple_of(LOOK_EVERY) || !self.context.exchange.is_gone()
    }

    fn may_go(&mut self, path: &RelPath) -> store::Result<()> {
        match self.context.may(Action::Remove, &self.place.0, &self.in_export(path)) {
            Ok(()) => Ok(()),
            Err(Trouble::Refused(_)) => {
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
        self.stayed.add(&self.place.0, &path, status_in_store(&why), why.to_string());
        Ok(())
    }
}
