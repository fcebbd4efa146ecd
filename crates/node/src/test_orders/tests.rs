//! Orders of tests, and the table of them, without nodes, threads and clocks.

use auth::{AccessKey, Fingerprint, Grant, Rights};
use model::v1::node::{LatencyProbe, PathProbe, ProbeKey, ProbeTest, TcpProbe, UdpProbe};
use model::v1::probe::tcp::Directions;

use super::*;

fn order(id: u128) -> ProbeOrder {
    let key = AccessKey::new([1; 8], [2; 32], Fingerprint([3; 32])).expose_text();
    let credentials = Some(ProbeKey { key: Some(key) });
    ProbeOrder { credentials, ..ProbeOrder::new(Uuid::from_u128(id), "lh://far.example.org") }
}

fn of(test: ProbeTest) -> Result<order::TestPlan, Refusal> {
    order::read(&ProbeOrder { test, ..order(1) })
}

fn access(name: u8) -> Access {
    Access::Granted(Grant::new([name; 8], &[2; 32], "d".into(), &model::RelPath::root(), Rights::Write, 0))
}

fn add(table: &mut Table, name: u8, id: u128) -> Uuid {
    table.insert(access(name), order(id), "then".into());
    Uuid::from_u128(id)
}

fn start_next(table: &mut Table) -> Option<u128> {
    table.start_next("now".into()).map(|(id, _)| u128::from_be_bytes(*id.as_bytes()))
}

fn done(table: &mut Table, id: Uuid, report: &str) {
    table.end(&id, Ok(report.to_owned()), "later".into());
}

fn all(limit: usize) -> PageQuery<ProbeStage> {
    PageQuery { state: None, after: None, limit }
}

#[test]
fn targets_are_nodes_with_a_known_fingerprint() {
    let at = |target: &str| order::read(&ProbeOrder { target: target.into(), ..order(1) });
    assert_eq!(at("lh://far.example.org:99/").unwrap().to.port, 99);
    for wrong in ["", "far", "/data", "lh://", "lh://h/data/x", "https://h/", "lh://h:99999", "iperf3://h", "é://"] {
        assert_eq!(at(wrong).map(|_| ()).unwrap_err().fault, Fault::Config, "{wrong}");
    }
    let refusal = at("lh://me:5ecret@h").unwrap_err();
    assert!(!refusal.reason.contains("5ecret"), "{refusal:?}");
    assert!(at(&format!("lh://{}", "h".repeat(300))).is_err());
    let anonymous = ProbeOrder { credentials: None, ..order(1) };
    assert!(order::read(&anonymous).unwrap_err().reason.contains("say which node"));
    assert!(order::read(&ProbeOrder { node: Some(Fingerprint([3; 32]).to_string()), ..anonymous }).is_ok());
    assert!(order::read(&ProbeOrder { node: Some(Fingerprint([4; 32]).to_string()), ..order(1) }).is_err());
}

#[test]
fn test_parameters_are_bounded() {
    let tcp = |tcp: TcpProbe| of(ProbeTest::Tcp(tcp));
    let base = TcpProbe::default;
    assert_eq!(tcp(base()).unwrap().duration.as_secs(), 10);
    let is_refused = |refused: Result<order::TestPlan, Refusal>, words: &str| {
        let reason = refused.unwrap_err().reason;
        assert!(reason.contains(words), "{words:?} is not in {reason:?}");
    };
    is_refused(tcp(TcpProbe { seconds: Some(601.0), ..base() }), "600 s at most");
    is_refused(tcp(TcpProbe { seconds: Some(-1.0), ..base() }), "lasts");
    is_refused(tcp(TcpProbe { seconds: Some(1.0), bytes: Some(9), ..base() }), "not after both");
    is_refused(tcp(TcpProbe { streams: 0, ..base() }), "streams");
    is_refused(tcp(TcpProbe { seconds: Some(600.0), interval_s: 0.1, streams: 4, ..base() }), "longer intervals");
    let latency = |latency: LatencyProbe| of(ProbeTest::Latency(latency));
    assert!(latency(LatencyProbe::default()).is_ok());
    is_refused(latency(LatencyProbe { rate_packets_s: 20_000.0, ..LatencyProbe::default() }), "packets/s at most");
    is_refused(latency(LatencyProbe { seconds: -1.0, ..LatencyProbe::default() }), "not a duration");
    is_refused(latency(LatencyProbe { rate_packets_s: 1.0, count: Some(601), ..LatencyProbe::default() }), "600 s");
    let udp = |udp: UdpProbe| of(ProbeTest::Udp(udp));
    assert!(udp(UdpProbe { burst: Some(5), gap_s: Some(0.1), ..UdpProbe::default() }).is_ok());
    is_refused(udp(UdpProbe { rate_bit_s: Some(5), spacing_s: Some(0.1), ..UdpProbe::default() }), "choose one");
    is_refused(udp(UdpProbe { direction: Directions::Both, ..UdpProbe::default() }), "one way");
    assert!(udp(UdpProbe { bytes: 1, ..UdpProbe::default() }).is_err());
    assert!(of(ProbeTest::Path(PathProbe::default())).is_ok());
    // The policy's bound is on the streams of both directions together.
    let plan = tcp(TcpProbe { streams: 9, direction: Directions::Both, ..base() }).unwrap();
    assert_eq!(order::within(&plan, 16).unwrap_err().fault, Fault::Auth);
    assert!(order::within(&plan, 18).is_ok());
}

#[test]
fn one_test_runs_at_a_time_and_holders_alternate() {
    let mut table = Table::default();
    for id in 1..=3 {
        add(&mut table, 1, id);
    }
    let other = add(&mut table, 2, 4);
    assert_eq!((start_next(&mut table), start_next(&mut table)), (Some(1), None));
    done(&mut table, Uuid::from_u128(1), "{}");
    // Another holder comes before the second test of the same one.
    assert_eq!(start_next(&mut table), Some(4));
    table.end(&other, Err(TestFailure::new(Fault::Path, "nobody there".into())), "later".into());
    assert_eq!(start_next(&mut table), Some(2));
    let shown = table.orders.get(&other).unwrap().show();
    assert_eq!((shown.state, shown.fault.as_deref()), (ProbeStage::Failed, Some("path")));
    assert_eq!(shown.error.as_deref(), Some("nobody there"));
}

#[test]
fn waiting_tests_are_bounded_and_cancelled_ones_do_not_run() {
    let mut table = Table::default();
    let holder = access(1).holder().to_owned();
    for id in 1..=UNENDED_MAX.each as u128 {
        assert!(!table.orders.is_full_for(&holder));
        add(&mut table, 1, id);
    }
    assert!(table.orders.is_full_for(&holder) && !table.orders.is_full_for(access(2).holder()));
    let id = Uuid::from_u128(1);
    assert!(table.cancel(access(2).holder(), &id, "now".into()).is_none());
    assert_eq!(table.cancel(&holder, &id, "now".into()).unwrap().state, ProbeStage::Cancelled);
    assert!(!table.orders.is_full_for(&holder));
    assert_eq!(start_next(&mut table), Some(2));
    // A running test is asked to stop, and ends later.
    let id = Uuid::from_u128(2);
    assert_eq!(table.cancel(&holder, &id, "now".into()).unwrap().state, ProbeStage::Running);
    table.end(&id, Err(TestFailure::new(Fault::Interrupted, "interrupted".into())), "later".into());
    let shown = table.orders.get(&id).unwrap().show();
    assert_eq!((shown.state, shown.error), (ProbeStage::Cancelled, None));
    assert_eq!(start_next(&mut table), Some(3));
}

#[test]
fn reports_are_bounded_and_ended_tests_have_no_keys() {
    let mut table = Table::default();
    let report = format!("{{\"x\":\"{}\"}}", "y".repeat(8 << 20));
    for id in 1..=9 {
        let id = add(&mut table, 1, id);
        assert!(table.orders.get(&id).unwrap().order.credentials.is_some());
        start_next(&mut table);
        done(&mut table, id, &report);
    }
    // Nine reports are more than 64 MiB: the oldest tests are forgotten.
    assert!(table.orders.get(&Uuid::from_u128(2)).is_none());
    let last = table.orders.get(&Uuid::from_u128(9)).unwrap();
    assert!(last.order.credentials.is_none() && last.show().report.unwrap()["x"].is_string());
    let (page, next) = table.page(access(1).holder(), &all(3)).unwrap();
    assert_eq!((page.len(), next, page[0].report.is_none()), (3, Some(page[2].id), true));
    let behind = PageQuery { after: next, ..all(100) };
    assert_eq!(table.page(access(1).holder(), &behind).unwrap().0.first().unwrap().id, Uuid::from_u128(6));
    assert!(table.page(access(2).holder(), &behind).is_none());
    assert!(table.page(access(2).holder(), &all(9)).unwrap().0.is_empty());
}
