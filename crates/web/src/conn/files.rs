//! Sends files over a connection.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::{Conn, as_timed_out};

/// Bytes of one `sendfile`: large enough that the cost of calls is negligible, small enough to report progress.
const SENDFILE_BYTES: usize = 4 << 20;

impl Conn {
    /// Whether the kernel sends files without copying them through this process.
    pub fn sends_files(&self) -> bool {
        self.tls.is_none()
    }

    /// Whether the kernel holds back a short last segment until more bytes follow (`TCP_CORK`, tcp(7)): on before a body that several calls
    /// send, off after it. Without it each call of [`Conn::send_file`] ends with a short segment, which costs both ends a tenth of their time.
    ///
    /// # Errors
    /// The connection broke.
    pub fn hold_short_segments(&mut self, holds: bool) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_tcp_cork(&self.socket, holds)?)
    }

    /// Sends a head before a body. The kernel waits for the first bytes of the body, so that both share a segment.
    ///
    /// # Errors
    /// The connection broke, or the peer took no bytes for too long.
    pub fn write_before_body(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.sends_files() {
            return self.write_all(bytes);
        }
        let mut at = 0;
        while at < bytes.len() {
            match send(&self.socket, &bytes[at..], SendFlags::MORE | SendFlags::NOSIGNAL) {
                Ok(sent) => at += sent,
                Err(Errno::INTR) => {}
                Err(e) => return Err(as_timed_out(e.into())),
            }
        }
        Ok(())
    }

    /// Sends a piece of a file by `sendfile`; only where [`Conn::sends_files`]. Returns the number of bytes sent; 0 where the file
    /// ends before the offset.
    ///
    /// # Errors
    /// The connection broke, or the file cannot be read.
    pub fn send_file(&mut self, file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<u64> {
        let mut at = offset;
        loop {
            let most = bytes.min(SENDFILE_BYTES as u64) as usize;
            match rustix::fs::sendfile(&self.socket, file, Some(&mut at), most) {
                Ok(sent) => return Ok(sent as u64),
                Err(Errno::INTR) => {}
                Err(e) => return Err(as_timed_out(e.into())),
            }
        }
    }
}
