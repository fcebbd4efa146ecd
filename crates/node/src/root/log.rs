//! The access log and the audit log.

use std::time::Instant;

use auth::Access;
use xroot::place::FileOrPath;
use xroot::{RequestCode, RootPath, RootRequest};

use super::connection::RootConnection;
use crate::audit::Decision;
use crate::clock::now;

/// What a client has done, or was refused.
pub(super) struct LoggedAction<'a> {
    pub action: &'a str,
    /// `/EXPORT/PATH`.
    pub target: &'a str,
    /// The other end of a copy or a move, without secrets.
    pub other: Option<&'a str>,
    /// The status of HTTP that means the same; 0 if there is none.
    pub status: u16,
    pub reason: Option<&'a str>,
    pub bytes: u64,
    pub began: Instant,
}

/// The paths of a request, without parameters, which may hold a token.
#[derive(Default)]
pub(super) struct ShownRequest {
    /// `/EXPORT/PATH`.
    pub target: String,
    /// The new path of a move.
    pub other: Option<String>,
}

impl ShownRequest {
    pub fn of(request: &RootRequest) -> ShownRequest {
        let shown = |place: &RootPath| format!("/{}", place.path);
        let target = match request {
            RootRequest::Open { place, .. }
            | RootRequest::List { place, .. }
            | RootRequest::MakeDirectory { place, .. }
            | RootRequest::Remove(place)
            | RootRequest::RemoveDirectory(place)
            | RootRequest::ChangeMode { place, .. }
            | RootRequest::Locate(place)
            | RootRequest::Move { from: place, .. }
            | RootRequest::Truncate { of: FileOrPath::Path(place), .. }
            | RootRequest::Stat { of: FileOrPath::Path(place), .. } => shown(place),
            _ => return ShownRequest::default(),
        };
        let other = match request {
            RootRequest::Move { to, .. } => Some(shown(to)),
            _ => None,
        };
        ShownRequest { target, other }
    }
}

impl RootConnection {
    /// Writes an action to the access log and to the audit log.
    pub fn log(&self, logged: &LoggedAction<'_>) {
        let LoggedAction { action, target, other, status, reason, bytes, began } = *logged;
        let access = self.session.as_ref().map(|session| session.access());
        let who = access.map_or_else(|| "nobody".to_owned(), Access::who);
        let is_anonymous = access.is_none_or(Access::is_anonymous);
        let by = if self.login.is_tls() { "roots" } else { "root" };
        let outcome = match status {
            200..=399 => "allowed",
            401 | 403 => "denied",
            _ => "failed",
        };
        let (peer, seconds) = (self.peer, began.elapsed().as_secs_f64());
        let client = self.session.as_ref().map_or(&self.client.shown, |session| &session.client);
        tracing::info!(
            target: "access", %peer, who, by, event = action, what = target, other, outcome, bytes, seconds, agent = client, error = reason,
        );
        self.service.services.audit_log.add(&Decision {
            time: web::date::rfc3339_us(now()),
            is_anonymous,
            peer,
            who: &who,
            by,
            action,
            target,
            other,
            outcome,
            status: (status > 0).then_some(status),
            reason,
            bytes,
            seconds,
        });
    }
}

/// Whether requests of a kind are logged one by one.
pub(super) fn is_logged(code: Option<RequestCode>) -> bool {
    use RequestCode::{
        Attributes, Auth, ChangeMode, Login, MakeDirectory, Move, Open, Prepare, Remove, RemoveDirectory, Truncate,
    };
    matches!(
        code,
        Some(
            Login
                | Auth
                | Open
                | MakeDirectory
                | Move
                | Remove
                | RemoveDirectory
                | ChangeMode
                | Truncate
                | Prepare
                | Attributes
        )
    )
}
