//! Bytes of a file onto the line.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::{Conn, plainly};

/// Bytes handed to the kernel in one `sendfile`: large enough that calls cost nothing, small enough that progress shows.
const SENDFILE_BYTES: usize = 4 << 20;

impl Conn {
    /// Whether files go out without passing through this process.
    pub fn sends_files(&self) -> bool {
        self.tls.is_none()
    }

    /// Sends a head that a body follows: the kernel waits for the body's first bytes, so that both share a segment.
    pub fn write_before_body(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.sends_files() {
            return self.write_all(bytes);
        }
        let mut at = 0;
        while at < bytes.len() {
            match send(&self.socket, &bytes[at..], SendFlags::MORE | SendFlags::NOSIGNAL) {
                Ok(sent) => at += sent,
                Err(Errno::INTR) => {}
                Err(e) => return Err(plainly(e.into())),
            }
        }
        Ok(())
    }

    /// Sends a piece of a file past this process; only where [`Conn::sends_files`]. Returns how many bytes went, 0 where the
    /// file ended before.
    pub fn send_file(&mut self, file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<u64> {
        let mut at = offset;
        loop {
            let most = bytes.min(SENDFILE_BYTES as u64) as usize;
            match rustix::fs::sendfile(&self.socket, file, Some(&mut at), most) {
                Ok(sent) => return Ok(sent as u64),
                Err(Errno::INTR) => {}
                Err(e) => return Err(plainly(e.into())),
            }
        }
    }
}
