//! Properties for all packets and changes: no packet stays in memory, and every packet is accounted for.

use proptest::prelude::*;

use super::*;
use crate::packet::damaged;
use crate::scenario::Change;

const WORLD: &str = r#"
memory = "64MiB"
[site.a]
uplink = { rate = "100Mbit/s", queue = "100KB", corrupt = 0.05 }
[site.b]
uplink = { duplicate = 0.1, loss = 0.1 }
firewall = { open = [443] }
[site.c]
[path.a-b]
rtt = "10ms"
rate = "50Mbit/s"
queue = "20ms"
reorder = 0.05
duplicate = 0.2
corrupt = 0.1
corrupt_silent = 0.1
hops = 2
ecmp = 2
[path.b-c]
rtt = "20ms"
jitter = "2ms"
mtu = 1400
loss = { burst = [0.05, 0.3] }
"#;

#[derive(Clone, Debug)]
enum Step {
    Packet {
        from: usize,
        to: usize,
        v6: bool,
        tcp: bool,
        port: u16,
        ttl: u8,
        mss: u16,
        payload: usize,
    },
    Garbage(usize, Vec<u8>),
    /// Rate of a-b in kbit/s.
    Change(u32),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let port = prop_oneof![Just(443u16), any::<u16>()];
    let packet = (0..3usize, 0..4usize, any::<bool>(), any::<bool>(), port, 0..70u8, 8..1_500u16, 0..60_000usize)
        .prop_map(|(from, to, v6, tcp, port, ttl, mss, payload)| {
            let payload = payload.min(usize::from(mss) * 60);
            Step::Packet { from, to, v6, tcp, port, ttl, mss, payload }
        });
    let garbage =
        (0..3usize, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(at, bytes)| Step::Garbage(at, bytes));
    let step = prop_oneof![12 => packet, 1 => garbage, 1 => (100..1_000_000u32).prop_map(Step::Change)];
    prop::collection::vec((0..2_000u64, step), 1..80)
}

fn play(net: &mut Net, now: u64, step: Step) {
    let sites = ["a", "b", "c"];
    match step {
        Step::Garbage(at, bytes) => {
            let port = net.port(sites[at]);
            net.put_at(now, port, &bytes);
        }
        Step::Change(rate) => {
            let words = [("rate".to_owned(), format!("{rate}kbit/s"))];
            let change = Change::read(&net.scenario, "a-b", None, None, &words).unwrap();
            let links = net.fabric.topology().changed(&change);
            net.fabric.set(now, &links, &change.words);
        }
        Step::Packet { from, to, v6, tcp, port, ttl, mss, payload } => {
            let address = |net: &Net, at: usize| match (sites.get(at), v6) {
                (None, false) => "10.1.2.3".parse().unwrap(),
                (None, true) => "fd00::1".parse().unwrap(),
                (Some(site), false) => net.v4(site),
                (Some(site), true) => net.v6(site),
            };
            let (from, to) = (address(net, from), address(net, to));
            net.put(now, &Packet { from, to, tcp, ports: (50_000, port), ttl, mss, payload, number: 0 });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_is_accounted_for(steps in steps()) {
        let mut net = Net::of(WORLD);
        let (mut now, mut entered, mut last, mut out, mut scratch) = (0, 0, 0, Vec::new(), Vec::new());
        for (pause, step) in steps {
            now += pause * US;
            entered += u64::from(!matches!(step, Step::Change(_)));
            // Some of the packets in transit arrive in between.
            while let Some(delivery) = net.fabric.due(now) {
                prop_assert!(delivery.due >= last && delivery.due <= now);
                last = delivery.due;
                let (frame, shape) = net.fabric.frame(&delivery);
                prop_assert!(!delivery.segments.is_empty() && delivery.segments.end <= shape.segments());
                if let Some((damage, bit)) = delivery.damage {
                    let segment = delivery.segments.start;
                    prop_assert!(damaged(frame, shape, segment, damage, bit, &mut scratch), "counted damage was done");
                }
                out.extend(delivery.link);
                net.fabric.done(delivery);
            }
            play(&mut net, now, step);
        }
        net.all();
        let mut first = 0;
        let refused = net.fabric.refused();
        for link in net.fabric.links() {
            let counts = link.counts();
            let gone = counts.lost + counts.queue_dropped + counts.policed + counts.down + counts.black_hole;
            prop_assert_eq!(counts.segments + counts.duplicated, counts.out_segments + gone);
        }
        // Each packet was refused, or is at the first link of its route. Parcels enter later links, not packets.
        let is_first = |owner: Owner| match owner {
            Owner::Uplink { direction, .. } => direction == 0,
            Owner::Path { path, direction, .. } => path == 1 && direction == 1,
        };
        for (planned, link) in net.fabric.topology().links.iter().zip(net.fabric.links()) {
            first += if is_first(planned.owner) { link.counts().packets } else { 0 };
        }
        let turned_away = refused.unroutable + refused.not_carried + refused.expired + refused.too_big;
        prop_assert_eq!(entered, first + turned_away + refused.no_memory);
    }
}
