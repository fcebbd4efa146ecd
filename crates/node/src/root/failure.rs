//! Errors of requests: a number of the protocol, and a sentence.

use std::io;

use model::fault::with_causes;
use model::{Fault, Refusal};
use rustix::io::Errno;
use xroot::{ErrorCode, Malformed, RootAnswer};

use crate::authorization::NotAuthorized;
use crate::digests::{BUSY, NoDigest};

/// Why a request has no other answer.
#[derive(Debug)]
pub(super) enum RootFailure {
    /// The node refuses, and the connection goes on.
    Refused(ErrorCode, String),
    /// The connection cannot go on.
    Broken(io::Error),
}

pub(super) type RootOutcome<T> = Result<T, RootFailure>;

/// A refusal, as an error.
pub(super) fn refuse(code: ErrorCode, reason: impl Into<String>) -> RootFailure {
    RootFailure::Refused(code, reason.into())
}

impl From<io::Error> for RootFailure {
    fn from(error: io::Error) -> RootFailure {
        RootFailure::Broken(error)
    }
}

impl From<Malformed> for RootFailure {
    fn from(error: Malformed) -> RootFailure {
        let code = match error {
            Malformed::Length => {
                return RootFailure::Broken(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
            }
            Malformed::TooLong { .. } => ErrorCode::ArgTooLong,
            Malformed::Code(_) | Malformed::Order(_) => ErrorCode::InvalidRequest,
            _ => ErrorCode::ArgInvalid,
        };
        refuse(code, error.to_string())
    }
}

/// The number of an error of the system.
fn code_of(error: &io::Error) -> ErrorCode {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::LOOP) => ErrorCode::NotFound,
        Some(Errno::ACCESS | Errno::PERM) => ErrorCode::NotAuthorized,
        Some(Errno::ROFS) => ErrorCode::ReadOnly,
        Some(Errno::EXIST | Errno::NOTEMPTY) => ErrorCode::Exists,
        Some(Errno::ISDIR) => ErrorCode::IsDirectory,
        Some(Errno::NOTDIR) => ErrorCode::NotFile,
        Some(Errno::NOSPC) => ErrorCode::NoSpace,
        Some(Errno::DQUOT) => ErrorCode::OverQuota,
        Some(Errno::NAMETOOLONG) => ErrorCode::ArgTooLong,
        Some(Errno::INVAL) => ErrorCode::ArgInvalid,
        Some(Errno::OPNOTSUPP) => ErrorCode::Unsupported,
        Some(Errno::NOMEM | Errno::MFILE | Errno::NFILE) => ErrorCode::Overloaded,
        Some(Errno::IO) => ErrorCode::Io,
        _ => match error.kind() {
            io::ErrorKind::NotFound => ErrorCode::NotFound,
            io::ErrorKind::StorageFull => ErrorCode::NoSpace,
            io::ErrorKind::QuotaExceeded => ErrorCode::OverQuota,
            _ => ErrorCode::FileSystem,
        },
    }
}

impl From<store::Error> for RootFailure {
    fn from(error: store::Error) -> RootFailure {
        let code = match &error {
            store::Error::Io { source, .. } | store::Error::Late { source, .. } => code_of(source),
            store::Error::Escapes(_)
            | store::Error::Outside { .. }
            | store::Error::Granted { .. }
            | store::Error::Unfinished(_) => ErrorCode::NotAuthorized,
            store::Error::Exists(_) => ErrorCode::Exists,
            store::Error::Locked { .. } => ErrorCode::FileLocked,
            store::Error::Kind { found: "a directory", .. } => ErrorCode::IsDirectory,
            store::Error::Kind { .. } => ErrorCode::NotFile,
            store::Error::Server { fault: Fault::Auth, .. } => ErrorCode::NotAuthorized,
            store::Error::Server { fault: Fault::Integrity, .. } => ErrorCode::Checksum,
            store::Error::Server { .. } => ErrorCode::NoServer,
            store::Error::Unsupported { .. } => ErrorCode::Unsupported,
            _ => ErrorCode::FileSystem,
        };
        refuse(code, with_causes(&error))
    }
}

impl From<Refusal> for RootFailure {
    fn from(refusal: Refusal) -> RootFailure {
        let code = match refusal.fault {
            Fault::Auth => ErrorCode::NotAuthorized,
            Fault::Missing => ErrorCode::NotFound,
            Fault::Config => ErrorCode::ArgInvalid,
            Fault::Storage => ErrorCode::FileSystem,
            Fault::Integrity => ErrorCode::Checksum,
            Fault::Path => ErrorCode::NoServer,
            Fault::Interrupted => ErrorCode::Cancelled,
            _ => ErrorCode::Server,
        };
        refuse(code, refusal.reason)
    }
}

impl From<NotAuthorized> for RootFailure {
    fn from(why: NotAuthorized) -> RootFailure {
        match why {
            NotAuthorized::Refused(refusal) => refusal.into(),
            NotAuthorized::Busy => {
                refuse(ErrorCode::Overloaded, "the node decides about too many requests at once; try again later")
            }
        }
    }
}

impl From<NoDigest> for RootFailure {
    fn from(why: NoDigest) -> RootFailure {
        match why {
            NoDigest::Gone => refuse(ErrorCode::Cancelled, "the client is gone"),
            NoDigest::Busy => refuse(ErrorCode::Overloaded, BUSY),
            NoDigest::Store(error) => error.into(),
        }
    }
}

impl From<web::Refused> for RootFailure {
    fn from(refused: web::Refused) -> RootFailure {
        let code = match refused.status {
            401 | 403 => ErrorCode::NotAuthorized,
            429 | 503 => ErrorCode::Overloaded,
            404 => ErrorCode::NotFound,
            _ => ErrorCode::Server,
        };
        refuse(code, refused.reason)
    }
}

/// The answer to a request that failed.
pub(super) fn answer(code: ErrorCode, reason: &str) -> RootAnswer {
    // A reason may quote a client's path.
    RootAnswer::error(code, model::name::to_plain_line(reason))
}

/// The status of HTTP that means the same, for metrics that both protocols share.
pub(super) fn status_of(code: ErrorCode) -> u16 {
    match code {
        ErrorCode::NotAuthorized | ErrorCode::ReadOnly => 403,
        ErrorCode::AuthFailed | ErrorCode::TlsRequired => 401,
        ErrorCode::NotFound => 404,
        ErrorCode::Exists | ErrorCode::IsDirectory | ErrorCode::NotFile | ErrorCode::Conflict => 409,
        ErrorCode::FileLocked | ErrorCode::InProgress => 423,
        ErrorCode::NoSpace | ErrorCode::OverQuota => 507,
        ErrorCode::Overloaded | ErrorCode::NoMemory => 503,
        ErrorCode::Unsupported => 501,
        ErrorCode::FileSystem | ErrorCode::Io | ErrorCode::Server => 500,
        ErrorCode::NoServer => 502,
        _ => 400,
    }
}
