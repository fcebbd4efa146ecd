//! The sending end of a run.

use std::net::UdpSocket;

use model::v1::probe::udp::{UdpOrder, UdpSent};
use sys::datagrams::queue_errors;

use super::RunProgress;
use super::clock::{Clock, HostClock};
use super::datagram::{FlowId, HEAD_BYTES, Head, Kind};
use super::order::{Mode, Plan};
use super::paced::paced;
use super::sent::drain_reports;
use super::trains::trains;
use crate::{Error, Result, Stop};

/// How often the end is sent: where 0.1 % of datagrams are lost, all three are lost once in 10^9 runs.
const ENDS: usize = 3;
/// Time between two ends.
const END_INTERVAL_NS: u64 = 5_000_000;

/// Sends one run over a connected socket, and then the number of its datagrams.
///
/// # Errors
/// [`Error::Order`]: the order is out of bounds, or a datagram does not fit the path's MTU. [`Error::Broken`]: the kernel has
/// refused all datagrams for 10 s. [`Error::Host`]: the socket has no peer.
pub fn send(socket: &UdpSocket, order: &UdpOrder, flow: FlowId, watch: &RunProgress, stop: &Stop) -> Result<UdpSent> {
    let plan = Plan::of(order)?;
    let peer =
        socket.peer_addr().map_err(|source| Error::Host { doing: "send over a socket without a peer", source })?;
    let peer = peer.to_string();
    let mut clock = HostClock::default();
    let _guard = SendErrorGuard::all(socket);
    let out = |datagram: &[u8]| socket.send(datagram).map_err(|error| drain_reports(socket, error));
    let sent = match plan.mode {
        Mode::Max => trains(socket, &plan, flow, &peer, &mut clock, stop, watch)?,
        _ => paced(&plan, flow, &peer, &mut clock, out, stop, watch)?,
    };
    send_end(socket, flow, sent.datagrams, &mut clock);
    Ok(sent)
}

/// While this exists, the kernel returns an error for each datagram that this host drops, so that the datagram does not count as
/// lost in the network.
struct SendErrorGuard<'a>(&'a UdpSocket);

impl SendErrorGuard<'_> {
    fn all(socket: &UdpSocket) -> SendErrorGuard<'_> {
        // Where the kernel refuses the option, the host's counters still show these drops.
        let _ = queue_errors(socket, true);
        SendErrorGuard(socket)
    }
}

impl Drop for SendErrorGuard<'_> {
    fn drop(&mut self) {
        let _ = queue_errors(self.0, false);
    }
}

/// Tells the other end that the run is over. If all these datagrams are lost, silence ends the run there.
pub(super) fn send_end(socket: &UdpSocket, flow: FlowId, datagrams: u64, clock: &mut impl Clock) {
    let mut end = [0; HEAD_BYTES];
    for n in 0..ENDS {
        if n > 0 {
            clock.nap(END_INTERVAL_NS);
        }
        Head { flow, kind: Kind::End, number: datagrams, sent_ns: clock.real() }.write(&mut end);
        // An error here is the refusal of an earlier datagram. Returning it clears it, so the second call sends.
        if socket.send(&end).is_err() {
            let _ = socket.send(&end);
        }
    }
}
