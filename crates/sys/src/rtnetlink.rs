//! What the kernel says of a network interface and its queueing disciplines, and changes there (rtnetlink(7)).
//!
//! A socket of its own for each question; the kernel answers before it returns from the question. What it does not know:
//! what the values should be.

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
/// What was dumped changed meanwhile.
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
/// The kernel's messages to one who asks are 32 KiB at most; one interface with many virtual functions may have more.
const ANSWER_BYTES_MAX: usize = 1 << 18;
/// Queueing disciplines of a whole host; NICs have up to some hundred queues each.
const QDISCS_MAX: usize = 1 << 16;
/// The kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a dump is begun again that changed under it.
const DUMPS_MAX: usize = 3;

/// The parent of what is at the root of an interface.
pub const ROOT: u32 = u32::MAX;

/// An interface. A number that this kernel does not know is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: i32,
    /// Bytes of a packet.
    pub mtu_bytes: Option<u32>,
    /// Packets that wait, for disciplines that go by it.
    pub queue_packets: Option<u32>,
    /// Transmit queues.
    pub transmit_queues: Option<u32>,
    /// `IF_OPER_*` of linux/if.h: 2 is down, 6 is up.
    pub operstate: Option<u8>,
    /// What makes it, where that is no driver: `veth`, `bond`, …
    pub kind: Option<String>,
    /// Bytes of the largest piece that is sent to it.
    pub gso_max_bytes: Option<u32>,
    /// Bytes of the largest piece that is merged from received packets.
    pub gro_max_bytes: Option<u32>,
    /// As `gso_max_bytes`, for IPv4 alone (Linux 6.3).
    pub gso_ipv4_max_bytes: Option<u32>,
    /// As `gro_max_bytes`, for IPv4 alone (Linux 6.3).
    pub gro_ipv4_max_bytes: Option<u32>,
    /// Bytes of the largest piece that the device can cut.
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
    /// What it belongs to: [`ROOT`], or class and discipline above it.
    pub parent: u32,
    /// Of fq: what one flow may send, bytes/s; `u32::MAX` is no limit.
    pub flow_rate_max_bytes_s: Option<u32>,
}

impl Qdisc {
    /// Whether it is a part of another one.
    pub fn is_child_of(&self, root: &Qdisc) -> bool {
        // What filters packets that come in has a parent of its own, with ones in its upper half.
        self.parent >> 16 == root.handle >> 16 && self.parent != ROOT
    }
}

fn senseless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer makes no sense")
}

/// What an error message says; none where it is an acknowledgement.
fn refusal(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).ok_or_else(senseless)?.cast_signed() {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}

/// Asks, and hands over messages until the answer is complete. Whether it changed while it was given.
fn exchange(
    kind: u16,
    flags: u16,
    fixed: &[u8],
    with: &[(u16, Vec<u8>)],
    each: &mut dyn FnMut(Message<'_>),
) -> io::Result<bool> {
    const SEQUENCE: u32 = 1;
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // Without an address it goes to the kernel.
    socket.write_all(&request(kind, flags | NLM_F_REQUEST, SEQUENCE, fixed, with))?;
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    let (mut changed, mut count) = (false, 0);
    loop {
        let length = socket.read(&mut buffer)?;
        let before = count;
        for message in messages(buffer.get(..length).unwrap_or_default()).filter(|its| its.sequence == SEQUENCE) {
            count += 1;
            changed |= message.flags & NLM_F_DUMP_INTR != 0;
            match message.kind {
                NLMSG_ERROR => return refusal(message.body).map(|()| changed),
                NLMSG_DONE => return Ok(changed),
                _ => each(message),
            }
            // A question about one thing has one answer.
            if flags & (NLM_F_DUMP | NLM_F_ACK) == 0 {
                return Ok(changed);
            }
        }
        if count == before || count > QDISCS_MAX {
            return Err(senseless());
        }
    }
}

/// An interface out of the body of its message.
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

/// A discipline of an interface out of the body of its message; none where it is another one's.
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

/// An interface of this thread's network.
///
/// # Errors
/// There is none of that name (`ENODEV`); the kernel does not answer.
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
    found.ok_or_else(senseless)
}

/// The disciplines of an interface, as the kernel lists them: the root's, and those below it.
///
/// # Errors
/// As [`link`]; or they change faster than they can be read.
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

/// Puts a discipline, with its defaults, in the place of another: at [`ROOT`], or where `parent` says. A handle of 0
/// leaves it to the kernel.
///
/// # Errors
/// As [`set_size`]; the kernel has no such discipline, or no such place.
pub fn replace_qdisc(name: &str, kind: &str, parent: u32, handle: u32) -> io::Result<()> {
    let head = qdisc_head(link(name)?.index, handle, parent);
    let with = [(TCA_KIND, [kind.as_bytes(), &[0]].concat())];
    exchange(RTM_NEWQDISC, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &head, &with, &mut |_| {}).map(drop)
}

#[cfg(test)]
mod tests;
