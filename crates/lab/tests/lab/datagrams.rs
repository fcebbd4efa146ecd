//! UDP: delay, exact loss, duplicates, order, damage.

use std::time::{Duration, Instant};

use lab::fixture;

use super::probe::{address_of, counter, counts, drained, is_judged, settle, udp, udp_at};

const SILENCE: Duration = Duration::from_millis(300);

#[test]
fn a_round_trip_takes_the_configured_delay() {
    let test = "a_round_trip_takes_the_configured_delay";
    let text = "[site.a]\n[site.b]\n[path.a-b]\nab = { delay = \"12ms\" }\nba = { delay = \"28ms\" }";
    let Some(lab) = fixture::up(test, text) else { return };
    for v6 in [false, true] {
        let [near, far] = ["a", "b"].map(|site| udp_at(&lab, site, address_of(&lab, site, 0, v6)));
        let to = far.local_addr().unwrap();
        let echo = std::thread::spawn(move || {
            let mut datagram = [0; 100];
            while let Ok((length, from)) = far.recv_from(&mut datagram) {
                if length == 0 {
                    break;
                }
                far.send_to(&datagram[..length], from).unwrap();
            }
        });
        let trip = || {
            let started = Instant::now();
            near.send_to(&[1; 100], to).unwrap();
            near.recv(&mut [0; 100]).unwrap();
            started.elapsed()
        };
        // Within 1 %, plus the time in which three threads wake up; on a busy machine, that is short only now and then.
        let bound = Duration::from_micros(40_000 + 400 + 300);
        let mut shortest = Duration::MAX;
        for number in 0..200 {
            if number >= 20 && shortest <= bound {
                break;
            }
            shortest = shortest.min(trip());
        }
        near.send_to(&[], to).unwrap();
        echo.join().unwrap();
        // Each direction may be 50 us early.
        assert!(shortest >= Duration::from_micros(39_850), "{shortest:?}");
        assert!(shortest <= bound || !is_judged(test, &lab), "{shortest:?}");
    }
}

#[test]
fn loss_is_exact() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"4ms\"\nab = { loss = { list = [1, 100, 101, 5000] } }";
    let test = "loss_is_exact";
    let Some(lab) = fixture::up(test, text) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    for number in 1..=10_000u32 {
        near.send_to(&number.to_be_bytes(), far.local_addr().unwrap()).unwrap();
    }
    settle(&lab);
    let found: Vec<u32> = drained(&far, SILENCE).into_iter().map(|(_, number)| number).collect();
    let wanted: Vec<u32> = (1..=10_000).filter(|number| ![1, 100, 101, 5_000].contains(number)).collect();
    assert!(found == wanted || !is_judged(test, &lab), "{} arrived", found.len());
    assert_eq!(counts(&lab, "a-b", 0).lost, 4);
}

/// Rows of datagrams that the kernel passes as one, disturbed in every way: counted to the packet.
#[test]
fn rows_of_datagrams_are_counted_one_by_one() {
    let text = "[site.a]\nmtu = 1500\n[site.b]\nmtu = 1500\n[path.a-b]\nrtt = \"4ms\"\nloss = \"1%\"\nduplicate = \"2%\"\n\
                reorder = \"1%\"\ncorrupt = \"1%\"\ncorrupt_silent = \"1%\"";
    let Some(lab) = fixture::up("rows_of_datagrams_are_counted_one_by_one", text) else { return };
    for v6 in [false, true] {
        let before = counts(&lab, "a-b", 0);
        let [near, far] = ["a", "b"].map(|site| udp_at(&lab, site, address_of(&lab, site, 0, v6)));
        sys::udp::set_datagram_bytes(&near, 1_000).unwrap();
        for _ in 0..250 {
            near.send_to(&[1; 40_000], far.local_addr().unwrap()).unwrap();
        }
        settle(&lab);
        let arrived = drained(&far, SILENCE).len() as u64;
        let counts = counts(&lab, "a-b", 0).since(&before);
        assert_eq!(counts.segments, 10_000);
        assert!(counts.packets < 1_000, "in rows, not one by one: {}", counts.packets);
        assert_eq!(arrived, 10_000 - counts.lost + counts.duplicated - counts.corrupted);
        let table = if v6 { ("snmp6", "Udp6InCsumErrors") } else { ("snmp", "InCsumErrors") };
        let errors = if v6 { counter_v6(&lab, "b", table.1) } else { counter(&lab, "b", table.0, "Udp:", table.1) };
        assert_eq!(errors, counts.corrupted);
        let happened = [counts.lost, counts.duplicated, counts.reordered, counts.corrupted, counts.corrupted_silently];
        assert!(happened.iter().all(|count| *count > 30), "{happened:?}");
    }
}

/// A counter of /proc/net/snmp6, which has one in a line.
fn counter_v6(lab: &lab::Lab, site: &str, name: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp6");
    let text = lab.site(site).unwrap().within(read).unwrap().unwrap();
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn jitter_keeps_datagrams_in_order_and_reordering_does_not() {
    let text = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"10ms\"\njitter = \"4ms\"";
    let Some(lab) = fixture::up("jitter_keeps_datagrams_in_order_and_reordering_does_not", text) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    let found = || {
        // A sleep between two datagrams may last 4 ms on a busy machine, and then neither overtakes the other.
        for burst in 0..50u32 {
            for number in burst * 10..burst * 10 + 10 {
                near.send_to(&number.to_be_bytes(), far.local_addr().unwrap()).unwrap();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        settle(&lab);
        drained(&far, SILENCE).into_iter().map(|(_, number)| number).collect::<Vec<_>>()
    };
    assert_eq!(found(), (0..500).collect::<Vec<_>>());
    lab.set("a-b", &[("jitter", "0s"), ("reorder", "10%"), ("reorder_by", "3ms")]).unwrap();
    let reordered = found();
    assert_eq!(reordered.len(), 500);
    let overtaken = reordered.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
    let counted = counts(&lab, "a-b", 0).reordered;
    assert!((10..=counted).contains(&overtaken), "{overtaken} of {counted}");
}
