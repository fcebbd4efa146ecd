//! Whether a lab reports that it was itself the limit.

use std::time::{Duration, Instant};

use lab::fixture;

use super::probe::{counts, drained, not_judged, settle, udp};

#[test]
fn a_lab_without_memory_reports_itself_as_the_limit() {
    let text = "memory = \"4MB\"\n[site.a]\n[site.b]\n[path.a-b]\nrtt = \"1s\"";
    let test = "a_lab_without_memory_reports_itself_as_the_limit";
    let Some(lab) = fixture::up(test, text) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    assert_eq!(lab.limited(&lab.reading().unwrap()), None);
    sys::udp::set_datagram_bytes(&near, 8_000).unwrap();
    let started = Instant::now();
    for _ in 0..200 {
        near.send_to(&[1; 40_000], far.local_addr().unwrap()).unwrap();
    }
    let took = started.elapsed();
    settle(&lab);
    let arrived = drained(&far, Duration::from_millis(300)).len() as u64;
    let reading = lab.reading().unwrap();
    assert_eq!(counts(&lab, "a-b", 0).segments, arrived, "every packet with room arrived");
    // The first packets arrive after half a second, and free memory for others.
    if took > Duration::from_millis(400) {
        return not_judged(test, &format!("sending took {took:?}"));
    }
    assert!(reading.refused.no_memory > 50, "{}", reading.refused.no_memory);
    assert!((300..525).contains(&arrived), "at most 4 MB, and at least 3 MiB less the ends of the chunks: {arrived}");
    assert_eq!((reading.memory, reading.memory_peak), (0, 3 << 20));
    let limit = lab.limited(&reading).unwrap();
    assert!(limit.contains("dropped"), "{limit}");
    // Later the lab is no longer the limit.
    assert!(super::probe::arrives(&near, &far, 100, Duration::from_secs(3)));
    let later = lab.reading().unwrap().since(&reading);
    assert_eq!((later.refused.no_memory, later.links[0].counts.segments), (0, 1));
}
