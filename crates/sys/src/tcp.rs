//! The kernel's facts about a TCP connection, and the options that a transfer sets.

use std::io::{self, Read};
use std::mem::{MaybeUninit, size_of};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use model::tcp::TcpInfo;
use socket2::SockRef;

/// The head of the kernel's `struct tcp_info` (linux/tcp.h) up to the fields used here. The C library's copy is older and shorter. The
/// kernel only appends fields, and fills as many as the caller's length allows.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawTcpInfo {
    state: u8,
    /// State of congestion control, RTOs in a row, unanswered probes, backoff.
    ca_state_to_backoff: [u8; 4],
    options: u8,
    window_scales: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked_to_fackets: [u32; 4],
    /// Milliseconds since: data was sent, an acknowledgement was sent, data arrived, an acknowledgement arrived.
    last_times: [u32; 4],
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt_us: u32,
    rttvar_us: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt_us: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

// Offsets from linux/tcp.h; a wrong one would shift every number after it.
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, last_times) == 44);
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, rtt_us) == 68);
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, pacing_rate) == 104);
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, min_rtt_us) == 148);
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, sndbuf_limited_us) == 184);
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, bytes_sent) == 200);
const _: () = assert!(std::mem::offset_of!(RawTcpInfo, snd_wnd) == 228);

/// In `options`: both ends sent a window scale.
const OPTION_WINDOW_SCALE: u8 = 4;
/// In `flags`: the delivery rate was measured while there was too little to send.
const FLAG_APP_LIMITED: u8 = 1;
/// In `state`: `TCP_CLOSE`.
const STATE_CLOSED: u8 = 7;

/// Reads `TCP_INFO`. Fields that an old kernel does not know read as zero.
///
/// # Errors
/// The kernel refuses the call.
pub fn info(socket: &TcpStream) -> io::Result<TcpInfo> {
    let mut raw = MaybeUninit::<RawTcpInfo>::zeroed();
    let mut len = size_of::<RawTcpInfo>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `raw`, which outlives the call; the kernel writes at most `len` bytes.
    let status = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), &raw mut len)
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed before the call, and every bit pattern is a valid value of these integer fields.
    let raw = unsafe { raw.assume_init() };
    let micros = |us: u64| Duration::from_micros(us);
    Ok(TcpInfo {
        rtt: micros(raw.rtt_us.into()),
        // The kernel's "never measured" is all ones.
        min_rtt: micros(if raw.min_rtt_us == u32::MAX { 0 } else { raw.min_rtt_us.into() }),
        retransmits: raw.total_retrans.into(),
        cwnd_segments: raw.snd_cwnd,
        mss_bytes: raw.snd_mss,
        delivery_rate_bytes_s: raw.delivery_rate,
        busy: micros(raw.busy_time_us),
        receive_window_limited: micros(raw.rwnd_limited_us),
        send_buffer_limited: micros(raw.sndbuf_limited_us),
        bytes_acked: raw.bytes_acked,
        bytes_received: raw.bytes_received,
        bytes_sent: raw.bytes_sent,
        bytes_retransmitted: raw.bytes_retrans,
        delivered_segments: raw.delivered,
        unacked_segments: raw.unacked,
        unanswered: raw.ca_state_to_backoff[2],
        since_ack: Duration::from_millis(raw.last_times[3].into()),
        since_data: Duration::from_millis(raw.last_times[2].into()),
        unsent_bytes: raw.notsent_bytes,
        spurious: raw.dsack_dups,
        send_window_bytes: raw.snd_wnd.into(),
        path_mtu_bytes: raw.pmtu,
        pacing_max_bytes_s: (raw.max_pacing_rate != 0 && raw.max_pacing_rate != u64::MAX)
            .then_some(raw.max_pacing_rate),
        window_scaling: raw.options & OPTION_WINDOW_SCALE != 0,
        app_limited: raw.flags & FLAG_APP_LIMITED != 0,
        closed: raw.state == STATE_CLOSED,
    })
}

/// The congestion control in force.
pub fn congestion(socket: &TcpStream) -> String {
    let name = SockRef::from(socket).tcp_congestion().unwrap_or_default();
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// Sets the congestion control of one connection.
///
/// # Errors
/// The host does not have it, or does not permit it.
pub fn set_congestion(socket: &TcpStream, name: &str) -> io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())
}

/// Congestion controls that this host permits to ordinary users.
pub fn congestion_allowed() -> Vec<String> {
    congestion_list("tcp_allowed_congestion_control")
}

/// Congestion controls that this host has, permitted or not.
pub fn congestion_available() -> Vec<String> {
    congestion_list("tcp_available_congestion_control")
}

fn congestion_list(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The largest buffers, in bytes, that the kernel gives a connection by itself: to receive and to send (`tcp_rmem`, `tcp_wmem`, tcp(7)).
/// Zero where the kernel does not report them.
pub fn buffers_max() -> (u64, u64) {
    let last = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        text.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    (last("tcp_rmem"), last("tcp_wmem"))
}

/// Whether this host scales windows (`tcp_window_scaling`).
pub fn scales_windows() -> bool {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_window_scaling").unwrap_or_default();
    text.trim() != "0"
}

/// Caps the rate at which the kernel sends on one connection (`SO_MAX_PACING_RATE`, bytes per second).
///
/// # Errors
/// The kernel refuses the option.
pub fn set_pacing(socket: &TcpStream, bytes_per_second: u64) -> io::Result<()> {
    let rate: libc::c_ulong = bytes_per_second;
    // SAFETY: the pointer and length describe `rate`, which outlives the call. Eight bytes: the kernel takes the long
    // form since 4.20, and four would end at 34 Gbit/s.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of::<libc::c_ulong>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the options of every connection: no Nagle delay, keep-alive, and a bound on waiting for a peer that stopped answering
/// (`TCP_USER_TIMEOUT`, RFC 5482).
///
/// # Errors
/// The kernel refuses an option.
pub fn set_common(socket: &TcpStream, silence: Duration) -> io::Result<()> {
    let reference = SockRef::from(socket);
    reference.set_tcp_nodelay(true)?;
    // An end that only reads has no unacknowledged data: only these probes detect that the path is dead.
    let seconds = |span: Duration| span.max(Duration::from_secs(1));
    let probes = socket2::TcpKeepalive::new().with_time(seconds(silence / 2)).with_interval(seconds(silence / 6));
    let probes = probes.with_retries(3);
    reference.set_tcp_keepalive(&probes)?;
    reference.set_tcp_user_timeout(Some(silence))
}

/// Fills the buffer by a deadline, however slowly the bytes arrive: a bound on each read would not bound the sum. Afterwards the
/// socket has no read timeout.
///
/// # Errors
/// `TimedOut` at the deadline, `UnexpectedEof` if the peer closes the connection, or an error of the system.
pub fn read_exact_by(mut socket: &TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut have = 0;
    while have < buffer.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut buffer[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => have += got,
            // The loop checks the time.
            Err(e) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&e.kind()) => {}
            Err(e) => return Err(e),
        }
    }
    socket.set_read_timeout(None)
}

/// Sets how long sent data may stay unacknowledged, or the peer's window closed, before the kernel ends the connection. A receiver with a
/// slow disk may close its window for long and is not dead.
///
/// # Errors
/// The kernel refuses the option.
pub fn set_user_timeout(socket: &TcpStream, patience: Duration) -> io::Result<()> {
    SockRef::from(socket).set_tcp_user_timeout(Some(patience))
}

/// Sets how soon the kernel ends a connection whose path is dead, at an end that only reads.
///
/// # Errors
/// The kernel refuses an option.
pub fn set_probes(socket: &TcpStream, silence: Duration) -> io::Result<()> {
    let second = Duration::from_secs(1);
    let probes = socket2::TcpKeepalive::new().with_time(second).with_interval(second).with_retries(3);
    let reference = SockRef::from(socket);
    reference.set_tcp_keepalive(&probes)?;
    reference.set_tcp_user_timeout(Some(silence))
}

/// Whether the peer has closed or reset a connection on which it never sends. Does not wait.
pub fn is_closed_by_peer(socket: &TcpStream) -> bool {
    use rustix::net::{RecvFlags, recv};
    let mut one = [0u8; 1];
    match recv(socket, &mut one, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, got)) => got == 0,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

/// Bytes that have arrived on a connection and have not been read yet.
pub fn unread_bytes(socket: &TcpStream) -> u64 {
    rustix::io::ioctl_fionread(socket).unwrap_or(0)
}

/// Bounds the unsent bytes in the kernel, so that no block is assigned to a stream long before it can leave.
///
/// # Errors
/// The kernel refuses the option.
pub fn set_unsent_limit(socket: &TcpStream, bytes: u32) -> io::Result<()> {
    SockRef::from(socket).set_tcp_notsent_lowat(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn the_facts_of_a_live_connection_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 100_000]).unwrap();
        far.read_exact(&mut vec![0; 100_000]).unwrap();
        far.write_all(b"x").unwrap();
        near.read_exact(&mut [0]).unwrap();
        let near_info = info(&near).unwrap();
        // Kernels differ in whether the SYN counts.
        assert!((100_000..=100_001).contains(&near_info.bytes_acked), "{near_info:?}");
        assert_eq!(near_info.bytes_received, 1);
        assert!((100_000..200_000).contains(&near_info.bytes_sent), "{near_info:?}");
        assert!(near_info.delivered_segments > 0 && near_info.send_window_bytes > 0, "{near_info:?}");
        assert_eq!(near_info.window_scaling, scales_windows());
        assert!(near_info.mss_bytes >= 536, "{near_info:?}");
        assert!(near_info.rtt > Duration::ZERO && near_info.rtt < Duration::from_secs(1), "{near_info:?}");
        // Counted in ticks of the kernel's clock: the time of so short a connection may round to zero.
        assert!(near_info.busy < Duration::from_secs(1), "{near_info:?}");
    }

    #[test]
    fn written_bytes_are_counted_before_they_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        // The peer does not read, so the buffers of both ends fill, and a part stays with the sender.
        let mut written = 0;
        while let Ok(bytes) = near.write(&[7; 1 << 16]) {
            written += bytes as u64;
        }
        let info_before = info(&near).unwrap();
        assert_eq!(info_before.bytes_written(), written, "{info_before:?}");
        assert!(info_before.bytes_acked < written && !info_before.closed, "{info_before:?}");
        // Closed with bytes unread: a reset.
        drop(far);
        assert!((0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            info(&near).unwrap().closed
        }));
    }

    #[test]
    fn single_bytes_do_not_postpone_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        far.write_all(b"abc").unwrap();
        let mut three = [0; 3];
        read_exact_by(&near, &mut three, Instant::now() + Duration::from_secs(60)).unwrap();
        assert_eq!((&three, near.read_timeout().unwrap()), (b"abc", None));
        let trickle = std::thread::spawn(move || {
            while far.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let error = read_exact_by(&near, &mut [0; 1 << 20], Instant::now() + Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(near);
        trickle.join().unwrap();
    }

    #[test]
    fn options_are_set() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_common(&socket, Duration::from_secs(30)).unwrap();
        set_pacing(&socket, 10_000_000_000).unwrap();
        set_unsent_limit(&socket, 1 << 19).unwrap();
        let allowed = congestion_allowed();
        let name = allowed.first().expect("every kernel allows one");
        set_congestion(&socket, name).unwrap();
        assert_eq!(&congestion(&socket), name);
        assert!(set_congestion(&socket, "no-such-thing").is_err());
    }
}
