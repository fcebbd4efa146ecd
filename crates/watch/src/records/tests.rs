//! Records as pScheduler 5.2 posts them (fixtures), and records of the watch read back.

use model::v1::node::ScheduledTest;
use model::v1::probe::Direction;
use serde_json::json;

use super::*;
use crate::mesh::{Test, TestKind};
use crate::observation::{DirectionFacts, PathFacts, Throughput};

fn config() -> Config {
    Config::parse("[node.a]\naddress = \"a.example.org:7411\"\n[target.six]\nurl = \"stamp://[2001:db8::6]:862\"\n")
        .unwrap()
}

fn record(test: Value, result: Value) -> Value {
    json!({"id": "x", "schedule": {"start": "2026-11-01T10:00:00+00:00", "duration": "PT37S"}, "test": test,
        "tool": {"name": "iperf3", "version": "1"}, "run": {"href": "https://a.example.org/pscheduler/tasks/T/runs/R"},
        "participants": ["a.example.org", "b.example.org"], "result": result})
}

#[test]
fn records_of_each_test_become_rows() {
    let spec = json!({"source": "a.example.org", "dest": "b.example.org", "duration": "PT30S"});
    let result = json!({"succeeded": true, "diags": "", "intervals": [], "mss": 8948, "summary": {"streams": [], "summary":
        {"throughput-bits": 9_412_345_678.0f64, "throughput-bytes": 35_296_296_292u64, "retransmits": 12, "rtt": 15012}}});
    let read_ = |value: &Value| read(&config(), value).unwrap();
    let found = read_(&record(json!({"type": "throughput", "spec": spec}), result));
    assert_eq!(
        (found.key.from.as_str(), found.key.to.as_str(), found.key.test.as_str()),
        ("a", "b.example.org", "throughput")
    );
    assert_eq!(
        (found.row.at, found.row.values[0], found.row.values[2]),
        (1_793_527_200_000, Some(9_412_345_678), Some(15_012))
    );
    let result = json!({"succeeded": true, "packets-sent": 600, "packets-received": 598, "packets-lost": 2, "packets-duplicated": 0,
        "packets-reordered": 1, "histogram-latency": {"75.0": 478, "74.9": 120}});
    let found = read_(&record(
        json!({"type": "latencybg", "spec": {"source": "2001:db8::6", "dest": "a.example.org", "reverse": false}}),
        result,
    ));
    assert_eq!((found.key.from.as_str(), found.row.values[1], found.row.values[2]), ("six", Some(600), Some(2)));
    assert_eq!(found.row.values[12], Some(100), "0.1 ms between the least and 95 %");
    let rtt = json!({"succeeded": true, "loss": 0.2, "min": "PT0.1501S", "max": "PT0.1503S", "mean": "PT0.1502S",
        "roundtrips": [{"seq": 1}, {"seq": 2}, {"seq": 3}, {"seq": 4}, {"seq": 5}]});
    let found = read_(&record(json!({"type": "rtt", "spec": {"source": "a.example.org", "dest": "b"}}), rtt));
    assert_eq!((found.row.values[1], found.row.values[4], found.row.values[8]), (Some(5), Some(1), Some(150_100)));
    let trace =
        json!({"succeeded": true, "paths": [[{"ip": "192.0.2.1", "rtt": "PT0.001S"}, {}, {"ip": "198.51.100.3"}]]});
    let found = read_(
        &json!({"message": record(json!({"type": "trace", "spec": {"source": "a.example.org", "dest": "b"}}), trace).to_string()}),
    );
    assert_eq!((found.key.test.as_str(), found.row.values[0]), ("path", Some(3)));
}

#[test]
fn an_invalid_record_is_refused_with_a_reason() {
    let refused = |value: &Value| read(&config(), value).unwrap_err();
    let spec = json!({"source": "a.example.org", "dest": "b"});
    let of = |result: Value| record(json!({"type": "throughput", "spec": spec}), result);
    assert!(refused(&json!({})).contains("no test.type"));
    assert!(refused(&of(json!({"succeeded": false, "error": "no route"}))).contains("no route"));
    assert!(refused(&of(json!({"summary": {"summary": {"throughput-bits": -1}}}))).contains("throughput-bits"));
    assert!(refused(&of(json!({"summary": {"summary": {"throughput-bits": 1e300}}}))).contains("throughput-bits"));
    assert!(refused(&record(json!({"type": "dns", "spec": spec}), json!({}))).contains("dns"));
    assert!(refused(&json!({"message": "{"})).contains("not JSON"));
    assert!(refused(&json!({"message": "{\"message\": \"{}\"}"})).contains("within"));
    let mut timeless = of(json!({"summary": {"throughput-bits": 5}}));
    timeless["schedule"] = json!({"start": "soon"});
    assert!(refused(&timeless).contains("no time"));
}

#[test]
fn a_written_record_is_read_back() {
    let order = ScheduledTest::Stream(model::v1::node::StreamTest::default());
    let test = |kind, direction| Test {
        from: "a".into(),
        to: "b".into(),
        kind,
        direction,
        order: order.clone(),
        every_s: 60.0,
    };
    let delays = Some(Delays { min_us: 75_000, median_us: 75_020, p95_us: 75_500, max_us: 80_000 });
    let report = StreamReport {
        sent: 600,
        received: 595,
        lost_forward: 2,
        lost_reverse: 3,
        forward: delays,
        reverse: delays,
        ..StreamReport::default()
    };
    let both = records(
        &test(TestKind::Latency, Direction::Forward),
        &Observation::Stream(Box::new(report)),
        1_793_527_200_000,
        60.0,
    );
    let back: Vec<Record> = both.iter().map(|value| read(&config(), value).unwrap()).collect();
    assert_eq!((back[0].key.from.as_str(), back[0].row.values[1], back[0].row.values[2]), ("a", Some(600), Some(2)));
    assert_eq!((back[1].key.from.as_str(), back[1].row.values[1], back[1].row.values[2]), ("b", Some(598), Some(3)));
    assert_eq!(back[0].row.values[12], Some(500));
    let found = Throughput {
        direction: Direction::Reverse,
        rate_bit_s: 1e9,
        resent: 0.001,
        mss_bytes: 1_448.0,
        min_rtt_s: Some(0.15),
        ..Throughput::default()
    };
    let one =
        records(&test(TestKind::Throughput, Direction::Reverse), &Observation::Throughput(Box::new(found)), 0, 20.0);
    let back = read(&config(), &one[0]).unwrap();
    assert_eq!(
        (back.key.from.as_str(), back.row.values[0], back.row.values[2]),
        ("b", Some(1_000_000_000), Some(150_000))
    );
    assert!((back.row.values[1].unwrap() - 1_000).abs() < 3, "{:?}", back.row.values);
    let forward = Some(DirectionFacts {
        hops: vec!["r".into(), String::new()],
        mtu_bytes: Some(9_000),
        ..DirectionFacts::default()
    });
    let facts = Observation::Path(Box::new(PathFacts { forward, reverse: None }));
    let one = records(&test(TestKind::Path, Direction::Forward), &facts, 0, 5.0);
    assert_eq!(read(&config(), &one[0]).unwrap().row.values[2], Some(9_000));
}
