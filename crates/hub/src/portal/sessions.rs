//! Browser sessions: a cookie stands for a member, so that a page need not keep a key.
//!
//! Sessions are rows of the database, under digests of their ids: all hubs on the database know them, and they outlive a hub. A session
//! ends when the member signs out, with the grant or the token that it was begun with, after [`IDLE_MAX_MS`] without a request, and
//! after [`LIFETIME_MAX_MS`] at the latest.

use model::Fault;
use sha2::{Digest, Sha256};
use web::Refused;

use crate::catalogue::refused;
use crate::database::sessions::SessionRow;
use crate::portal::cookies::{BrowserRequest, SameSite};
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// The cookie of a session.
const COOKIE: &str = "longhaul-hub";
/// How long a session lasts without a request, milliseconds.
pub const IDLE_MAX_MS: i64 = 12 * 3_600_000;
/// How long a session lasts at most, milliseconds.
pub const LIFETIME_MAX_MS: i64 = 7 * 24 * 3_600_000;
/// The precision with which the time of the last request is recorded, milliseconds.
const RECORD_EVERY_MS: i64 = 60_000;

/// The parts of a credential that a session depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionCredential {
    /// Its grant; empty without one.
    pub grant_id: String,
    /// When it ends by itself, milliseconds since 1970.
    pub ends: Option<i64>,
}

/// Begins a session for a member who has authenticated with a credential; it lasts no longer than the credential. Returns the header field
/// that sets the cookie.
///
/// # Errors
/// The system gives no random numbers, or the database cannot be written.
pub async fn begin(
    hub: &HubState,
    member: &Member,
    credential: &SessionCredential,
    request: BrowserRequest<'_>,
) -> Result<String, Refused> {
    let mut id = [0; 32];
    let filled = auth::trust::provider().secure_random.fill(&mut id);
    filled.map_err(|_| Refused::new(500, "the system gives no random numbers"))?;
    let id = model::hex::encode(&id);
    let now = time::now();
    let row = SessionRow {
        id_sha256: digest(&id),
        owner: member.owner.clone(),
        role: member.role,
        community: member.community.clone(),
        grant_id: credential.grant_id.clone(),
        created: now,
        used: now,
        expires: credential.ends.unwrap_or(i64::MAX).min(now + LIFETIME_MAX_MS),
    };
    hub.database.begin_session(row).await.map_err(refused)?;
    Ok(cookie(request, Some(&id)))
}

/// Ends the session of a request, if there is one. Returns the header field that removes the cookie.
///
/// # Errors
/// The database cannot be written.
pub async fn end(hub: &HubState, request: BrowserRequest<'_>) -> Result<String, Refused> {
    if let Some(id) = session_id(request) {
        hub.database.end_session(digest(id)).await.map_err(refused)?;
    }
    Ok(cookie(request, None))
}

/// The member of a request's session; `None` without a valid session.
///
/// # Errors
/// The request changes something and may come from another site's page, or the database cannot be read.
pub async fn member(hub: &HubState, request: BrowserRequest<'_>) -> Result<Option<Member>, Refused> {
    let Some(id) = session_id(request) else { return Ok(None) };
    let now = time::now();
    let row = hub.database.session(&digest(id)).await.map_err(refused)?;
    let Some(row) = row.filter(|row| now < row.expires && now < row.used + IDLE_MAX_MS) else { return Ok(None) };
    if !row.grant_id.is_empty() {
        let grant = hub.database.role_grant(&row.grant_id).await.map_err(refused)?;
        if grant.is_none_or(|grant| grant.expires.is_some_and(|at| at <= now)) {
            return Ok(None);
        }
    }
    if !request.is_of_own_page() {
        let reason = "a page of another site cannot use the session of this browser: open the portal itself";
        return Err(Refused { fault: Some(Fault::Auth), ..Refused::new(403, reason) });
    }
    if now - row.used >= RECORD_EVERY_MS {
        hub.database.use_session(row.id_sha256, now).await.map_err(refused)?;
    }
    Ok(Some(Member { role: row.role, ..Member::user(&row.owner, &row.community) }))
}

fn digest(id: &str) -> String {
    model::hex::encode(&Sha256::digest(id))
}

/// The id of the session in the cookie of a request.
fn session_id<'a>(request: BrowserRequest<'a>) -> Option<&'a str> {
    request.cookie(COOKIE).filter(|id| id.len() == 64)
}

/// The header field that sets or removes the cookie of a session.
fn cookie(request: BrowserRequest<'_>, id: Option<&str>) -> String {
    request.set_cookie(COOKIE, id.map(|id| (id, LIFETIME_MAX_MS / 1000)), SameSite::Strict)
}
