//! Reads and changes network interfaces and their queueing disciplines (rtnetlink(7)).
//!
//! Each request has a socket of its own; the kernel answers before the request returns. This module does not know which values are right.

mod parse;

use std::io::{self, Read, Write};
use std::time::Duration;

use parse::{Message, attribute, messages, request, text, u32_at};
use socket2::{Domain, Protocol, Socket, Type};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
/// The kernel's data changed during the dump.
const NLM_F_DUMP_INTR: u16 = 0x10;

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GRO_MAX_SIZE: u16 = 58;
const IFLA_TSO_MAX_SIZE: u16 = 59;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;
const IFLA_INFO_KIND: u16 = 1;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_FQ_FLOW_MAX_RATE: u16 = 7;

/// Leave the counters out of an answer.
const SKIP_STATS: u32 = 1 << 3;
/// Bytes of `struct ifinfomsg` and of `struct tcmsg`.
const LINK_BYTES: usize = 16;
const QDISC_BYTES: usize = 20;
/// The kernel's messages have at most 32 KiB by default; one interface with many virtual functions may have more.
const ANSWER_BYTES_MAX: usize = 1 << 18;
/// Queueing disciplines of a whole host; NICs have up to some hundred queues each.
const QDISCS_MAX: usize = 1 << 16;
/// How long to wait for the kernel's answer, which normally arrives at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a dump is repeated because the data changed during it.
const DUMPS_MAX: usize = 3;

/// The parent of a discipline at the root of an interface.
pub const ROOT: u32 = u32::MAX;

/// An interface. A field is none where this kernel does not report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: i32,
    /// The largest packet, bytes.
    pub mtu_bytes: Option<u32>,
    /// The length of its queue in packets, for disciplines that use it.
    pub queue_packets: Option<u32>,
    /// Transmit queues.
    pub transmit_queues: Option<u32>,
    /// `IF_OPER_*` of linux/if.h: 2 is down, 6 is up.
    pub operstate: Option<u8>,
    /// The kind of a virtual interface: `veth`, `bond`, …
    pub kind: Option<String>,
    /// The largest segment that it accepts for segmentation offload, bytes.
    pub gso_max_bytes: Option<u32>,
    /// The largest segment that is merged from received packets, bytes.
    pub gro_max_bytes: Option<u32>,
    /// As `gso_max_bytes`, for IPv4 alone (Linux 6.3).
    pub gso_ipv4_max_bytes: Option<u32>,
    /// As `gro_max_bytes`, for IPv4 alone (Linux 6.3).
    pub gro_ipv4_max_bytes: Option<u32>,
    /// The largest segment that the device itself can cut, bytes.
    pub tso_max_bytes: Option<u32>,
}

/// A number of an interface that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of Link")]
pub enum Size {
    Mtu,
    QueuePackets,
    GsoMax,
    GroMax,
    GsoIpv4Max,
    GroIpv4Max,
}

/// A queueing discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// `fq`, `mq`, …
    pub kind: String,
    /// Major number in the upper half; 0 where the kernel gave none.
    pub handle: u32,
    /// Its parent: [`ROOT`], or the class and discipline above it.
    pub parent: u32,
    /// Of fq: the maximum rate of one flow, bytes/s; `u32::MAX` is no limit.
    pub flow_rate_max_bytes_s: Option<u32>,
}

impl Qdisc {
    /// Whether it is a child of this discipline.
    pub fn is_child_of(&self, root: &Qdisc) -> bool {
        // The discipline for incoming packets (ingress) has a special parent, with ones in its upper half.
        self.parent >> 16 == root.handle >> 16 && self.parent != ROOT
    }
}

fn invalid_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is invalid")
}

/// The error of an error message; none if it is an acknowledgement.
fn refusal(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).ok_or_else(invalid_answer)?.cast_signed() {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}

/// Sends a request with its fixed part and its attributes (`with`), and passes each message of the answer to `each`. Returns whether the
/// data changed during the answer.
fn exchange(
    kind: u16,
    flags: u16,
    fixed: &[u8],
    with: &[(u16, Vec<u8>)],
    each: &mut dyn FnMut(Message<'_>),
) -> io::Result<bool> {
    const SEQUENCE: u32 = 1;
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    // Without an address, the message goes to the kernel.
    socket.write_all(&request(kind, flags | NLM_F_REQUEST, SEQUENCE, fixed, with))?;
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    let mut changed = false;
    let mut count = 0;
    loop {
        let length = socket.read(&mut buffer)?;
        let before = count;
        for message in messages(buffer.get(..length).unwrap_or_default()).filter(|message| message.sequence == SEQUENCE)
        {
            count += 1;
            changed |= message.flags & NLM_F_DUMP_INTR != 0;
            match message.kind {
                NLMSG_ERROR => return refusal(message.body).map(|()| changed),
                NLMSG_DONE => return Ok(changed),
                _ => each(message),
            }
            // A request for one object has one answer.
            if flags & (NLM_F_DUMP | NLM_F_ACK) == 0 {
                return Ok(changed);
            }
        }
        if count == before || count > QDISCS_MAX {
            return Err(invalid_answer());
        }
    }
}

/// Parses an interface from the body of its message.
fn parse_link(body: &[u8]) -> Option<Link> {
    let all = body.get(LINK_BYTES..)?;
    let number = |which: u16| u32_at(attribute(all, which)?, 0);
    Some(Link {
        index: u32_at(body, 4)?.cast_signed(),
        mtu_bytes: number(IFLA_MTU),
        queue_packets: number(IFLA_TXQLEN),
        transmit_queues: number(IFLA_NUM_TX_QUEUES),
        operstate: attribute(all, IFLA_OPERSTATE).and_then(|value| value.first().copied()),
        kind: attribute(all, IFLA_LINKINFO).and_then(|nested| attribute(nested, IFLA_INFO_KIND)).map(text),
        gso_max_bytes: number(IFLA_GSO_MAX_SIZE),
        gro_max_bytes: number(IFLA_GRO_MAX_SIZE),
        gso_ipv4_max_bytes: number(IFLA_GSO_IPV4_MAX_SIZE),
        gro_ipv4_max_bytes: number(IFLA_GRO_IPV4_MAX_SIZE),
        tso_max_bytes: number(IFLA_TSO_MAX_SIZE),
    })
}

/// Parses a discipline of an interface from the body of its message; none if it belongs to another interface.
fn parse_qdisc(body: &[u8], index: i32) -> Option<Qdisc> {
    let all = body.get(QDISC_BYTES..)?;
    if u32_at(body, 4)?.cast_signed() != index {
        return None;
    }
    let kind = text(attribute(all, TCA_KIND)?);
    let option = |number: u16| u32_at(attribute(attribute(all, TCA_OPTIONS)?, number)?, 0);
    let flow_rate_max_bytes_s = if kind == "fq" { option(TCA_FQ_FLOW_MAX_RATE) } else { None };
    Some(Qdisc { handle: u32_at(body, 8)?, parent: u32_at(body, 12)?, kind, flow_rate_max_bytes_s })
}

/// Reads an interface of this thread's network.
///
/// # Errors
/// There is no interface of that name (`ENODEV`), or the kernel does not answer.
pub fn link(name: &str) -> io::Result<Link> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        let why = format!("{name:?} is not the name of an interface");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let named = [name.as_bytes(), &[0]].concat();
    let with = [(IFLA_IFNAME, named), (IFLA_EXT_MASK, SKIP_STATS.to_ne_bytes().to_vec())];
    let mut found = None;
    let mut each = |message: Message<'_>| {
        if message.kind == RTM_NEWLINK {
            found = parse_link(message.body);
        }
    };
    exchange(RTM_GETLINK, 0, &[0; LINK_BYTES], &with, &mut each)?;
    found.ok_or_else(invalid_answer)
}

/// Reads the disciplines of an interface, in the kernel's order: that of the root, and those below it.
///
/// # Errors
/// As [`link`], or the disciplines change faster than they can be read.
pub fn qdiscs(name: &str) -> io::Result<Vec<Qdisc>> {
    let index = link(name)?.index;
    for _ in 0..DUMPS_MAX {
        let mut found = Vec::new();
        let mut each = |message: Message<'_>| {
            if message.kind == RTM_NEWQDISC {
                found.extend(parse_qdisc(message.body, index));
            }
        };
        if !exchange(RTM_GETQDISC, NLM_F_DUMP, &qdisc_head(index, 0, 0), &[], &mut each)? {
            return Ok(found);
        }
    }
    Err(io::Error::other("the queueing disciplines change while they are read"))
}

fn qdisc_head(index: i32, handle: u32, parent: u32) -> [u8; QDISC_BYTES] {
    let mut head = [0; QDISC_BYTES];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&handle.to_ne_bytes());
    head[12..16].copy_from_slice(&parent.to_ne_bytes());
    head
}

/// Changes a number of an interface.
///
/// # Errors
/// As [`link`]; no permission (CAP_NET_ADMIN); a value that the device cannot have.
pub fn set_size(name: &str, which: Size, value: u32) -> io::Result<()> {
    let number = match which {
        Size::Mtu => IFLA_MTU,
        Size::QueuePackets => IFLA_TXQLEN,
        Size::GsoMax => IFLA_GSO_MAX_SIZE,
        Size::GroMax => IFLA_GRO_MAX_SIZE,
        Size::GsoIpv4Max => IFLA_GSO_IPV4_MAX_SIZE,
        Size::GroIpv4Max => IFLA_GRO_IPV4_MAX_SIZE,
    };
    let mut head = [0; LINK_BYTES];
    head[4..8].copy_from_slice(&link(name)?.index.to_ne_bytes());
    let with = [(number, value.to_ne_bytes().to_vec())];
    exchange(RTM_NEWLINK, NLM_F_ACK, &head, &with, &mut |_| {}).map(drop)
}

/// Replaces the discipline at [`ROOT`], or at `parent`, by one of this kind with its defaults. With a handle of 0 the kernel chooses.
///
/// # Errors
/// As [`set_size`]; or the kernel has no such discipline, or the interface no such parent.
pub fn replace_qdisc(name: &str, kind: &str, parent: u32, handle: u32) -> io::Result<()> {
    let head = qdisc_head(link(name)?.index, handle, parent);
    let with = [(TCA_KIND, [kind.as_bytes(), &[0]].concat())];
    exchange(RTM_NEWQDISC, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &head, &with, &mut |_| {}).map(drop)
}

#[cfg(test)]
mod tests;
