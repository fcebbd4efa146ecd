//! Both halves of a test over loopback.

use std::net::TcpListener;
use std::sync::mpsc::channel;

use super::*;

/// A far end in this process.
struct LoopbackPeer {
    listener: TcpListener,
    accepted: Vec<(TcpStream, u32)>,
    /// Streams that it takes; it loses the others.
    takes: usize,
    /// The reason for which it refuses the test, if it does.
    refuses: Option<&'static str>,
    bounds: Bounds<'static>,
}

impl LoopbackPeer {
    fn new() -> LoopbackPeer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        LoopbackPeer { listener, accepted: Vec::new(), takes: usize::MAX, refuses: None, bounds: Bounds::OWN }
    }
}

impl Peer for LoopbackPeer {
    fn dial(&mut self, ids: &[u32], _: &Order) -> Result<Vec<(u32, TcpStream)>> {
        let dial = |id: &u32| {
            let near = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            self.accepted.push((self.listener.accept().unwrap().0, *id));
            (*id, near)
        };
        Ok(ids.iter().map(dial).collect())
    }

    fn ask(&mut self, order: &Order, hear: &mut dyn FnMut(TcpSampleLine)) -> Result<()> {
        if let Some(why) = self.refuses {
            return Err(Error::Refused { peer: self.name().into(), why: why.into() });
        }
        let (sender, streams) = channel();
        self.accepted.drain(..).take(self.takes).for_each(|stream| sender.send(stream).unwrap());
        let mut tell = |line: &TcpSampleLine| {
            hear(line.clone());
            true
        };
        let _ = answer(order, &mut |wait| streams.recv_timeout(wait), &Stop::default(), self.bounds, &mut tell);
        Ok(())
    }

    fn name(&self) -> &str {
        "here"
    }
}

fn order(direction: Directions, streams: u32) -> Order {
    Order { direction, streams, seconds: 0.6, interval_s: 0.2, ..Order::default() }
}

#[test]
fn both_ends_count_the_same_bytes_in_each_direction() {
    for (direction, streams) in [(Directions::Forward, 1), (Directions::Reverse, 3), (Directions::Both, 2)] {
        let mut intervals = 0;
        let from = Instant::now();
        let order = order(direction, streams);
        let report = test(&order, &mut LoopbackPeer::new(), &Stop::default(), &mut |_| intervals += 1).unwrap();
        assert_eq!(report.directions.len(), if direction == Directions::Both { 2 } else { 1 });
        for found in &report.directions {
            assert!(found.sent_bytes > 1 << 20 && found.sent_bytes == found.received_bytes, "{found:?}");
            assert!(found.rate_bit_s > 0 && found.cpu_s_per_gb.0 > 0.0 && found.cpu_s_per_gb.1 > 0.0, "{found:?}");
        }
        assert_eq!(intervals, report.intervals.len());
        let most = from.elapsed().as_secs_f64() / 0.2 + 1.0;
        assert!(intervals >= 2 && intervals as f64 <= most, "{:?}", report.intervals);
        let of_intervals: u64 = report.intervals.iter().flat_map(|i| &i.flows).map(|flow| flow.bytes).sum();
        let of_totals: u64 = report.near.totals.iter().map(|total| total.flow.bytes).sum();
        assert!(of_intervals <= of_totals && of_intervals > of_totals / 2, "{of_intervals} of {of_totals}");
        let sends = |interval: &Interval| interval.flows.iter().filter(|flow| flow.kernel.is_some()).count() as u32;
        assert_eq!(sends(&report.intervals[0]), if direction == Directions::Reverse { 0 } else { streams });
    }
}

#[test]
fn a_test_of_bytes_moves_exactly_these() {
    let order = Order { bytes: 10_000_001, seconds: 0.0, streams: 3, block_bytes: 7_777, ..Order::default() };
    let report = test(&order, &mut LoopbackPeer::new(), &Stop::default(), &mut |_| {}).unwrap();
    assert_eq!((report.directions[0].sent_bytes, report.directions[0].received_bytes), (10_000_001, 10_000_001));
}

#[test]
fn the_start_does_not_count_and_a_pace_is_kept() {
    let order = Order { omit_s: 0.3, pace_bit_s: 20_000_000, ..order(Directions::Forward, 2) };
    let report = test(&order, &mut LoopbackPeer::new(), &Stop::default(), &mut |_| {}).unwrap();
    assert!(report.intervals[0].omitted && !report.intervals.last().unwrap().omitted);
    let found = &report.directions[0];
    // The kernel sends a first burst before it paces; the bound allows for that.
    assert!((5_000_000..40_000_000).contains(&found.rate_bit_s), "{found:?}");
    assert!(report.near.totals.iter().all(|total| total.counted_bytes < total.flow.bytes), "{report:?}");
    assert_eq!(found.limit, "the pace that was asked for, 20.0 Mbit/s");
}

#[test]
fn a_setting_that_the_host_refuses_is_a_remark() {
    let order = Order { congestion: Some("nosuch".into()), ..order(Directions::Forward, 1) };
    let report = test(&order, &mut LoopbackPeer::new(), &Stop::default(), &mut |_| {}).unwrap();
    assert!(report.near.remarks[0].contains("nosuch"), "{:?}", report.near.remarks);
    assert!(!report.near.totals[0].congestion.is_empty());
}

#[test]
fn a_far_end_that_refuses_or_stops_ends_the_test() {
    let mut refuses = LoopbackPeer { refuses: Some("too many tests"), ..LoopbackPeer::new() };
    let refused = test(&order(Directions::Forward, 1), &mut refuses, &Stop::default(), &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("too many tests"), "{refused}");
    let stop = Stop::default();
    let from = Instant::now();
    let endless = Order { seconds: 60.0, ..order(Directions::Both, 1) };
    let ended = test(&endless, &mut LoopbackPeer::new(), &stop, &mut |interval| {
        if interval.end_s > 0.3 {
            stop.stop();
        }
    });
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert!(from.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_far_end_keeps_its_bounds_whatever_the_order_says() {
    let endless = Order { bytes: 1 << 62, seconds: 0.0, ..Order::default() };
    for direction in [Directions::Forward, Directions::Reverse] {
        let order = Order { direction, ..endless.clone() };
        let from = Instant::now();
        let short = Bounds { lasts: Duration::from_millis(400), moved: &|_| true };
        let _ = test(&order, &mut LoopbackPeer { bounds: short, ..LoopbackPeer::new() }, &Stop::default(), &mut |_| {});
        let little = Bounds { moved: &|bytes| bytes == 0, ..Bounds::OWN };
        let mut peer = LoopbackPeer { bounds: little, ..LoopbackPeer::new() };
        let ended = test(&order, &mut peer, &Stop::default(), &mut |_| {});
        assert!(ended.is_err() && from.elapsed() < Duration::from_secs(5), "{direction:?}: {ended:?}");
    }
}
