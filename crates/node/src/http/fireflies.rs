//! SciTags of the flows that this node serves or makes: a flow label where the node connects, fireflies for all.
//!
//! What this room does not know: the formulas and the text (`web::scitag`), the calls (`sys::flow_label`).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Timestamp;
use model::tcp::TcpInfo;
use web::client::Prepare;
use web::scitag::{Firefly, Moment, SciTag};

use crate::clock::now;

/// What flows are said to belong to.
const APPLICATION: &str = "longhaul";
/// A label that somebody keeps to himself is one of 32 for the same mark, and where a host keeps the upper half of all
/// labels for its own use, half of them are left: after eight throws one of 256 flows has none.
const LABELS_TRIED: usize = 8;

/// What this host calls itself.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Tells collectors of marked flows. Clones share the sockets.
#[derive(Clone)]
pub(crate) struct Fireflies(Option<Arc<Sender>>);

struct Sender {
    collectors: Vec<SocketAddr>,
    host: String,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    complained: AtomicBool,
}

fn socket(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    // A datagram that finds no room is lost, as any other may be; no transfer waits for one.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Sender {
    fn send_to(&self, datagram: &str, collector: SocketAddr) -> io::Result<()> {
        let socket = if collector.is_ipv4() { &self.v4 } else { &self.v6 };
        let socket = socket.as_ref().ok_or(io::ErrorKind::AddrNotAvailable)?;
        socket.send_to(datagram.as_bytes(), collector).map(drop)
    }

    fn send(&self, firefly: &Firefly) {
        let datagram = firefly.datagram(&self.host);
        for collector in &self.collectors {
            if let Err(error) = self.send_to(&datagram, *collector)
                && !self.complained.swap(true, Ordering::Relaxed)
            {
                tracing::warn!(%collector, %error, "a firefly could not be sent; there will be no word of further ones");
            }
        }
    }
}

impl Fireflies {
    /// To these collectors; without any nothing is ever sent, or looked at. The name goes into each datagram.
    pub fn new(collectors: Vec<SocketAddr>, host: String) -> Fireflies {
        if collectors.is_empty() {
            return Fireflies(None);
        }
        // What cannot be bound is said when something is to be sent.
        let v4 = socket((Ipv4Addr::UNSPECIFIED, 0).into()).ok();
        let v6 = socket((Ipv6Addr::UNSPECIFIED, 0).into()).ok();
        Fireflies(Some(Arc::new(Sender { collectors, host, v4, v6, complained: AtomicBool::new(false) })))
    }

    /// A flow begins, over a connection that is its own until it ends. Who sends the data is the flow's source, whoever
    /// reports (xrootd's issue 2322): in a pull that is the other end.
    pub fn begin(&self, tag: SciTag, socket: &TcpStream, we_send: bool) -> Flying {
        let sender = self.0.as_ref().filter(|_| tag.is_marked());
        let flight = sender.and_then(|sender| Flight::begin(sender, tag, socket, we_send).ok());
        if let Some(flight) = &flight {
            flight.tell(Moment::Start);
        }
        Flying(flight)
    }
}

/// A flow that collectors know of. It ends where this is dropped, so that no return, error or panic can forget it.
///
/// It holds a descriptor of its own: its numbers are there to read whatever became of the connection meanwhile. The price is
/// that a connection which is dropped without `shutdown` stays open for as long as this lives; so let it live no longer
/// than the body. Of two locals the later goes first: begin after connecting, and the order is right by itself.
#[derive(Default)]
#[must_use = "the flow ends where this is dropped"]
pub(crate) struct Flying(Option<Flight>);

struct Flight {
    sender: Arc<Sender>,
    socket: TcpStream,
    tag: SciTag,
    we_send: bool,
    local: SocketAddr,
    peer: SocketAddr,
    started: Timestamp,
    base: TcpInfo,
}

impl Flight {
    fn begin(sender: &Arc<Sender>, tag: SciTag, socket: &TcpStream, we_send: bool) -> io::Result<Flight> {
        let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
        let mut base = sys::tcp::info(socket)?;
        // Of a body that comes, some is here already.
        base.bytes_received = base.bytes_received.saturating_sub(sys::tcp::unread_bytes(socket));
        let (sender, socket, started) = (Arc::clone(sender), socket.try_clone()?, now());
        Ok(Flight { sender, socket, tag, we_send, local, peer, started, base })
    }

    /// What this end received and sent since the beginning: a connection that is kept carries many flows, and a sum over
    /// its fireflies must not count the first of them again and again.
    fn usage(&self, info: &TcpInfo) -> (u64, u64) {
        let since = info.since(&self.base);
        // What waits in the kernel arrives as long as the connection lives, and nobody stays here until it has.
        let written = info.bytes_written().saturating_sub(self.base.bytes_written());
        (since.bytes_received, if info.closed { since.bytes_acked.min(written) } else { written })
    }

    fn tell(&self, moment: Moment) {
        let info = sys::tcp::info(&self.socket).ok();
        let usage = info.map(|info| self.usage(&info));
        let rtt = info.map(|info| info.rtt).filter(|rtt| !rtt.is_zero());
        let ends = (self.local, self.peer, usage);
        // All is told as the source would tell it.
        let (source, target, usage) = match ends {
            (local, peer, usage) if self.we_send => (local, peer, usage),
            (local, peer, usage) => (peer, local, usage.map(|(received, sent)| (sent, received))),
        };
        self.sender.send(&Firefly {
            moment,
            now: now(),
            started: self.started,
            tag: self.tag,
            application: APPLICATION.to_owned(),
            source,
            target,
            usage,
            rtt_ms: rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        });
    }
}

impl Flying {
    /// So many bytes of what is to come were taken from the connection before the flow began.
    pub fn with_unread(mut self, bytes: u64) -> Flying {
        if let Some(flight) = &mut self.0 {
            flight.base.bytes_received = flight.base.bytes_received.saturating_sub(bytes);
        }
        self
    }

    /// It lasts, and this is how far it is.
    pub fn ongoing(&self) {
        if let Some(flight) = &self.0 {
            flight.tell(Moment::Ongoing);
        }
    }

    /// It is over: the same as dropping it, for places where a reader would miss the word.
    pub fn end(self) {}
}

impl Drop for Flying {
    fn drop(&mut self) {
        if let Some(flight) = &self.0 {
            flight.tell(Moment::End);
        }
    }
}

/// Gives a connection that this node makes over IPv6 the flow label of its mark, with chance in the bits that are for
/// that. A flow without a label is better than none: what goes wrong is no error.
pub(crate) fn prepare(tag: SciTag) -> Arc<Prepare> {
    Arc::new(move |socket, address| {
        // IPv4 in the clothes of IPv6 has no label on the wire.
        if let SocketAddr::V6(to) = address
            && to.ip().to_ipv4_mapped().is_none()
            && let Err(error) = label(tag, socket, to)
        {
            tracing::debug!(%to, %tag, %error, "no flow label for a marked flow");
        }
    })
}

fn label(tag: SciTag, socket: &impl std::os::fd::AsFd, to: &mut SocketAddrV6) -> io::Result<()> {
    let mut tried = Ok(());
    for _ in 0..LABELS_TRIED {
        let chance = engine::identity::random().map_err(io::Error::other)?;
        // Marks without a label: none, and experiments above 511.
        let Some(label) = tag.flow_label(u32::from_ne_bytes(chance)) else { return Ok(()) };
        tried = sys::flow_label::set_flow_label(socket, *to.ip(), label);
        if tried.is_ok() {
            to.set_flowinfo(sys::flow_label::flow_info(label));
            break;
        }
    }
    tried
}

#[cfg(test)]
mod tests;
