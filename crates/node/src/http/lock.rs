//! LOCK and UNLOCK (RFC 4918, sections 9.10 and 9.11). [`crate::locks`] holds the locks and enforces them.

use auth::Action;
use model::id::JobId;
use model::{Kind, RelPath, Timestamp};
use store::Finish;
use web::dav::{self, Depth, condition, lock as document};
use web::{Headers, Response, target};

use super::refused::{Outcome, Refused, RequestFailure, refuse};
use super::request_context::RequestContext;
use super::text::Text;
use super::tree::brief;
use super::{get, now, put};
use crate::access::ResolvedPath;
use crate::http::short_body::read_short_body;
use crate::locks::{self, LONGEST, Lock, OWNER_BYTES_MAX, SubmittedLocks};
use crate::new_file;

/// A lock in the form of documents.
pub(super) fn active(lock: Lock) -> document::ActiveLock {
    let top = RelPath::parse(lock.export.as_bytes()).unwrap_or_else(|_| RelPath::root());
    document::ActiveLock {
        scope: lock.scope,
        is_deep: lock.is_deep,
        left: lock.left(),
        owner: lock.owner,
        token: lock.token,
        root: target::location("", &top.join_path(&lock.path), false, None),
    }
}

/// Answers LOCK: takes a new lock, or, without a body, prolongs an existing one.
pub(crate) fn lock(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(403, "the root cannot be locked")) };
    let (kind, resolved) = resolved(context, &export, &path)?;
    let body = read_short_body(context.exchange, dav::BODY_BYTES_MAX, "a LOCK")?;
    let wanted = document::parse(&body).map_err(|e| refuse(e.status(), e.to_string()))?;
    let span = document::timeout(context.request().headers.get("timeout")).unwrap_or(LONGEST).min(LONGEST);
    let Some(wanted) = wanted else { return refresh(context, &export, &path, span) };
    if wanted.owner.len() > OWNER_BYTES_MAX {
        return Err(refuse(413, format!("the owner of a lock has at most {OWNER_BYTES_MAX} bytes")));
    }
    let is_deep = match Depth::parse(context.request().headers.get("depth")) {
        Ok(Depth::Zero) => false,
        Ok(Depth::Infinity) => true,
        _ => return Err(refuse(400, "LOCK has Depth 0 or infinity")),
    };
    let name_lock = context.service.services.unfinished.lock_name(&resolved);
    let is_made = kind.is_none();
    if is_made {
        make_empty(context, &resolved)?;
    }
    let token = format!("urn:uuid:{}", JobId::random().0);
    let seconds = i64::try_from(span.as_secs()).unwrap_or(0);
    let expires = now().seconds.saturating_add(seconds);
    let lock = Lock {
        token: token.clone(),
        export: export.clone(),
        path: path.clone(),
        scope: wanted.scope,
        // Nothing lies below a file.
        is_deep: is_deep && kind == Some(Kind::Dir),
        owner: wanted.owner,
        holder: context.access().holder().to_owned(),
        expires,
    };
    if let Err(why) = context.service.access_control.locks.take(lock.clone()) {
        if is_made && let Err(error) = resolved.store.remove(&resolved.path) {
            tracing::warn!(%error, "the empty file that was created for a lock cannot be removed");
        }
        return Err(refused(context, why));
    }
    drop(name_lock);
    let status = if is_made { 201 } else { 200 };
    let headers = Headers::new().with("Lock-Token", format!("<{token}>"));
    send_locks(context, status, headers, vec![lock])
}

/// Resolves the path of a lock: an existing entry that the principal may overwrite, or a free name that it may create.
fn resolved(context: &RequestContext<'_>, export: &str, path: &RelPath) -> Outcome<(Option<Kind>, ResolvedPath)> {
    let existing =
        context.resolve(Action::Overwrite, export, path).and_then(|resolved| Ok((get::kind(&resolved)?, resolved)));
    match existing {
        Ok((Some(kind), resolved)) => Ok((Some(kind), resolved)),
        // A failed condition (`If`) is not a matter of rights.
        Err(RequestFailure::Refused(refused)) if !matches!(refused.status, 401 | 403 | 404) => Err(refused.into()),
        _ => Ok((None, context.resolve(Action::Create, export, path)?)),
    }
}

fn refresh(context: &mut RequestContext<'_>, export: &str, path: &RelPath, span: std::time::Duration) -> Outcome {
    let refreshed = context.service.access_control.locks.refresh(export, path, &context.submitted, span);
    let lock = refreshed.ok_or_else(|| {
        refuse(412, "If names no lock of yours on this path; to take a new lock, send a body that describes it")
    })?;
    send_locks(context, 200, Headers::new(), vec![lock])
}

/// Creates the empty file of a lock on a free name (RFC 4918, section 7.3).
fn make_empty(context: &RequestContext<'_>, resolved: &ResolvedPath) -> Outcome<()> {
    if resolved.path.is_root() {
        return Err(refuse(403, "the root of what your credential opens cannot be created"));
    }
    if !resolved.store.is_dir(&resolved.path.parent()) {
        return Err(refuse(409, format!("the parent directory of {} does not exist", context.shown_target())));
    }
    let begun = put::begin(context, resolved, Some(0))?;
    let mtime: Timestamp = now();
    let finish = Finish { size: 0, mode: new_file::FILE_MODE, mtime, durable: false, replace: false, attributes: None };
    begun.0.commit(&finish).map_err(Into::into)
}

fn refused(context: &RequestContext<'_>, why: locks::LockRefused) -> RequestFailure {
    match why {
        locks::LockRefused::Full => Refused::new(503, "this node holds as many locks as it can, or as many of yours")
            .with("Retry-After", "60")
            .into(),
        locks::LockRefused::Conflict(other) => {
            let root = active(*other).root;
            let body = format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:no-conflicting-lock><D:href>{}</D:href>\
                 </D:no-conflicting-lock></D:error>\n",
                web::markup::text(&root)
            );
            tracing::debug!(target = context.shown_target(), root, "another lock conflicts");
            Refused::new(423, body).with("Content-Type", dav::multistatus::CONTENT_TYPE).into()
        }
    }
}

fn send_locks(context: &mut RequestContext<'_>, status: u16, headers: Headers, locks: Vec<Lock>) -> Outcome {
    let text = document::answer(&locks.into_iter().map(active).collect::<Vec<_>>());
    let headers = headers.with("Content-Type", dav::multistatus::CONTENT_TYPE).with("Cache-Control", "no-store");
    Ok(Text::send(context.exchange, Response { headers, ..Response::new(status) }, text.as_bytes())?)
}

/// Answers UNLOCK.
pub(crate) fn unlock(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(403, "the root cannot be locked")) };
    // The creator of a file under a lock may lack the right to overwrite.
    resolved(context, &export, &path)?;
    let token = context.request().headers.get("lock-token").and_then(condition::lock_token).map(str::to_owned);
    let token = token.ok_or_else(|| refuse(400, "UNLOCK names the lock: Lock-Token: <URI>"))?;
    let covering = context.service.access_control.locks.covering(&export, &path);
    let Some(lock) = covering.into_iter().find(|lock| lock.token == token) else {
        return Err(refuse(409, format!("no lock with this token holds {}", context.shown_target())));
    };
    let submitted = SubmittedLocks { holder: context.access().holder().to_owned(), tokens: vec![token] };
    if lock.holder != submitted.holder || !context.service.access_control.locks.release(&export, &path, &submitted) {
        return Err(refuse(403, "the lock belongs to another client"));
    }
    brief(context, 204)
}
