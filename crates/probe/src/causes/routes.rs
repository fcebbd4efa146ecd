//! Causes that lie in routes: MTU holes, lossy members of a bundle, two directions that differ.

use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind, Segment};
use model::v1::probe::latency::Latency;
use model::v1::probe::route::{ChangeOf, Hop, Mtu, Route, RouterReply, SuspectBy};

use super::{cause, in_direction, ms};

pub(super) fn causes(found: &Findings) -> Vec<Cause> {
    let Some(routes) = &found.routes else { return Vec::new() };
    let mut causes = of_way(Direction::Forward, &routes.forward);
    if let Some(reverse) = &routes.reverse {
        // Both ends sweep over the same flows, and may find the same cause twice.
        let seen =
            |new: &Cause| !causes.iter().any(|old: &Cause| (old.kind, old.direction) == (new.kind, new.direction));
        let reverse: Vec<Cause> = of_way(Direction::Reverse, reverse).into_iter().filter(seen).collect();
        causes.extend(reverse);
    }
    causes.extend(found.latency.as_ref().and_then(uneven));
    let differs = |what: &ChangeOf| matches!(what, ChangeOf::Distance | ChangeOf::Rtt);
    let texts: Vec<&str> = routes.asymmetries.iter().filter(|c| differs(&c.what)).map(|c| c.text.as_str()).collect();
    if !texts.is_empty() {
        let remedy =
            "where one direction is better, ask whoever routes the other; firewalls that keep state must see both";
        causes.push(cause(Kind::AsymmetricRoute, None, 0.2, texts.join("; "), remedy));
    }
    causes
}

/// Delays are uneven if they differ by more than this share of the round trip, and by more than 2 ms.
const UNEVEN: f64 = 0.25;
const UNEVEN_S: f64 = 0.002;

/// One direction takes much longer than the other, beyond the error of the clocks.
fn uneven(latency: &Latency) -> Option<Cause> {
    let (forward, reverse) = (latency.forward?, latency.reverse?);
    let clocks_s = latency.clock.error_s + latency.far_clock.map_or(0.0, |clock| clock.error_s);
    let off_s = if latency.one_clock { 0.0 } else { 2.0 * clocks_s };
    let differs_s = (forward.min_s - reverse.min_s).abs() - off_s;
    if differs_s <= ((forward.min_s + reverse.min_s) * UNEVEN).max(UNEVEN_S) {
        return None;
    }
    let evidence = format!("packets take {} forward and {} in reverse", ms(forward.min_s), ms(reverse.min_s));
    let remedy =
        "ask whoever routes the longer way why it is; rates do not suffer, clocks that are set over this path do";
    Some(cause(Kind::AsymmetricRoute, None, 0.2, evidence, remedy))
}

fn of_way(way: Direction, route: &Route) -> Vec<Cause> {
    let mut causes: Vec<Cause> = route.mtu.as_ref().and_then(|mtu| hole(way, mtu, route)).into_iter().collect();
    let suspects = route.sweep.iter().filter(|sweep| sweep.judged).flat_map(|sweep| &sweep.suspects);
    for suspect in suspects.filter(|suspect| suspect.by == SuspectBy::Loss) {
        let remedy = "have whoever runs that router take the member out, and look at its errors and its light";
        // A probe counts as lost where its answer is: the far end's count says which of them it was.
        let back = if way == Direction::Forward { Direction::Reverse } else { Direction::Forward };
        let lossy_way = if suspect.lost_forward * 2 >= suspect.lost { way } else { back };
        let mut lossy = cause(Kind::LossyMember, Some(lossy_way), 0.9, suspect.text.clone(), remedy);
        if let (Some(ttl), Some(address)) = (suspect.hop, &suspect.address) {
            lossy.segment = Segment::Hop { ttl, address: address.clone() };
        }
        causes.push(lossy);
    }
    causes
}

/// Packets that the end's own interface takes vanish on the way.
fn hole(way: Direction, mtu: &Mtu, route: &Route) -> Option<Cause> {
    if !mtu.black_hole {
        return None;
    }
    let interface = mtu.interface_bytes.map_or(String::new(), |bytes| format!(", this interface takes {bytes}"));
    let evidence =
        format!("packets of more than {} bytes vanish {} without a word{interface}", mtu.mtu_bytes, in_direction(way));
    let remedy = "give all interfaces of that segment one MTU, or let ICMP \"too big\" through; until then set the hosts' MTU to \
                  what passes, or net.ipv4.tcp_mtu_probing = 1";
    let mut hole = cause(Kind::MtuHole, Some(way), 1.0, evidence, remedy);
    // The last router, not the target: before it or behind it, closer cannot be told from one end.
    let is_router = |hop: &&Hop| hop.routers.iter().any(|router| router.said != RouterReply::Answered);
    let last = route.path.hops.iter().rev().find(is_router);
    if let Some((ttl, router)) = last.and_then(|hop| Some((hop.ttl, hop.routers.first()?))) {
        hole.segment = Segment::Hop { ttl, address: router.address.clone() };
    }
    Some(hole)
}
