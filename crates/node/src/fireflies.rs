//! SciTags of this node's flows: fireflies for all marked flows, and a flow label for those whose connection this node opens.
//!
//! What this module does not know: the formulas and the text (`web::scitag`), the calls (`sys::flow_label`).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::session::StreamMarker;
use model::Timestamp;
use model::tcp::TcpInfo;
use web::client::Prepare;
use web::scitag::{Firefly, FlowState, SciTag};

use crate::clock::now;

/// The application that fireflies name.
const APPLICATION: &str = "longhaul";
/// A SciTag has 32 flow labels. On a host that reserves the upper half of all labels, half of the 32 remain: after eight random
/// attempts one of 256 flows has no label.
const LABELS_TRIED: usize = 8;

/// The name of this host.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reports marked flows to collectors. Clones share the sockets.
#[derive(Clone)]
pub(crate) struct Fireflies(Option<Arc<Sender>>);

struct Sender {
    collectors: Vec<SocketAddr>,
    host: String,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    has_warned: AtomicBool,
}

fn socket(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    // A datagram that does not fit the buffer is lost, as any other may be; no transfer waits for one.
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
                && !self.has_warned.swap(true, Ordering::Relaxed)
            {
                tracing::warn!(%collector, %error, "a firefly could not be sent; further failures are not logged");
            }
        }
    }
}

impl Fireflies {
    /// Sends to these collectors; without any, nothing is sent or measured. The host's name goes into each datagram.
    pub fn new(collectors: Vec<SocketAddr>, host: String) -> Fireflies {
        if collectors.is_empty() {
            return Fireflies(None);
        }
        // A socket that cannot be bound is reported with the first datagram.
        let v4 = socket((Ipv4Addr::UNSPECIFIED, 0).into()).ok();
        let v6 = socket((Ipv6Addr::UNSPECIFIED, 0).into()).ok();
        Fireflies(Some(Arc::new(Sender { collectors, host, v4, v6, has_warned: AtomicBool::new(false) })))
    }

    /// Begins a flow over a connection that no other flow uses until it ends. The sender of the data is the flow's source,
    /// whichever end reports (xrootd's issue 2322): in a pull that is the other end.
    pub fn begin(&self, tag: SciTag, socket: &TcpStream, is_sender: bool) -> FlowGuard {
        let sender = self.0.as_ref().filter(|_| tag.is_marked());
        let flow = sender.and_then(|sender| MarkedFlow::begin(sender, tag, socket, is_sender).ok());
        if let Some(flow) = &flow {
            flow.report(FlowState::Start);
        }
        FlowGuard(flow)
    }
}

/// A flow that has been reported to collectors. It ends when this is dropped, after a return, error or panic as well.
///
/// The guard holds a descriptor of its own, so that the kernel's counters can be read even after the connection was dropped. The
/// price is that a connection which is dropped without `shutdown` stays open as long as the guard lives, so the guard must not
/// outlive the body. Locals are dropped in reverse order: a flow that begins after connecting ends in time.
#[derive(Default)]
#[must_use = "the flow ends where this is dropped"]
pub(crate) struct FlowGuard(Option<MarkedFlow>);

struct MarkedFlow {
    sender: Arc<Sender>,
    socket: TcpStream,
    tag: SciTag,
    is_sender: bool,
    local: SocketAddr,
    peer: SocketAddr,
    started: Timestamp,
    base: TcpInfo,
}

impl MarkedFlow {
    fn begin(sender: &Arc<Sender>, tag: SciTag, socket: &TcpStream, is_sender: bool) -> io::Result<MarkedFlow> {
        let local = socket.local_addr()?;
        let peer = socket.peer_addr()?;
        let mut base = sys::tcp::info(socket)?;
        // Some bytes of a body may have arrived already.
        base.bytes_received = base.bytes_received.saturating_sub(sys::tcp::unread_bytes(socket));
        let socket = socket.try_clone()?;
        Ok(MarkedFlow { sender: Arc::clone(sender), socket, tag, is_sender, local, peer, started: now(), base })
    }

    /// The bytes that this end received and sent since the flow began: a persistent connection carries many flows, and the sum
    /// over their fireflies must count each byte once.
    fn usage(&self, info: &TcpInfo) -> (u64, u64) {
        let since = info.since(&self.base);
        // Bytes in the kernel's buffer count as sent while the connection lives: the flow does not wait for their acknowledgement.
        let written = info.bytes_written().saturating_sub(self.base.bytes_written());
        (since.bytes_received, if info.closed { since.bytes_acked.min(written) } else { written })
    }

    fn report(&self, state: FlowState) {
        let info = sys::tcp::info(&self.socket).ok();
        let usage = info.map(|info| self.usage(&info));
        let rtt = info.map(|info| info.rtt).filter(|rtt| !rtt.is_zero());
        // The firefly reports the numbers of the source.
        let (source, target, usage) = if self.is_sender {
            (self.local, self.peer, usage)
        } else {
            (self.peer, self.local, usage.map(|(received, sent)| (sent, received)))
        };
        self.sender.send(&Firefly {
            state,
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

impl FlowGuard {
    /// Adds bytes of the body that were read from the connection before the flow began.
    pub fn with_unread(mut self, bytes: u64) -> FlowGuard {
        if let Some(flow) = &mut self.0 {
            flow.base.bytes_received = flow.base.bytes_received.saturating_sub(bytes);
        }
        self
    }

    /// Reports the current state of the flow.
    pub fn ongoing(&self) {
        if let Some(flow) = &self.0 {
            flow.report(FlowState::Ongoing);
        }
    }

    /// Ends the flow, as dropping the guard does.
    pub fn end(self) {}
}

impl Drop for FlowGuard {
    fn drop(&mut self) {
        if let Some(flow) = &self.0 {
            flow.report(FlowState::End);
        }
    }
}

/// Reports the streams of a transfer: each is a flow from where it begins to carry the transfer until it ends.
pub(crate) struct MarkedStreams {
    pub fireflies: Arc<Fireflies>,
    pub tag: SciTag,
}

impl std::fmt::Debug for MarkedStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MarkedStreams").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl StreamMarker for MarkedStreams {
    fn begin(&self, socket: &TcpStream, is_sender: bool) -> Box<dyn Send> {
        Box::new(self.fireflies.begin(self.tag, socket, is_sender))
    }
}

/// Gives an IPv6 connection of this node the flow label of its SciTag, with random bits where the format has them. A failure is only
/// logged: a flow without a label is better than none.
pub(crate) fn prepare(tag: SciTag) -> Arc<Prepare> {
    Arc::new(move |socket, address| {
        // An IPv4-mapped address has no label on the wire.
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
        let random = engine::identity::random().map_err(io::Error::other)?;
        // An empty SciTag and experiments above 511 have no label.
        let Some(label) = tag.flow_label(u32::from_ne_bytes(random)) else { return Ok(()) };
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
