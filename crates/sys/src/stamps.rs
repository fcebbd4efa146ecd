//! Datagrams with the kernel's facts about them: their times of arrival and departure (SO_TIMESTAMPING, software stamps), and the TTL
//! that they arrived with.
//!
//! All times are of the host's real-time clock, since 1970. The network stack takes them: they are later than on the wire by the delay of
//! the driver and its interrupt, but do not include the time that a process waits for a processor.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::SockAddr;

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its length in the buffer, bytes.
    pub bytes: usize,
    /// The datagram was longer than the buffer; the rest is lost.
    pub is_cut: bool,
    /// Its sender. An IPv6 socket returns IPv4 addresses in their mapped form.
    pub from: SocketAddr,
    /// Its time of arrival, if [`enable`] was called for the socket.
    pub at: Option<Duration>,
    /// Its TTL or hop limit at arrival, if [`enable_ttl`] was called for the socket.
    pub ttl: Option<u8>,
}

/// A datagram that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its number among the datagrams sent since [`enable`], from 0.
    pub number: u32,
    /// The time when it was handed to the device.
    pub at: Duration,
}

const ARRIVALS: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
// The kernel's report does not include the packet, which would require a permission and space.
const DEPARTURES: u32 =
    libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// Room for the control messages of one datagram: three time stamps (64 bytes), TTLs (24 each), an error with its address (64).
const CONTROL_WORDS: usize = 64;

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

/// Switches on stamps of arrivals, and of departures if wanted. Departures are numbered from 0 again, and stamps that were not fetched
/// yet are dropped; this restarts the numbering after a failed send, which the kernel may or may not have counted. A caller that asks
/// for departures must fetch them, since they make `poll` report `ERR`.
///
/// # Errors
/// The kernel has no such stamps.
pub fn enable(socket: &UdpSocket, with_departures: bool) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, ARRIVALS as libc::c_int)?;
    if with_departures {
        while departure(socket)?.is_some() {}
        // The number starts at 0 when the option is switched on.
        set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, (ARRIVALS | DEPARTURES) as libc::c_int)?;
    }
    Ok(())
}

/// Makes [`receive`] return the TTL (IPv4) or hop limit (IPv6) of arrivals.
///
/// # Errors
/// The kernel refuses the option.
pub fn enable_ttl(socket: &UdpSocket) -> io::Result<()> {
    if socket.local_addr()?.is_ipv6() {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
        // For IPv4 that arrives at an IPv6 socket; a socket for IPv6 alone may refuse the option.
        let _ = set(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1);
        return Ok(());
    }
    set(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)
}

/// Receives a datagram; none if there is none. Never blocks.
///
/// # Errors
/// An error of an earlier datagram, such as `ConnectionRefused`; the next call continues.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
    let mut at = None;
    let mut ttl = None;
    let taken = take(socket, buffer, 0, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => at = software_time(data),
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            ttl = plain(data).and_then(|n: libc::c_int| u8::try_from(n).ok());
        }
        _ => {}
    })?;
    let Some(taken) = taken else { return Ok(None) };
    let from = taken.from.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
    Ok(Some(Arrival { bytes: taken.bytes.min(buffer.len()), is_cut: taken.is_cut, from, at, ttl }))
}

/// Takes the stamp of a departure; none if there is none. Never blocks.
///
/// # Errors
/// An error of the socket.
pub fn departure(socket: &UdpSocket) -> io::Result<Option<Departure>> {
    loop {
        let mut at = None;
        let mut number = None;
        let taken = take(socket, &mut [], libc::MSG_ERRQUEUE, |level, kind, data| match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => at = software_time(data),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                number = departure_number(data)
            }
            _ => {}
        })?;
        match (taken, at, number) {
            (None, ..) => return Ok(None),
            (Some(_), Some(at), Some(number)) => return Ok(Some(Departure { number, at })),
            // An ICMP error, on a socket that asks for these, is not a stamp. Each turn takes one message from a bounded queue.
            _ => {}
        }
    }
}

struct ReceivedMessage {
    bytes: usize,
    is_cut: bool,
    from: Option<SocketAddr>,
}

/// Calls `recvmsg`, and passes each control message to `message`: level, type, data.
fn take(
    socket: &UdpSocket,
    buffer: &mut [u8],
    flags: libc::c_int,
    mut message: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) -> io::Result<Option<ReceivedMessage>> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: pointers and integers, for all of which zero is a value.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of_val(&control);
    let receive = |name: *mut socket2::SockAddrStorage, length: *mut libc::socklen_t| {
        head.msg_name = name.cast();
        // SAFETY: `length` is the capacity of `name`, valid for the closure.
        head.msg_namelen = unsafe { *length };
        // SAFETY: name, buffer and control memory outlive the call, and their lengths are given.
        let bytes =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
        if bytes < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above; the kernel has written the length of the name.
        unsafe { *length = head.msg_namelen };
        Ok(bytes.unsigned_abs())
    };
    // SAFETY: the closure fills the address and its length, as recvmsg(2) says; of length zero it is AF_UNSPEC, which
    // reads as no socket address.
    let (bytes, address) = match unsafe { SockAddr::try_init(receive) } {
        Ok(taken) => taken,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    // SAFETY: `head` describes the control memory that the kernel has filled, up to `msg_controllen`.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const head) };
    while !at.is_null() {
        // SAFETY: the macros return a pointer to a whole header within the control memory, or null.
        let header = unsafe { at.read_unaligned() };
        // SAFETY: the length of an empty message; no memory is touched.
        let empty = unsafe { libc::CMSG_LEN(0) } as usize;
        // SAFETY: the data follows its header, and the kernel's length says how much of it there is.
        let data = unsafe { std::slice::from_raw_parts(libc::CMSG_DATA(at), header.cmsg_len.saturating_sub(empty)) };
        message(header.cmsg_level, header.cmsg_type, data);
        // SAFETY: as for the first one.
        at = unsafe { libc::CMSG_NXTHDR(&raw const head, at) };
    }
    Ok(Some(ReceivedMessage { bytes, is_cut: head.msg_flags & libc::MSG_TRUNC != 0, from: address.as_socket() }))
}

/// A value of plain integers from the front of `data`; none where it is too short.
fn plain<T: Plain>(data: &[u8]) -> Option<T> {
    // SAFETY: long enough, read without regard to alignment, and `Plain` takes all bit patterns.
    (data.len() >= size_of::<T>()).then(|| unsafe { data.as_ptr().cast::<T>().read_unaligned() })
}

/// Types that have a value for every bit pattern.
trait Plain: Copy {}
impl Plain for libc::c_int {}
impl Plain for libc::timespec {}
impl Plain for libc::sock_extended_err {}

/// The first of three time stamps: software, unused, hardware. Zero means that the kernel made no such stamp.
fn software_time(data: &[u8]) -> Option<Duration> {
    let time: libc::timespec = plain(data)?;
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|n| *n < 1_000_000_000)?;
    let at = Duration::new(u64::try_from(time.tv_sec).ok()?, nanos);
    (!at.is_zero()).then_some(at)
}

/// The number of the datagram, if the message is of a departure.
fn departure_number(data: &[u8]) -> Option<u32> {
    let error: libc::sock_extended_err = plain(data)?;
    (error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING).then_some(error.ee_data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn pair(address: &str) -> io::Result<(UdpSocket, UdpSocket)> {
        let (a, b) = (UdpSocket::bind((address, 0))?, UdpSocket::bind((address, 0))?);
        a.connect(b.local_addr()?)?;
        b.connect(a.local_addr()?)?;
        Ok((a, b))
    }

    fn now() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
    }

    /// Waits for a result: loopback usually delivers within the call, but not on every machine.
    fn soon<T>(mut take: impl FnMut() -> io::Result<Option<T>>) -> T {
        for _ in 0..500 {
            if let Some(taken) = take().unwrap() {
                return taken;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("nothing arrived within a second");
    }

    /// Sends until an arrival has a stamp. The kernel begins to stamp arrivals some time after the first socket on the host has asked for
    /// stamps (a work queue: `netstamp_work` in net/core/dev.c); earlier arrivals have none.
    fn begin_stamps(send: impl Fn() -> usize, to: &UdpSocket) {
        let mut buffer = [0u8; 64];
        for _ in 0..500 {
            let _ = send();
            if soon(|| receive(to, &mut buffer)).at.is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("the kernel stamps no arrivals");
    }

    fn times_and_ttl(address: &str) {
        let Ok((a, b)) = pair(address) else {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "SKIPPED: times_and_ttl: no {address} here");
            return;
        };
        enable(&b, false).unwrap();
        enable_ttl(&b).unwrap();
        begin_stamps(|| a.send(&[0]).unwrap(), &b);
        enable(&a, true).unwrap();
        let reference = socket2::SockRef::from(&a);
        if address == "::1" { reference.set_unicast_hops_v6(77) } else { reference.set_ttl_v4(77) }.unwrap();
        let mut buffer = [0u8; 64];
        for number in 0..3u32 {
            let before = now();
            a.send(&[7; 50]).unwrap();
            let arrival = soon(|| receive(&b, &mut buffer));
            let departure = soon(|| departure(&a));
            let after = now();
            assert_eq!((arrival.bytes, arrival.is_cut, arrival.from), (50, false, a.local_addr().unwrap()));
            assert_eq!((arrival.ttl, departure.number), (Some(77), number));
            let at = arrival.at.unwrap();
            assert!(before <= departure.at && departure.at <= at && at <= after, "{before:?} {departure:?} {at:?}");
        }
        assert_eq!(receive(&b, &mut buffer).unwrap(), None);
        assert_eq!(super::departure(&a).unwrap(), None);
        enable(&a, true).unwrap();
        a.send(&[7; 65]).unwrap();
        let cut = soon(|| receive(&b, &mut buffer));
        assert_eq!((cut.bytes, cut.is_cut), (64, true));
        assert_eq!(soon(|| super::departure(&a)).number, 0, "numbers start at 0 again");
    }

    #[test]
    fn datagrams_over_ipv4_have_times_and_a_ttl() {
        times_and_ttl("127.0.0.1");
    }

    #[test]
    fn datagrams_over_ipv6_have_times_and_a_ttl() {
        times_and_ttl("::1");
    }

    #[test]
    fn ipv4_at_an_ipv6_socket_has_a_ttl() {
        let Ok(b) = UdpSocket::bind("[::]:0") else {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "SKIPPED: ipv4_at_an_ipv6_socket_has_a_ttl: no IPv6 here");
            return;
        };
        enable(&b, false).unwrap();
        enable_ttl(&b).unwrap();
        let a = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&a).set_ttl_v4(99).unwrap();
        let port = b.local_addr().unwrap().port();
        let send = || a.send_to(&[1; 8], ("127.0.0.1", port)).unwrap();
        begin_stamps(send, &b);
        send();
        let mut buffer = [0u8; 8];
        let arrival = soon(|| receive(&b, &mut buffer));
        assert_eq!(arrival.ttl, Some(99));
        assert!(arrival.at.is_some() && arrival.from.is_ipv6());
    }

    #[test]
    fn a_refusal_is_returned_once() {
        let (a, b) = pair("127.0.0.1").unwrap();
        drop(b);
        a.send(&[1]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let mut buffer = [0u8; 8];
        assert_eq!(receive(&a, &mut buffer).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(receive(&a, &mut buffer).unwrap(), None);
    }
}
