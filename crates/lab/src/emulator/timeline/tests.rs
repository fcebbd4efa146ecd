//! Events under a virtual clock: they begin, end, and leave nothing changed.

use super::*;
use crate::packet::FRAME_MAX;
use crate::packet_memory::PacketMemory;
use crate::scenario::{LinkSettings, Loss, Scenario};
use crate::topology::Topology;

const SECOND: u64 = 1_000_000_000;

fn network(events: &str) -> (Fabric, Timeline, Scenario) {
    let text = format!("[site.a]\nuplink = {{}}\n[site.b]\n[path.a-b]\nrtt = \"10ms\"\nrate = \"1Gbit/s\"\n{events}");
    let scenario = Scenario::read(&text).unwrap_or_else(|problem| panic!("{problem}"));
    let fabric = Fabric::new(&scenario, Topology::of(&scenario), PacketMemory::new(FRAME_MAX, 1 << 20, 0));
    let timeline = Timeline::new(&scenario.events);
    (fabric, timeline, scenario)
}

fn ways(fabric: &Fabric) -> Vec<LinkSettings> {
    fabric.links().iter().map(|link| link.way().clone()).collect()
}

fn event(at: u32, lasts: u32, set: &str) -> String {
    let lasts = if lasts > 0 { format!("for = \"{lasts}s\"\n") } else { String::new() };
    format!("[[event]]\nat = \"{at}s\"\npath = \"a-b\"\nset = {{ {set} }}\n{lasts}")
}

#[test]
fn an_event_ends_as_if_it_had_not_been() {
    let (mut fabric, mut timeline, _) = network(&event(2, 3, "down = true, delay = \"9ms\", rate = \"none\""));
    let before = ways(&fabric);
    assert_eq!(timeline.next(), Some(2 * SECOND));
    timeline.act(2 * SECOND - 1, &mut fabric);
    assert_eq!(ways(&fabric), before);
    timeline.act(2 * SECOND, &mut fabric);
    let during = ways(&fabric);
    assert!(during[..2].iter().all(|way| way.down && way.rate.is_none() && way.delay == Duration::from_millis(9)));
    assert_eq!(during[2..], before[2..], "not the uplink");
    assert_eq!(timeline.next(), Some(5 * SECOND));
    timeline.act(5 * SECOND - 1, &mut fabric);
    assert_eq!(ways(&fabric), during);
    timeline.act(5 * SECOND, &mut fabric);
    assert_eq!((ways(&fabric), timeline.next()), (before, None));
}

/// A timeline that is advanced late carries out everything in its order.
#[test]
fn events_happen_in_the_order_of_their_times() {
    let events = [event(3, 0, "loss = 0.3"), event(1, 0, "loss = 0.1"), event(3, 0, "loss = 0.4")].concat();
    let (mut fabric, mut timeline, _) = network(&events);
    timeline.act(SECOND, &mut fabric);
    assert_eq!(fabric.links()[0].way().loss, Loss::Random(0.1));
    timeline.act(100 * SECOND, &mut fabric);
    assert_eq!(fabric.links()[0].way().loss, Loss::Random(0.4), "equal times keep the order of the file");
}

/// The end of an event is counted from its own time, not from the time at which it was carried out.
#[test]
fn a_late_look_makes_no_event_longer() {
    let (mut fabric, mut timeline, _) = network(&event(2, 3, "down = true"));
    timeline.act(4 * SECOND, &mut fabric);
    assert_eq!((fabric.links()[0].way().down, timeline.next()), (true, Some(5 * SECOND)));
    let (mut fabric, mut timeline, _) = network(&event(2, 3, "down = true"));
    timeline.act(9 * SECOND, &mut fabric);
    assert_eq!((fabric.links()[0].way().down, timeline.next()), (false, None));
}

#[test]
fn a_site_means_its_uplink() {
    let (mut fabric, mut timeline, _) = network("[[event]]\nat = \"1s\"\nsite = \"a\"\nset = { down = true }");
    timeline.act(SECOND, &mut fabric);
    assert_eq!(ways(&fabric).iter().map(|way| way.down).collect::<Vec<_>>(), [false, false, true, true]);
}

/// One within the other, of different words, and one that lasts beyond the other.
#[test]
fn what_overlaps_leaves_nothing_behind() {
    let nested = [event(1, 9, "loss = 0.1"), event(2, 3, "loss = 0.2")];
    let apart = [event(1, 5, "loss = 0.1"), event(2, 9, "jitter = \"1ms\"")];
    let crossed = [event(1, 5, "loss = 0.1"), event(3, 9, "loss = 0.2")];
    for events in [nested, apart, crossed] {
        let (mut fabric, mut timeline, _) = network(&events.concat());
        let before = ways(&fabric);
        for second in 0..30 {
            timeline.act(second * SECOND, &mut fabric);
        }
        assert_eq!(ways(&fabric), before, "{}", events.concat());
    }
}

/// While two events say something about one word, the later one is right, and then the earlier one again.
#[test]
fn the_later_event_is_right_while_it_lasts() {
    let events = [event(1, 9, "loss = 0.1"), event(2, 3, "loss = 0.2")].concat();
    let (mut fabric, mut timeline, _) = network(&events);
    let found = [1, 2, 4, 5, 9, 10].map(|second| {
        timeline.act(second * SECOND, &mut fabric);
        fabric.links()[0].way().loss.clone()
    });
    let loss = |p| Loss::Random(p);
    assert_eq!(found, [loss(0.1), loss(0.2), loss(0.2), loss(0.1), loss(0.1), Loss::None]);
}

/// A change that is there to stay ends what lasts: it is not taken back with it.
#[test]
fn what_is_there_to_stay_stays() {
    let events = [event(1, 5, "loss = 0.1, delay = \"7ms\""), event(3, 0, "loss = 0.2")].concat();
    let (mut fabric, mut timeline, _) = network(&events);
    let before = ways(&fabric);
    timeline.act(20 * SECOND, &mut fabric);
    assert_eq!(fabric.links()[0].way().loss, Loss::Random(0.2));
    assert_eq!(fabric.links()[0].way().delay, before[0].delay);
}
