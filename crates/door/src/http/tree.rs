//! Changes of the tree: MKCOL, DELETE, MOVE, and COPY from one place here to another.

use auth::Action;
use model::{Kind, RelPath};
use store::{Coming, Extent, Finish, Source, Writes};
use web::conditions::Verdict;
use web::{Headers, Response, target};

use super::exchange::Length;
use super::get::{self, current, judge};
use super::refused::{Done, Outcome, Refused, refuse};
use super::visit::{Visit, place};
use super::{buffer, put};
use crate::host::{RENAME_STAYS, Reach};

/// Levels of directories that are copied or removed at once.
const DEPTH_MAX: usize = 256;

/// An answer without a body.
pub(crate) fn brief(visit: &mut Visit<'_>, status: u16) -> Outcome {
    visit.exchange.begin(Response::new(status), Length::Known(0))?;
    visit.exchange.end(&Headers::new())?;
    Ok(Done { status, bytes: 0 })
}

/// What is there has to be what the conditions of the request mean.
fn conditions(visit: &Visit<'_>, reach: &Reach) -> Outcome<()> {
    let stat = reach.store.stat(&reach.path).ok();
    match judge(visit.request(), false, stat.as_ref().map(current).as_ref()) {
        Verdict::Proceed => Ok(()),
        _ => Err(refuse(412, "what is there is not what If-Match or If-None-Match mean")),
    }
}

/// MKCOL (RFC 4918, section 9.3).
pub(crate) fn mkcol(visit: &mut Visit<'_>) -> Outcome {
    let Some((export, path)) = visit.place()? else { return Err(refuse(405, "the root is there already")) };
    if visit.exchange.body_length() != Some(0) {
        return Err(refuse(415, "MKCOL takes no body"));
    }
    let reach = visit.reach(Action::MakeDir, &export, &path)?;
    let shown = visit.shown();
    if reach.path.is_root() || get::kind(&reach)?.is_some() {
        return Err(Refused::new(405, format!("{shown} is there already")).with("Allow", web::method::ALLOW).into());
    }
    if !reach.store.is_dir(&reach.path.parent()) {
        return Err(refuse(409, format!("the directory above {shown} is not there")));
    }
    reach.store.make_dir(&reach.path)?;
    brief(visit, 201)
}

/// DELETE. A directory that is not empty goes only where the request says so in so many words (`Depth: infinity`): what RFC
/// 4918 would remove without a question cannot be taken twice.
pub(crate) fn delete(visit: &mut Visit<'_>) -> Outcome {
    let Some((export, path)) = visit.place()? else { return Err(refuse(403, "the root cannot be removed")) };
    let reach = visit.reach(Action::Remove, &export, &path)?;
    let shown = visit.shown();
    if reach.path.is_root() {
        return Err(refuse(403, "the top of an export, or of what a key opens, cannot be removed"));
    }
    // Others put: what goes is what the conditions were held against.
    let turn = visit.web.unfinished.turn(&reach);
    conditions(visit, &reach)?;
    let stat = reach.store.stat(&reach.path)?;
    if visit.target.is_dir && stat.meta.kind != Kind::Dir {
        return Err(refuse(404, format!("{shown} is no directory, as the slash at its end says")));
    }
    let all = visit.request().headers.get("depth").is_some_and(|depth| depth.eq_ignore_ascii_case("infinity"));
    if stat.meta.kind == Kind::Dir && !all && reach.store.list(&reach.path)?.next().is_some() {
        let how = "remove what is in it first, or say `Depth: infinity` to remove all of it";
        return Err(refuse(409, format!("the directory {shown} is not empty; {how}")));
    }
    if all && stat.meta.kind == Kind::Dir {
        // A tree takes its time, and its conditions say nothing of what is below.
        drop(turn);
        store::remove_all(&*reach.store, &reach.path)?;
    } else {
        reach.store.remove(&reach.path)?;
        drop(turn);
    }
    brief(visit, 204)
}

/// Where `Destination` points, on this node.
fn destination(visit: &Visit<'_>) -> Outcome<(String, RelPath, bool)> {
    let text = visit.request().headers.get("destination");
    let text = text.ok_or_else(|| refuse(400, "this needs a field Destination: where to"))?;
    let to = target::parse(text).map_err(|e| refuse(e.status(), format!("Destination: {e}")))?;
    if to.authority.is_some() && !web::copy::is_local(text, visit.called().unwrap_or_default()) {
        return Err(refuse(502, format!("Destination {} is on another server", target::redacted(text))));
    }
    let (export, path) = place(&to)?.ok_or_else(|| refuse(403, "the root is no place to write to"))?;
    Ok((export, path, to.is_dir))
}

fn may_overwrite(visit: &Visit<'_>) -> Outcome<bool> {
    match visit.request().headers.get("overwrite").map(str::trim) {
        None | Some("T" | "t") => Ok(true),
        Some("F" | "f") => Ok(false),
        Some(other) => Err(refuse(400, format!("Overwrite is T or F, not {other:?}"))),
    }
}

/// The two ends of a MOVE or COPY within this node.
struct Ends {
    from: Reach,
    to: Reach,
    /// The target's export, and its path there.
    place: (String, RelPath),
    /// The target would lie within what goes there.
    is_within: bool,
}

/// What is at the two ends.
struct There {
    kind: Kind,
    /// What is in the target's place.
    replaces: Option<Kind>,
}

fn ends(visit: &Visit<'_>, takes: Action, gives: Action) -> Outcome<Ends> {
    let Some((export, path)) = visit.place()? else { return Err(refuse(403, "the root stays where it is")) };
    let from = visit.reach(takes, &export, &path)?;
    let (to_export, to_path, _) = destination(visit)?;
    let to = visit.reach(gives, &to_export, &to_path)?;
    if from.path.is_root() || to.path.is_root() {
        return Err(refuse(403, "the top of an export, or of what a key opens, stays where it is"));
    }
    let is_within = to_export == export && to_path.starts_with(&path);
    Ok(Ends { from, to, place: (to_export, to_path), is_within })
}

/// Looks at both ends, and whether the request may do what it means there.
fn look(visit: &Visit<'_>, ends: &Ends) -> Outcome<There> {
    let Ends { from, to, place, is_within } = ends;
    let kind = get::kind(from)?.ok_or_else(|| refuse(404, format!("{} is not there", visit.shown())))?;
    conditions(visit, from)?;
    if *is_within {
        return Err(refuse(403, "a place cannot come to lie within itself"));
    }
    let replaces = get::kind(to)?;
    let may = may_overwrite(visit)?;
    if replaces.is_some() {
        if !may {
            return Err(refuse(412, "the target is there already (Overwrite: F)"));
        }
        visit.reach(Action::Overwrite, &place.0, &place.1)?;
    }
    if !to.store.is_dir(&to.path.parent()) {
        return Err(refuse(409, "the directory above the target is not there"));
    }
    Ok(There { kind, replaces })
}

/// Makes room for what comes in its place: a directory there goes only if it is empty.
fn clear(to: &Reach, there: &There) -> Outcome<()> {
    match there.replaces {
        Some(Kind::Dir) => to.store.remove(&to.path).map_err(Into::into),
        // A directory cannot come in the place of a file in one step.
        Some(_) if there.kind == Kind::Dir => to.store.remove(&to.path).map_err(Into::into),
        _ => Ok(()),
    }
}

/// MOVE (RFC 4918, section 9.9).
pub(crate) fn rename(visit: &mut Visit<'_>) -> Outcome {
    let ends = ends(visit, Action::Rename, Action::Rename)?;
    // From the look to the rename: others put, and what was seen of the target is to hold for as long.
    let turn = visit.web.unfinished.turns(&ends.from, &ends.to);
    let there = look(visit, &ends)?;
    if !ends.from.shares_ground(&ends.to) {
        return Err(refuse(502, RENAME_STAYS));
    }
    clear(&ends.to, &there)?;
    // Where nothing was to be replaced nothing is, whoever else writes to this directory.
    let replaces = there.replaces.is_some();
    let renamed = ends.from.store.rename(&ends.from.path, &ends.to.path, replaces);
    renamed.map_err(|error| match error {
        store::Error::Exists(_) => refuse(412, "something came into the target's place meanwhile"),
        other => other.into(),
    })?;
    drop(turn);
    brief(visit, if replaces { 204 } else { 201 })
}

/// COPY from one place here to another (RFC 4918, section 9.8).
pub(crate) fn copy(visit: &mut Visit<'_>) -> Outcome {
    let ends = ends(visit, Action::Read, Action::Create)?;
    let shallow = match visit.request().headers.get("depth").map(str::trim) {
        Some("0") => true,
        None => false,
        Some(other) if other.eq_ignore_ascii_case("infinity") => false,
        Some(_) => return Err(refuse(400, "COPY has Depth 0 or infinity")),
    };
    let there = look(visit, &ends)?;
    clear(&ends.to, &there)?;
    let (Ends { from, to, .. }, There { kind, replaces }) = (&ends, &there);
    let bytes = match kind {
        Kind::Dir if shallow => to.store.make_dir(&to.path).map(|()| 0)?,
        Kind::Dir => directory(visit, (from, &from.path), (to, &to.path), DEPTH_MAX)?,
        _ => file(visit, (from, &from.path), (to, &to.path), replaces.is_some())?,
    };
    brief(visit, if replaces.is_some() { 204 } else { 201 }).map(|done| Done { bytes, ..done })
}

fn directory(visit: &Visit<'_>, from: (&Reach, &RelPath), to: (&Reach, &RelPath), levels: usize) -> Outcome<u64> {
    if levels == 0 {
        return Err(refuse(409, format!("directories lie more than {DEPTH_MAX} deep in each other")));
    }
    to.0.store.make_dir(to.1)?;
    let mut bytes = 0;
    let names: Result<Vec<_>, _> = from.0.store.list(from.1)?.finished().collect();
    for (name, stat) in names? {
        let (below, there) = (from.1.join(&name), to.1.join(&name));
        let stat = stat?;
        bytes += match stat.meta.kind {
            Kind::Dir => directory(visit, (from.0, &below), (to.0, &there), levels - 1)?,
            Kind::File => file(visit, (from.0, &below), (to.0, &there), false)?,
            Kind::Symlink => {
                let leads = from.0.store.read_link(&below)?;
                let tag = visit.web.unfinished.tag(to.0);
                to.0.store.make_symlink(&there, &leads, stat.meta.mtime, false, &tag).map(|()| 0)?
            }
            Kind::Special => 0,
        };
    }
    Ok(bytes)
}

fn file(visit: &Visit<'_>, from: (&Reach, &RelPath), to: (&Reach, &RelPath), replace: bool) -> Outcome<u64> {
    let source = from.0.store.open(from.1)?;
    let stat = source.stat()?;
    let size = stat.meta.size;
    put::room(&*to.0.store, to.1, size)?;
    let reach = Reach { path: to.1.clone(), ..to.0.clone() };
    let tag = visit.web.unfinished.tag(&reach);
    let sink = put::Unfinished(reach.store.create(to.1, &tag)?);
    let now = super::now();
    sink.0.announce(&Coming { size: Some(size), mtime: now, replace })?;
    let with_holes = to.0.store.capabilities().writes == Writes::Anywhere;
    pour(&*source, size, with_holes, &mut |piece, at| sink.0.write_at(piece, at))?;
    let (mode, mtime) = (stat.meta.mode & 0o777, now);
    sink.0.commit(&Finish { size, mode, mtime, durable: false, replace, attributes: None })?;
    Ok(size)
}

/// The bytes of a file, without its holes where those may be left out.
fn pour(
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
