//! Values of sensors, and which sensors belong to an interface.

use super::*;

fn sensor(kind: i64, scale: i64, precision: i64, value: i64) -> Option<f64> {
    light_dbm([Some(kind), Some(scale), Some(precision), Some(value), Some(STATUS_OK)])
}

fn near(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 0.005), "{found:?}, and {expected} is expected");
}

#[test]
fn watts_of_each_scale_and_precision_are_converted_to_dbm() {
    near(sensor(TYPE_WATTS, 8, 4, 5_012), -3.0);
    near(sensor(TYPE_WATTS, 7, 1, 5_012), -3.0);
    near(sensor(TYPE_WATTS, 6, 0, 501_187), -3.0);
    near(sensor(TYPE_WATTS, 9, 9, 501_187), -3.0);
    near(sensor(TYPE_WATTS, 5, -3, 501_187_234), -3.0);
    near(sensor(TYPE_WATTS, 8, 4, 0), DARK_DBM);
    near(sensor(TYPE_DBM, 9, 2, -1_234), -12.34);
    near(sensor(TYPE_DBM, 8, 0, -2_450), -2.45);
    near(sensor(TYPE_OTHER, 9, 1, -71), -7.1);
    assert_eq!((exponent(13), exponent(14), exponent(15), exponent(16)), (Some(12), Some(18), Some(15), Some(21)));
}

#[test]
fn a_missing_broken_or_implausible_sensor_gives_no_light() {
    assert_eq!(light_dbm([Some(TYPE_WATTS), Some(8), Some(4), Some(5_012), Some(2)]), None, "it is unavailable");
    assert_eq!(light_dbm([None; 5]), None);
    for (kind, scale, precision, value) in [
        (8, 9, 0, 35),
        (TYPE_WATTS, 8, 4, -1),
        (TYPE_WATTS, 9, 0, 500),
        (TYPE_WATTS, 18, 0, 1),
        (TYPE_WATTS, 0, 0, 1),
        (TYPE_DBM, 9, 10, 1),
        (TYPE_DBM, 9, 0, i64::MIN),
        (TYPE_DBM, 17, -9, i64::MAX),
    ] {
        assert_eq!(sensor(kind, scale, precision, value), None, "{kind} {scale} {precision} {value}");
    }
}

#[test]
fn receivers_are_known_by_their_words() {
    for text in [
        "DOM RX Power Sensor for Ethernet1",
        "Ethernet1/1 Lane 2 Transceiver Receive Power Sensor",
        "rxPower",
        "xe-0/0/1 Rx",
    ] {
        assert!(is_receiver(text), "{text}");
    }
    for text in
        ["DOM TX Power Sensor for Ethernet1", "PSU 1 input power", "Tx/Rx temperature", "Rx low threshold", "Proxy"]
    {
        assert!(!is_receiver(text), "{text}");
    }
    for (text, name) in [
        ("Rx of Ethernet1: power", "Ethernet1"),
        ("et-0/0/1 Rx Power", "et-0/0/1"),
        ("Ethernet1/1", "Ethernet1/1"),
        ("Rx (lo).", "lo"),
    ] {
        assert!(names(text, name), "{text} names {name}");
    }
    for (text, name) in [
        ("Ethernet10 Rx", "Ethernet1"),
        ("Ethernet1/1 Rx", "Ethernet1"),
        ("MyEthernet1 Rx", "Ethernet1"),
        ("xet-0/0/1", "0/0/1"),
        ("Rx", ""),
    ] {
        assert!(!names(text, name), "{text} does not name {name:?}");
    }
}

/// A box: optic 10 is within port 1; port 2 is within optic 20, beside its sensor; ports 3 and 4 are within optic 30, with their sensors.
fn inventory() -> Inventory {
    let sensors = [(11, "Rx"), (12, "Rx lane 2"), (21, "Rx"), (31, "Rx Power eth3"), (32, "Rx Power eth4")];
    let within = [
        (1, 100),
        (10, 1),
        (11, 10),
        (12, 10),
        (2, 20),
        (21, 20),
        (20, 100),
        (3, 30),
        (4, 30),
        (31, 30),
        (32, 30),
        (30, 100),
        (100, 0),
    ];
    let ports = [(501, 1), (502, 2), (503, 3), (504, 4)];
    Inventory {
        sensors: sensors.into_iter().map(|(part, text)| (part, text.to_owned())).collect(),
        within: within.into_iter().collect(),
        ports: ports.into_iter().map(|(index, part)| (index, BTreeSet::from([part]))).collect(),
    }
}

#[test]
fn sensors_belong_to_the_port_that_they_are_near_to_or_that_they_name() {
    let all = inventory();
    assert_eq!(all.receivers(501, "eth1"), [11, 12], "within the port");
    assert_eq!(all.receivers(502, "eth2"), [21], "within the optic that has the port");
    assert_eq!(all.receivers(503, "eth3"), [31], "two ports share the optic");
    assert_eq!(all.receivers(504, "eth4"), [32]);
    assert!(all.receivers(505, "eth5").is_empty());
    let circular = Inventory { within: BTreeMap::from([(1, 2), (2, 1)]), ..inventory() };
    assert!(circular.receivers(501, "eth1").is_empty(), "parts within each other end the search");
}
