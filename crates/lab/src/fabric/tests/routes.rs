//! Which links a packet goes over, and in which order packets arrive.

use std::collections::{HashMap, HashSet};

use super::*;

#[test]
fn packets_arrive_in_their_order() {
    let mut net = Net::of("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"\nhops = 4");
    for number in 0..100 {
        // Pairs at equal times keep their order too.
        let packet = Packet { number, ..net.udp("a", "b", 100) };
        net.put(u64::from(number / 2) * 10 * US, &packet);
    }
    let port = net.port("b");
    let arrivals = net.all();
    assert_eq!(arrivals.len(), 100);
    for (number, arrival) in (0..).zip(&arrivals) {
        assert_eq!((arrival.number(), arrival.port, arrival.segments.clone()), (number, port, 0..1));
        assert_eq!(arrival.due, 50 * MS + u64::from(number / 2) * 10 * US);
        assert_eq!(arrival.ip()[8], 60, "four routers have counted down");
    }
}

#[test]
fn nothing_is_due_before_its_time() {
    let mut net = Net::of("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"");
    let packet = net.udp("a", "b", 100);
    net.put(0, &packet);
    assert_eq!(net.fabric.next_due(), Some(50 * MS));
    assert!(net.fabric.due(50 * MS - 1).is_none());
    assert!(net.fabric.memory().0 > 0);
    let delivery = net.fabric.due(50 * MS).unwrap();
    assert_eq!(delivery.link, Some(0));
    assert!(net.fabric.memory().0 > 0, "until it is given back");
    net.fabric.done(delivery);
    assert_eq!(net.fabric.memory().0, 0);
}

const CHAIN: &str = r#"
[site.a]
uplink = { rate = "8Mbit/s", delay = "1ms" }
[site.m]
uplink = { rate = "1Mbit/s" }
[site.b]
uplink = { rate = "4Mbit/s", delay = "2ms" }
[path.a-m]
rtt = "20ms"
rate = "2Mbit/s"
[path.m-b]
rtt = "60ms"
"#;

/// 1,000 bytes take 1 ms at the first uplink, 4 ms on the first path, and 2 ms at the last uplink. The uplinks of a site that a packet only
/// passes are not used.
#[test]
fn a_chain_is_charged_at_both_uplinks() {
    let mut net = Net::of(CHAIN);
    let packet = net.udp("a", "b", 972);
    net.put(0, &packet);
    let arrivals = net.all();
    assert_eq!(arrivals.iter().map(|one| one.due).collect::<Vec<_>>(), [(1 + 1 + 4 + 10 + 30 + 2 + 2) * MS]);
    let seen = |counts: Counts| (counts.segments, counts.out_bytes);
    assert_eq!([net.uplink("a", 0), net.path("a-m", 0, 0)].map(seen), [(1, 1_000); 2]);
    assert_eq!([net.path("m-b", 0, 0), net.uplink("b", 1)].map(seen), [(1, 1_000); 2]);
    let others = [net.uplink("a", 1), net.uplink("b", 0), net.uplink("m", 0), net.uplink("m", 1)];
    assert_eq!(others.map(seen), [(0, 0); 4]);
    assert_eq!([net.path("a-m", 1, 0), net.path("m-b", 1, 0)].map(seen), [(0, 0); 2]);
}

/// Two paths of one site share its uplink: the second packet waits for the first.
#[test]
fn an_uplink_is_shared() {
    let mut net = Net::of(
        "[site.a]\nuplink = { rate = \"8Mbit/s\" }\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"20ms\"\n[path.a-c]\nrtt = \"20ms\"",
    );
    for to in ["b", "c"] {
        let packet = net.udp("a", to, 972);
        net.put(0, &packet);
    }
    let arrivals = net.all();
    assert_eq!(arrivals.iter().map(|one| one.due).collect::<Vec<_>>(), [11 * MS, 12 * MS]);
    assert_eq!(net.uplink("a", 0).segments, 2);
}

#[test]
fn a_direction_may_go_over_another_site() {
    let mut net = Net::of(
        r#"
[site.a]
[site.b]
[site.c]
[path.a-b]
rtt = "10ms"
ab = { via = ["c"] }
[path.a-c]
rtt = "40ms"
[path.c-b]
rtt = "60ms"
"#,
    );
    for (from, to) in [("a", "b"), ("b", "a")] {
        let packet = net.udp(from, to, 100);
        net.put(0, &packet);
    }
    let arrivals = net.all();
    let found: Vec<_> = arrivals.iter().map(|one| (one.port, one.due)).collect();
    assert_eq!(found, [(net.port("a"), 5 * MS), (net.port("b"), 50 * MS)]);
    assert_eq!((net.path("a-c", 0, 0).segments, net.path("c-b", 0, 0).segments), (1, 1));
    assert_eq!(net.path("a-b", 1, 0).segments, 1);
}

#[test]
fn a_flow_keeps_to_one_member_and_flows_use_all() {
    let mut net = Net::of("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"20ms\"\necmp = 3");
    let mut members = HashMap::new();
    for round in 0..5 {
        for port in 0..300 {
            let packet = Packet { ports: (30_000 + port, 443), ..net.udp("a", "b", 3_000) };
            let before = [0, 1, 2].map(|member| net.path("a-b", 0, member).packets);
            net.put(u64::from(port) * US + round * MS, &packet);
            let member = (0..3).find(|member| net.path("a-b", 0, *member).packets > before[*member]).unwrap();
            assert_eq!(*members.entry(port).or_insert(member), member, "flow {port}");
        }
    }
    assert_eq!(members.values().collect::<HashSet<_>>().len(), 3);
    for member in 0..3 {
        // Eight standard deviations around a third.
        let flows = members.values().filter(|used| **used == member).count();
        assert!((100 - 65..100 + 65).contains(&flows), "{flows} flows on member {member}");
    }
    assert_eq!(net.all().len(), 1_500);
}

/// A row that the first bottleneck sends in pieces arrives at the second one in pieces, and is whole at the end.
#[test]
fn pieces_arrive_as_one_packet() {
    let mut net = Net::of(CHAIN);
    let packet = net.udp("a", "b", 20 * 1_472);
    net.put(0, &packet);
    let arrivals = net.all();
    let segments: Vec<u16> = arrivals.iter().flat_map(|one| one.segments.clone()).collect();
    assert_eq!(segments, (0..20).collect::<Vec<_>>());
    assert!(arrivals.len() > 10 && arrivals.windows(2).all(|pair| pair[0].due < pair[1].due));
    assert_eq!(arrivals.last().unwrap().due, (1 + 10 + 30 + 2) * MS + 1_500 * US + 20 * 6 * MS + 3 * MS);
}

/// One flipped bit is enough for a checksum; two may cancel out.
#[test]
fn a_segment_is_damaged_and_counted_only_once() {
    let mut net = Net::of(
        "[site.a]\nuplink = { corrupt = 0.5 }\n[site.b]\nuplink = { corrupt_silent = 0.5 }\n\
         [path.a-b]\nrtt = \"2ms\"\ncorrupt = 0.5",
    );
    for _ in 0..100 {
        let packet = net.udp("a", "b", 10 * 1_472);
        net.put(0, &packet);
    }
    let mut damaged = 0;
    while let Some(delivery) = net.fabric.due(u64::MAX) {
        damaged += u64::from(delivery.damage.is_some());
        net.fabric.done(delivery);
    }
    let counted =
        [net.uplink("a", 0).corrupted, net.path("a-b", 0, 0).corrupted, net.uplink("b", 1).corrupted_silently];
    assert_eq!(counted.iter().sum::<u64>(), damaged, "{counted:?}");
    // A half, a quarter, an eighth of 1,000.
    assert!((420..580).contains(&counted[0]) && (180..320).contains(&counted[1]) && (80..170).contains(&counted[2]));
}

/// The links of one lab draw different numbers; a lab with the same seed draws the same again.
#[test]
fn each_link_has_its_own_random_draws() {
    let lost = |seed: u32, to: &str| {
        let mut net = Net::of(&format!(
            "seed = {seed}\n[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"2ms\"\nloss = 0.5\n[path.a-c]\nrtt = \"2ms\"\nloss = 0.5"
        ));
        for number in 0..200 {
            let packet = Packet { number, ..net.udp("a", to, 100) };
            net.put(u64::from(number), &packet);
        }
        net.all().iter().map(Arrival::number).collect::<Vec<_>>()
    };
    assert_eq!(lost(1, "b"), lost(1, "b"));
    assert_ne!(lost(1, "b"), lost(1, "c"));
    assert_ne!(lost(1, "b"), lost(2, "b"));
    assert_ne!(lost(1, "c"), lost(2, "b"), "and not those of another seed, one place further");
}

const DETOUR: &str = "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\necmp = 2\n[path.a-c]\nrtt = \"20ms\"\nhops = 1\n\
                     [path.c-b]\nrtt = \"20ms\"\nhops = 1\n";

/// Routes avoid a withdrawn path; packets in transit stay on it, and later ones use it again once it is restored.
#[test]
fn packets_avoid_a_withdrawn_path() {
    let mut net = Net::of(DETOUR);
    let forward = |member| Owner::Path { path: 0, direction: 0, member };
    let link = |net: &Net, member| net.fabric.topology().link(forward(member)).unwrap();
    let both = [link(&net, 0), link(&net, 1)];
    let put = |net: &mut Net, now| {
        let packet = net.udp("a", "b", 100);
        net.put(now, &packet);
    };
    put(&mut net, 0);
    net.fabric.set(MS, &both, &[Word::Withdrawn(true)]);
    put(&mut net, MS);
    net.fabric.set(2 * MS, &both, &[Word::Withdrawn(false)]);
    put(&mut net, 2 * MS);
    let due: Vec<u64> = net.all().iter().map(|arrival| arrival.due / MS).collect();
    assert_eq!(due, [5, 7, 21]);
    let used = usize::from(net.counts(forward(1)).segments > 0);
    net.fabric.set(30 * MS, &both[used..=used], &[Word::Withdrawn(true)]);
    put(&mut net, 30 * MS);
    assert_eq!((net.all()[0].due / MS, net.counts(forward(1 - used)).segments), (35, 1), "the other member takes it");
}
