//! Range reads from one source of a set: one trait for all kinds of stores, and the failures of such a read.
//!
//! Does not know: the other sources of the set.

use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;

use model::RelPath;
use model::fault::{Blame, Fault};
use parking_lot::Mutex;
use store::error::shown;
use store::{Error, Source};

use crate::request_error::RequestError;

/// Bytes that are read from a store at a time.
const READ_BYTES: usize = 256 << 10;

/// A file open for reading by ranges.
pub(crate) trait RangeSource: Send + Sync {
    /// Reads a range and passes its bytes to `take` in order, until `take` returns `false`.
    fn read_range(
        &self,
        span: Range<u64>,
        handle: &ReadHandle,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), MemberFailure>;
}

/// What a failed read says about its member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FailureScope {
    /// The failure may pass; after this number of seconds, where the server names a time.
    Temporary(Option<f64>),
    /// The member cannot bring this file.
    File,
    /// The member cannot bring any file.
    AllFiles,
}

/// The failure of a member, and its scope.
#[derive(Debug)]
pub(crate) struct MemberFailure {
    pub scope: FailureScope,
    pub error: Error,
}

impl MemberFailure {
    /// A server's failure.
    pub fn of(failed: RequestError, verb: &'static str, path: &RelPath) -> MemberFailure {
        let scope = match failed.fault {
            _ if failed.may_retry => FailureScope::Temporary(failed.pause.map(|pause| pause.as_secs_f64())),
            Fault::Auth | Fault::Config if failed.affects_all_files => FailureScope::AllFiles,
            _ => FailureScope::File,
        };
        MemberFailure { scope, error: failed.into_store_error(verb, path) }
    }

    /// The member has a directory where the others have a file.
    pub fn dir(path: &RelPath) -> MemberFailure {
        MemberFailure::from(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" })
    }
}

impl From<Error> for MemberFailure {
    fn from(error: Error) -> MemberFailure {
        let scope = match error.fault() {
            Fault::Path => FailureScope::Temporary(None),
            Fault::Auth | Fault::Config if error.is_fatal() => FailureScope::AllFiles,
            _ => FailureScope::File,
        };
        MemberFailure { scope, error }
    }
}

#[derive(Default)]
struct ReadState {
    socket: Option<TcpStream>,
    given_up: bool,
}

/// A read in flight, and the connection that carries it. Giving the read up closes the connection.
#[derive(Default)]
pub(crate) struct ReadHandle(Mutex<ReadState>);

impl ReadHandle {
    fn state(&self) -> parking_lot::MutexGuard<'_, ReadState> {
        self.0.lock()
    }

    /// Notes the connection that carries the response. Closes it where the read has been given up already.
    pub fn set_connection(&self, socket: &TcpStream) {
        let mut state = self.state();
        if state.given_up {
            let _ = socket.shutdown(Shutdown::Both);
        }
        state.socket = socket.try_clone().ok();
    }

    /// Ends the read, and leaves the connection to others. Returns `false` where the connection has been closed.
    pub fn finish_unless_given_up(&self) -> bool {
        let mut state = self.state();
        state.socket = None;
        !state.given_up
    }

    /// Gives the read up and closes its connection.
    pub fn give_up(&self) {
        let mut state = self.state();
        state.given_up = true;
        if let Some(socket) = state.socket.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// A file of a local store.
pub(crate) struct StoreFile(pub Arc<dyn Source>);

impl RangeSource for StoreFile {
    fn read_range(
        &self,
        span: Range<u64>,
        _handle: &ReadHandle,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), MemberFailure> {
        let mut at = span.start;
        let mut buffer = vec![0; READ_BYTES];
        while at < span.end {
            let most = (span.end - at).min(READ_BYTES as u64) as usize;
            let got = self.0.read_at(&mut buffer[..most], at)?;
            if got == 0 || !take(&buffer[..got]) {
                return Ok(());
            }
            at += got as u64;
        }
        Ok(())
    }
}
