//! TLS in the kernel (kTLS): it seals what a connection still has to send, and so sends files by `sendfile`.
//!
//! Only the sending half goes to the kernel, and only for the last answer of a connection. The library gives up both halves at once, and
//! ciphertext that it has read ahead cannot be given to the kernel.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::OnceLock;

use rustls::{CipherSuite, Connection, ConnectionTrafficSecrets, ProtocolVersion};
use sys::ktls::{self, AesGcmKey, IV_BYTES, SendingState};

use super::Conn;

/// The most bytes that the kernel seals over one connection: it counts no records, and a key of AES-GCM is good for 2^24.5 of them with 16 KiB
/// each, 390 GB (RFC 8446, section 5.5). Not all records are full.
pub const KERNEL_SEALED_BYTES_MAX: u64 = 128 << 30;

/// Whether the kernel seals records of both ciphers: tried once, over loopback. A process without privileges cannot have the kernel load its
/// module for TLS.
fn is_in_kernel() -> bool {
    static TRIED: OnceLock<bool> = OnceLock::new();
    *TRIED.get_or_init(|| {
        let takes = |key| -> io::Result<()> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let socket = TcpStream::connect(listener.local_addr()?)?;
            ktls::attach(&socket)?;
            ktls::set_sending_state(&socket, &SendingState { key, iv: [0; IV_BYTES], sequence: 0 })
        };
        takes(AesGcmKey::Aes128(&[0; 16])).and_then(|()| takes(AesGcmKey::Aes256(&[0; 32]))).is_ok()
    })
}

/// Whether the kernel knows the version and the cipher of a connection.
fn is_known(tls: &Connection) -> bool {
    let suite = tls.negotiated_cipher_suite().map(|suite| suite.suite());
    let is_aes_gcm =
        matches!(suite, Some(CipherSuite::TLS13_AES_128_GCM_SHA256 | CipherSuite::TLS13_AES_256_GCM_SHA384));
    is_aes_gcm && tls.protocol_version() == Some(ProtocolVersion::TLSv1_3) && !tls.is_handshaking()
}

impl Conn {
    /// Whether [`Conn::let_kernel_seal`] can be called: this kernel can seal what the connection sends.
    pub fn can_kernel_seal(&self) -> bool {
        self.tls.as_deref().is_some_and(is_known) && is_in_kernel()
    }

    /// Has the kernel seal what is sent from now on, [`KERNEL_SEALED_BYTES_MAX`] at most. The connection cannot be read from any more.
    /// Its TLS configuration must allow that secrets are extracted.
    ///
    /// # Errors
    /// The connection broke, or was not one for which [`Conn::can_kernel_seal`] holds. It is ended.
    pub fn let_kernel_seal(&mut self) -> io::Result<()> {
        let handed_over = self.hand_over();
        if handed_over.is_err() {
            // The library is gone, and the kernel does not seal: nothing may be sent any more, which would go in clear.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
        handed_over
    }

    fn hand_over(&mut self) -> io::Result<()> {
        self.flush()?;
        ktls::attach(&self.socket)?;
        let tls = self.tls.take().ok_or(io::ErrorKind::NotConnected)?;
        self.kernel_seals = true;
        let (sequence, secrets) = tls.dangerous_extract_secrets().map_err(io::Error::other)?.tx;
        let refused = || io::Error::from(io::ErrorKind::Unsupported);
        match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
                let key = key.as_ref().try_into().map_err(|_| refused())?;
                self.set_sending_state(AesGcmKey::Aes128(key), iv.as_ref(), sequence)
            }
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
                let key = key.as_ref().try_into().map_err(|_| refused())?;
                self.set_sending_state(AesGcmKey::Aes256(key), iv.as_ref(), sequence)
            }
            _ => Err(refused()),
        }
    }

    fn set_sending_state(&self, key: AesGcmKey<'_>, iv: &[u8], sequence: u64) -> io::Result<()> {
        let iv = iv.try_into().map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        ktls::set_sending_state(&self.socket, &SendingState { key, iv, sequence })
    }
}
