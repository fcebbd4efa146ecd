//! IPv6 flow labels of the program's choice (RFC 6437; the kernel's side is `net/ipv6/ip6_flowlabel.c`): leased for a socket before it
//! connects, and read from the packets that arrive. No privilege is needed.
//!
//! This module does not know what a label means, or who reads it. A label cannot be set on a socket that `accept` returned: the calls
//! succeed and change nothing, since the connection got its label with the SYN.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd};

/// Labels have twenty bits.
pub const LABEL_MAX: u32 = (1 << 20) - 1;

// From linux/in6.h.
const IPV6_FLOWINFO: libc::c_int = 11;
const IPV6_FLOWLABEL_MGR: libc::c_int = 32;
const IPV6_FLOWINFO_SEND: libc::c_int = 33;
const ACTION_GET: u8 = 0;
const FLAG_CREATE: u16 = 1;
const FLAG_REMOTE: u16 = 8;
/// Other values of this field make the lease exclusive: to a process, a user, or the socket.
const SHARE_ANY: u8 = 255;

/// `struct in6_flowlabel_req`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LabelRequest {
    destination: [u8; 16],
    label: [u8; 4],
    action: u8,
    share: u8,
    flags: u16,
    expires: u16,
    linger: u16,
    padding: u32,
}

const _: () = assert!(size_of::<LabelRequest>() == 32 && std::mem::offset_of!(LabelRequest, flags) == 22);

fn set<T>(socket: &impl AsFd, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, plain numbers that the kernel only reads during the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_IPV6,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Leases a label for packets of this socket to `destination`. `connect` to an address with [`flow_info`] of the label then puts it on
/// every packet of the connection, the SYN included.
///
/// A lease belongs to a whole network namespace, and a SciTag has at most 32 labels. So the lease is shared with every other program that
/// shares its own. An exclusive lease would gain nothing, since several flows may have one label (RFC 6437, section 2), and would have a
/// price: while one exists, the kernel refuses every label that was not leased, to all programs (`flowlabel_has_excl`). "Of one process"
/// means one thread to the kernel.
///
/// # Errors
/// `InvalidInput`: the label is 0 or has more than 20 bits. `PermissionDenied`: another program holds this label exclusively; another
/// label may be free. `ERANGE`: the host reserves labels from 0x80000 on for its own use (`net.ipv6.flowlabel_state_ranges`); a lower
/// label may be free.
pub fn set_flow_label(socket: &impl AsFd, destination: Ipv6Addr, label: u32) -> io::Result<()> {
    if label == 0 || label > LABEL_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a flow label has 20 bits and is not 0"));
    }
    let request = LabelRequest {
        destination: destination.octets(),
        label: label.to_be_bytes(),
        action: ACTION_GET,
        share: SHARE_ANY,
        // Without IPV6_FL_F_EXCL the kernel joins an existing lease, so there is no race.
        flags: FLAG_CREATE,
        // Zero means the kernel's minimum, six seconds; a label does not expire while a socket holds it.
        expires: 0,
        linger: 0,
        padding: 0,
    };
    set(socket, IPV6_FLOWLABEL_MGR, &request)?;
    set(socket, IPV6_FLOWINFO_SEND, &1i32)
}

/// A label in network byte order, which `SocketAddrV6::set_flowinfo` expects.
pub fn flow_info(label: u32) -> u32 {
    (label & LABEL_MAX).to_be()
}

/// Makes the kernel record the label of arriving packets. Sockets that a listening socket accepts inherit this.
///
/// # Errors
/// The kernel refuses the option.
pub fn watch_flow_label(socket: &impl AsFd) -> io::Result<()> {
    set(socket, IPV6_FLOWINFO, &1i32)
}

/// The label of the packet that arrived last on a watched connection.
///
/// # Errors
/// The kernel refuses the option.
pub fn arrived_flow_label(socket: &impl AsFd) -> io::Result<u32> {
    let mut request = LabelRequest {
        destination: [0; 16],
        label: [0; 4],
        action: ACTION_GET,
        share: 0,
        flags: FLAG_REMOTE,
        expires: 0,
        linger: 0,
        padding: 0,
    };
    let mut length = size_of::<LabelRequest>() as libc::socklen_t;
    // SAFETY: the pointers describe `request` and its length, which outlive the call; the kernel writes at most that, and
    // every pattern of bits is a valid value of these numbers.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_IPV6,
            IPV6_FLOWLABEL_MGR,
            (&raw mut request).cast(),
            &raw mut length,
        )
    };
    if status == 0 { Ok(u32::from_be_bytes(request.label) & LABEL_MAX) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, SocketAddrV6, TcpListener, TcpStream};

    /// The label that `web::scitag` gives to experiment 7, activity 4, with no random bits: 448 * 512 + 4 * 4.
    const LABEL: u32 = 229_392;

    fn listening(test: &str) -> Option<TcpListener> {
        let listener = TcpListener::bind("[::1]:0").and_then(|listener| {
            watch_flow_label(&listener)?;
            Ok(listener)
        });
        let skipped = |error| writeln!(io::stderr(), "SKIPPED {test}: no IPv6 with labels here: {error}");
        listener.map_err(skipped).ok()
    }

    fn socket() -> Socket {
        Socket::new(Domain::IPV6, Type::STREAM, None).unwrap()
    }

    fn connect(listener: &TcpListener, socket: Socket, label: Option<u32>) -> (TcpStream, TcpStream) {
        let SocketAddr::V6(mut to) = listener.local_addr().unwrap() else { panic!("an IPv6 address") };
        to.set_flowinfo(label.map_or(0, flow_info));
        socket.connect(&SocketAddrV6::into(to)).unwrap();
        (socket.into(), listener.accept().unwrap().0)
    }

    fn send_byte(from: &mut TcpStream, to: &mut TcpStream) {
        from.write_all(b"x").unwrap();
        to.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn labels_are_on_the_packets() {
        let Some(listener) = listening("labels_are_on_the_packets") else { return };
        let socket = socket();
        set_flow_label(&socket, Ipv6Addr::LOCALHOST, LABEL).unwrap();
        let (mut near, mut far) = connect(&listener, socket, Some(LABEL));
        assert_eq!(arrived_flow_label(&far).unwrap(), LABEL, "of the handshake");
        for _ in 0..2 {
            send_byte(&mut near, &mut far);
            assert_eq!(arrived_flow_label(&far).unwrap(), LABEL);
        }
        // A socket without a lease has a label of the kernel's choice.
        let (mut near, mut far) = connect(&listener, self::socket(), None);
        send_byte(&mut near, &mut far);
        assert_ne!(arrived_flow_label(&far).unwrap(), LABEL);
    }

    #[test]
    fn many_flows_share_a_label() {
        let Some(listener) = listening("many_flows_share_a_label") else { return };
        let label = LABEL | 1;
        let mut sockets = Vec::new();
        // Each in its own thread: an exclusive lease would belong to one thread.
        for elsewhere in [Ipv6Addr::LOCALHOST, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), Ipv6Addr::LOCALHOST] {
            let socket = std::thread::spawn(move || {
                let socket = socket();
                set_flow_label(&socket, elsewhere, label).map(|()| socket)
            });
            sockets.push(socket.join().unwrap().unwrap());
        }
        let (mut near, mut far) = connect(&listener, sockets.pop().unwrap(), Some(label));
        send_byte(&mut near, &mut far);
        assert_eq!(arrived_flow_label(&far).unwrap(), label);
    }

    #[test]
    fn a_label_that_another_program_holds_exclusively_is_refused() {
        let test = "a_label_that_another_program_holds_exclusively_is_refused";
        if listening(test).is_none() {
            return;
        }
        // A lease outlives its socket by some seconds: the next run of this test needs another label.
        let label = 0x1_0000 | std::process::id() & 0xffff;
        let own = socket();
        let exclusive = LabelRequest {
            destination: Ipv6Addr::LOCALHOST.octets(),
            label: label.to_be_bytes(),
            action: ACTION_GET,
            share: 1,
            flags: FLAG_CREATE,
            expires: 0,
            linger: 0,
            padding: 0,
        };
        set(&own, IPV6_FLOWLABEL_MGR, &exclusive).unwrap();
        let refused = set_flow_label(&socket(), Ipv6Addr::LOCALHOST, label).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn an_accepted_socket_keeps_the_kernels_label() {
        let Some(listener) = listening("an_accepted_socket_keeps_the_kernels_label") else { return };
        let client = socket();
        watch_flow_label(&client).unwrap();
        let (mut near, mut far) = connect(&listener, client, None);
        let label = LABEL | 3;
        let _ = set_flow_label(&far, Ipv6Addr::LOCALHOST, label);
        send_byte(&mut far, &mut near);
        assert_ne!(arrived_flow_label(&near).unwrap(), label);
    }

    #[test]
    fn an_invalid_label_is_refused() {
        for label in [0, LABEL_MAX + 1] {
            let refused = set_flow_label(&socket(), Ipv6Addr::LOCALHOST, label).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(flow_info(0x1_2345).to_ne_bytes(), [0, 1, 0x23, 0x45]);
    }
}
