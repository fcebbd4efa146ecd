//! Changes of the tree: MKCOL and MOVE here, DELETE and COPY within the node in modules of their own.

pub(crate) mod copy;
pub(crate) mod delete;
mod failures;

use auth::Action;
use model::{Kind, RelPath};
use serve::Length;
use web::conditions::Verdict;
use web::{Headers, Response, target};

use self::failures::EntryFailures;
use super::get::{self, current, judge};
use super::refused::{Outcome, Refused, RequestOutcome, refuse};
use super::request_context::{RequestContext, place};
use crate::access::{RENAME_STAYS, ResolvedPath};

/// An answer without a body.
pub(crate) fn brief(context: &mut RequestContext<'_>, status: u16) -> Outcome {
    context.exchange.begin(Response::new(status), Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status, bytes: 0 })
}

/// Evaluates the conditions of the request against the present entry.
fn conditions(context: &RequestContext<'_>, reach: &ResolvedPath) -> Outcome<()> {
    let stat = reach.store.stat(&reach.path).ok();
    match judge(context.request(), false, stat.as_ref().map(current).as_ref()) {
        Verdict::Proceed => Ok(()),
        _ => Err(refuse(412, "what is there is not what If-Match or If-None-Match mean")),
    }
}

/// MKCOL (RFC 4918, section 9.3).
pub(crate) fn mkcol(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "the root is there already")) };
    if context.exchange.body_length() != Some(0) {
        return Err(refuse(415, "MKCOL takes no body"));
    }
    let reach = context.reach(Action::MakeDir, &export, &path)?;
    let shown = context.shown();
    if reach.path.is_root() || get::kind(&reach)?.is_some() {
        return Err(Refused::new(405, format!("{shown} is there already")).with("Allow", web::method::ALLOW).into());
    }
    if !reach.store.is_dir(&reach.path.parent()) {
        return Err(refuse(409, format!("the directory above {shown} is not there")));
    }
    reach.store.make_dir(&reach.path)?;
    brief(context, 201)
}

/// The export and path that `Destination` names on this node, and whether it ends with a slash.
fn destination(context: &RequestContext<'_>) -> Outcome<(String, RelPath, bool)> {
    let text = context.request().headers.get("destination");
    let text = text.ok_or_else(|| refuse(400, "this needs a field Destination: where to"))?;
    let to = target::parse(text).map_err(|e| refuse(e.status(), format!("Destination: {e}")))?;
    if to.authority.is_some() && !web::copy::is_local(text, context.called().unwrap_or_default()) {
        return Err(refuse(502, format!("Destination {} is on another server", target::redacted(text))));
    }
    let (export, path) = place(&to)?.ok_or_else(|| refuse(403, "the root is no place to write to"))?;
    Ok((export, path, to.is_dir))
}

fn may_overwrite(context: &RequestContext<'_>) -> Outcome<bool> {
    match context.request().headers.get("overwrite").map(str::trim) {
        None | Some("T" | "t") => Ok(true),
        Some("F" | "f") => Ok(false),
        Some(other) => Err(refuse(400, format!("Overwrite is T or F, not {other:?}"))),
    }
}

/// The two ends of a MOVE or COPY within this node.
struct SourceAndTarget {
    from: ResolvedPath,
    to: ResolvedPath,
    /// The source's export, and its path there.
    source: (String, RelPath),
    /// The target's export, and its path there.
    place: (String, RelPath),
    /// The target would lie within the source.
    is_within: bool,
}

/// The kinds of the entries at the two ends.
struct EndKinds {
    kind: Kind,
    /// The kind of the entry that the target replaces, if any.
    replaces: Option<Kind>,
}

fn ends(context: &RequestContext<'_>, takes: Action, gives: Action) -> Outcome<SourceAndTarget> {
    let Some((export, path)) = context.place()? else { return Err(refuse(403, "the root stays where it is")) };
    let from = context.reach(takes, &export, &path)?;
    let (to_export, to_path, _) = destination(context)?;
    let to = context.reach(gives, &to_export, &to_path)?;
    if from.path.is_root() || to.path.is_root() {
        return Err(refuse(403, "the top of an export, or of what a key opens, stays where it is"));
    }
    let is_same = to_export == export;
    if is_same && path.starts_with(&to_path) && path != to_path {
        return Err(refuse(403, HOLDS_SOURCE));
    }
    let is_within = is_same && to_path.starts_with(&path);
    Ok(SourceAndTarget { from, to, source: (export, path), place: (to_export, to_path), is_within })
}

/// Looks at both ends, and checks that the request may replace the target.
fn look(context: &RequestContext<'_>, ends: &SourceAndTarget) -> Outcome<EndKinds> {
    let SourceAndTarget { from, to, place, is_within, .. } = ends;
    let kind = get::kind(from)?.ok_or_else(|| refuse(404, format!("{} is not there", context.shown())))?;
    conditions(context, from)?;
    match (*is_within, overlap(from, to)) {
        (true, _) | (_, Overlap::TargetInside) => return Err(refuse(403, "a place cannot come to lie within itself")),
        (_, Overlap::Same) => return Err(refuse(403, "source and target are one and the same")),
        (_, Overlap::SourceInside) => return Err(refuse(403, HOLDS_SOURCE)),
        (_, Overlap::Apart) => {}
    }
    let replaces = get::kind(to)?;
    let may = may_overwrite(context)?;
    if replaces.is_some() {
        if !may {
            return Err(refuse(412, "the target is there already (Overwrite: F)"));
        }
        context.reach(Action::Overwrite, &place.0, &place.1)?;
    }
    if !to.store.is_dir(&to.path.parent()) {
        return Err(refuse(409, "the directory above the target is not there"));
    }
    Ok(EndKinds { kind, replaces })
}

/// Why a target is not replaced that contains the source.
const HOLDS_SOURCE: &str = "the target holds what is to come in its place";

/// Whether source and target overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overlap {
    Apart,
    Same,
    SourceInside,
    TargetInside,
}

/// Whether two paths overlap by the identities of their entries, which links do not hide.
fn overlap(source: &ResolvedPath, target: &ResolvedPath) -> Overlap {
    // For a link both its target and its own directory count.
    let known = |reach: &ResolvedPath| {
        let (itself, dir) = (reach.store.lineage(&reach.path), reach.store.lineage(&reach.path.parent()));
        let above: Vec<_> = itself.above.iter().chain(&dir.above).chain(&dir.itself).copied().collect();
        (itself.itself, above)
    };
    let ((source, above_source), (target, above_target)) = (known(source), known(target));
    match (source, target) {
        (Some(source), Some(target)) if source == target => Overlap::Same,
        (_, Some(target)) if above_source.contains(&target) => Overlap::SourceInside,
        (Some(source), _) if above_target.contains(&source) => Overlap::TargetInside,
        _ => Overlap::Apart,
    }
}

/// Removes the entry that the target replaces (RFC 4918, sections 9.8.4 and 9.9.3), a directory with its content. Returns the
/// entries that could not be removed.
fn clear(context: &RequestContext<'_>, ends: &SourceAndTarget, there: &EndKinds) -> Outcome<EntryFailures> {
    let place = &ends.place;
    // Resolved for the removal: the path of a creation may lead elsewhere by a link.
    let gone = || context.reach(Action::Remove, &place.0, &place.1);
    match there.replaces {
        Some(Kind::Dir) => delete::tree(context, &gone()?, place),
        // A directory cannot replace a file in one step.
        Some(_) if there.kind == Kind::Dir => {
            let gone = gone()?;
            gone.store.remove(&gone.path)?;
            Ok(EntryFailures::default())
        }
        _ => Ok(EntryFailures::default()),
    }
}

/// Checks before the target is removed, as far as possible, that the source can be moved.
fn can_go(context: &RequestContext<'_>, ends: &SourceAndTarget) -> Outcome<()> {
    let (export, path) = &ends.source;
    context.web.rules.locks.may_go(export, path, &context.shown)?;
    let device = |store: &dyn store::Store, path: &RelPath| store.stat(path).map(|stat| stat.identity.0);
    let (from, to) = (&ends.from, &ends.to);
    // A remote server has no devices.
    if from.abroad {
        return Ok(());
    }
    if device(&*from.store, &from.path)? != device(&*to.store, &to.path.parent())? {
        return Err(refuse(502, "source and target are on two file systems: copy and remove instead"));
    }
    Ok(())
}

/// MOVE (RFC 4918, section 9.9).
pub(crate) fn rename(context: &mut RequestContext<'_>) -> Outcome {
    let ends = ends(context, Action::Rename, Action::Rename)?;
    let there = look(context, &ends)?;
    if !ends.from.shares_ground(&ends.to) {
        return Err(refuse(502, RENAME_STAYS));
    }
    can_go(context, &ends)?;
    let stayed = clear(context, &ends, &there)?;
    if !stayed.is_empty() {
        return stayed.answer(context);
    }
    // Locked from the second look to the rename, so that the target does not change in between.
    let turn = context.web.unfinished.turns(&ends.from, &ends.to);
    let still = look(context, &ends)?;
    // The rename replaces only an entry that the second look found, whoever else writes to this directory.
    let replaces = there.replaces.is_some();
    let renamed = ends.from.store.rename(&ends.from.path, &ends.to.path, still.replaces.is_some());
    renamed.map_err(|error| match error {
        store::Error::Exists(_) => refuse(412, "something came into the target's place meanwhile"),
        other => other.into(),
    })?;
    drop(turn);
    brief(context, if replaces { 204 } else { 201 })
}
