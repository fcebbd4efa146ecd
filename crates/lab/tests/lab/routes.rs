//! The routes of packets: routers, firewalls, several members, MTUs, other sites.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use lab::{Lab, fixture};
use socket2::{Domain, Protocol, Socket, Type};

use super::probe::{address, address_of, arrives, counts, udp, udp_at};

const SOON: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Receives all ICMP messages at a site.
fn listener(lab: &Lab, site: &str, v6: bool) -> Socket {
    let (domain, protocol) = if v6 { (Domain::IPV6, Protocol::ICMPV6) } else { (Domain::IPV4, Protocol::ICMPV4) };
    let open = || Socket::new(domain, Type::RAW, Some(protocol));
    let socket = lab.site(site).unwrap().within(open).unwrap().unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Type and code of the next message, and its sender. Over IPv6, a raw socket leaves out the IP header.
fn next_message(socket: &mut Socket, v6: bool) -> Option<(u8, u8, Option<IpAddr>)> {
    let mut packet = [0; 2_000];
    let length = socket.read(&mut packet).ok()?;
    assert!(length >= 8, "one message a time, whole");
    if v6 {
        return Some((packet[0], packet[1], None));
    }
    let source = IpAddr::from(<[u8; 4]>::try_from(&packet[12..16]).unwrap());
    Some((packet[20], packet[21], Some(source)))
}

#[test]
fn routers_answer_when_the_ttl_ends() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"8ms\"\nhops = 3";
    let Some(lab) = fixture::up("routers_answer_when_the_ttl_ends", text) else { return };
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    assert!(!hosts.contains("a-b-hop2"), "this host's own names are its own");
    for v6 in [false, true] {
        let mut icmp = listener(&lab, "a", v6);
        let [near, far] = ["a", "b"].map(|site| udp_at(&lab, site, address_of(&lab, site, 0, v6)));
        let to = far.local_addr().unwrap();
        let set_hops = |near: &UdpSocket, hops: u32| {
            if v6 {
                socket2::SockRef::from(near).set_unicast_hops_v6(hops).unwrap();
            } else {
                near.set_ttl(hops).unwrap();
            }
        };
        for hop in 1..=3u8 {
            set_hops(&near, u32::from(hop));
            near.send_to(&[1], to).unwrap();
            let router = IpAddr::from([10, 78, 1, hop]);
            let wanted = if v6 { (3, 0, None) } else { (11, 0, Some(router)) };
            assert_eq!(next_message(&mut icmp, v6), Some(wanted), "hop {hop}");
        }
        set_hops(&near, 4);
        assert!(arrives(&near, &far, 1, TIMEOUT), "three routers, and then the host");
    }
    assert_eq!(lab.reading().unwrap().refused.expired, 6);
}

fn connects(lab: &Lab, from: &str, to: SocketAddr, timeout: Duration) -> bool {
    lab.site(from).unwrap().within(|| TcpStream::connect_timeout(&to, timeout)).unwrap().is_ok()
}

#[test]
fn a_firewall_lets_in_answers_and_open_ports() {
    let text = "[site.campus]\nfirewall = { open = [2811] }\n[site.out]\n[path.campus-out]\nrtt = \"2ms\"";
    let Some(lab) = fixture::up("a_firewall_lets_in_answers_and_open_ports", text) else { return };
    let listen = |site: &str, port: u16| {
        let at = SocketAddr::new(address(&lab, site), port);
        lab.site(site).unwrap().within(|| TcpListener::bind(at)).unwrap().unwrap()
    };
    let (open, closed, out) = (listen("campus", 2_811), listen("campus", 2_812), listen("out", 443));
    assert!(connects(&lab, "out", open.local_addr().unwrap(), TIMEOUT));
    assert!(!connects(&lab, "out", closed.local_addr().unwrap(), SOON));
    assert!(lab.reading().unwrap().refused.firewalled > 0);
    assert!(connects(&lab, "campus", out.local_addr().unwrap(), TIMEOUT));
    let (inside, outside) = (udp(&lab, "campus"), udp(&lab, "out"));
    assert!(!arrives(&outside, &inside, 10, SOON));
    assert!(arrives(&inside, &outside, 10, TIMEOUT));
    assert!(arrives(&outside, &inside, 10, TIMEOUT), "an answer");
}

#[test]
fn many_flows_use_all_members() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"2ms\"\necmp = 4";
    let Some(lab) = fixture::up("many_flows_use_all_members", text) else { return };
    let far = udp(&lab, "b");
    for _ in 0..80 {
        let near = udp(&lab, "a");
        let before = lab.reading().unwrap();
        // Both datagrams of the flow have arrived before its counts are compared.
        assert!(arrives(&near, &far, 10, TIMEOUT) && arrives(&near, &far, 10, TIMEOUT));
        let after = lab.reading().unwrap().since(&before);
        let first = lab.link("a-b", 0).unwrap();
        let members: Vec<u64> = after.links[first..first + 4].iter().map(|link| link.counts.packets).collect();
        assert_eq!(members.iter().max(), Some(&2), "a flow keeps to its member: {members:?}");
    }
    let first = lab.link("a-b", 0).unwrap();
    let packets: Vec<u64> = lab.reading().unwrap().links[first..first + 4].iter().map(|l| l.counts.packets).collect();
    assert!(packets.iter().all(|count| *count >= 6), "{packets:?}");
}

#[test]
fn a_black_hole_drops_large_packets() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"2ms\"\nmtu_black_hole = 1400";
    let Some(lab) = fixture::up("a_black_hole_drops_large_packets", text) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    assert!(arrives(&near, &far, 1_372, TIMEOUT));
    assert!(!arrives(&near, &far, 1_373, SOON));
    assert!(arrives(&near, &far, 1_372, TIMEOUT), "the sender got no message, and smaller packets still pass");
    assert_eq!(counts(&lab, "a-b", 0).black_hole, 1);
    assert_eq!(lab.reading().unwrap().refused.too_big, 0);
}

/// The kernel learns the MTU, reports it once to the socket, and keeps to it.
#[test]
fn the_kernel_learns_the_mtu_of_a_path() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"2ms\"\nmtu = 1400";
    let Some(lab) = fixture::up("the_kernel_learns_the_mtu_of_a_path", text) else { return };
    for v6 in [false, true] {
        let [near, far] = ["a", "b"].map(|site| udp_at(&lab, site, address_of(&lab, site, 0, v6)));
        near.connect(far.local_addr().unwrap()).unwrap();
        assert_eq!(near.send(&[1; 3_000]).unwrap(), 3_000, "the kernel does not know the MTU yet");
        near.set_read_timeout(Some(TIMEOUT)).unwrap();
        let error = near.recv(&mut [0; 10]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MSGSIZE.raw_os_error()), "v6 {v6}: {error}");
        assert_eq!(near.send(&[1; 3_000]).unwrap(), 3_000);
        assert_eq!(far.recv(&mut [0; 4_000]).unwrap(), 3_000, "in pieces that fit");
    }
    assert_eq!(lab.reading().unwrap().refused.too_big, 2);
    let listen = || TcpListener::bind(SocketAddr::new(address(&lab, "b"), 0));
    let listener = lab.site("b").unwrap().within(listen).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let mut stream = lab.site("a").unwrap().within(|| TcpStream::connect(to)).unwrap().unwrap();
    std::io::Write::write_all(&mut stream, &[1; 100_000]).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    other.set_read_timeout(Some(TIMEOUT)).unwrap();
    other.read_exact(&mut [0; 100_000]).unwrap();
}

#[test]
fn the_kernel_learns_that_a_destination_is_unreachable() {
    let text = "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"2ms\"";
    let Some(lab) = fixture::up("the_kernel_learns_that_a_destination_is_unreachable", text) else { return };
    let mut icmp = listener(&lab, "a", false);
    udp(&lab, "a").send_to(&[1], SocketAddr::new(address(&lab, "c"), 9)).unwrap();
    assert_eq!(next_message(&mut icmp, false), Some((3, 0, Some(IpAddr::from([10, 79, 1, 1])))));
}

#[test]
fn one_direction_goes_over_another_site() {
    let text = "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"4ms\"\nab = { via = [\"c\"] }\n\
                [path.a-c]\nrtt = \"20ms\"\n[path.c-b]\nrtt = \"40ms\"";
    let Some(lab) = fixture::up("one_direction_goes_over_another_site", text) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    let started = std::time::Instant::now();
    assert!(arrives(&near, &far, 10, TIMEOUT));
    assert!(started.elapsed() >= Duration::from_millis(29), "{:?}", started.elapsed());
    assert!(arrives(&far, &near, 10, TIMEOUT));
    let found = [("a-c", 0), ("c-b", 0), ("a-b", 1), ("a-c", 1), ("c-b", 1)];
    assert_eq!(found.map(|(path, direction)| counts(&lab, path, direction).packets), [1, 1, 1, 0, 0]);
    assert_eq!(lab.link("a-b", 0), None, "it has nothing of its own");
}

/// A program chooses by the addresses that it binds and connects to.
#[test]
fn two_paths_are_chosen_by_address() {
    let text = lab::scenario::shipped("two-paths").unwrap().text;
    let Some(lab) = fixture::up("two_paths_are_chosen_by_address", text) else { return };
    for v6 in [false, true] {
        for (interface, path) in [(0, "short"), (1, "long")] {
            let [near, far] = ["here", "there"].map(|site| udp_at(&lab, site, address_of(&lab, site, interface, v6)));
            let before = counts(&lab, path, 0).packets;
            assert!(arrives(&near, &far, 10, TIMEOUT), "{path}, v6 {v6}");
            assert_eq!(counts(&lab, path, 0).packets, before + 1, "{path}, v6 {v6}");
        }
    }
}
