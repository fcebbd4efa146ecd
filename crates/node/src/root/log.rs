//! What is written to the access log and to the audit log.

use std::time::Instant;

use xroot::place::FileOrPath;
use xroot::{RequestCode, RootPath, RootRequest};

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
