//! Firewalls, and full memory.

use super::*;

const HOUR: u64 = 3_600_000 * MS;

const WITH_FIREWALL: &str = r#"
[site.in]
firewall = { open = [22] }
[site.out]
[path.in-out]
rtt = "20ms"
"#;

/// Whether a packet from `out` gets in.
fn gets_in(net: &mut Net, now: u64, tcp: bool, ports: (u16, u16)) -> bool {
    let packet = Packet { tcp, ports, ..net.udp("out", "in", 100) };
    net.put(now, &packet);
    !net.all().is_empty()
}

fn send_out(net: &mut Net, now: u64, tcp: bool, ports: (u16, u16)) {
    let packet = Packet { tcp, ports, ..net.udp("in", "out", 100) };
    net.put(now, &packet);
    assert_eq!(net.all().len(), 1, "every outgoing packet passes");
}

#[test]
fn a_firewall_lets_answers_in() {
    let mut net = Net::of(WITH_FIREWALL);
    for tcp in [true, false] {
        assert!(!gets_in(&mut net, 0, tcp, (443, 50_000)));
        send_out(&mut net, 0, tcp, (50_000, 443));
        assert!(gets_in(&mut net, 0, tcp, (443, 50_000)));
        assert!(!gets_in(&mut net, 0, tcp, (443, 50_001)), "to another port");
        assert!(!gets_in(&mut net, 0, tcp, (444, 50_000)), "from another port");
        assert!(!gets_in(&mut net, 0, !tcp, (443, 50_000)) || !tcp, "by another protocol");
        assert!(gets_in(&mut net, 0, tcp, (9_999, 22)), "to an open one");
    }
    // Four in the first round; three in the second, in which a TCP flow had already gone out.
    assert_eq!(net.fabric.refused().firewalled, 7);
}

#[test]
fn a_firewall_drops_a_flow_after_an_hour_of_silence() {
    let mut net = Net::of(WITH_FIREWALL);
    send_out(&mut net, 0, true, (50_000, 443));
    let mut now = 0;
    for _ in 0..3 {
        now += HOUR - 100 * MS;
        assert!(gets_in(&mut net, now, true, (443, 50_000)), "silent for less");
    }
    assert!(!gets_in(&mut net, now + HOUR + 100 * MS, true, (443, 50_000)));
}

#[test]
fn a_firewall_lets_icmp_in_and_the_networks_own_answers() {
    let mut net = Net::of(&WITH_FIREWALL.replace("rtt", "hops = 2\nrtt"));
    let mut frame = net.udp("out", "in", 100).frame();
    frame[OFFLOAD_HEADER + 9] = 1;
    frame[..OFFLOAD_HEADER].fill(0);
    let port = net.port("out");
    net.put_at(0, port, &frame);
    assert_eq!(net.all().len(), 1);
    let packet = Packet { ttl: 1, ..net.udp("in", "out", 100) };
    net.put(0, &packet);
    assert_eq!(net.all()[0].port, net.port("in"));
}

#[test]
fn without_room_packets_are_dropped_and_counted() {
    let mut net = Net::of("memory = \"2MiB\"\n[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"");
    let packet = Packet { mss: 1_472, ..net.udp("a", "b", 40 * 1_472) };
    for round in 1..=3 {
        for _ in 0..100 {
            net.put(0, &packet);
        }
        // At least 15 of 59 KB fit a chunk of 1 MiB, the end of which must be free for the largest packet.
        let arrived = net.all().len() as u64;
        assert!((30..=35).contains(&arrived), "{arrived}");
        assert_eq!(net.fabric.refused().no_memory, round * (100 - arrived), "and all of it is free again");
    }
    assert_eq!(net.fabric.memory(), (0, 2 << 20));
}

/// The answer needs room as well.
#[test]
fn an_answer_without_room_is_dropped_and_counted() {
    let mut net = Net::of("memory = \"1MiB\"\n[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"\nmtu = 1300");
    let fits = Packet { mss: 900, ..net.udp("a", "b", 60_000) };
    while net.fabric.room().is_some() {
        net.put(0, &fits);
    }
    let dropped = net.fabric.refused().no_memory;
    let too_big = net.udp("a", "b", 1_400);
    net.put(0, &too_big);
    assert_eq!(net.fabric.refused().no_memory, dropped + 1);
    net.all();
}
