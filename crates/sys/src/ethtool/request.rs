//! One request of SIOCETHTOOL: a buffer that the kernel fills, and the call.
//!
//! The driver's counts at the moment of the call determine how much the kernel writes; some commands ignore the length of the request.
//! So the buffer ends at guard pages: an answer that is too long fails (EFAULT), and never overwrites other memory.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use socket2::{Domain, Socket, Type};

/// Bytes of a request. The longest answers are strings of statistics, 32 bytes each: NICs with hundreds of queues have
/// some ten thousand.
pub const BYTES_MAX: usize = 1 << 20;
/// Guard bytes behind the buffer: a page of the largest size that Linux has.
const GUARD_BYTES: usize = 1 << 16;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;

/// A buffer of [`BYTES_MAX`] zeros, of which only the pages that were touched take memory.
#[derive(Debug)]
pub(super) struct EthtoolRequest {
    start: NonNull<u8>,
}

impl EthtoolRequest {
    /// A request that begins with these words, of which the first is the command.
    pub(super) fn new(words: &[u32]) -> io::Result<EthtoolRequest> {
        // SAFETY: a new mapping at an address of the kernel's choice; it replaces no other memory.
        let start = unsafe {
            let access = libc::PROT_NONE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), BYTES_MAX + GUARD_BYTES, access, kind, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("a mapping at address zero"))?;
        let mut request = EthtoolRequest { start };
        // SAFETY: the range is the first part of the mapping above, which `request` owns and nothing refers to yet.
        let opened = unsafe { libc::mprotect(start.as_ptr().cast(), BYTES_MAX, libc::PROT_READ | libc::PROT_WRITE) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        for (at, word) in words.iter().enumerate() {
            request.put(at, *word)?;
        }
        Ok(request)
    }

    /// The bytes of the request, and of the answer after the call.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: BYTES_MAX bytes of the mapping may be read, are initialised (the kernel maps zeroes), live as long as
        // `self`, and are written only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), BYTES_MAX) }
    }

    /// Writes the word at an index.
    pub(super) fn put(&mut self, at: usize, word: u32) -> io::Result<()> {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only reference.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), BYTES_MAX) };
        let end = at.saturating_mul(4).saturating_add(4);
        let place = bytes.get_mut(end - 4..end).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        place.copy_from_slice(&word.to_ne_bytes());
        Ok(())
    }
}

impl Drop for EthtoolRequest {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, whole, and goes with it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), BYTES_MAX + GUARD_BYTES) };
    }
}

/// A NIC, and the socket for requests to it.
#[derive(Debug)]
pub(super) struct NicSocket {
    socket: Socket,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl NicSocket {
    /// A NIC of this thread's network.
    pub(super) fn new(nic: &str) -> io::Result<NicSocket> {
        if nic.is_empty() || nic.len() >= libc::IFNAMSIZ || nic.bytes().any(|byte| byte == 0 || byte == b'/') {
            let why = format!("{nic:?} is not the name of an interface");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut name = [0; libc::IFNAMSIZ];
        for (to, from) in name.iter_mut().zip(nic.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(NicSocket { socket: Socket::new(Domain::IPV4, Type::DGRAM, None)?, name })
    }

    /// Sends a request; the answer is in the request afterwards. Some commands return a number as well.
    pub(super) fn ethtool(&self, request: &mut EthtoolRequest) -> io::Result<u32> {
        self.call(SIOCETHTOOL, request)
    }

    /// Reads how the NIC stamps packets with the time (`struct hwtstamp_config`).
    pub(super) fn stamping(&self, request: &mut EthtoolRequest) -> io::Result<u32> {
        self.call(SIOCGHWTSTAMP, request)
    }

    fn call(&self, number: libc::c_ulong, request: &mut EthtoolRequest) -> io::Result<u32> {
        let data = request.start.as_ptr().cast::<libc::c_char>();
        let mut interface =
            libc::ifreq { ifr_name: self.name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: data } };
        // SAFETY: each of the two ioctls takes one ifreq, which outlives the call, and reads and writes the memory that its pointer leads
        // to, from the start upwards without gaps. That memory is the mapping of `request`, which is borrowed mutably; the guard at its end
        // stops the kernel (EFAULT).
        let status = unsafe { libc::ioctl(self.socket.as_raw_fd(), number as _, &raw mut interface) };
        u32::try_from(status).map_err(|_| io::Error::last_os_error())
    }
}
