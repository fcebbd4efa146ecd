//! Sessions of browsers: a cookie stands for a member, so that a page need not keep a key.
//!
//! They are rows of the database, as digests of their ids: all hubs on it know them, and they outlive a hub. A session ends when somebody signs out, with
//! the grant or the token that was shown for it, after [`LASTS_UNUSED_MS`] without a request, and after [`LASTS_MS`] in any case.

use http::{HeaderMap, HeaderName, Method, header};
use model::Fault;
use sha2::{Digest, Sha256};
use web::Refused;

use crate::catalogue::refused;
use crate::database::sessions::SessionRow;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// How long a session lasts without a request.
pub const LASTS_UNUSED_MS: i64 = 12 * 3_600_000;
/// How long it lasts at most.
pub const LASTS_MS: i64 = 7 * 24 * 3_600_000;
/// How exactly it is noted when a request came last.
const NOTED_EVERY_MS: i64 = 60_000;

/// What of a request a session depends on.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its method.
    pub method: &'a Method,
    /// The host that it is for, with its port.
    pub host: &'a str,
    /// Its fields.
    pub headers: &'a HeaderMap,
    /// It came over TLS.
    pub is_secure: bool,
}

impl<'a> Asked<'a> {
    /// Of a request's head. HTTP/2 names the host in its target.
    pub fn of(head: &'a http::request::Parts, is_secure: bool) -> Asked<'a> {
        let field = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = head.uri.authority().map(http::uri::Authority::as_str).or(field).unwrap_or_default();
        Asked { method: &head.method, host, headers: &head.headers, is_secure }
    }
}

/// A credential that was shown, as far as a session depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The grant that it is of; empty where it is of none.
    pub grant_id: String,
    /// When it ends by itself, milliseconds since 1970.
    pub ends: Option<i64>,
}

/// Begins a session for a member who has just shown a credential, for no longer than that counts; the field that has a browser keep it.
///
/// # Errors
/// The system gives no random numbers, or the database cannot be written.
pub async fn begin(hub: &HubState, member: &Member, credential: &Shown, asked: Asked<'_>) -> Result<String, Refused> {
    let mut id = [0; 32];
    let filled = auth::trust::provider().secure_random.fill(&mut id);
    filled.map_err(|_| Refused::new(500, "the system gives no random numbers"))?;
    let (id, now) = (model::hex::encode(&id), time::now());
    let row = SessionRow {
        id_sha256: digest(&id),
        owner: member.owner.clone(),
        role: member.role,
        community: member.community.clone(),
        grant_id: credential.grant_id.clone(),
        created: now,
        used: now,
        expires: credential.ends.unwrap_or(i64::MAX).min(now + LASTS_MS),
    };
    hub.database.begin_session(row).await.map_err(refused)?;
    Ok(cookie(asked, Some(&id)))
}

/// Ends the session of a request, if there is one; the field that has a browser forget it.
///
/// # Errors
/// The database cannot be written.
pub async fn end(hub: &HubState, asked: Asked<'_>) -> Result<String, Refused> {
    if let Some(id) = shown(asked) {
        hub.database.end_session(digest(id)).await.map_err(refused)?;
    }
    Ok(cookie(asked, None))
}

/// The member whose session a request shows; none where it shows none that counts.
///
/// # Errors
/// The request changes something and may come from another site's page, or the database cannot be read.
pub async fn member(hub: &HubState, asked: Asked<'_>) -> Result<Option<Member>, Refused> {
    let Some(id) = shown(asked) else { return Ok(None) };
    let now = time::now();
    let row = hub.database.session(&digest(id)).await.map_err(refused)?;
    let Some(row) = row.filter(|row| now < row.expires && now < row.used + LASTS_UNUSED_MS) else { return Ok(None) };
    if !row.grant_id.is_empty() {
        let grant = hub.database.role_grant(&row.grant_id).await.map_err(refused)?;
        if grant.is_none_or(|grant| grant.expires.is_some_and(|at| at <= now)) {
            return Ok(None);
        }
    }
    if !is_own_page(asked) {
        let reason = "a page of another site does not act in this browser's session: open the portal itself";
        return Err(Refused { fault: Some(Fault::Auth), ..Refused::new(403, reason) });
    }
    if now - row.used >= NOTED_EVERY_MS {
        hub.database.use_session(row.id_sha256, now).await.map_err(refused)?;
    }
    Ok(Some(Member { role: row.role, ..Member::user(&row.owner, &row.community) }))
}

fn digest(id: &str) -> String {
    model::hex::encode(&Sha256::digest(id))
}

/// The id of a session that a request shows.
fn shown(asked: Asked<'_>) -> Option<&str> {
    let wanted = name(asked);
    let fields = asked.headers.get_all(header::COOKIE).into_iter().filter_map(|field| field.to_str().ok());
    let pairs = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ids = pairs.filter(|(name, _)| *name == wanted).map(|(_, id)| id);
    // Of two, one may be another's.
    ids.next().filter(|id| id.len() == 64 && ids.next().is_none())
}

/// Whether a request comes from the portal's own pages, or only reads: the cookie itself is sent with no request of another site (`SameSite`).
fn is_own_page(asked: Asked<'_>) -> bool {
    if matches!(*asked.method, Method::GET | Method::HEAD) {
        return true;
    }
    let field = |name: HeaderName| asked.headers.get(name).and_then(|value| value.to_str().ok());
    match field(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => site == "same-origin",
        // A browser of before 2023.
        None => {
            let scheme = if asked.is_secure { "https" } else { "http" };
            field(header::ORIGIN) == Some(&format!("{scheme}://{}", asked.host))
        }
    }
}

/// The cookie's name. Cookies know no ports, and a host may have several hubs.
fn name(asked: Asked<'_>) -> String {
    let port =
        asked.host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()));
    // Browsers keep a name that begins with `__Host-` only where nobody else can have set it.
    match (asked.is_secure, port) {
        (true, port) => format!("__Host-longhaul-hub-{}", port.unwrap_or("443")),
        (false, port) => format!("longhaul-hub-{}", port.unwrap_or("80")),
    }
}

fn cookie(asked: Asked<'_>, id: Option<&str>) -> String {
    let (value, age_s) = id.map_or(("", 0), |id| (id, LASTS_MS / 1000));
    let secure = if asked.is_secure { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}", name(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn one_cookie_of_this_port_counts() {
        let id = "0".repeat(64);
        let shown_by = |cookie: &str, is_secure| {
            let headers = headers(&[("cookie", cookie)]);
            let asked = Asked { method: &Method::GET, host: "h.example:7512", headers: &headers, is_secure };
            shown(asked).map(str::to_owned)
        };
        let own = format!("__Host-longhaul-hub-7512={id}");
        assert_eq!(shown_by(&format!("a=b; {own}"), true), Some(id.clone()));
        assert_eq!(shown_by(&own, false), None);
        assert_eq!(shown_by(&own.replace("7512", "7513"), true), None);
        assert_eq!(shown_by(&format!("{own}; {own}"), true), None, "one of them may be another's");
        assert_eq!(shown_by("__Host-longhaul-hub-7512=1", true), None);
        assert_eq!(shown_by(&format!("longhaul-hub-7512={id}"), false), Some(id));
    }

    #[test]
    fn pages_of_other_sites_change_nothing() {
        let is_own = |method: Method, fields: &[(&'static str, &str)]| {
            is_own_page(Asked { method: &method, host: "h.example", headers: &headers(fields), is_secure: true })
        };
        assert!(is_own(Method::GET, &[("sec-fetch-site", "cross-site")]));
        assert!(is_own(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(is_own(Method::DELETE, &[("origin", "https://h.example")]));
        for fields in [
            [("sec-fetch-site", "cross-site"), ("origin", "https://h.example")].as_slice(),
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://evil.example")],
            &[("origin", "http://h.example")],
            &[],
        ] {
            assert!(!is_own(Method::POST, fields), "{fields:?}");
        }
    }

    #[test]
    fn a_cookie_is_kept_from_scripts_and_other_sites() {
        let asked =
            Asked { method: &Method::POST, host: "h.example:7512", headers: &HeaderMap::new(), is_secure: true };
        assert_eq!(
            cookie(asked, Some("x")),
            "__Host-longhaul-hub-7512=x; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"
        );
        assert!(cookie(asked, None).contains("=; Path=/; Max-Age=0;"));
    }
}
