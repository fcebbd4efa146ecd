//! DELETE: a file, or a directory with all that is in it (RFC 4918, section 9.6.1). Whoever asks may remove each of the things that
//! go; what cannot go stays, with the directories above it, and is told.

use auth::Action;
use model::{Kind, RelPath};
use store::{Overseer, Reached};
use web::dav::Depth;

use super::stayed::Stayed;
use super::{brief, conditions};
use crate::access::ResolvedPath;
use crate::http::refused::{Outcome, Trouble, refuse, status_in_store};
use crate::http::request_context::RequestContext;

/// Entries between two looks at whether the client is still there.
const LOOK_EVERY: u32 = 64;

/// Answers DELETE.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(403, "the root cannot be removed")) };
    let reach = context.reach(Action::Remove, &export, &path)?;
    let shown = context.shown();
    if reach.path.is_root() {
        return Err(refuse(403, "the top of an export, or of what a key opens, cannot be removed"));
    }
    // Others put: what goes is what the conditions were held against.
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
    // A tree takes its time, and its conditions say nothing of what is below.
    drop(turn);
    match Depth::parse(context.request().headers.get("depth")) {
        Ok(Depth::Infinity) => {}
        _ => return Err(refuse(400, "DELETE of a directory has Depth infinity, or none")),
    }
    let stayed = tree(context, &reach, &(export, path))?;
    if stayed.is_empty() { brief(context, 204) } else { stayed.answer(context) }
}

/// Removes a directory with all that is in it; an export may keep those that are not empty.
pub(super) fn tree(context: &RequestContext<'_>, reach: &ResolvedPath, place: &(String, RelPath)) -> Outcome<Stayed> {
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
        return Ok(Stayed::default());
    }
    // Asked first: what is in it does not go for a directory that stays.
    context.web.rules.locks.may_go_empty(export, path, &context.shown)?;
    let Some(name) = reach.path.name() else { return Err(refuse(403, "the top of what is open stays")) };
    // No link is followed from here on, whoever puts one in the place of a directory meanwhile.
    let store = store::below_of(&reach.store, &reach.path.parent(), Reached::FreelyThenNoLink)?;
    let mut removal = Removal { context, place, stayed: Stayed::default(), entries: 0, broken: None };
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
    stayed: Stayed,
    entries: u32,
    /// What ended it.
    broken: Option<Trouble>,
}

impl Removal<'_, '_> {
    /// Where in the export an entry of the store lies, which is rooted above the tree.
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
