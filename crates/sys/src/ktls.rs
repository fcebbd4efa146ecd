//! Records of TLS 1.3 that the kernel seals (kTLS; linux/tls.h and Documentation/networking/tls.rst of Linux): the sending half of a
//! connection whose handshake a library has made.
//!
//! A kernel has this if its module `tls` is loaded. It knows neither keys nor alerts of its own: whoever hands a key over ends the
//! connection with [`send_close_notify`].

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// The version of TLS that is handed over: 1.3.
const VERSION: u16 = 0x0304;
/// The type of records with an alert (RFC 8446, section 5.1).
const ALERT: u8 = 21;
/// The alert that ends a direction: level warning, `close_notify` (RFC 8446, section 6).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// The nonce of the first record before its number is mixed in (RFC 8446, section 5.3).
pub const IV_BYTES: usize = 12;
/// The kernel has a nonce in two parts: this one comes first.
const SALT_BYTES: usize = 4;

/// A key of AES-GCM. It cannot be printed.
#[derive(Clone, Copy)]
pub enum AesGcmKey<'a> {
    /// Of 128 bits.
    Aes128(&'a [u8; 16]),
    /// Of 256 bits.
    Aes256(&'a [u8; 32]),
}

/// What the kernel needs to seal all further records of a direction.
#[derive(Clone, Copy)]
pub struct SendingState<'a> {
    /// The traffic key.
    pub key: AesGcmKey<'a>,
    /// The traffic IV.
    pub iv: [u8; IV_BYTES],
    /// The number of the next record.
    pub sequence: u64,
}

impl SendingState<'_> {
    /// The state in the form of the kernel: `struct tls12_crypto_info_aes_gcm_128` or `_256`.
    fn encode(&self) -> Vec<u8> {
        let (cipher, key): (u16, &[u8]) = match self.key {
            AesGcmKey::Aes128(key) => (libc::TLS_CIPHER_AES_GCM_128, key),
            AesGcmKey::Aes256(key) => (libc::TLS_CIPHER_AES_GCM_256, key),
        };
        let (salt, iv) = self.iv.split_at(SALT_BYTES);
        let head = [VERSION.to_ne_bytes(), cipher.to_ne_bytes()].concat();
        [&head, iv, key, salt, &self.sequence.to_be_bytes()].concat()
    }
}

/// Prepares a connection: from now on its sending state can be set.
///
/// # Errors
/// The kernel has no TLS, or the connection is over.
pub fn attach(socket: &TcpStream) -> io::Result<()> {
    set(socket, libc::SOL_TCP, libc::TCP_ULP, b"tls")
}

/// Has the kernel seal what is sent from now on. The connection must have been prepared by [`attach`].
///
/// # Errors
/// The kernel does not know the cipher.
pub fn set_sending_state(socket: &TcpStream, state: &SendingState<'_>) -> io::Result<()> {
    set(socket, libc::SOL_TLS, libc::TLS_TX, &state.encode())
}

fn set(socket: &TcpStream, level: libc::c_int, name: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let status = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as libc::socklen_t)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Room for one control message with one byte, aligned as the kernel expects it.
#[repr(C, align(8))]
struct ControlBuffer([MaybeUninit<u8>; 64]);

/// Tells the peer that no more data follows.
///
/// # Errors
/// The connection is over, or its timeout for sending passed.
pub fn send_close_notify(socket: &TcpStream) -> io::Result<()> {
    let mut alert = CLOSE_NOTIFY;
    let mut part = libc::iovec { iov_base: alert.as_mut_ptr().cast(), iov_len: alert.len() };
    let mut control = ControlBuffer([MaybeUninit::zeroed(); 64]);
    // SAFETY: all fields of the C structure may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
    let (space, length) = unsafe { (libc::CMSG_SPACE(size_of::<u8>() as u32), libc::CMSG_LEN(size_of::<u8>() as u32)) };
    message.msg_controllen = space as _;
    // SAFETY: the control buffer is aligned and longer than `space`, so it has a first header and room for one byte behind it; all pointers
    // outlive the call.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = length as _;
        *libc::CMSG_DATA(header) = ALERT;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_state_has_the_layout_of_the_kernel() {
        let iv = *b"saltnonce678";
        let state = SendingState { key: AesGcmKey::Aes128(&[7; 16]), iv, sequence: 0x0102 };
        let bytes = state.encode();
        // sizeof(struct tls12_crypto_info_aes_gcm_128), linux/tls.h.
        assert_eq!(bytes.len(), 40);
        assert_eq!(u16::from_ne_bytes([bytes[0], bytes[1]]), 0x0304);
        assert_eq!(u16::from_ne_bytes([bytes[2], bytes[3]]), 51);
        assert_eq!((&bytes[4..12], &bytes[12..28], &bytes[28..32]), (&b"nonce678"[..], &[7; 16][..], &b"salt"[..]));
        assert_eq!(bytes[32..], [0, 0, 0, 0, 0, 0, 1, 2]);
        let long = SendingState { key: AesGcmKey::Aes256(&[7; 32]), ..state };
        assert_eq!(long.encode().len(), 56);
    }

    #[test]
    fn a_connection_that_was_not_prepared_takes_no_state() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let state = SendingState { key: AesGcmKey::Aes128(&[7; 16]), iv: [0; IV_BYTES], sequence: 0 };
        assert!(set_sending_state(&socket, &state).is_err());
        let Err(refusal) = attach(&socket) else { return set_sending_state(&socket, &state).unwrap() };
        assert_eq!(refusal.raw_os_error(), Some(libc::ENOENT), "a kernel without TLS says so: {refusal}");
    }
}
