//! Changes while packets flow: by hand, for a while, and by events.

use std::time::Duration;

use lab::fixture;
use lab::scenario::Change;

use super::probe::{arrives, counts, drained, is_judged, not_judged, settle, udp};

const SOON: Duration = Duration::from_millis(150);
const TIMEOUT: Duration = Duration::from_secs(2);
const PATH: &str = "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"4ms\"";

#[test]
fn a_path_goes_down_and_up_again() {
    let Some(lab) = fixture::up("a_path_goes_down_and_up_again", PATH) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    assert!(arrives(&near, &far, 100, TIMEOUT));
    lab.set("a-b", &[("down", "true")]).unwrap();
    assert!(!arrives(&near, &far, 100, SOON));
    assert!(!arrives(&far, &near, 100, SOON), "both directions");
    lab.set("a-b", &[("down", "false")]).unwrap();
    assert!(arrives(&near, &far, 100, TIMEOUT));
    assert_eq!((counts(&lab, "a-b", 0).down, counts(&lab, "a-b", 1).down), (1, 1));
}

#[test]
fn a_change_for_a_while_ends_by_itself() {
    let Some(lab) = fixture::up("a_change_for_a_while_ends_by_itself", PATH) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    let words = [("down".to_owned(), "true".to_owned())];
    // On a busy machine a change may be over before the packet arrives.
    let is_seen = (0..10).any(|_| {
        let change = Change::read(lab.scenario(), "a-b", Some(0), None, &words).unwrap();
        lab.change(change, Some(Duration::from_secs(1))).unwrap();
        !arrives(&near, &far, 100, SOON) && counts(&lab, "a-b", 0).down > 0
    });
    assert!(is_seen);
    assert!(arrives(&far, &near, 100, TIMEOUT), "the other direction is as it was");
    std::thread::sleep(Duration::from_secs(1));
    assert!(arrives(&near, &far, 100, TIMEOUT));
}

#[test]
fn an_invalid_change_is_refused() {
    let Some(lab) = fixture::up("an_invalid_change_is_refused", PATH) else { return };
    for (target, word, value, expected) in
        [("a-c", "down", "true", "a-b"), ("a-b", "dwon", "true", "down"), ("a-b", "rate", "fast", "Mbit/s")]
    {
        let error = lab.set(target, &[(word, value)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// A datagram every five milliseconds, with a gap at the event.
#[test]
fn an_event_happens_and_ends() {
    let test = "an_event_happens_and_ends";
    let event = "[[event]]\nat = \"400ms\"\npath = \"a-b\"\nset = { down = true }\nfor = \"300ms\"";
    let Some(lab) = fixture::up(test, &format!("{PATH}\n{event}")) else { return };
    let (near, far) = (udp(&lab, "a"), udp(&lab, "b"));
    let mut sent = Vec::new();
    let at = || lab.reading().unwrap().at;
    while at() < Duration::from_secs(1) {
        let (number, before) = (sent.len() as u32, at());
        near.send_to(&number.to_be_bytes(), far.local_addr().unwrap()).unwrap();
        sent.push((before, at()));
        std::thread::sleep(Duration::from_millis(5));
    }
    if sent[0].1 > Duration::from_millis(380) {
        return not_judged(test, "the first datagram left after the event");
    }
    settle(&lab);
    let arrived: Vec<u32> = drained(&far, SOON).into_iter().map(|(_, number)| number).collect();
    assert_eq!(arrived.len() as u64 + counts(&lab, "a-b", 0).down, sent.len() as u64);
    let gap = arrived.windows(2).max_by_key(|pair| pair[1] - pair[0]).unwrap();
    let (last, first) = (sent[gap[0] as usize].0, sent[gap[1] as usize].1);
    assert_eq!(counts(&lab, "a-b", 0).down, u64::from(gap[1] - gap[0] - 1), "one gap");
    // The last datagram left after the request, the first one before it.
    if is_judged(test, &lab) {
        assert!(last <= Duration::from_millis(420) && first >= Duration::from_millis(700), "{last:?} to {first:?}");
    }
}
