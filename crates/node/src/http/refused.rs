//! Refusals and failures of a request: a status, and a sentence that says why.

use std::io;

use model::{Fault, Refusal};
use rustix::io::Errno;
pub(crate) use web::Refused;

/// The reason why a request ended early.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// The node refuses.
    Refused(Box<Refused>),
    /// The connection broke, or the rest of the answer cannot be sent.
    Broken(io::Error),
}

/// The outcome of a request: its status, and the bytes of its body or of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestOutcome {
    pub status: u16,
    pub bytes: u64,
}

pub(crate) type Outcome<T = RequestOutcome> = Result<T, RequestFailure>;

/// A refusal, as an error.
pub(crate) fn refuse(status: u16, reason: impl Into<String>) -> RequestFailure {
    Refused::new(status, reason).into()
}

impl From<Refused> for RequestFailure {
    fn from(refused: Refused) -> RequestFailure {
        RequestFailure::Refused(Box::new(refused))
    }
}

impl From<Box<Refused>> for RequestFailure {
    fn from(refused: Box<Refused>) -> RequestFailure {
        RequestFailure::Refused(refused)
    }
}

impl From<io::Error> for RequestFailure {
    fn from(error: io::Error) -> RequestFailure {
        RequestFailure::Broken(error)
    }
}

/// The refusal for a body that cannot be read to its end, if the client is still connected to get one.
pub(crate) fn cut_short(error: io::Error) -> RequestFailure {
    match error.kind() {
        io::ErrorKind::TimedOut => refuse(408, format!("the body did not come in time: {error}")),
        io::ErrorKind::InvalidData => refuse(400, format!("the body cannot be read: {error}")),
        _ => RequestFailure::Broken(error),
    }
}

/// The status of an error of the system.
pub(crate) fn status_of(error: &io::Error) -> u16 {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => 403,
        // A link that leads to itself has no target.
        Some(Errno::NOENT | Errno::LOOP) => 404,
        Some(Errno::EXIST | Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::BUSY) => 409,
        Some(Errno::NAMETOOLONG) => 414,
        Some(Errno::NOSPC | Errno::DQUOT) => 507,
        Some(Errno::FBIG) => 413,
        Some(Errno::INVAL) => 400,
        Some(Errno::OPNOTSUPP) => 501,
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => 503,
        Some(Errno::TIMEDOUT) => 504,
        _ => match error.kind() {
            io::ErrorKind::NotFound => 404,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => 507,
            io::ErrorKind::TimedOut => 408,
            _ => 500,
        },
    }
}

/// The status of an error of a store.
pub(crate) fn status_in_store(error: &store::Error) -> u16 {
    match error {
        store::Error::Io { source, .. } | store::Error::Late { source, .. } => status_of(source),
        // A path that leads out of the store is refused without a word about its target.
        store::Error::Escapes(_)
        | store::Error::Outside { .. }
        | store::Error::Granted { .. }
        | store::Error::Unfinished(_) => 403,
        store::Error::Exists(_) => 412,
        store::Error::Locked { .. } => 423,
        store::Error::Kind { .. } => 409,
        // The export lies on a remote server, which has refused.
        store::Error::Server { fault: Fault::Path, .. } => 504,
        store::Error::Server { .. } => 502,
        store::Error::Unsupported { .. } => 501,
        _ => 500,
    }
}

impl From<store::Error> for RequestFailure {
    fn from(error: store::Error) -> RequestFailure {
        let status = status_in_store(&error);
        let mut reason = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            reason = format!("{reason}: {cause}");
        }
        refuse(status, reason)
    }
}

impl From<Refusal> for RequestFailure {
    fn from(refusal: Refusal) -> RequestFailure {
        Refused::from(refusal).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_has_a_status() {
        let table = [
            (Errno::NOENT, 404),
            (Errno::ACCESS, 403),
            (Errno::NOSPC, 507),
            (Errno::DQUOT, 507),
            (Errno::ISDIR, 409),
            (Errno::NOTEMPTY, 409),
            (Errno::NAMETOOLONG, 414),
            (Errno::IO, 500),
        ];
        for (errno, status) in table {
            assert_eq!(status_of(&errno.into()), status, "{errno}");
        }
    }

    #[test]
    fn a_late_write_error_has_the_status_of_its_cause() {
        for (errno, status) in [(Errno::DQUOT, 507), (Errno::IO, 500)] {
            let late = store::Error::Late { path: "run/f".into(), source: errno.into() };
            assert_eq!(status_in_store(&late), status, "{errno}");
        }
    }
}
