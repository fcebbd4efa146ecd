//! A client's session that outlives its jobs: it is kept alive between them, and each job logs in with its own key.
//!
//! This saves two round trips of handshakes, and the slow start of every stream. The rights of a key are not carried over: the node
//! forgets a key when the client logs in with the next one, and takes no stream of an earlier job but those that both ends kept.

use std::time::{Duration, Instant};

use auth::AccessKey;
use wire::Frame;
use wire::limits::STREAMS_MAX;

use crate::connect::proof;
use crate::error::{Error, Result};
use crate::session::Session;

impl Session {
    /// Asks the node to keep the session, and the streams of its pushes, after a job. A node whose version cannot do so does not answer.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn keep(&mut self, within: Duration) -> Result<()> {
        self.keeps = true;
        self.link.send(&Frame::Keep(within.as_secs()))
    }

    /// How long the session may wait for its next job; none where it may not.
    pub fn idle_limit(&self) -> Option<Duration> {
        // Numbers of streams are never used twice.
        self.link.kept_for().filter(|_| self.opened <= STREAMS_MAX / 2)
    }

    /// Keeps the session alive between two jobs: answers the node's pings, and sends its own.
    ///
    /// # Errors
    /// The connection is broken, or the node is silent or broke the protocol: the session is over.
    pub fn tend(&mut self) -> Result<()> {
        self.link.exchange(Duration::ZERO)?;
        loop {
            match self.link.next_frame()? {
                Some(frame) if frame.is_late() => {}
                Some(_) => return Err(self.unexpected()),
                None if self.link.silence() > self.link.timeouts().pace.ping_after * 3 => {
                    let peer = self.link.peer().to_owned();
                    let seconds = self.link.silence().as_secs();
                    return Err(Error::Silent { peer, seconds });
                }
                None => return Ok(()),
            }
        }
    }

    /// Logs in with another key, over the same connections. As at the first login, the node's answer arrives with the
    /// answer to the next request.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn renew(&mut self, keys: &[AccessKey]) -> Result<()> {
        let started = Instant::now();
        let key = keys.iter().find(|key| key.node == self.fingerprint);
        self.has_key = key.is_some();
        self.kept.retain(|stream| !stream.is_lost());
        self.base = sys::tcp::info(self.link.socket()).unwrap_or_default();
        self.logins += 1;
        let kept = self.kept.iter().map(crate::stream::DataStream::id).collect();
        self.link.send(&Frame::Renew { key: key.map(proof), opened: self.opened, kept })?;
        self.connected_after = started.elapsed();
        Ok(())
    }

    /// Whether a session that was kept turned out dead: the node has not answered the last login.
    pub(crate) fn is_stale(&self) -> bool {
        self.logins > 1 && self.link.welcomes() < self.logins
    }
}
