//! Sessions of browsers: a cookie stands for a credential that a user entered into a form, so that links need not contain it. The
//! service keeps the credential only in memory.
//!
//! A cookie is accepted for reading, and for the service's own forms. All other requests need the credential itself, so that no other site
//! can make a browser send them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use web::{Headers, Method, Request, form};

/// The most sessions; beyond that the least recently used one ends.
const SESSIONS_MAX: usize = 4_096;
/// The most sessions with the same credential.
const SESSIONS_PER_CREDENTIAL_MAX: usize = 64;
/// The most bytes of a credential.
const CREDENTIAL_BYTES_MAX: usize = 8 << 10;
/// The time without a request after which a session ends.
const IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// The query that marks a form of the service: forms are sent to their page with this query.
pub const FORM_QUERY: &str = "form";

struct Session {
    credential: String,
    used: Instant,
}

/// The sessions of browsers with a service.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock()
    }

    /// Opens a session with a credential. Returns its id; `None` where the credential is too long, or the system gives no random
    /// numbers.
    pub fn open(&self, credential: String) -> Option<String> {
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return None;
        }
        let id = auth::hex(&random_id()?);
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.used.elapsed() < IDLE_MAX);
        make_room(&mut sessions, SESSIONS_PER_CREDENTIAL_MAX, |session| session.credential == credential);
        make_room(&mut sessions, SESSIONS_MAX, |_| true);
        sessions.insert(id.clone(), Session { credential, used: Instant::now() });
        Some(id)
    }

    /// The credential of the session of a request, where a cookie is accepted for such a request.
    pub fn credential(&self, request: &Request, is_secure: bool) -> Option<String> {
        let is_read = matches!(request.method, Method::Get | Method::Head);
        if !is_read && !is_form(request) {
            return None;
        }
        let id = form::cookie(&request.headers, &name(&request.headers, is_secure))?;
        let mut sessions = self.lock();
        let session = sessions.get_mut(id).filter(|session| session.used.elapsed() < IDLE_MAX)?;
        session.used = Instant::now();
        Some(session.credential.clone())
    }

    /// Ends the session of a request.
    pub fn close(&self, request: &Request, is_secure: bool) {
        if let Some(id) = form::cookie(&request.headers, &name(&request.headers, is_secure)) {
            self.lock().remove(id);
        }
    }
}

/// 24 random bytes; `None` where the system gives none.
fn random_id() -> Option<[u8; 24]> {
    let mut id = [0; 24];
    aws_lc_rs::rand::fill(&mut id).ok()?;
    Some(id)
}

/// Removes the least recently used of the selected sessions where there are `most` of them.
fn make_room(sessions: &mut HashMap<String, Session>, most: usize, is_selected: impl Fn(&Session) -> bool) {
    let selected = || sessions.iter().filter(|(_, session)| is_selected(session));
    if selected().count() >= most {
        let oldest = selected().min_by_key(|(_, session)| session.used).map(|(id, _)| id.clone());
        oldest.map(|id| sessions.remove(&id));
    }
}

/// Whether a request sends one of the service's forms: their targets have the query [`FORM_QUERY`].
pub fn is_form(request: &Request) -> bool {
    let query = request.target.split_once('?').map(|(_, query)| query);
    request.method == Method::Post && query == Some(FORM_QUERY) && form::has_files(&request.headers).is_some()
}

/// The cookie's name. It contains the port: browsers share cookies between ports, and a host may have several nodes.
fn name(headers: &Headers, is_secure: bool) -> String {
    let host = headers.get("host").unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let port = port.unwrap_or(if is_secure { "443" } else { "80" });
    // Browsers accept a cookie with the prefix `__Host-` only from the host itself, over TLS.
    if is_secure { format!("__Host-longhaul-{port}") } else { format!("longhaul-{port}") }
}

/// The field `Set-Cookie` that stores a session in a browser, or removes it.
pub fn cookie(headers: &Headers, is_secure: bool, id: Option<&str>) -> String {
    let (value, age) = id.map_or(("", 0), |id| (id, IDLE_MAX.as_secs()));
    let secure = if is_secure { "; Secure" } else { "" };
    let name = name(headers, is_secure);
    format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, target: &str, cookie: &str) -> Request {
        let headers = Headers::new().with("Host", "a.example:7411").with("Cookie", cookie);
        Request { method, target: target.into(), minor: 1, headers }
    }

    #[test]
    fn a_cookie_is_accepted_for_reading_and_for_forms() {
        let sessions = Sessions::default();
        let id = sessions.open("lhk1_x".into()).unwrap();
        let cookie = format!("__Host-longhaul-7411={id}");
        let accepted = |request: &Request| sessions.credential(request, true).is_some();
        assert!(accepted(&request(Method::Get, "/d/", &cookie)) && accepted(&request(Method::Head, "/d/f", &cookie)));
        for method in [Method::Put, Method::Delete, Method::Copy, Method::Post, Method::Propfind] {
            assert!(!accepted(&request(method, "/d/f", &cookie)));
        }
        let mut sent = request(Method::Post, "/d/?form", &cookie);
        assert!(!accepted(&sent), "it is not a form");
        sent.headers.add("Content-Type", form::PAIRS);
        assert!(accepted(&sent));
        sent.target = "/d/".into();
        assert!(!accepted(&sent));
        // A cookie of another port of the host, or a connection without TLS.
        assert!(!accepted(&request(Method::Get, "/d/", &cookie.replace("7411", "7412"))));
        assert!(sessions.credential(&request(Method::Get, "/d/", &cookie), false).is_none());
        sessions.close(&request(Method::Get, "/", &cookie), true);
        assert!(!accepted(&request(Method::Get, "/d/", &cookie)));
    }

    #[test]
    fn the_least_recently_used_session_makes_room_for_a_new_one() {
        let sessions = Sessions::default();
        let first = sessions.open("first".into()).unwrap();
        (0..2 * SESSIONS_PER_CREDENTIAL_MAX).for_each(|_| drop(sessions.open("one".into())));
        assert_eq!(sessions.lock().len(), 1 + SESSIONS_PER_CREDENTIAL_MAX, "a credential replaces its own sessions");
        (0..SESSIONS_MAX).for_each(|other| drop(sessions.open(format!("other {other}"))));
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert!(!sessions.lock().contains_key(&first));
        assert_eq!(sessions.open("x".repeat(CREDENTIAL_BYTES_MAX + 1)), None);
    }
}
