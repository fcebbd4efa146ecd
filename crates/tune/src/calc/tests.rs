//! Questions and their answers.

use super::shown::Unit;
use super::*;

/// 10 Gbit/s over 300 ms with jumbo frames: Europe to Australia.
const LONG: Question = Question {
    rate_bit_s: Some(10e9),
    rtt_s: Some(0.3),
    mtu_bytes: Some(9000.0),
    loss: None,
    window_bytes: None,
    volume_bytes: None,
    efficiency: None,
    streams: None,
    courier: None,
};

fn names(question: &Question) -> Vec<&'static str> {
    answer(question).lines.iter().map(|line| line.name).collect()
}

/// The line of this name. Fails if there is none.
#[track_caller]
fn found(question: &Question, name: &str) -> CalculatedLine {
    let lines = answer(question).lines;
    let line = lines.iter().find(|line| line.name == name);
    line.unwrap_or_else(|| panic!("no line {name:?}")).clone()
}

#[track_caller]
fn near(line: &CalculatedLine, stated: f64) {
    let CalculatedLine { name, value, .. } = line;
    assert!((value / stated - 1.0).abs() <= 0.001, "{name}: {value} is not {stated}");
}

#[test]
fn without_numbers_there_are_no_lines() {
    assert_eq!(answer(&Question::default()), Answer::default());
    // One number of a pair is not enough.
    for half in [
        Question { rtt_s: Some(0.3), ..Question::default() },
        Question { loss: Some(1e-4), ..Question::default() },
        Question { volume_bytes: Some(1e12), streams: Some(4), ..Question::default() },
        Question { courier: Some(Courier { journey_s: 86_400.0, copy_bit_s: None }), ..Question::default() },
    ] {
        assert_eq!(answer(&half), Answer::default(), "{half:?}");
    }
}

#[test]
fn lines_that_need_missing_numbers_are_left_out() {
    let rate = Question { rate_bit_s: Some(1e9), ..Question::default() };
    assert_eq!(names(&rate).len(), 2, "the sequence numbers: {:?}", names(&rate));
    let window = Question { rtt_s: Some(0.1), window_bytes: Some(4e6), ..Question::default() };
    assert_eq!(names(&window), ["most that one window carries"]);
    let mtu = Question { mtu_bytes: Some(1500.0), ..Question::default() };
    assert_eq!(names(&mtu), ["payload of the line, TCP over IPv4", "payload of the line, TCP over IPv6"]);
    let lossy = Question { loss: Some(1e-4), rtt_s: Some(0.1), mtu_bytes: Some(1500.0), ..Question::default() };
    assert!(names(&lossy).contains(&"one stream under loss, CUBIC"));
    assert!(!names(&lossy).contains(&"streams to fill the rate under loss, CUBIC"), "no rate is known");
}

#[test]
fn numbers_of_a_long_path_are_computed() {
    near(&found(&LONG, "bandwidth-delay product"), 375e6);
    near(&found(&LONG, "window needed by each stream"), 375e6);
    near(&found(&LONG, "largest buffer to allow"), 750e6);
    near(&found(&LONG, "streams needed with the largest window"), 1.0);
    // log2(375e6 / 8948 / 10) = 12.03 round trips.
    near(&found(&LONG, "slow start"), 3.610);
    near(&found(&LONG, "recovery from one loss, Reno"), 6_286.3);
    near(&found(&LONG, "recovery from one loss, CUBIC"), 31.559);
    near(&found(&LONG, "most that the line carries, TCP over IPv4"), 9.900e9);
    near(&found(&LONG, "full packets"), 138_305.0);
    near(&found(&LONG, "time per packet (serialisation)"), 7.2304e-6);
    near(&found(&LONG, "sequence numbers of a stream start again after"), 3.436);
    near(&found(&LONG, "without time stamps a late segment looks new after"), 1.718);
}

/// Eight streams share the rate: an eighth of the window, three doublings less, an eighth of Reno's recovery.
#[test]
fn streams_share_the_rate() {
    let eight = Question { streams: Some(8), ..LONG };
    near(&found(&eight, "bandwidth-delay product"), 375e6);
    near(&found(&eight, "window needed by each stream"), 46.875e6);
    near(&found(&eight, "slow start"), 3.610 - 0.9);
    near(&found(&eight, "recovery from one loss, Reno"), 6_286.3 / 8.0);
    near(&found(&eight, "recovery from one loss, CUBIC"), 31.559 / 2.0);
    near(&found(&eight, "sequence numbers of a stream start again after"), 3.436 * 8.0);
}

#[test]
fn a_window_limits_the_rate() {
    let small = Question { window_bytes: Some(4_194_304.0), streams: Some(16), volume_bytes: Some(1e12), ..LONG };
    near(&found(&small, "streams needed with this window"), 90.0);
    near(&found(&small, "most that one window carries"), 111.85e6);
    near(&found(&small, "most that all windows carry"), 1.78957e9);
    near(&found(&small, "rate to expect"), 1.78957e9);
    near(&found(&small, "transfer at the line's rate"), 808.05);
    near(&found(&small, "transfer at the rate to expect"), 4_470.3);
    assert!(!names(&small).contains(&"streams needed with the largest window"));
    let one = Question { streams: None, ..small };
    assert!(!names(&one).contains(&"most that all windows carry"), "one window is all of them");
}

#[test]
fn loss_limits_the_rate() {
    let lossy = Question { loss: Some(4.6e-5), ..LONG };
    near(&found(&lossy, "one stream under loss, Reno"), 43.089e6);
    near(&found(&lossy, "one stream under loss, CUBIC"), 182.55e6);
    near(&found(&lossy, "streams to fill the rate under loss, Reno"), 230.0);
    near(&found(&lossy, "streams to fill the rate under loss, CUBIC"), 55.0);
    near(&found(&lossy, "rate to expect"), 182.55e6);
    // With more than enough streams, the line is the limit.
    near(&found(&Question { streams: Some(64), ..lossy }, "rate to expect"), 9.900e9);
}

#[test]
fn the_time_for_a_volume_is_computed() {
    let volume = Question { rate_bit_s: Some(10e9), volume_bytes: Some(100e12), ..Question::default() };
    near(&found(&volume, "transfer at the line's rate"), 22.222 * 3_600.0);
    near(&found(&Question { efficiency: Some(0.8), ..volume }, "transfer at the line's rate"), 27.778 * 3_600.0);
    // A given efficiency takes precedence over that of the MTU.
    let both = Question { efficiency: Some(0.8), mtu_bytes: Some(1500.0), ..volume };
    near(&found(&both, "transfer at the line's rate"), 27.778 * 3_600.0);
    assert!(!names(&volume).contains(&"transfer at the rate to expect"), "it would be the line's again");
}

#[test]
fn a_courier_is_compared_with_the_line() {
    let parcel = Courier { journey_s: 172_800.0, copy_bit_s: Some(10e9) };
    let question = Question { volume_bytes: Some(100e12), courier: Some(parcel), ..Question::default() };
    near(&found(&question, "courier, copying included"), 332_800.0);
    near(&found(&question, "rate of the courier"), 2.4038e9);
    assert_eq!(names(&question).len(), 2, "nothing to compare it with");
    let beside = Question { rate_bit_s: Some(10e9), ..question };
    near(&found(&beside, "courier takes, compared with the line"), 4.16);
    // At the courier's rate, both arrive at the same time.
    let even = Question { rate_bit_s: Some(found(&question, "rate of the courier").value), ..question };
    near(&found(&even, "courier takes, compared with the line"), 1.0);
    let at_once = Question { courier: Some(Courier { copy_bit_s: None, ..parcel }), ..question };
    near(&found(&at_once, "courier, copying included"), 172_800.0);
}

#[test]
fn unusable_numbers_count_as_missing() {
    for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300] {
        let question = Question {
            rate_bit_s: Some(odd),
            rtt_s: Some(odd),
            loss: Some(odd),
            mtu_bytes: Some(odd),
            window_bytes: Some(odd),
            volume_bytes: Some(odd),
            efficiency: Some(odd),
            streams: Some(0),
            courier: Some(Courier { journey_s: odd, copy_bit_s: Some(odd) }),
        };
        assert_eq!(answer(&question), Answer::default(), "{odd}");
    }
    let too_much = Question { loss: Some(1.0), efficiency: Some(1.5), mtu_bytes: Some(60.0), ..LONG };
    assert_eq!(names(&too_much), names(&Question { mtu_bytes: None, ..LONG }));
}

/// Usable numbers give numbers, also at the ends of the range.
#[test]
fn answers_are_finite() {
    let ends = [*USABLE.start(), 1.0, *USABLE.end()];
    for rate in ends {
        for rtt in ends {
            for rest in ends {
                let question = extreme(rate, rtt, rest);
                for line in answer(&question).lines {
                    assert!(line.value.is_finite() && line.value >= 0.0, "{question:?}: {line:?}");
                }
            }
        }
    }
}

fn extreme(rate_bit_s: f64, rtt_s: f64, rest: f64) -> Question {
    Question {
        rate_bit_s: Some(rate_bit_s),
        rtt_s: Some(rtt_s),
        loss: Some(rest.min(0.5)),
        mtu_bytes: Some(rest.max(1500.0)),
        window_bytes: Some(rest),
        volume_bytes: Some(rest),
        efficiency: Some(rest.min(1.0)),
        streams: Some(u32::MAX),
        courier: Some(Courier { journey_s: rest, copy_bit_s: Some(rest) }),
    }
}

#[test]
fn every_line_has_a_formula_and_a_source() {
    let courier = Some(Courier { journey_s: 86_400.0, copy_bit_s: None });
    let all = Question {
        loss: Some(1e-5),
        window_bytes: Some(4e6),
        volume_bytes: Some(1e12),
        streams: Some(4),
        courier,
        ..LONG
    };
    let lines = answer(&all).lines;
    assert_eq!(lines.len(), 26, "every law but the streams for the largest window");
    for (n, line) in lines.iter().enumerate() {
        assert!(lines[..n].iter().all(|other| other.name != line.name), "{} twice", line.name);
        let words = [line.name, line.unit, &line.shown, line.formula, line.source];
        assert!(words.iter().all(|word| !word.is_empty()), "{line:?}");
    }
}

#[test]
fn numbers_are_shown_with_prefixes() {
    for (unit, value, text) in [
        (Unit::Bytes, 375e6, "375 MB (358 MiB)"),
        (Unit::Bytes, 640.0, "640 B"),
        (Unit::BitRate, 9.9e9, "9.90 Gbit/s"),
        (Unit::PacketRate, 812_744.0, "813 kpps"),
        (Unit::Seconds, 0.0, "0 s"),
        (Unit::Seconds, 723e-9, "723 ns"),
        (Unit::Seconds, 7.23e-6, "7.23 us"),
        (Unit::Seconds, 0.3436, "344 ms"),
        (Unit::Seconds, 31.56, "31.6 s"),
        (Unit::Seconds, 6_286.3, "1 h 44 min"),
        (Unit::Streams, 90.0, "90"),
        (Unit::Share, 0.94148, "94.1 %"),
        (Unit::Ratio, 4.16, "4.16 times"),
    ] {
        assert_eq!(unit.show(value), text);
    }
    assert_eq!(Unit::Seconds.show(f64::INFINITY), "inf s");
}
