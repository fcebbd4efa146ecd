//! The sending end of a run.

use std::net::UdpSocket;

use model::v1::probe::udp::{UdpOrder, UdpSent};
use sys::datagrams::tell_errors;

use super::Watch;
use super::clock::{Clock, HostClock};
use super::datagram::{Flow, HEAD_BYTES, Head, Kind};
use super::order::{Mode, Plan};
use super::paced::paced;
use super::sent::sift;
use super::trains::trains;
use crate::{Error, Result, Stop};

/// How often the end is told, and how far apart: all three are lost once in 10^9 where 0.1 % is lost.
const ENDS: usize = 3;
const BETWEEN_ENDS_NS: u64 = 5_000_000;
/// Sends one run over a connected socket, and then says how many there were.
///
/// # Errors
/// An order out of bounds; a datagram that does not fit the path's MTU where it must not be cut; nothing goes out for
/// 10 s.
pub fn send(socket: &UdpSocket, order: &UdpOrder, flow: Flow, watch: &Watch, stop: &Stop) -> Result<UdpSent> {
    let plan = Plan::of(order)?;
    let peer =
        socket.peer_addr().map_err(|source| Error::Host { doing: "send over a socket without a peer", source })?;
    let (peer, mut clock) = (peer.to_string(), HostClock::default());
    let _told = Told::all(socket);
    let out = |datagram: &[u8]| socket.send(datagram).map_err(|error| sift(socket, error));
    let sent = match plan.mode {
        Mode::Max => trains(socket, &plan, flow, &peer, &mut clock, stop, watch)?,
        _ => paced(&plan, flow, &peer, &mut clock, out, stop, watch)?,
    };
    say_end(socket, flow, sent.datagrams, &mut clock);
    Ok(sent)
}

/// While it lives, what this host does not send is an error, and not the network's loss.
struct Told<'a>(&'a UdpSocket);

impl Told<'_> {
    fn all(socket: &UdpSocket) -> Told<'_> {
        // Where it cannot be had, the host's counters still say it.
        let _ = tell_errors(socket, true);
        Told(socket)
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let _ = tell_errors(self.0, false);
    }
}

/// Tells the other end that there is no more. It may not hear it: it has other ways to know.
pub(super) fn say_end(socket: &UdpSocket, flow: Flow, datagrams: u64, clock: &mut impl Clock) {
    let mut end = [0; HEAD_BYTES];
    for n in 0..ENDS {
        if n > 0 {
            clock.nap(BETWEEN_ENDS_NS);
        }
        Head { flow, kind: Kind::End, number: datagrams, sent_ns: clock.real() }.write(&mut end);
        // One that meets a refusal meets that of an earlier datagram, and takes it away with it.
        if socket.send(&end).is_err() {
            let _ = socket.send(&end);
        }
    }
}
