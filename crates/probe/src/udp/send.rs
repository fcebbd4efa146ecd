//! The sending end of a run.

use std::net::UdpSocket;

use model::v1::probe::udp::{UdpOrder, UdpSent};
use sys::datagrams::tell_errors;

use super::Watch;
use super::clock::{Clock, HostClock};
use super::datagram::{FlowId, HEAD_BYTES, Head, Kind};
use super::order::{Mode, Plan};
use super::paced::paced;
use super::sent::sift;
use super::trains::trains;
use crate::{Error, Result, Stop};

/// How often the end is sent: all three are lost once in 10^9 where 0.1 % is lost.
const ENDS: usize = 3;
/// Time between these.
const BETWEEN_ENDS_NS: u64 = 5_000_000;

/// Sends one run over a connected socket, and then the number of its datagrams.
///
/// # Errors
/// [`Error::Order`]: the order is out of bounds, or a datagram does not fit the path's MTU. [`Error::Broken`]: the kernel has
/// refused all datagrams for 10 s. [`Error::Host`]: the socket has no peer.
pub fn send(socket: &UdpSocket, order: &UdpOrder, flow: FlowId, watch: &Watch, stop: &Stop) -> Result<UdpSent> {
    let plan = Plan::of(order)?;
    let peer =
        socket.peer_addr().map_err(|source| Error::Host { doing: "send over a socket without a peer", source })?;
    let (peer, mut clock) = (peer.to_string(), HostClock::default());
    let _guard = SendErrorGuard::all(socket);
    let out = |datagram: &[u8]| socket.send(datagram).map_err(|error| sift(socket, error));
    let sent = match plan.mode {
        Mode::Max => trains(socket, &plan, flow, &peer, &mut clock, stop, watch)?,
        _ => paced(&plan, flow, &peer, &mut clock, out, stop, watch)?,
    };
    say_end(socket, flow, sent.datagrams, &mut clock);
    Ok(sent)
}

/// While this lives, the kernel returns an error for each datagram that this host drops, so that it does not count as lost in
/// the network.
struct SendErrorGuard<'a>(&'a UdpSocket);

impl SendErrorGuard<'_> {
    fn all(socket: &UdpSocket) -> SendErrorGuard<'_> {
        // Where the kernel refuses the option, the host's counters still show these drops.
        let _ = tell_errors(socket, true);
        SendErrorGuard(socket)
    }
}

impl Drop for SendErrorGuard<'_> {
    fn drop(&mut self) {
        let _ = tell_errors(self.0, false);
    }
}

/// Tells the other end that the run is over. All these datagrams may be lost; then silence ends the run there.
pub(super) fn say_end(socket: &UdpSocket, flow: FlowId, datagrams: u64, clock: &mut impl Clock) {
    let mut end = [0; HEAD_BYTES];
    for n in 0..ENDS {
        if n > 0 {
            clock.nap(BETWEEN_ENDS_NS);
        }
        Head { flow, kind: Kind::End, number: datagrams, sent_ns: clock.real() }.write(&mut end);
        // An error here is the refusal of an earlier datagram, and reading it clears it: the second call sends.
        if socket.send(&end).is_err() {
            let _ = socket.send(&end);
        }
    }
}
