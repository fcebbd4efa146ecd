//! Causes in the routes: MTU holes, lossy members of a bundle, directions that differ.

use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind, Segment};
use model::v1::probe::latency::Latency;
use model::v1::probe::route::{ChangeOf, Hop, Mtu, Route, RouterReply, SuspectBy};

use super::{cause, in_direction, ms};

pub(super) fn causes(found: &Findings) -> Vec<Cause> {
    let Some(routes) = &found.routes else { return Vec::new() };
    let mut causes = of_direction(Direction::Forward, &routes.forward);
    if let Some(reverse) = &routes.reverse {
        // Both ends sweep over the same flows, and may find the same cause twice.
        let seen =
            |new: &Cause| !causes.iter().any(|old: &Cause| (old.kind, old.direction) == (new.kind, new.direction));
        let reverse: Vec<Cause> = of_direction(Direction::Reverse, reverse).into_iter().filter(seen).collect();
        causes.extend(reverse);
    }
    causes.extend(found.latency.as_ref().and_then(uneven_delays));
    let differs = |what: &ChangeOf| matches!(what, ChangeOf::Distance | ChangeOf::Rtt);
    let texts: Vec<&str> = routes.asymmetries.iter().filter(|c| differs(&c.what)).map(|c| c.text.as_str()).collect();
    if !texts.is_empty() {
        let remedy =
            "where one direction is better, ask the network that routes the other; stateful firewalls must see both";
        causes.push(cause(Kind::AsymmetricRoute, None, 0.2, texts.join("; "), remedy));
    }
    causes
}

/// Delays are uneven if they differ by more than this share of the round trip, and by more than 2 ms.
const UNEVEN: f64 = 0.25;
const UNEVEN_S: f64 = 0.002;

/// One direction takes much longer than the other, beyond the error of the clocks.
fn uneven_delays(latency: &Latency) -> Option<Cause> {
    let (forward, reverse) = (latency.forward?, latency.reverse?);
    let clocks_s = latency.clock.error_s + latency.far_clock.map_or(0.0, |clock| clock.error_s);
    let error_s = if latency.one_clock { 0.0 } else { 2.0 * clocks_s };
    let difference_s = (forward.min_s - reverse.min_s).abs() - error_s;
    if difference_s <= ((forward.min_s + reverse.min_s) * UNEVEN).max(UNEVEN_S) {
        return None;
    }
    let evidence = format!("packets take {} forward and {} in reverse", ms(forward.min_s), ms(reverse.min_s));
    let remedy = "ask the network that routes the longer path for the reason; rates do not suffer, clocks that are set over this path do";
    Some(cause(Kind::AsymmetricRoute, None, 0.2, evidence, remedy))
}

fn of_direction(direction: Direction, route: &Route) -> Vec<Cause> {
    let mut causes: Vec<Cause> =
        route.mtu.as_ref().and_then(|mtu| mtu_hole(direction, mtu, route)).into_iter().collect();
    let suspects = route.sweep.iter().filter(|sweep| sweep.judged).flat_map(|sweep| &sweep.suspects);
    for suspect in suspects.filter(|suspect| suspect.by == SuspectBy::Loss) {
        let remedy = "have the operator of that router take the member out, and check its errors and its light";
        // A probe also counts as lost if its answer is: the far end's count shows which of the two was lost.
        let opposite = if direction == Direction::Forward { Direction::Reverse } else { Direction::Forward };
        let lossy_direction = if suspect.lost_forward * 2 >= suspect.lost { direction } else { opposite };
        let mut lossy = cause(Kind::LossyMember, Some(lossy_direction), 0.9, suspect.text.clone(), remedy);
        if let (Some(ttl), Some(address)) = (suspect.hop, &suspect.address) {
            lossy.segment = Segment::Hop { ttl, address: address.clone() };
        }
        causes.push(lossy);
    }
    causes
}

/// A black hole: packets that the end's own interface can send vanish on the path.
fn mtu_hole(direction: Direction, mtu: &Mtu, route: &Route) -> Option<Cause> {
    if !mtu.black_hole {
        return None;
    }
    let interface = mtu.interface_bytes.map_or(String::new(), |bytes| format!(", this interface takes {bytes}"));
    let evidence = format!(
        "packets of more than {} bytes vanish {} without an ICMP message{interface}",
        mtu.mtu_bytes,
        in_direction(direction)
    );
    let remedy = "give all interfaces of that segment one MTU, or permit ICMP \"too big\"; until then set the hosts' MTU to \
                  the size that passes, or net.ipv4.tcp_mtu_probing = 1";
    let mut hole = cause(Kind::MtuHole, Some(direction), 1.0, evidence, remedy);
    // The last router, not the target. From one end it cannot be found whether the hole is before or after that router.
    let is_router = |hop: &&Hop| hop.routers.iter().any(|router| router.said != RouterReply::Answered);
    let last = route.path.hops.iter().rev().find(is_router);
    if let Some((ttl, router)) = last.and_then(|hop| Some((hop.ttl, hop.routers.first()?))) {
        hole.segment = Segment::Hop { ttl, address: router.address.clone() };
    }
    Some(hole)
}
