//! Invented findings of each kind of fault, and the causes that follow from them.

use model::v1::probe::all::PerDirection;
use model::v1::probe::host::Use;
use model::v1::probe::latency::{Delay, Latency, Variation};
use model::v1::probe::route::{
    Change, ChangeOf, Hop, Mtu, Path, Route, Router, RouterReply, Routes, Suspect, SuspectBy, Sweep,
};
use model::v1::probe::tcp;
use model::v1::probe::tcp::{End, Flow, Kernel, Report, Term, Total};
use model::v1::probe::udp::{UdpBin, UdpOrder, UdpPace, UdpPoint, UdpReceived, UdpSent, UdpSpread, UdpTimeBin};

use super::*;

fn spread(p50_s: f64) -> Option<UdpSpread> {
    let bins = vec![UdpTimeBin { from_s: p50_s * 0.95, to_s: p50_s * 1.05, count: 1_000 }];
    Some(UdpSpread { p50_s, bins, ..UdpSpread::default() })
}

fn point(lost: u64) -> UdpPoint {
    let order =
        UdpOrder { bytes: 200, pace: UdpPace::Rate { rate_bit_s: 32_000_000 }, count: None, seconds: Some(10.0) };
    let sent = UdpSent { datagrams: 200_000, rate_bit_s: 32_000_000, spacing: spread(5e-5), ..UdpSent::default() };
    let runs = UdpReceived { datagrams: 200_000 - lost, lost, lost_runs_total: lost, ..UdpReceived::default() };
    let received = UdpReceived { inter_arrival: spread(5e-5), ..runs };
    crate::udp::point(order, sent, received)
}

/// Bursts of 256 datagrams, of which some are lost, and the others drain at this rate.
fn burst(lost: u64, drained_bit_s: f64) -> UdpPoint {
    let pace = UdpPace::Bursts { length: 256, spacing_s: 0.0, gap_s: 0.5 };
    let order = UdpOrder { bytes: 1_472, pace, count: Some(2_560), seconds: None };
    let sent = UdpSent { datagrams: 2_560, spacing: spread(2e-6), ..UdpSent::default() };
    let inter_arrival = spread(1_538.0 * 8.0 / drained_bit_s);
    let received =
        UdpReceived { datagrams: 2_560 - lost, lost, lost_runs_total: 10, inter_arrival, ..UdpReceived::default() };
    crate::udp::point(order, sent, received)
}

/// A forward TCP test: its rate, the share that was sent again, the delay of the queue, and the binding term.
fn tcp_report(rate: u64, resent: f64, queue_s: f64, binding: &str) -> Report {
    let kernel =
        Kernel { min_rtt_s: 0.05, rtt_s: 0.05 + queue_s, window_bytes: 4 << 20, busy_s: 10.0, ..Kernel::default() };
    let flow = Flow { stream: 1, direction: Direction::Forward, kernel: Some(kernel), ..Flow::default() };
    let near = End { totals: vec![Total { flow, ..Total::default() }], ..End::default() };
    let term = |name: &str| Term { name: name.into(), rate_bit_s: rate, evidence: "as seen".into() };
    let expected = ["receive_window", "send_buffer", "cpu_receiver"].map(term).into();
    let limit = format!("limited by {binding}");
    let direction = tcp::DirectionReport {
        direction: Direction::Forward,
        rate_bit_s: rate,
        resent,
        binding: binding.into(),
        limit,
        expected,
        ..tcp::DirectionReport::default()
    };
    Report { directions: vec![direction], near, ..Report::default() }
}

fn latency(varies_s: f64) -> Latency {
    let variation = Some(Variation { pairs: 500, p50_s: varies_s / 4.0, p95_s: varies_s, p99_s: varies_s * 2.0 });
    let round_trip = Some(Delay { median_s: 0.05, min_s: 0.05, ..Delay::default() });
    Latency { round_trip, variation_forward: variation, variation_reverse: variation, ..Latency::default() }
}

fn route(mtu_bytes: u32) -> Route {
    let router = Router {
        address: "192.0.2.1".into(),
        said: RouterReply::TimeExceeded,
        icmp: None,
        answers: 3,
        ttl_reverse: None,
    };
    let hop = Hop { ttl: 1, routers: vec![router], sent: 3, answered: 3, ..Hop::default() };
    let mtu = Mtu { mtu_bytes, interface_bytes: Some(9_000), black_hole: mtu_bytes < 9_000, ..Mtu::default() };
    Route { path: Path { hops: vec![hop], ..Path::default() }, mtu: Some(mtu), sweep: None }
}

/// A path of 1 Gbit/s on which nothing is wrong.
fn clean() -> Findings {
    let both = |point: UdpPoint| PerDirection { forward: Some(point.clone()), reverse: Some(point) };
    Findings {
        routes: Some(Routes { forward: route(9_000), reverse: Some(route(9_000)), asymmetries: Vec::new() }),
        latency: Some(latency(3e-5)),
        datagrams: both(point(0)),
        bursts: both(burst(0, 1e9)),
        tcp: PerDirection { forward: Some(tcp_report(970_000_000, 0.0, 0.02, "")), reverse: None },
        loaded: Some(latency(1e-3)),
        ..Findings::default()
    }
}

/// The most important cause.
fn top(found: &Findings) -> Cause {
    causes(found).into_iter().next().unwrap_or_else(|| panic!("nothing was found in {found:?}"))
}

#[test]
fn a_clean_path_has_no_cause() {
    assert_eq!(causes(&clean()), []);
    assert_eq!(causes(&Findings::default()), []);
}

#[test]
fn kinds_of_loss_are_distinguished() {
    let mut random = clean();
    random.datagrams.forward = Some(point(9));
    random.tcp.forward = Some(tcp_report(30_000_000, 0.000_05, 0.0, "loss"));
    let found = top(&random);
    assert_eq!((found.kind, found.direction), (Kind::Loss, Some(Direction::Forward)), "{found:?}");
    assert!(found.evidence.contains("9 of 200000") && found.evidence.contains("0.0045 %"), "{found:?}");

    let mut policed = clean();
    policed.tcp.forward = Some(tcp_report(200_000_000, 0.03, 0.000_5, ""));
    policed.bursts.forward = Some(burst(0, 12e9));
    let found = top(&policed);
    assert_eq!((found.kind, found.direction), (Kind::Policer, Some(Direction::Forward)), "{found:?}");

    let mut shallow = clean();
    shallow.tcp.forward = Some(tcp_report(500_000_000, 0.02, 0.001, ""));
    shallow.bursts.forward = Some(burst(900, 1e9));
    let found = top(&shallow);
    assert_eq!(found.kind, Kind::ShallowQueue);
    assert!(found.evidence.contains("holds some"), "{found:?}");
    // Bursts lose datagrams and are not delayed: there is no queue.
    shallow.bursts.forward = Some(burst(1_700, 2.5e9));
    assert_eq!(top(&shallow).kind, Kind::Policer);

    // Bursts drain at the link's rate, and TCP gets only a part of it: a policer has the lower rate.
    shallow.bursts.forward = Some(burst(900, 1e9));
    shallow.tcp.forward = Some(tcp_report(180_000_000, 0.02, 0.001, ""));
    assert_eq!(top(&shallow).kind, Kind::Policer);

    // A sufficient queue overflows as well: loss-based congestion control works that way.
    let mut ordinary = clean();
    ordinary.tcp.forward = Some(tcp_report(960_000_000, 0.01, 0.05, ""));
    assert_eq!(causes(&ordinary), []);

    // The same where no sample was taken while the queue was long: TCP gets the rate at which bursts drain.
    let mut filled = clean();
    filled.tcp.forward = Some(tcp_report(97_300_000, 0.022, 0.007_9, ""));
    filled.bursts.forward = Some(burst(900, 1e8));
    assert_eq!(causes(&filled), []);

    let mut member = random.clone();
    let suspect = Suspect {
        by: SuspectBy::Loss,
        ports: vec![4_000],
        sent: 200,
        lost: 20,
        lost_forward: 20,
        others_sent: 600,
        others_lost: 0,
        chance: Some(1e-9),
        longer_s: None,
        hop: Some(2),
        address: Some("192.0.2.9".into()),
        text: "1 flow loses 10 %".into(),
    };
    let sweep = Sweep { suspects: vec![suspect], judged: true, ..Sweep::default() };
    member.routes.as_mut().unwrap().forward.sweep = Some(sweep);
    let found = causes(&member);
    assert_eq!(found[0].segment, Segment::Hop { ttl: 2, address: "192.0.2.9".into() });
    assert!(found.iter().all(|cause| cause.kind != Kind::Loss), "the more specific cause explains it: {found:?}");
}

#[test]
fn reordering_and_duplicates_are_causes() {
    let mut found = clean();
    let mut reverse = point(0);
    reverse.received.reordered = 2_000;
    reverse.received.reorder_distances = vec![UdpBin { from: 1, to: 7, count: 2_000 }];
    reverse.received.duplicates = 400;
    found.datagrams.reverse = Some(reverse);
    let kinds: Vec<_> = causes(&found).into_iter().map(|cause| (cause.kind, cause.direction)).collect();
    assert_eq!(kinds, [(Kind::Reordering, Some(Direction::Reverse)), (Kind::Duplicates, Some(Direction::Reverse))]);
}

#[test]
fn limits_of_the_hosts_are_causes() {
    let rmem = |most: &str| [("net.ipv4.tcp_rmem".to_owned(), format!("4096 131072 {most}"))].into();
    let mut window = clean();
    let full = |rate: u64| {
        let mut report = tcp_report(rate, 0.0, 0.0, "receive_window");
        report.near.totals[0].flow.kernel.as_mut().unwrap().receive_window_limited_s = 9.0;
        report
    };
    let mut report = full(600_000_000);
    report.far.host.settings = rmem("8388608");
    window.tcp.forward = Some(report.clone());
    assert_eq!((top(&window).kind, top(&window).segment), (Kind::SmallWindow, Segment::FarHost));
    // 5 s after the start over 303 ms: the program reads, and the window still grows.
    report.far.host.settings = rmem("1073741824");
    window.tcp.forward = Some(report);
    assert_eq!(causes(&window), []);
    // The program also reads where the window fills a queue on the path: the round trip includes the queue.
    let mut queued = full(20_000_000);
    queued.near.totals[0].flow.kernel.as_mut().unwrap().rtt_s = 1.6;
    queued.far.host.settings = rmem("8388608");
    queued.directions[0].binding.clear();
    window.tcp.forward = Some(queued);
    assert_eq!(causes(&window), []);
    let mut report = full(100_000_000);
    report.far.host.settings = rmem("1073741824");
    window.tcp.forward = Some(report);
    let slow = top(&window);
    let mut quota = window.clone();
    quota.tcp.forward.as_mut().unwrap().far.host.held_back = 0.4;
    assert!(top(&quota).evidence.contains("40 % of the time") && top(&quota).segment == Segment::FarHost);
    assert_eq!((slow.kind, slow.segment), (Kind::Processor, Segment::FarHost));
    assert!(slow.evidence.contains("does not read"), "{}", slow.evidence);
    let mut buffer = clean();
    buffer.tcp.forward = Some(tcp_report(100_000_000, 0.0, 0.0, "send_buffer"));
    assert_eq!((top(&buffer).kind, top(&buffer).segment), (Kind::SmallWindow, Segment::NearHost));
    let mut busy = clean();
    let mut report = tcp_report(300_000_000, 0.0, 0.0, "");
    (report.far.host.processors, report.far.host.busy) = (2, 0.95);
    busy.tcp.forward = Some(report.clone());
    assert_eq!(causes(&busy), [], "it keeps up");
    report.near.totals[0].counted_s = 20.0;
    busy.tcp.forward = Some(report);
    assert_eq!((top(&busy).kind, top(&busy).segment), (Kind::Processor, Segment::FarHost));
}

#[test]
fn loss_of_a_busy_host_is_no_cause_in_the_network() {
    for taken in [Use { busy: 1.0, ..Use::default() }, Use { busy: 0.95, own: 0.4, steal: 0.6, ..Use::default() }] {
        let mut found = clean();
        let mut report = tcp_report(98_000_000, 0.024, 0.005, "");
        report.far.host = taken;
        found.tcp.forward = Some(report.clone());
        assert_eq!(causes(&found), [], "a busy host sends late packets again");
        found.latency = Some(latency(2e-3));
        report.directions[0].resent = 0.0;
        found.tcp.forward = Some(report);
        assert_eq!(causes(&found), [], "other programs of a host are no cross traffic");
    }
}

#[test]
fn faults_of_routes_are_causes() {
    let mut hole = clean();
    hole.routes.as_mut().unwrap().reverse = Some(route(1_500));
    let found = top(&hole);
    assert_eq!((found.kind, found.direction), (Kind::MtuHole, Some(Direction::Reverse)));
    assert!(found.evidence.contains("more than 1500 bytes vanish"), "{}", found.evidence);
    let mut asymmetric = clean();
    let text = "the forward path has 2 hops, the reverse path 4".to_owned();
    let change = Change { what: ChangeOf::Distance, ttl: None, before: "2".into(), after: "4".into(), text };
    asymmetric.routes.as_mut().unwrap().asymmetries = vec![change];
    assert_eq!(top(&asymmetric).kind, Kind::AsymmetricRoute);
}

#[test]
fn cross_traffic_and_long_queues_are_causes() {
    let mut shared = clean();
    shared.tcp.forward = Some(tcp_report(590_000_000, 0.0, 0.03, ""));
    shared.latency = Some(latency(2e-3));
    let found = top(&shared);
    assert_eq!((found.kind, found.direction), (Kind::CrossTraffic, Some(Direction::Forward)), "{found:?}");
    let mut bloated = clean();
    bloated.loaded.as_mut().unwrap().round_trip = Some(Delay { median_s: 0.4, ..Delay::default() });
    assert_eq!(top(&bloated).kind, Kind::Bufferbloat);
}

#[test]
fn a_short_queue_that_bbr_hides_shows_with_cubic() {
    let mut hidden = clean();
    hidden.bursts.forward = Some(burst(900, 1e9));
    assert_eq!(causes(&hidden), [], "BBR gets all of it");
    hidden.loss_based.forward = Some(tcp_report(300_000_000, 0.000_1, 0.001, "loss"));
    let found = top(&hidden);
    assert_eq!((found.kind, found.direction), (Kind::ShallowQueue, Some(Direction::Forward)), "{found:?}");
    assert!(found.evidence.contains("with CUBIC 300 Mbit/s"), "{}", found.evidence);

    // A queue that holds a burst, and is still short for the data in flight.
    let mut large = clean();
    large.loss_based.forward = Some(long(400_000_000, 0.000_1, 0.004));
    let found = top(&large);
    assert_eq!((found.kind, found.direction), (Kind::ShallowQueue, Some(Direction::Forward)), "{found:?}");
    assert!(found.evidence.contains("CUBIC gets 400 Mbit/s where BBR gets 970 Mbit/s"), "{}", found.evidence);
    // Loss that is too rare for the datagrams' test: bursts prove a queue that CUBIC never filled.
    large.loss_based.forward = Some(long(150_000_000, 0.000_01, 0.000_1));
    assert_eq!(causes(&large), []);
    // A queue as long as the path is not short.
    large.loss_based.forward = Some(long(400_000_000, 0.000_1, 0.05));
    assert_eq!(causes(&large), []);
}

#[test]
fn a_link_below_its_stated_rate_is_narrow() {
    let mut narrow = clean();
    narrow.link_bit_s = 1_000_000_000;
    narrow.tcp.forward = Some(tcp_report(320_000_000, 0.0, 0.02, ""));
    narrow.bursts.forward = Some(burst(0, 333e6));
    let found = top(&narrow);
    assert_eq!((found.kind, found.direction), (Kind::NarrowLink, Some(Direction::Forward)), "{found:?}");
    assert!(found.evidence.contains("320 Mbit/s of 1.00 Gbit/s"), "{}", found.evidence);
    // Others share the queue: bursts drain among their packets, and TCP gets less than that rate.
    narrow.bursts.forward = Some(burst(0, 625e6));
    narrow.tcp.forward = Some(tcp_report(400_000_000, 0.0, 0.02, ""));
    narrow.latency = Some(latency(2e-3));
    assert_eq!(top(&narrow).kind, Kind::CrossTraffic);
}

/// A test of ten seconds.
fn long(rate: u64, resent: f64, queue_s: f64) -> tcp::Report {
    let mut report = tcp_report(rate, resent, queue_s, "");
    let flows = report.near.totals.iter().map(|total| total.flow.clone()).collect();
    report.intervals = vec![tcp::Interval { start_s: 0.0, end_s: 10.0, flows, ..tcp::Interval::default() }];
    report
}

#[test]
fn steady_cross_traffic_is_found_by_the_remaining_rate() {
    let mut shared = clean();
    shared.link_bit_s = 1_000_000_000;
    shared.bursts.forward = Some(burst(0, 990e6));
    shared.tcp.forward = Some(long(600_000_000, 0.01, 0.02));
    assert_eq!(causes(&shared), [], "one congestion control alone may have stopped short");
    shared.loss_based.forward = Some(long(590_000_000, 0.0, 0.02));
    let found = top(&shared);
    assert_eq!((found.kind, found.direction), (Kind::CrossTraffic, Some(Direction::Forward)), "{found:?}");
    assert!(found.evidence.contains("CUBIC gets the same, and bursts drain at"), "{}", found.evidence);
    // A few round trips are too few to find the available rate.
    for report in [&mut shared.tcp.forward, &mut shared.loss_based.forward].into_iter().flatten() {
        report.intervals[0].end_s = 0.5;
    }
    assert_eq!(causes(&shared), []);
}

#[test]
fn a_short_queue_at_which_bbr_loses_packets_is_found() {
    let mut short = clean();
    short.tcp.forward = Some(long(950_000_000, 0.02, 0.004));
    short.loss_based.forward = Some(long(870_000_000, 0.003, 0.004));
    let found = top(&short);
    assert_eq!((found.kind, found.direction), (Kind::ShallowQueue, Some(Direction::Forward)), "{found:?}");
    short.tcp.forward = Some(long(950_000_000, 0.0, 0.004));
    assert_eq!(causes(&short), [], "neither congestion control suffers");
}

#[test]
fn loss_at_the_start_is_no_policer() {
    let mut started = clean();
    let mut report = long(96_000_000, 0.066, 0.008);
    report.intervals[0].end_s = 1.0;
    started.bursts.forward = None;
    started.tcp.forward = Some(report);
    assert_eq!(causes(&started), []);
}

#[test]
fn a_direction_with_a_longer_delay_is_found() {
    let mut uneven = clean();
    let delay = |min_s| Some(Delay { min_s, median_s: min_s, ..Delay::default() });
    let latency = uneven.latency.as_mut().unwrap();
    latency.forward = delay(0.045);
    latency.reverse = delay(0.005);
    latency.clock.error_s = 0.016;
    assert_eq!(causes(&uneven), [], "the clocks' error may be as large");
    uneven.latency.as_mut().unwrap().one_clock = true;
    let found = top(&uneven);
    assert_eq!(found.kind, Kind::AsymmetricRoute);
    assert!(found.evidence.contains("45.0 ms forward and 5.0 ms in reverse"), "{}", found.evidence);
    uneven.latency.as_mut().unwrap().reverse = delay(0.040);
    assert_eq!(causes(&uneven), []);
}

#[test]
fn a_second_fault_is_found_beside_the_first() {
    let mut both = clean();
    both.datagrams.forward = Some(point(600));
    both.tcp.forward = Some(tcp_report(180_000_000, 0.05, 0.001, ""));
    let kinds: Vec<_> = causes(&both).into_iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, [Kind::Policer, Kind::Loss], "0.3 % is lost at any rate, 5 % at TCP's rate");
    both.bursts.forward = Some(burst(900, 1e9));
    both.tcp.forward = Some(tcp_report(800_000_000, 0.004, 0.001, ""));
    let kinds: Vec<_> = causes(&both).into_iter().map(|cause| cause.kind).collect();
    assert!(kinds.contains(&Kind::Loss) && kinds.contains(&Kind::ShallowQueue), "{kinds:?}");
}
