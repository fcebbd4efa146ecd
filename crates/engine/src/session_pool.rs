//! A client's session that outlives its jobs: kept alive between them, and begun anew under another key.
//!
//! What it saves: two round trips of handshakes, and the slow start of every stream. What it does not carry over: a
//! key's rights. The node forgets a key when the next one is shown, and takes no stream of an earlier job but those that
//! both ends kept.

use std::time::{Duration, Instant};

use auth::AccessKey;
use wire::Frame;
use wire::limits::STREAMS_MAX;

use crate::connect::proof;
use crate::error::{Error, Result};
use crate::session::Session;

impl Session {
    /// Asks the node to let the session, and the streams of its pushes, outlive a job. A node that does not know how to
    /// says nothing.
    pub fn keep(&mut self, within: Duration) -> Result<()> {
        self.keeps = true;
        self.link.send(&Frame::Keep(within.as_secs()))
    }

    /// How long the session may wait for its next job; none where it may not.
    pub fn may_wait(&self) -> Option<Duration> {
        // Numbers of streams are never used twice.
        self.link.kept_for().filter(|_| self.opened <= STREAMS_MAX / 2)
    }

    /// Between two jobs: answers the node, and asks it to. An error is the session's end.
    pub fn tend(&mut self) -> Result<()> {
        self.link.exchange(Duration::ZERO)?;
        loop {
            match self.link.next_frame()? {
                Some(frame) if frame.is_late() => {}
                Some(_) => return Err(self.unexpected()),
                None if self.link.silence() > self.link.timeouts().pace.ping_after * 3 => {
                    let (peer, seconds) = (self.link.peer().to_owned(), self.link.silence().as_secs());
                    return Err(Error::Silent { peer, seconds });
                }
                None => return Ok(()),
            }
        }
    }

    /// Begins anew with another key, over the same connections. As at the first login, the node's answer comes with the
    /// answer to what follows.
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

    /// Whether a session that was kept turned out dead: the node has not answered to the key shown last.
    pub(crate) fn is_stale(&self) -> bool {
        self.logins > 1 && self.link.welcomes() < self.logins
    }
}
