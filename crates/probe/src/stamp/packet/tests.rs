//! Packets octet by octet, and arbitrary octets.

use proptest::prelude::*;

use super::*;

/// 2026-01-02 03:04:05.25 UTC.
const WHEN: RealNs = 1_767_323_045_250_000_000;

#[test]
fn a_question_has_its_golden_octets() {
    let error = ErrorEstimate { synchronised: true, ptp: false, scale: 14, multiplier: 7 };
    let question = Question { sequence: 0x0102_0304, at: Timestamp::of(WHEN), error, ssid: 0xbeef };
    let mut packet = [0xff; 48];
    question.write(&mut packet);
    // 1,767,323,045 + 2,208,988,800 = 3,976,311,845 = 0xed01b425; a quarter is 0x40000000.
    let mut expected = vec![1, 2, 3, 4, 0xed, 0x01, 0xb4, 0x25, 0x40, 0, 0, 0, 0x8e, 7, 0xbe, 0xef];
    expected.extend([0; 28]);
    expected.extend([0xff; 4]);
    assert_eq!(packet[..], expected);
    assert_eq!(Question::read(&packet), Some(question));
}

#[test]
fn a_question_of_twamp_light_has_its_golden_octets() {
    let error = ErrorEstimate { synchronised: false, ptp: false, scale: 0, multiplier: 1 };
    let question = Question { sequence: 9, at: Timestamp(0x0011_2233_4455_6677), error, ssid: 5 };
    let mut packet = [0xff; 14];
    question.write(&mut packet);
    assert_eq!(packet, [0, 0, 0, 9, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0, 1]);
    assert_eq!(Question::read(&packet), Some(Question { ssid: 0, ..question }), "no room for a session");
    assert_eq!(Question::read(&packet[..13]), None);
}

#[test]
fn an_answer_has_its_golden_octets() {
    let answer = Answer {
        sequence: 3,
        at: Timestamp(0x0102_0304_0506_0708),
        error: ErrorEstimate { synchronised: true, ptp: true, scale: 63, multiplier: 255 },
        ssid: 0x1234,
        received: Timestamp(0x1112_1314_1516_1718),
        question_sequence: 0x2122_2324,
        question_sent: Timestamp(0x3132_3334_3536_3738),
        question_error: ErrorEstimate { synchronised: false, ptp: false, scale: 1, multiplier: 2 },
        ttl: 250,
    };
    let expected = [
        0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xff, 0x12, 0x34, // sequence, sent, error, session
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // received
        0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 1, 2, // the question
        0, 0, 250, 0, 0, 0,
    ];
    assert_eq!(answer.write(), expected);
    assert_eq!(Answer::read(&expected), Some(answer));
    assert_eq!(Answer::read(&expected[..41]), Some(answer), "TWAMP-Light's is three octets shorter");
    assert_eq!(Answer::read(&expected[..40]), None);
}

#[test]
fn times_of_both_eras_and_both_formats_are_read() {
    for at in [0, WHEN, WHEN + 1, 2_085_978_495_999_999_999, 2_085_978_496_000_000_000, 3_000_000_000_000_000_001] {
        assert_eq!(Timestamp::of(at).ntp_ns(), at);
    }
    assert_eq!(Timestamp::of(2_085_978_496_000_000_000).0, 0, "NTP's seconds wrap on 2036-02-07 06:28:16");
    assert_eq!(Timestamp(5 << 32 | 17).ptp_ns(), 5_000_000_017);
    let ptp = ErrorEstimate { ptp: true, ..ErrorEstimate::default() };
    assert_eq!(ptp.read(Timestamp(5 << 32 | 17)), 5_000_000_017);
}

#[test]
fn errors_are_never_understated_and_never_zero() {
    assert_eq!(ErrorEstimate::of(true, Duration::ZERO).multiplier, 1);
    assert_eq!(ErrorEstimate::of_bits(0).error(), None);
    // 1 s = 128 x 2^(25 - 32) s.
    let second = ErrorEstimate::of(true, Duration::from_secs(1));
    assert_eq!((second.multiplier, second.scale, second.error()), (128, 25, Some(Duration::from_secs(1))));
    let most = ErrorEstimate::of(false, Duration::MAX);
    assert_eq!((most.scale, most.multiplier), (63, 255));
    assert_eq!(most.error(), Some(Duration::from_secs(255 << 31)));
}

#[test]
fn an_answer_is_no_question() {
    let question = Question { at: Timestamp::of(WHEN), ..Question::default() };
    let mut packet = [0; BASE];
    question.write(&mut packet);
    assert!(!is_answer(&packet) && !is_answer(&packet[..14]) && !is_answer(&[0; BASE]));
    let at = Timestamp::of(WHEN + 5 * SECOND_NS);
    let received = Timestamp::of(WHEN);
    assert!(is_answer(&Answer { at, received, ..Answer::default() }.write()));
    let long_ago = Timestamp::of(WHEN - 3_600 * SECOND_NS);
    assert!(!is_answer(&Answer { at, received: long_ago, ..Answer::default() }.write()));
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(packet in proptest::collection::vec(any::<u8>(), 0..100)) {
        let question = Question::read(&packet);
        prop_assert_eq!(question.is_some(), packet.len() >= QUESTION_MIN);
        let answer = Answer::read(&packet);
        prop_assert_eq!(answer.is_some(), packet.len() >= ANSWER_MIN);
        let _ = is_answer(&packet);
        for estimate in [question.map(|q| q.error), answer.map(|a| a.error)].into_iter().flatten() {
            prop_assert_eq!(ErrorEstimate::of_bits(estimate.bits()), estimate);
            prop_assert_eq!(estimate.error().is_none(), estimate.multiplier == 0);
        }
        if let Some(answer) = answer {
            prop_assert_eq!(Answer::read(&answer.write()), Some(answer));
            let _ = (answer.error.read(answer.at), answer.question_error.read(answer.question_sent));
        }
    }

    #[test]
    fn an_error_is_kept_within_one_part_in_128(nanos in 100u64..u64::MAX / 4) {
        let error = Duration::from_nanos(nanos);
        let read = ErrorEstimate::of(true, error).error().unwrap();
        // Written upwards in steps of 2^-32 s, read downwards to whole nanoseconds.
        prop_assert!(read + Duration::from_nanos(1) >= error, "{:?} of {:?}", read, error);
        prop_assert!(read <= error + error / 100 + Duration::from_nanos(1), "{:?} of {:?}", read, error);
    }

    #[test]
    fn a_time_is_read_as_it_was_written(at in 0i64..i64::MAX / 4) {
        prop_assert_eq!(Timestamp::of(at).ntp_ns(), at);
    }
}
