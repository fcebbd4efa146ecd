//! A bound connection as the server watches it: its client sends nothing on it, and closes it at the end.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use serve::{ConnectionPermit, Idle};

use super::IDLE_FOR;
use super::session::RootSession;
use super::streams::BoundStream;

/// A bound connection between two answers, as the server watches it. Its client sends nothing on it.
pub(super) struct BoundConnection {
    pub stream: Arc<BoundStream>,
    pub session: Arc<RootSession>,
    pub peer: SocketAddr,
    /// Kept as long as the connection.
    pub _permit: ConnectionPermit,
}

impl AsFd for BoundConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.socket().as_fd()
    }
}

impl Idle for BoundConnection {
    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn idle_for(&self) -> Duration {
        IDLE_FOR
    }

    fn has_unread(&self) -> bool {
        false
    }

    /// Its client has closed it, or sends what no client sends. Messages of TLS itself are taken.
    fn serve(self: Box<Self>) -> Option<Box<dyn Idle>> {
        let has_input = self.stream.has_input();
        if matches!(has_input, Ok(false)) { Some(self) } else { None }
    }
}

impl Drop for BoundConnection {
    fn drop(&mut self) {
        self.stream.end();
        self.session.unbind(self.stream.path_id);
    }
}
