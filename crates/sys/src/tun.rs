//! TUN devices with offloads: a network interface whose packets a program reads and writes.
//!
//! Each read or write is one packet after a `virtio_net_hdr` of 10 bytes, host byte order. With all offloads on, the
//! kernel passes on packets of up to 64 KiB that it has not cut into segments and whose checksum it has not finished.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// The longest name of an interface, in bytes.
pub const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Makes the interface in the network of this thread; it is removed with the descriptor. Reads and writes do not block.
///
/// # Errors
/// No `/dev/net/tun` (module `tun`), no permission (CAP_NET_ADMIN in the network), a name that is taken or too long.
pub fn open(name: &str) -> io::Result<File> {
    if name.is_empty() || name.len() > NAME_MAX || name.bytes().any(|byte| byte == 0 || byte == b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not the name of an interface")));
    }
    let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        // The flags are bits of a short; their C type is int.
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags as libc::c_short },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is a TUN device's, and TUNSETIFF reads and writes one ifreq, which lives here.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // Without offloads for UDP (before Linux 6.2), the kernel cuts datagrams by itself, which is only slower.
    offload(&device, offloads | libc::TUN_F_USO4 | libc::TUN_F_USO6).or_else(|_| offload(&device, offloads))?;
    Ok(device)
}

fn offload(device: &File, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
