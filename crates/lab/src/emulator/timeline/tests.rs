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

fn settings_of_links(fabric: &Fabric) -> Vec<LinkSettings> {
    fabric.links().iter().map(|link| link.settings().clone()).collect()
}

fn event(at: u32, lasts: u32, set: &str) -> String {
    let lasts = if lasts > 0 { format!("for = \"{lasts}s\"\n") } else { String::new() };
    format!("[[event]]\nat = \"{at}s\"\npath = \"a-b\"\nset = {{ {set} }}\n{lasts}")
}

#[test]
fn an_event_that_ends_restores_the_settings() {
    let (mut fabric, mut timeline, _) = network(&event(2, 3, "down = true, delay = \"9ms\", rate = \"none\""));
    let before = settings_of_links(&fabric);
    assert_eq!(timeline.next(), Some(2 * SECOND));
    timeline.run_due(2 * SECOND - 1, &mut fabric);
    assert_eq!(settings_of_links(&fabric), before);
    timeline.run_due(2 * SECOND, &mut fabric);
    let during = settings_of_links(&fabric);
    assert!(
        during[..2]
            .iter()
            .all(|settings| settings.down && settings.rate.is_none() && settings.delay == Duration::from_millis(9))
    );
    assert_eq!(during[2..], before[2..], "not the uplink");
    assert_eq!(timeline.next(), Some(5 * SECOND));
    timeline.run_due(5 * SECOND - 1, &mut fabric);
    assert_eq!(settings_of_links(&fabric), during);
    timeline.run_due(5 * SECOND, &mut fabric);
    assert_eq!((settings_of_links(&fabric), timeline.next()), (before, None));
}

/// A timeline that is advanced late carries out everything in its order.
#[test]
fn events_happen_in_the_order_of_their_times() {
    let events = [event(3, 0, "loss = 0.3"), event(1, 0, "loss = 0.1"), event(3, 0, "loss = 0.4")].concat();
    let (mut fabric, mut timeline, _) = network(&events);
    timeline.run_due(SECOND, &mut fabric);
    assert_eq!(fabric.links()[0].settings().loss, Loss::Random(0.1));
    timeline.run_due(100 * SECOND, &mut fabric);
    assert_eq!(fabric.links()[0].settings().loss, Loss::Random(0.4), "equal times keep the order of the file");
}

/// The end of an event is counted from its own time, not from the time at which it was carried out.
#[test]
fn a_late_timeline_does_not_make_an_event_longer() {
    let (mut fabric, mut timeline, _) = network(&event(2, 3, "down = true"));
    timeline.run_due(4 * SECOND, &mut fabric);
    assert_eq!((fabric.links()[0].settings().down, timeline.next()), (true, Some(5 * SECOND)));
    let (mut fabric, mut timeline, _) = network(&event(2, 3, "down = true"));
    timeline.run_due(9 * SECOND, &mut fabric);
    assert_eq!((fabric.links()[0].settings().down, timeline.next()), (false, None));
}

#[test]
fn an_event_of_a_site_changes_its_uplink() {
    let (mut fabric, mut timeline, _) = network("[[event]]\nat = \"1s\"\nsite = \"a\"\nset = { down = true }");
    timeline.run_due(SECOND, &mut fabric);
    assert_eq!(
        settings_of_links(&fabric).iter().map(|settings| settings.down).collect::<Vec<_>>(),
        [false, false, true, true]
    );
}

/// One within the other, of different words, and one that lasts beyond the other.
#[test]
fn overlapping_events_leave_nothing_changed() {
    let nested = [event(1, 9, "loss = 0.1"), event(2, 3, "loss = 0.2")];
    let apart = [event(1, 5, "loss = 0.1"), event(2, 9, "jitter = \"1ms\"")];
    let crossed = [event(1, 5, "loss = 0.1"), event(3, 9, "loss = 0.2")];
    for events in [nested, apart, crossed] {
        let (mut fabric, mut timeline, _) = network(&events.concat());
        let before = settings_of_links(&fabric);
        for second in 0..30 {
            timeline.run_due(second * SECOND, &mut fabric);
        }
        assert_eq!(settings_of_links(&fabric), before, "{}", events.concat());
    }
}

/// While two events set one word, the value of the later one is in force, and then that of the earlier one again.
#[test]
fn the_later_of_two_events_holds_while_it_lasts() {
    let events = [event(1, 9, "loss = 0.1"), event(2, 3, "loss = 0.2")].concat();
    let (mut fabric, mut timeline, _) = network(&events);
    let found = [1, 2, 4, 5, 9, 10].map(|second| {
        timeline.run_due(second * SECOND, &mut fabric);
        fabric.links()[0].settings().loss.clone()
    });
    let loss = |p| Loss::Random(p);
    assert_eq!(found, [loss(0.1), loss(0.2), loss(0.2), loss(0.1), loss(0.1), Loss::None]);
}

/// A permanent change replaces that of an event that lasts a while: the event's end does not take it back.
#[test]
fn a_permanent_change_is_not_taken_back() {
    let events = [event(1, 5, "loss = 0.1, delay = \"7ms\""), event(3, 0, "loss = 0.2")].concat();
    let (mut fabric, mut timeline, _) = network(&events);
    let before = settings_of_links(&fabric);
    timeline.run_due(20 * SECOND, &mut fabric);
    assert_eq!(fabric.links()[0].settings().loss, Loss::Random(0.2));
    assert_eq!(fabric.links()[0].settings().delay, before[0].delay);
}
