//! Sends and receives many datagrams in one system call, with the kernel's facts about each: its time of arrival, and the size of the
//! datagrams that the kernel has joined.

use std::io::{self, IoSlice};
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

/// Messages in one system call. More gained nothing; the kernel's own bound is 1,024 (UIO_MAXIOV).
pub const MESSAGES_MAX: usize = 64;

/// Space for the control messages of one datagram: a time stamp (header 16, two numbers of 8) and a size (header 16, an
/// int in 8).
const CONTROL_WORDS: usize = 8;

fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the option is an int, read during the call, and its length is given.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn get(socket: &UdpSocket, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and length describe one int that outlives the call.
    let status = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Sets whether a send fails if this host has no room (ENOBUFS), which Linux hides from UDP sockets without `IP_RECVERR`. If `on`, ICMP
/// errors are queued ([`crate::errqueue::receive_report`]), and transient ones are reported as well; if not, the queue is emptied.
///
/// # Errors
/// The kernel refuses the option.
pub fn queue_errors(socket: &UdpSocket, on: bool) -> io::Result<()> {
    let ipv4 = set(socket, libc::SOL_IP, libc::IP_RECVERR, on.into());
    if socket.local_addr()?.is_ipv4() {
        ipv4
    } else {
        // The socket may carry IPv4 as well; if it does not, the option has no effect.
        set(socket, libc::SOL_IPV6, libc::IPV6_RECVERR, on.into())
    }
}

/// Sets whether the kernel stamps arrivals (SO_TIMESTAMPNS, CLOCK_REALTIME in nanoseconds).
///
/// # Errors
/// The kernel refuses the option.
pub fn stamp_arrivals(socket: &UdpSocket, on: bool) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, on.into())
}

/// Sets whether the kernel may join datagrams of one size into one message (UDP_GRO, Linux 5.0); the last datagram may be shorter.
///
/// # Errors
/// The kernel is older than 5.0.
pub fn join_arrivals(socket: &UdpSocket, on: bool) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, on.into())
}

/// Sets the receive buffer, beyond `net.core.rmem_max` if this process may (CAP_NET_ADMIN). Returns the size that is in force, in the
/// kernel's count, which includes its own overhead and so is twice the requested size.
///
/// # Errors
/// The kernel refuses the option.
pub fn set_receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    set_buffer(socket, bytes, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
}

/// Sets the send buffer, in the way of [`set_receive_buffer`].
///
/// # Errors
/// The kernel refuses the option.
pub fn set_send_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    set_buffer(socket, bytes, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
}

fn set_buffer(socket: &UdpSocket, bytes: usize, forced: libc::c_int, plain: libc::c_int) -> io::Result<usize> {
    // The kernel doubles it; beyond half an int it would be negative.
    let wanted = bytes.min(libc::c_int::MAX as usize / 2) as libc::c_int;
    set(socket, libc::SOL_SOCKET, forced, wanted).or_else(|_| set(socket, libc::SOL_SOCKET, plain, wanted))?;
    Ok(usize::try_from(get(socket, libc::SOL_SOCKET, plain)?).unwrap_or(0))
}

/// The number of datagrams, or joined messages, that this socket has dropped since it was made, because of a full buffer or a wrong
/// checksum (SO_MEMINFO, Linux 4.12: the number behind SO_RXQ_OVFL, which arrives only with the next datagram). Wraps.
///
/// # Errors
/// The kernel is older than 4.12.
pub fn dropped(socket: &UdpSocket) -> io::Result<u32> {
    const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;
    let mut facts = [0u32; DROPS + 1];
    let mut len = size_of_val(&facts) as libc::socklen_t;
    // SAFETY: the pointer and length describe `facts`, which outlives the call; the kernel writes at most `len` bytes.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            facts.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match status {
        0 if len as usize == size_of_val(&facts) => Ok(facts[DROPS]),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends each message to the address that the socket is connected to; returns how many the kernel took, from the first on.
///
/// # Errors
/// The error of the first message. If a later message fails, the number is smaller, and the next call returns the error.
pub fn send_many(socket: &UdpSocket, messages: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = messages.len().min(MESSAGES_MAX);
    // SAFETY: headers of zeros are valid: null pointers, lengths of 0.
    let mut headers: [libc::mmsghdr; MESSAGES_MAX] = unsafe { zeroed() };
    for (header, message) in headers.iter_mut().zip(messages) {
        // An IoSlice is an iovec by its documentation. The kernel only reads it.
        header.msg_hdr.msg_iov = ptr::from_ref(message).cast_mut().cast();
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: `count` headers are set, each pointing to one iovec and its bytes, all of which outlive the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as libc::c_uint, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// One message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedMessage<'a> {
    /// Its payload, as far as it fits the buffer.
    pub bytes: &'a [u8],
    /// Its time of arrival, nanoseconds since 1970, if the kernel stamps arrivals.
    pub stamp_ns: Option<u64>,
    /// The size of the datagrams that are joined in it, the last one shorter; none for a single datagram.
    pub datagram_bytes: Option<usize>,
    /// The message was longer than the buffer.
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct MessageFacts {
    bytes: usize,
    stamp_ns: Option<u64>,
    datagram_bytes: Option<usize>,
    truncated: bool,
}

/// Room for the messages of one system call.
#[derive(Debug)]
pub struct ReceiveBuffers {
    bytes: Vec<u8>,
    /// Bytes of the buffer of one message.
    message_bytes: usize,
    control: Vec<[u64; CONTROL_WORDS]>,
    facts: Vec<MessageFacts>,
}

impl ReceiveBuffers {
    /// Room for `messages` messages (at most [`MESSAGES_MAX`]) of `bytes_each` bytes.
    pub fn new(messages: usize, bytes_each: usize) -> ReceiveBuffers {
        let messages = messages.clamp(1, MESSAGES_MAX);
        let message_bytes = bytes_each.max(1);
        let control = vec![[0; CONTROL_WORDS]; messages];
        ReceiveBuffers {
            bytes: vec![0; messages * message_bytes],
            message_bytes,
            control,
            facts: Vec::with_capacity(messages),
        }
    }

    /// Receives the messages that have arrived. If there is none, and the socket blocks, waits for the first until the socket's read
    /// timeout. Returns the number of messages; [`ReceiveBuffers::messages`] returns them.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` if no message arrived, or an error of the socket.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.facts.clear();
        let count = self.control.len();
        // SAFETY: headers and vectors of zeros are valid: null pointers, lengths of 0.
        let (mut headers, mut vectors): ([libc::mmsghdr; MESSAGES_MAX], [libc::iovec; MESSAGES_MAX]) =
            unsafe { (zeroed(), zeroed()) };
        let rooms = self.bytes.chunks_exact_mut(self.message_bytes).zip(&mut self.control);
        for ((header, vector), (room, control)) in headers.iter_mut().zip(&mut vectors).zip(rooms) {
            *vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
        // SAFETY: `count` headers are set, each with one vector into its own part of `bytes` and its own `control`, and
        // with their lengths; all of them outlive the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_WAITFORONE as _,
                ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for header in &headers[..received.min(count)] {
            let facts = MessageFacts {
                bytes: (header.msg_len as usize).min(self.message_bytes),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                ..MessageFacts::default()
            };
            // SAFETY: the kernel has just filled this header's control buffer, which is part of `self.control`.
            self.facts.push(unsafe { read_control(&header.msg_hdr, facts) });
        }
        Ok(received)
    }

    /// The messages of the last call of [`ReceiveBuffers::receive`].
    pub fn messages(&self) -> impl Iterator<Item = ReceivedMessage<'_>> {
        self.bytes.chunks_exact(self.message_bytes).zip(&self.facts).map(|(room, facts)| ReceivedMessage {
            bytes: &room[..facts.bytes],
            stamp_ns: facts.stamp_ns,
            datagram_bytes: facts.datagram_bytes,
            truncated: facts.truncated,
        })
    }
}

/// # Safety
/// `header` was filled by the kernel, and its control buffer is still there.
unsafe fn read_control(header: &libc::msghdr, mut facts: MessageFacts) -> MessageFacts {
    // SAFETY: by this function's contract, control messages lie in the buffer as CMSG_NXTHDR expects them.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a whole header within the buffer, which is aligned to 8.
        let (message, data) = unsafe { (&*next, libc::CMSG_DATA(next)) };
        // Bytes of data after the control header.
        #[allow(clippy::unnecessary_cast, reason = "it is a socklen_t with musl")]
        let room = (message.cmsg_len as usize).saturating_sub(data as usize - next as usize);
        match (message.cmsg_level, message.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if room >= size_of::<libc::timespec>() => {
                // SAFETY: there are as many bytes, any bits are a timespec, and `read_unaligned` needs no alignment.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let whole = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000);
                facts.stamp_ns = Some(whole.saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)));
            }
            (libc::SOL_UDP, libc::UDP_GRO) if room >= size_of::<libc::c_int>() => {
                // SAFETY: there are as many bytes, and any bits are an int.
                let size = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                facts.datagram_bytes = usize::try_from(size).ok().filter(|size| *size > 0);
            }
            _ => {}
        }
        // SAFETY: `next` is a header within this header's buffer.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    facts
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        b.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (a, b)
    }

    #[test]
    fn many_datagrams_are_sent_and_received_with_their_times() {
        let (a, b) = pair();
        stamp_arrivals(&b, true).unwrap();
        let real = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let before = real();
        let texts = [b"one".as_slice(), b"", b"three and more"];
        assert_eq!(send_many(&a, &texts.map(IoSlice::new)).unwrap(), 3);
        let mut buffers = ReceiveBuffers::new(8, 5);
        assert_eq!(buffers.receive(&b).unwrap(), 3);
        let after = real();
        let messages: Vec<ReceivedMessage<'_>> = buffers.messages().collect();
        assert_eq!(messages.iter().map(|p| p.bytes).collect::<Vec<_>>(), [b"one".as_slice(), b"", b"three"]);
        assert_eq!(messages.iter().map(|p| p.truncated).collect::<Vec<_>>(), [false, false, true]);
        // A clock that is being set may step in between, but not by a minute.
        let minute = 60_000_000_000;
        assert!(messages.iter().all(|p| p.stamp_ns.is_some_and(|at| at > before - minute && at < after + minute)));
        assert!(messages.windows(2).all(|two| two[0].stamp_ns <= two[1].stamp_ns));
    }

    #[test]
    fn trains_are_cut_and_joined() {
        let (a, b) = pair();
        crate::udp::set_datagram_bytes(&a, 100).unwrap();
        join_arrivals(&b, true).unwrap();
        let train: Vec<u8> = (0..250u8).collect();
        assert_eq!(send_many(&a, &[IoSlice::new(&train)]).unwrap(), 1);
        let mut buffers = ReceiveBuffers::new(4, 65_535);
        let mut got = Vec::<u8>::new();
        let mut joined = 0;
        while got.len() < train.len() {
            buffers.receive(&b).unwrap();
            for piece in buffers.messages() {
                assert!(piece.datagram_bytes.is_none_or(|bytes| bytes == 100), "{piece:?}");
                joined += usize::from(piece.datagram_bytes.is_some());
                got.extend(piece.bytes);
            }
        }
        assert_eq!(got, train);
        assert!(joined > 0, "loopback delivers the train without cutting it");
    }

    #[test]
    fn drops_are_counted_for_each_socket() {
        let (a, b) = pair();
        let granted = set_receive_buffer(&b, 1).unwrap();
        assert!(granted < 100_000, "{granted}");
        assert_eq!(dropped(&b).unwrap(), 0);
        for _ in 0..200 {
            a.send(&[0; 1_000]).unwrap();
        }
        let mut buffers = ReceiveBuffers::new(64, 1_000);
        let mut got = 0;
        b.set_nonblocking(true).unwrap();
        while let Ok(received) = buffers.receive(&b) {
            got += received;
        }
        let lost = dropped(&b).unwrap() as usize;
        assert!(lost > 0 && got + lost == 200, "{got} received, {lost} dropped");
        assert!(set_send_buffer(&a, 1 << 20).unwrap() >= 1 << 18);
    }

    #[test]
    fn receiving_without_a_datagram_ends_with_the_timeout() {
        let (_a, b) = pair();
        b.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut buffers = ReceiveBuffers::new(4, 100);
        assert_eq!(buffers.receive(&b).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(buffers.messages().count(), 0);
    }
}
