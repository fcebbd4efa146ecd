//! Tests as stories.

use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind, PerDirection, Segment};
use model::v1::probe::tcp::{End, Total};

use super::*;

fn flow(stream: u32, is_forward: bool, bytes: u64, kernel: Option<Kernel>) -> model::v1::probe::tcp::Flow {
    model::v1::probe::tcp::Flow { stream, direction: Direction::of(is_forward), bytes, rate_bit_s: bytes * 8, kernel }
}

/// A test of two seconds forward over one stream; the far end counted a little less than the near end sent.
fn report() -> Report {
    let kernel = |rtt_s| Kernel {
        rtt_s,
        min_rtt_s: 0.1,
        cwnd_bytes: 14_480,
        mss_bytes: 1448,
        busy_s: 1.0,
        receive_window_limited_s: 0.5,
        retransmits: 3,
        sent_bytes: 100,
        window_scaling: true,
        ..Kernel::default()
    };
    let interval = |n: u32, flows| Interval { start_s: f64::from(n), end_s: f64::from(n + 1), omitted: false, flows };
    let total = |bytes, kernel| Total {
        flow: flow(1, true, bytes, kernel),
        counted_s: 2.0,
        congestion: "cubic".into(),
        ..Total::default()
    };
    let host = |processors, rmem: &str| Use {
        processors,
        settings: [("net.ipv4.tcp_rmem".to_owned(), rmem.to_owned())].into(),
        ..Use::default()
    };
    let result = DirectionReport {
        direction: Direction::Forward,
        rate_bit_s: 8_000_000,
        received_bytes: 2_000_000,
        limit: "the receive window".into(),
        ..DirectionReport::default()
    };
    Report {
        directions: vec![result],
        intervals: (0..2)
            .map(|n| interval(n, vec![flow(1, true, 1_100_000, Some(kernel(0.1 + f64::from(n) / 10.0)))]))
            .collect(),
        far_intervals: (0..2).map(|n| interval(n, vec![flow(1, true, 1_000_000, None)])).collect(),
        near: End {
            totals: vec![total(2_200_000, Some(kernel(0.15)))],
            host: host(4, "4096\t131072\t6291456"),
            ..End::default()
        },
        far: End { totals: vec![total(2_000_000, None)], host: host(2, ""), remarks: vec!["no bbr there".into()] },
        ..Report::default()
    }
}

#[test]
fn a_direction_becomes_a_story() {
    let [story] = &stories(&report(), "dtn.example")[..] else { panic!("one direction") };
    assert_eq!(story.title, "TCP test: here → dtn.example");
    assert_eq!(story.verdict, "8.00 Mbit/s, limited by the receive window.");
    let timeline = story.timeline.as_ref().unwrap();
    assert_eq!(timeline.rates().iter().map(|mean| mean.mean).collect::<Vec<_>>(), [8e6; 8], "as it arrived");
    let [stream] = &story.streams[..] else { panic!("one stream") };
    assert_eq!((stream.id, stream.bytes, stream.retransmits, stream.is_scaled), (1, 2e6, Some(3), Some(true)));
    assert_eq!((stream.rtt, stream.cwnd), ([Some(0.1), Some(0.1), Some(0.2)], [Some(10.0), Some(10.0)]));
    let moment = timeline.moments()[0];
    assert_eq!((moment.tcp.busy_s, moment.tcp.receive_window_s, moment.limit), (0.25, 0.125, None));
    assert_eq!(story.sheets.last().unwrap().rows.last().unwrap()[1], "4096\t131072\t6291456");
    assert_eq!(story.remarks, ["no bbr there"]);
}

#[test]
fn implausible_times_are_left_out() {
    let mut odd = report();
    for (n, (start_s, end_s)) in [(f64::MAX, 1.0), (-1.0, f64::MAX)].into_iter().enumerate() {
        (odd.intervals[n].start_s, odd.intervals[n].end_s) = (start_s, end_s);
        (odd.far_intervals[n].start_s, odd.far_intervals[n].end_s) = (start_s, end_s);
    }
    assert!(stories(&odd, "x")[0].timeline.is_none());
    let mut odd = report();
    for interval in &mut odd.intervals {
        let kernel = interval.flows[0].kernel.as_mut().unwrap();
        (kernel.rtt_s, kernel.busy_s, kernel.mss_bytes, kernel.cwnd_bytes) = (-1.0, f64::MAX, 0, u64::MAX);
    }
    let story = &stories(&odd, "x")[0];
    assert!(story.timeline.as_ref().unwrap().round_trips().is_empty());
    assert_eq!(story.timeline.as_ref().unwrap().moments()[0].tcp.busy_s, 0.0);
}

#[test]
fn the_causes_of_all_tests_come_first() {
    let cause = Cause {
        kind: Kind::SmallWindow,
        direction: None,
        segment: Segment::FarHost,
        weight: 0.5,
        evidence: "full".into(),
        remedy: "raise it".into(),
    };
    let tcp = PerDirection { forward: Some(report()), reverse: None };
    let findings = Findings { tcp, left_out: vec!["TCP reverse: refused".into()], ..Findings::default() };
    let support = Support { findings, causes: vec![cause], ..Support::default() };
    let stories = of_support(&support, "dtn.example");
    assert_eq!(stories.len(), 1);
    assert_eq!(stories[0].sheets[0].rows[0], ["Small window, at the other host", "full", "raise it"]);
    assert!(stories[0].remarks.contains(&"Left out: TCP reverse: refused".to_owned()));
    assert_eq!(of_support(&Support::default(), "x")[0].verdict, "No TCP test could be done.");
}
