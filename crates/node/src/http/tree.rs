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
use super::get::{self, current, evaluate};
use super::refused::{Outcome, Refused, RequestOutcome, refuse};
use super::request_context::{RequestContext, place};
use crate::access::{RENAME_STAYS, ResolvedPath};

/// Sends an answer without a body.
pub(crate) fn brief(context: &mut RequestContext<'_>, status: u16) -> Outcome {
    context.exchange.begin(Response::new(status), Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status, bytes: 0 })
}

/// Evaluates the conditions of the request against the current entry.
fn conditions(context: &RequestContext<'_>, resolved: &ResolvedPath) -> Outcome<()> {
    let stat = resolved.store.stat(&resolved.path).ok();
    match evaluate(context.request(), false, stat.as_ref().map(current).as_ref()) {
        Verdict::Proceed => Ok(()),
        _ => Err(refuse(412, "If-Match or If-None-Match does not hold for the current entry")),
    }
}

/// MKCOL (RFC 4918, section 9.3).
pub(crate) fn mkcol(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "the root exists already")) };
    if context.exchange.body_length() != Some(0) {
        return Err(refuse(415, "MKCOL takes no body"));
    }
    let resolved = context.resolve(Action::MakeDir, &export, &path)?;
    let shown = context.shown_target();
    if resolved.path.is_root() || get::kind(&resolved)?.is_some() {
        return Err(Refused::new(405, format!("{shown} exists already")).with("Allow", web::method::ALLOW).into());
    }
    if !resolved.store.is_dir(&resolved.path.parent()) {
        return Err(refuse(409, format!("the parent directory of {shown} does not exist")));
    }
    resolved.store.make_dir(&resolved.path)?;
    brief(context, 201)
}

/// The export and path that `Destination` names on this node, and whether it ends with a slash.
fn destination(context: &RequestContext<'_>) -> Outcome<(String, RelPath, bool)> {
    let text = context.request().headers.get("destination");
    let text = text.ok_or_else(|| refuse(400, "the field Destination is missing"))?;
    let to = target::parse(text).map_err(|e| refuse(e.status(), format!("Destination: {e}")))?;
    if to.authority.is_some() && !web::copy::is_local(text, context.authority().unwrap_or_default()) {
        return Err(refuse(502, format!("Destination {} is on another server", target::redacted(text))));
    }
    let (export, path) = place(&to)?.ok_or_else(|| refuse(403, "the root cannot be written to"))?;
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

/// Resolves both ends of a MOVE or COPY: the source for `source_action`, the target for `target_action`.
fn ends(context: &RequestContext<'_>, source_action: Action, target_action: Action) -> Outcome<SourceAndTarget> {
    let Some((export, path)) = context.place()? else { return Err(refuse(403, "the root stays where it is")) };
    let from = context.resolve(source_action, &export, &path)?;
    let (to_export, to_path, _) = destination(context)?;
    let to = context.resolve(target_action, &to_export, &to_path)?;
    if from.path.is_root() || to.path.is_root() {
        return Err(refuse(403, "the root of an export, or of the part that a key opens, cannot be moved or replaced"));
    }
    let is_same = to_export == export;
    if is_same && path.starts_with(&to_path) && path != to_path {
        return Err(refuse(403, HOLDS_SOURCE));
    }
    let is_within = is_same && to_path.starts_with(&path);
    Ok(SourceAndTarget { from, to, source: (export, path), place: (to_export, to_path), is_within })
}

/// Checks that neither end lies within the other, and that the request may replace the target. Returns the kinds of both entries.
fn check_ends(context: &RequestContext<'_>, ends: &SourceAndTarget) -> Outcome<EndKinds> {
    let SourceAndTarget { from, to, place, is_within, .. } = ends;
    let kind = get::kind(from)?.ok_or_else(|| refuse(404, format!("{} is not there", context.shown_target())))?;
    conditions(context, from)?;
    match (*is_within, overlap(from, to)) {
        (true, _) | (_, Overlap::TargetInside) => return Err(refuse(403, "the target lies within the source")),
        (_, Overlap::Same) => return Err(refuse(403, "source and target are the same entry")),
        (_, Overlap::SourceInside) => return Err(refuse(403, HOLDS_SOURCE)),
        (_, Overlap::Apart) => {}
    }
    let replaces = get::kind(to)?;
    let overwrite = may_overwrite(context)?;
    if replaces.is_some() {
        if !overwrite {
            return Err(refuse(412, "the target exists already (Overwrite: F)"));
        }
        context.resolve(Action::Overwrite, &place.0, &place.1)?;
    }
    if !to.store.is_dir(&to.path.parent()) {
        return Err(refuse(409, "the parent directory of the target does not exist"));
    }
    Ok(EndKinds { kind, replaces })
}

/// The reason for the refusal to replace a target that contains the source.
const HOLDS_SOURCE: &str = "the source lies within the target, which it would replace";

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
    let lineage = |resolved: &ResolvedPath| {
        let (itself, dir) = (resolved.store.lineage(&resolved.path), resolved.store.lineage(&resolved.path.parent()));
        let above: Vec<_> = itself.above.iter().chain(&dir.above).chain(&dir.itself).copied().collect();
        (itself.itself, above)
    };
    let (source, above_source) = lineage(source);
    let (target, above_target) = lineage(target);
    match (source, target) {
        (Some(source), Some(target)) if source == target => Overlap::Same,
        (_, Some(target)) if above_source.contains(&target) => Overlap::SourceInside,
        (Some(source), _) if above_target.contains(&source) => Overlap::TargetInside,
        _ => Overlap::Apart,
    }
}

/// Removes the entry that the target replaces (RFC 4918, sections 9.8.4 and 9.9.3), a directory with its content. Returns the
/// entries that could not be removed.
fn remove_replaced(context: &RequestContext<'_>, ends: &SourceAndTarget, kinds: &EndKinds) -> Outcome<EntryFailures> {
    let place = &ends.place;
    // Resolved for the removal: the path of a creation may lead elsewhere by a link.
    let replaced = || context.resolve(Action::Remove, &place.0, &place.1);
    match kinds.replaces {
        Some(Kind::Dir) => delete::tree(context, &replaced()?, place),
        // A directory cannot replace a file in one step.
        Some(_) if kinds.kind == Kind::Dir => {
            let replaced = replaced()?;
            replaced.store.remove(&replaced.path)?;
            Ok(EntryFailures::default())
        }
        _ => Ok(EntryFailures::default()),
    }
}

/// Checks before the target is removed, as far as possible, that the source can be moved.
fn can_be_moved(context: &RequestContext<'_>, ends: &SourceAndTarget) -> Outcome<()> {
    let (export, path) = &ends.source;
    context.service.access_control.locks.may_remove(export, path, &context.submitted)?;
    let device = |store: &dyn store::Store, path: &RelPath| store.stat(path).map(|stat| stat.identity.0);
    let (from, to) = (&ends.from, &ends.to);
    // A remote server has no devices.
    if from.is_remote {
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
    let kinds = check_ends(context, &ends)?;
    if !ends.from.shares_root(&ends.to) {
        return Err(refuse(502, RENAME_STAYS));
    }
    can_be_moved(context, &ends)?;
    let failures = remove_replaced(context, &ends, &kinds)?;
    if !failures.is_empty() {
        return failures.answer(context);
    }
    // Locked from the second check to the rename, so that the target does not change in between.
    let name_locks = context.service.services.unfinished.lock_names(&ends.from, &ends.to);
    let second = check_ends(context, &ends)?;
    // The rename replaces only an entry that the second check found, whoever else writes to this directory.
    let replaces = kinds.replaces.is_some();
    let renamed = ends.from.store.rename(&ends.from.path, &ends.to.path, second.replaces.is_some());
    renamed.map_err(|error| match error {
        store::Error::Exists(_) => refuse(412, "another entry has been created at the target meanwhile"),
        other => other.into(),
    })?;
    drop(name_locks);
    brief(context, if replaces { 204 } else { 201 })
}
