//! A file of one source of several, from which ranges are read: what is asked of every kind of store, and how that fails.
//!
//! Does not know: who else is asked.

use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;

use model::RelPath;
use model::fault::{Blame, Fault};
use parking_lot::Mutex;
use store::error::shown;
use store::{Error, Source};

use crate::failed::Failed;

/// Bytes that are read from a store at a time.
const SIP_BYTES: usize = 256 << 10;

/// A file open for reading by ranges.
pub(crate) trait Pieces: Send + Sync {
    /// Brings the bytes of a range, in order. Whoever takes them says whether he wants more.
    fn bring(&self, span: Range<u64>, flight: &Flight, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Trouble>;
}

/// How a question failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    /// It may fare better in a while; after so many seconds, where it says so.
    Passing(Option<f64>),
    /// Not with this file.
    File,
    /// Not with this member.
    Ever,
}

/// How a member failed, and what that means for it.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub how: How,
    pub error: Error,
}

impl Trouble {
    /// A server's failure.
    pub fn of(failed: Failed, doing: &'static str, path: &RelPath) -> Trouble {
        let how = match failed.fault {
            _ if failed.again => How::Passing(failed.pause.map(|pause| pause.as_secs_f64())),
            Fault::Auth | Fault::Config if failed.general => How::Ever,
            _ => How::File,
        };
        Trouble { how, error: failed.doing(doing, path) }
    }

    /// A directory is where others have a file.
    pub fn dir(path: &RelPath) -> Trouble {
        Trouble::from(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" })
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        let how = match error.fault() {
            Fault::Path => How::Passing(None),
            Fault::Auth | Fault::Config if error.is_fatal() => How::Ever,
            _ => How::File,
        };
        Trouble { how, error }
    }
}

#[derive(Default)]
struct Line {
    socket: Option<TcpStream>,
    given_up: bool,
}

/// A question on its way, and the line it is on: whoever does not need the answer any more closes the line.
#[derive(Default)]
pub(crate) struct Flight(Mutex<Line>);

impl Flight {
    fn line(&self) -> parking_lot::MutexGuard<'_, Line> {
        self.0.lock()
    }

    /// The answer comes over this line.
    pub fn over(&self, socket: &TcpStream) {
        let mut line = self.line();
        if line.given_up {
            let _ = socket.shutdown(Shutdown::Both);
        }
        line.socket = socket.try_clone().ok();
    }

    /// The answer is here, and the line is somebody else's from here on. False where it has been closed.
    pub fn landed(&self) -> bool {
        let mut line = self.line();
        line.socket = None;
        !line.given_up
    }

    /// Nobody needs the answer any more.
    pub fn give_up(&self) {
        let mut line = self.line();
        line.given_up = true;
        if let Some(socket) = line.socket.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// A file of a store that is near.
pub(crate) struct Near(pub Arc<dyn Source>);

impl Pieces for Near {
    fn bring(&self, span: Range<u64>, _flight: &Flight, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Trouble> {
        let (mut at, mut sip) = (span.start, vec![0; SIP_BYTES]);
        while at < span.end {
            let most = (span.end - at).min(SIP_BYTES as u64) as usize;
            let got = self.0.read_at(&mut sip[..most], at)?;
            if got == 0 || !take(&sip[..got]) {
                return Ok(());
            }
            at += got as u64;
        }
        Ok(())
    }
}
