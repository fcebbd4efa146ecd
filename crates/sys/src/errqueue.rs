//! UDP sockets that receive the network's reports about their datagrams: ICMP errors with their sender, the TTL and time of
//! arrivals, probes that no router fragments (`IP_RECVERR`, ip(7); the same for IPv6). No privilege is needed.
//!
//! This module does not know what a probe is, or what an error means.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::SockAddr;

/// Room for the control messages of a datagram: an error with its sender (60 bytes), TTL, time, address; 168 bytes in all.
const CONTROL_BYTES: usize = 512;
/// As long as any socket address (`sockaddr_storage`).
const NAME_BYTES: usize = 128;

/// The origin of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This host: the datagram did not leave it.
    Local,
    /// An ICMP message.
    Icmp4,
    /// An ICMPv6 message.
    Icmp6,
    /// Another origin, by the kernel's number.
    Other(u8),
}

/// A report about a datagram that was sent (`struct sock_extended_err`, linux/errqueue.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The origin of the report.
    pub origin: Origin,
    /// The ICMP type.
    pub kind: u8,
    /// The ICMP code.
    pub code: u8,
    /// The error that the next call on the socket would have returned.
    pub errno: i32,
    /// For a datagram that was too large: the largest size that fits, in bytes of IP.
    pub info: u32,
    /// The address that sent the report.
    pub offender: Option<IpAddr>,
}

/// An arrival: a datagram, or a report about one that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The length of the datagram, or of the payload that the report quotes. Bytes beyond the buffer are lost.
    pub bytes: usize,
    /// The sender of the datagram; for a report, the destination of the datagram that it is about.
    pub from: Option<SocketAddr>,
    /// The address of this host that it was sent to. Only after [`enable_arrival_info`], like the next two.
    pub to: Option<IpAddr>,
    /// Its TTL or hop limit; for a report: that of the packet that carried it.
    pub ttl: Option<u8>,
    /// Its time of arrival, since 1970, by the kernel's real-time clock.
    pub at: Option<Duration>,
    /// The report. Never with [`receive`].
    pub report: Option<Report>,
}

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

/// Sets an option of the socket's family. An IPv6 socket may carry IPv4 as well, and takes the IPv4 option for that; if it does not,
/// the option has no effect.
fn set_both(socket: &UdpSocket, v4: libc::c_int, v6: libc::c_int, value: libc::c_int) -> io::Result<()> {
    if socket.local_addr()?.is_ipv4() {
        return set(socket, libc::SOL_IP, v4, value);
    }
    let _ = set(socket, libc::SOL_IP, v4, value);
    set(socket, libc::SOL_IPV6, v6, value)
}

/// Queues errors with their cause, for [`receive_report`].
///
/// # Errors
/// The kernel refuses the option.
pub fn queue_reports(socket: &UdpSocket) -> io::Result<()> {
    set_both(socket, libc::IP_RECVERR, libc::IPV6_RECVERR, 1)
}

/// Makes [`receive`] return TTL, time and local address of each arrival.
///
/// # Errors
/// The kernel refuses an option.
pub fn enable_arrival_info(socket: &UdpSocket) -> io::Result<()> {
    set_both(socket, libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT, 1)?;
    set_both(socket, libc::IP_PKTINFO, libc::IPV6_RECVPKTINFO, 1)?;
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Forbids fragmentation of sent datagrams (DF is set) and ignores the host's estimate of the path's MTU: only the MTU of the
/// interface bounds a datagram.
///
/// # Errors
/// The kernel refuses the option.
pub fn never_fragment(socket: &UdpSocket) -> io::Result<()> {
    const _: () = assert!(libc::IP_PMTUDISC_PROBE == libc::IPV6_PMTUDISC_PROBE);
    set_both(socket, libc::IP_MTU_DISCOVER, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
}

/// Keeps IPv6 flow labels at zero. The kernel would choose a random one for each socket, and routers that use the label would
/// send packets with the same addresses and ports over another path next time.
///
/// # Errors
/// The kernel refuses the option.
pub fn clear_flow_label(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => Ok(()),
        SocketAddr::V6(_) => set(socket, libc::SOL_IPV6, libc::IPV6_AUTOFLOWLABEL, 0),
    }
}

/// The host's estimate of the MTU of a connected socket's path, in bytes of IP.
///
/// # Errors
/// The socket is not connected.
pub fn path_mtu(socket: &UdpSocket) -> io::Result<u32> {
    let (level, name) = match socket.local_addr()? {
        SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_MTU),
    };
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers describe `value` and its length, which outlive the call; the kernel writes at most that.
    let status = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(value.unsigned_abs()) }
}

/// Receives the next datagram. A pending error is returned first, once; if reports are queued, [`receive_report`] returns its cause.
///
/// # Errors
/// `WouldBlock` if there is no datagram, or the pending error.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrival> {
    take(socket, buffer, 0)
}

/// Receives the next report, with the part of the datagram's payload that it quotes.
///
/// # Errors
/// `WouldBlock` if there is no report.
pub fn receive_report(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrival> {
    take(socket, buffer, libc::MSG_ERRQUEUE)
}

fn take(socket: &UdpSocket, buffer: &mut [u8], flags: libc::c_int) -> io::Result<Arrival> {
    let mut name = [0u8; NAME_BYTES];
    let mut control = [0u8; CONTROL_BYTES];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: null pointers and lengths of zero are a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = NAME_BYTES as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the header describes `name`, `buffer` and `control` with their lengths; all outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags | libc::MSG_DONTWAIT) };
    let Ok(bytes) = usize::try_from(got) else { return Err(io::Error::last_os_error()) };
    let name = &name[..(message.msg_namelen as usize).min(NAME_BYTES)];
    let mut arrival = Arrival { bytes, from: socket_address(name), ..Arrival::default() };
    read_control(&mut arrival, &control[..(message.msg_controllen as usize).min(CONTROL_BYTES)]);
    Ok(arrival)
}

/// Sends a datagram from one of this host's addresses. A host with several addresses must answer from the address to which a question
/// was sent.
///
/// # Errors
/// The kernel refuses the datagram.
pub fn send_from(socket: &UdpSocket, datagram: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<usize> {
    let is_v4 = socket.local_addr()?.is_ipv4();
    let to = match to {
        SocketAddr::V4(to) if !is_v4 => SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0).into(),
        to => to,
    };
    let to = SockAddr::from(to);
    let control = from.map(|from| source_control(from, is_v4));
    let mut part = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
    // SAFETY: null pointers and lengths of zero are a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(control) = &control {
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = control.len() as _;
    }
    // SAFETY: the header describes `to`, `datagram` and `control` with their lengths; all outlive the call, which only
    // reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// The header of a control message: length (header included), level, type.
const CONTROL_HEADER: usize = size_of::<libc::cmsghdr>();
const _: () = assert!(CONTROL_HEADER == size_of::<usize>() + 8);

/// The control message that sets the source address. `IP_PKTINFO` is interface, source, destination; `IPV6_PKTINFO` is source,
/// interface.
fn source_control(from: IpAddr, is_v4: bool) -> Vec<u8> {
    let (level, kind, data) = match (from, is_v4) {
        (IpAddr::V4(from), true) => (libc::SOL_IP, libc::IP_PKTINFO, [&[0; 4], &from.octets()[..], &[0; 4]].concat()),
        (from, _) => {
            let from = match from {
                IpAddr::V4(from) => from.to_ipv6_mapped(),
                IpAddr::V6(from) => from,
            };
            (libc::SOL_IPV6, libc::IPV6_PKTINFO, [&from.octets()[..], &[0; 4]].concat())
        }
    };
    let mut message = (CONTROL_HEADER + data.len()).to_ne_bytes().to_vec();
    message.extend_from_slice(&level.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&data);
    message.resize(message.len().next_multiple_of(size_of::<usize>()), 0);
    message
}

/// Reads the control messages of a datagram (cmsg(3)).
fn read_control(arrival: &mut Arrival, mut control: &[u8]) {
    while let Some((length, level, kind)) = control_header(control) {
        let Some(data) = control.get(CONTROL_HEADER..length) else { return };
        match (level, kind) {
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => arrival.report = report(data),
            (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
                arrival.ttl = word(data, 0).and_then(|ttl| u8::try_from(ttl).ok());
            }
            (libc::SOL_IP, libc::IP_PKTINFO) => {
                arrival.to = data.get(4..).and_then(|data| data.first_chunk::<4>()).map(|four| IpAddr::from(*four));
            }
            (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                arrival.to = data.first_chunk::<16>().map(|all| IpAddr::from(*all).to_canonical());
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => arrival.at = time(data),
            _ => {}
        }
        let next = length.next_multiple_of(size_of::<usize>());
        control = control.get(next..).unwrap_or_default();
    }
}

/// Length, level and type of the next control message; none if it is incomplete.
fn control_header(control: &[u8]) -> Option<(usize, i32, i32)> {
    let (length, rest) = control.split_first_chunk::<{ size_of::<usize>() }>()?;
    let length = usize::from_ne_bytes(*length);
    let level = i32::from_ne_bytes(*rest.first_chunk()?);
    let kind = i32::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
    (CONTROL_HEADER..=control.len()).contains(&length).then_some((length, level, kind))
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|four| u32::from_ne_bytes(*four))
}

/// A `struct timespec` of two longs.
fn time(data: &[u8]) -> Option<Duration> {
    let (seconds, rest) = data.split_first_chunk::<{ size_of::<libc::c_long>() }>()?;
    let seconds = u64::try_from(libc::c_long::from_ne_bytes(*seconds)).ok()?;
    let nanos = u32::try_from(libc::c_long::from_ne_bytes(*rest.first_chunk()?)).ok()?;
    (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
}

/// Reads a report: errno (4 bytes), origin, type, code, padding, info (4), data (4), and the offender's socket address.
fn report(data: &[u8]) -> Option<Report> {
    let &[origin, kind, code, _] = data.get(4..)?.first_chunk()?;
    let origin = match origin {
        libc::SO_EE_ORIGIN_LOCAL => Origin::Local,
        libc::SO_EE_ORIGIN_ICMP => Origin::Icmp4,
        libc::SO_EE_ORIGIN_ICMP6 => Origin::Icmp6,
        other => Origin::Other(other),
    };
    let errno = i32::try_from(word(data, 0)?).ok()?;
    let offender = socket_address(data.get(16..)?).map(|offender| offender.ip());
    Some(Report { origin, kind, code, errno, info: word(data, 8)?, offender })
}

/// Reads a socket address of the kernel; an IPv4-mapped IPv6 address becomes an IPv4 one.
fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            Some(SocketAddrV4::new(ip, port).into())
        }
        libc::AF_INET6 => {
            // The flow label is before the address, the scope after it.
            let ip = Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?);
            Some(match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddrV4::new(ip, port).into(),
                None => SocketAddrV6::new(ip, port, 0, word(rest, 20)?).into(),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait<T>(mut attempt: impl FnMut() -> io::Result<T>) -> T {
        for _ in 0..200 {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                done => return done.unwrap(),
            }
        }
        panic!("nothing arrived within two seconds");
    }

    fn probing(host: &str) -> UdpSocket {
        let socket = UdpSocket::bind((host, 0)).unwrap();
        queue_reports(&socket).unwrap();
        enable_arrival_info(&socket).unwrap();
        never_fragment(&socket).unwrap();
        clear_flow_label(&socket).unwrap();
        socket
    }

    #[test]
    fn a_closed_port_is_reported_with_the_payload() {
        for (host, origin, kind, code) in [("127.0.0.1", Origin::Icmp4, 3, 3), ("::1", Origin::Icmp6, 1, 4)] {
            let gone = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap();
            let socket = probing(host);
            socket.connect(gone).unwrap();
            socket.send(b"who is there").unwrap();
            let mut buffer = [0; 64];
            let arrival = wait(|| receive_report(&socket, &mut buffer));
            assert_eq!(&buffer[..arrival.bytes], b"who is there");
            let report = arrival.report.unwrap();
            assert_eq!((report.origin, report.kind, report.code), (origin, kind, code));
            assert_eq!((report.errno, report.offender), (libc::ECONNREFUSED, Some(gone.ip())));
            assert_eq!((arrival.from, arrival.ttl), (Some(gone), Some(64)));
            assert!(arrival.at.is_some());
            assert_eq!(receive_report(&socket, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn arrivals_have_ttl_time_and_address() {
        for host in ["127.0.0.1", "::1"] {
            let (near, far) = (probing(host), probing(host));
            socket2::SockRef::from(&near).set_ttl_v4(9).ok();
            socket2::SockRef::from(&near).set_unicast_hops_v6(9).ok();
            near.send_to(b"twelve bytes", far.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 6];
            let arrival = wait(|| receive(&far, &mut buffer));
            assert_eq!((arrival.bytes, &buffer), (6, b"twelve"));
            assert_eq!(arrival.from, Some(near.local_addr().unwrap()));
            assert_eq!((arrival.to, arrival.ttl), (Some(host.parse().unwrap()), Some(9)));
            let now = std::time::UNIX_EPOCH.elapsed().unwrap();
            assert!(arrival.at.unwrap().abs_diff(now) < Duration::from_secs(5));
        }
    }

    #[test]
    fn a_datagram_above_the_mtu_is_reported_with_the_mtu() {
        for (host, headers) in [("127.0.0.1", 28), ("::1", 48)] {
            let far = UdpSocket::bind((host, 0)).unwrap();
            let socket = probing(host);
            socket.connect(far.local_addr().unwrap()).unwrap();
            let mtu = path_mtu(&socket).unwrap();
            // Loopback may carry more than the largest datagram; then this test has no case.
            let Some(bytes) = (mtu as usize + 1).checked_sub(headers).filter(|bytes| *bytes <= 65_507) else {
                assert!(mtu >= 65_535, "{mtu}");
                continue;
            };
            let error = socket.send(&vec![0; bytes]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
            let report = wait(|| receive_report(&socket, &mut [0; 64])).report.unwrap();
            assert_eq!((report.origin, report.info), (Origin::Local, mtu));
        }
    }

    #[test]
    fn an_answer_is_sent_from_the_address_of_the_question() {
        for (bound, destination) in [("0.0.0.0", "127.0.0.9"), ("::", "127.0.0.9"), ("::", "::1")] {
            let server = UdpSocket::bind((bound, 0)).unwrap();
            enable_arrival_info(&server).unwrap();
            let client = UdpSocket::bind((if destination.contains(':') { "::1" } else { "127.0.0.1" }, 0)).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let port = server.local_addr().unwrap().port();
            // A connected socket takes answers from that address only.
            client.connect((destination, port)).unwrap();
            client.send(b"?").unwrap();
            let mut buffer = [0; 8];
            let arrival = wait(|| receive(&server, &mut buffer));
            assert_eq!(
                (arrival.to, arrival.ttl),
                (Some(destination.parse().unwrap()), Some(64)),
                "{bound} {destination}"
            );
            send_from(&server, b"!", arrival.from.unwrap(), arrival.to).unwrap();
            assert_eq!(client.recv(&mut buffer).unwrap(), 1, "{bound} {destination}");
        }
    }

    #[test]
    fn incomplete_control_messages_are_not_read() {
        let read = |bytes: &[u8]| {
            let mut arrival = Arrival::default();
            read_control(&mut arrival, bytes);
            arrival
        };
        let whole = source_control("10.1.2.3".parse().unwrap(), true);
        assert_eq!(read(&whole).to, Some("10.1.2.3".parse().unwrap()));
        for length in 0..CONTROL_HEADER + 12 {
            assert_eq!(read(&whole[..length]), Arrival::default(), "{length}");
        }
        let mut lying = whole.clone();
        lying[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(read(&lying), Arrival::default());
        lying[..8].copy_from_slice(&0usize.to_ne_bytes());
        assert_eq!(read(&lying), Arrival::default(), "and reading ends");
        assert_eq!(report(&[0; 15]), None);
        assert_eq!(report(&[0; 16]).map(|report| report.offender), Some(None));
    }
}
