//! UDP sockets that pass many datagrams to the kernel, or take many from it, at once.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

fn set(socket: &UdpSocket, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the option is an int, read during the call, and its length is given.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the kernel cut each message into datagrams of this size, the last one shorter (UDP_SEGMENT, Linux 4.18).
///
/// # Errors
/// The kernel is older than 4.18.
pub fn set_datagram_bytes(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    set(socket, libc::UDP_SEGMENT, libc::c_int::from(bytes))
}
