//! TLS of a connection: the handshake, and decryption.

use std::io::{self, Read};
use std::time::Instant;

use super::{Conn, HEAD_READ_BYTES, as_timed_out};

impl Conn {
    /// Whether what crosses the network is sealed.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some() || self.kernel_seals
    }

    /// Makes the TLS handshake, if the connection has TLS.
    ///
    /// # Errors
    /// The handshake fails, or is not complete at the deadline.
    pub fn handshake(&mut self, deadline: Instant) -> io::Result<()> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.read_before(deadline)?;
            let Some(tls) = &mut self.tls else { break };
            if tls.wants_write() {
                tls.write_tls(&mut &self.socket).map_err(as_timed_out)?;
                continue;
            }
            if tls.read_tls(&mut &self.socket).map_err(as_timed_out)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match tls.process_new_packets() {
                Ok(state) => self.decrypted = state.plaintext_bytes_to_read(),
                Err(error) => {
                    // The alert tells the peer what was wrong.
                    let _ = tls.write_tls(&mut &self.socket);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        self.flush()
    }

    /// Whether the peer has sent data or closed the connection. Does not wait. Messages of TLS itself, such as tickets, do not count.
    ///
    /// # Errors
    /// The socket cannot be read, or the bytes are not TLS.
    pub fn has_input(&mut self) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        loop {
            if self.taken < self.inbox.len() || self.decrypted > 0 {
                return Ok(true);
            }
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_readable = poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0);
            let has_cipher = self.cipher_taken < self.cipher.len();
            if self.tls.is_none() || !(is_readable || has_cipher) {
                return Ok(is_readable);
            }
            if !self.decrypt(HEAD_READ_BYTES)? {
                return Ok(true);
            }
        }
    }

    /// Reads through TLS. Ciphertext is read from the socket in large pieces: the library itself would read 4 KiB at a time.
    pub(super) fn read_tls(&mut self, buffer: &mut [u8], cipher_bytes: usize) -> io::Result<usize> {
        let mut again = false;
        loop {
            if std::mem::replace(&mut again, true) && self.cipher_taken == self.cipher.len() {
                self.apply_deadline()?;
            }
            let Some(tls) = &mut self.tls else { return Err(io::ErrorKind::NotConnected.into()) };
            match tls.reader().read(buffer) {
                Ok(got) => {
                    self.decrypted = self.decrypted.saturating_sub(got);
                    self.close_notified |= got == 0;
                    return Ok(got);
                }
                // The connection ended without `close_notify`. The framing of the message decides whether bytes are missing.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            if !self.decrypt(cipher_bytes)? {
                return Ok(0);
            }
        }
    }

    /// Passes ciphertext to TLS, and reads more of it where none is left. Returns `false` at the end of the connection.
    fn decrypt(&mut self, cipher_bytes: usize) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Err(io::ErrorKind::NotConnected.into()) };
        if self.cipher_taken == self.cipher.len() {
            self.cipher.resize(cipher_bytes, 0);
            let got = loop {
                match (&self.socket).read(&mut self.cipher) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            self.cipher_taken = 0;
            self.cipher.truncate(*got.as_ref().unwrap_or(&0));
            if got.map_err(as_timed_out)? == 0 {
                return Ok(false);
            }
        }
        let mut rest = &self.cipher[self.cipher_taken..];
        let before = rest.len();
        tls.read_tls(&mut rest)?;
        self.cipher_taken += before - rest.len();
        match tls.process_new_packets() {
            Ok(state) => self.decrypted = state.plaintext_bytes_to_read(),
            Err(error) => {
                let _ = tls.write_tls(&mut &self.socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        if tls.wants_write() {
            self.flush()?;
        }
        Ok(true)
    }

    /// Closes the sending direction; the peer may still send.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        } else if self.kernel_seals {
            let _ = sys::ktls::send_close_notify(&self.socket);
        }
        let _ = self.flush();
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}
