//! Sessions of browsers: a cookie stands for a credential that was given to a form, so that the credential need not be in links. The
//! service keeps the credential in memory alone.
//!
//! A cookie is accepted for reading, and for the service's own forms. All other requests need the credential itself, so that no other site
//! can make a browser send them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use web::{Headers, Method, Request, form};

/// The most sessions; beyond that the least recently used one ends.
const SESSIONS_MAX: usize = 4_096;
/// The same of one credential.
const OF_ONE_MAX: usize = 64;
/// Bytes of a credential.
const CREDENTIAL_BYTES_MAX: usize = 8 << 10;
/// The time without a request after which a session ends.
const LASTS: Duration = Duration::from_secs(12 * 3600);
/// What a form is sent to: the page with this query.
pub const FORM: &str = "form";

struct Session {
    credential: String,
    used: Instant,
}

/// The sessions of browsers with a service.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    fn open_ones(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock()
    }

    /// A session of whoever has shown this; none where it is too long, or the system gives no random numbers.
    pub fn open(&self, credential: String) -> Option<String> {
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return None;
        }
        let id = auth::hex(&random_id()?);
        let mut sessions = self.open_ones();
        sessions.retain(|_, session| session.used.elapsed() < LASTS);
        make_room(&mut sessions, OF_ONE_MAX, |session| session.credential == credential);
        make_room(&mut sessions, SESSIONS_MAX, |_| true);
        sessions.insert(id.clone(), Session { credential, used: Instant::now() });
        Some(id)
    }

    /// What was shown in the session of a request, where it counts for such a request.
    pub fn credential(&self, request: &Request, is_secure: bool) -> Option<String> {
        let is_look = matches!(request.method, Method::Get | Method::Head);
        if !is_look && !is_form(request) {
            return None;
        }
        let id = form::cookie(&request.headers, &name(&request.headers, is_secure))?;
        let mut sessions = self.open_ones();
        let session = sessions.get_mut(id).filter(|session| session.used.elapsed() < LASTS)?;
        session.used = Instant::now();
        Some(session.credential.clone())
    }

    /// The session of a request is over.
    pub fn close(&self, request: &Request, is_secure: bool) {
        if let Some(id) = form::cookie(&request.headers, &name(&request.headers, is_secure)) {
            self.open_ones().remove(id);
        }
    }
}

/// 24 random bytes; none where the system gives none.
fn random_id() -> Option<[u8; 24]> {
    let mut id = [0; 24];
    aws_lc_rs::rand::fill(&mut id).ok()?;
    Some(id)
}

/// Of so many sessions of a kind, the one that was used least lately makes room.
fn make_room(sessions: &mut HashMap<String, Session>, most: usize, is_meant: impl Fn(&Session) -> bool) {
    let meant = || sessions.iter().filter(|(_, session)| is_meant(session));
    if meant().count() >= most {
        let oldest = meant().min_by_key(|(_, session)| session.used).map(|(id, _)| id.clone());
        oldest.map(|id| sessions.remove(&id));
    }
}

/// Whether it is one of the service's forms: they are sent to a page, with a query that says so.
pub fn is_form(request: &Request) -> bool {
    let query = request.target.split_once('?').map(|(_, query)| query);
    request.method == Method::Post && query == Some(FORM) && form::has_files(&request.headers).is_some()
}

/// The cookie's name. Cookies know no ports, and a host may have several nodes.
fn name(headers: &Headers, is_secure: bool) -> String {
    let host = headers.get("host").unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let port = port.unwrap_or(if is_secure { "443" } else { "80" });
    // Browsers keep a name that begins so only where nobody else can have set it.
    if is_secure { format!("__Host-longhaul-{port}") } else { format!("longhaul-{port}") }
}

/// The field that has a browser keep a session, or forget it.
pub fn cookie(headers: &Headers, is_secure: bool, id: Option<&str>) -> String {
    let (value, age) = id.map_or(("", 0), |id| (id, LASTS.as_secs()));
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
    fn a_cookie_counts_for_looking_and_for_forms() {
        let sessions = Sessions::default();
        let id = sessions.open("lhk1_x".into()).unwrap();
        let cookie = format!("__Host-longhaul-7411={id}");
        let counts = |request: &Request| sessions.credential(request, true).is_some();
        assert!(counts(&request(Method::Get, "/d/", &cookie)) && counts(&request(Method::Head, "/d/f", &cookie)));
        for method in [Method::Put, Method::Delete, Method::Copy, Method::Post, Method::Propfind] {
            assert!(!counts(&request(method, "/d/f", &cookie)));
        }
        let mut sent = request(Method::Post, "/d/?form", &cookie);
        assert!(!counts(&sent), "it is no form");
        sent.headers.add("Content-Type", form::PAIRS);
        assert!(counts(&sent));
        sent.target = "/d/".into();
        assert!(!counts(&sent));
        // Of another port of the host, or in clear.
        assert!(!counts(&request(Method::Get, "/d/", &cookie.replace("7411", "7412"))));
        assert!(sessions.credential(&request(Method::Get, "/d/", &cookie), false).is_none());
        sessions.close(&request(Method::Get, "/", &cookie), true);
        assert!(!counts(&request(Method::Get, "/d/", &cookie)));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let sessions = Sessions::default();
        let first = sessions.open("first".into()).unwrap();
        (0..2 * OF_ONE_MAX).for_each(|_| drop(sessions.open("one".into())));
        assert_eq!(sessions.open_ones().len(), 1 + OF_ONE_MAX, "one credential pushes out its own");
        (0..SESSIONS_MAX).for_each(|other| drop(sessions.open(format!("other {other}"))));
        assert_eq!(sessions.open_ones().len(), SESSIONS_MAX);
        assert!(!sessions.open_ones().contains_key(&first));
        assert_eq!(sessions.open("x".repeat(CREDENTIAL_BYTES_MAX + 1)), None);
    }
}
