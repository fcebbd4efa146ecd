//! The reflector without a socket: its answers, who gets them, and its bounds.

use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000_000;
const REAL: RealNs = 1_800_000_000 * SECOND;

fn now(seconds: i64) -> AnswerClock {
    let quality = ClockQuality { synchronised: true, error: Duration::from_millis(1), ..ClockQuality::default() };
    let reading = Reading { mono_ns: seconds * SECOND, real_ns: REAL + seconds * SECOND, apart_ns: 0 };
    AnswerClock { reading, quality: Some(quality) }
}

fn arrival(port: u16, trust: Trust) -> QuestionArrival {
    QuestionArrival { from: SocketAddr::from(([192, 0, 2, 1], port)), at: REAL - 500, ttl: Some(250), trust }
}

fn question(sequence: u32, ssid: u16, length: usize) -> Vec<u8> {
    let mut packet = vec![0; length];
    let error = ErrorEstimate { multiplier: 9, ..ErrorEstimate::default() };
    Question { sequence, at: Timestamp::of(REAL - 9_000), error, ssid }.write(&mut packet);
    packet
}

fn ask(reflector: &mut Reflector, packet: &[u8], arrived: &QuestionArrival, seconds: i64) -> Result<Answer, Refusal> {
    let mut answer = vec![1, 2, 3];
    reflector.answer(packet, arrived, &now(seconds), &mut answer)?;
    Ok(Answer::read(&answer).unwrap())
}

#[test]
fn an_answer_holds_all_four_times_and_the_question() {
    let mut reflector = Reflector::default();
    let answer = ask(&mut reflector, &question(77, 5, 44), &arrival(1000, Trust::Symmetric), 0).unwrap();
    let expected = Answer {
        sequence: 0,
        at: Timestamp::of(REAL),
        error: ErrorEstimate::of(true, Duration::from_millis(1)),
        ssid: 5,
        received: Timestamp::of(REAL - 500),
        question_sequence: 77,
        question_sent: Timestamp::of(REAL - 9_000),
        question_error: ErrorEstimate { multiplier: 9, ..ErrorEstimate::default() },
        ttl: 250,
    };
    assert_eq!(answer, expected);
}

#[test]
fn each_session_has_its_own_count() {
    let mut reflector = Reflector::default();
    let mut number = |port, ssid, sequence| {
        ask(&mut reflector, &question(sequence, ssid, 44), &arrival(port, Trust::Verified), 0).unwrap().sequence
    };
    assert_eq!((number(1, 1, 0), number(1, 1, 5), number(1, 1, 5)), (0, 1, 2), "its own count, not the sender's");
    assert_eq!((number(2, 1, 9), number(1, 2, 9), number(1, 1, 9)), (0, 0, 3));
}

#[test]
fn an_answer_is_not_longer_than_its_question() {
    let mut reflector = Reflector::default();
    for length in [14, 20, 41, 43] {
        let packet = question(0, 0, length);
        assert_eq!(ask(&mut reflector, &packet, &arrival(1, Trust::Symmetric), 0), Err(Refusal::Longer), "{length}");
        assert_eq!(ask(&mut reflector, &packet, &arrival(1, Trust::None), 0), Err(Refusal::Untrusted));
    }
    assert_eq!(reflector.sessions(), 0, "a refusal makes no session");
    for length in [14, 41, 44, 60, 1_400] {
        let mut answer = Vec::new();
        let packet = question(0, 0, length);
        reflector.answer(&packet, &arrival(1, Trust::Verified), &now(0), &mut answer).unwrap();
        assert_eq!(answer.len(), length.max(44));
    }
}

#[test]
fn answers_are_not_answered() {
    let mut reflector = Reflector::default();
    let mut answer = Vec::new();
    reflector.answer(&question(0, 1, 44), &arrival(1, Trust::Verified), &now(0), &mut answer).unwrap();
    let sent_back = answer.clone();
    let refused = reflector.answer(&sent_back, &arrival(2, Trust::Verified), &now(1), &mut answer);
    assert_eq!(refused, Err(Refusal::NotAQuestion));
    assert_eq!(reflector.sessions(), 1);
}

#[test]
fn tlvs_are_filled_from_the_session() {
    let mut reflector = Reflector::default();
    let mut packet = question(0, 1, 44);
    packet.extend([0x80, 5, 0, 12, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend([0x80, 7, 0, 16]);
    packet.extend([0; 16]);
    let mut answer = Vec::new();
    let mut tail = |reflector: &mut Reflector| {
        let ticket = reflector.answer(&packet, &arrival(1, Trust::Verified), &now(0), &mut answer).unwrap();
        (ticket, answer[44..].to_vec())
    };
    let ((key, first), one) = tail(&mut reflector);
    assert_eq!(one[..16], [0, 5, 0, 12, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!(one[16..], [&[0, 7, 0, 16][..], &[0; 16]].concat(), "nothing was sent before");
    reflector.record_departure(&key, first, REAL + 2_000);
    reflector.record_departure(&key, 99, REAL + 7_000);
    let (_, two) = tail(&mut reflector);
    assert_eq!(two[8..16], [0, 0, 0, 2, 0, 0, 0, 2]);
    assert_eq!(two[20..24], [0; 4], "the number of the first answer");
    assert_eq!(two[24..32], Timestamp::of(REAL + 2_000).0.to_be_bytes());
    let (_, three) = tail(&mut reflector);
    assert_eq!((&three[20..24], &three[24..32]), (&[0, 0, 0, 1][..], &Timestamp::of(REAL).0.to_be_bytes()[..]));
}

#[test]
fn a_full_table_refuses_new_sessions_and_removes_silent_ones() {
    let mut reflector = Reflector::new(2);
    let packet = question(0, 1, 44);
    let mut number = |port, seconds| {
        ask(&mut reflector, &packet, &arrival(port, Trust::Symmetric), seconds).map(|answer| answer.sequence)
    };
    assert_eq!((number(1, 0), number(2, 0)), (Ok(0), Ok(0)));
    assert_eq!(number(3, 5), Err(Refusal::Full));
    assert_eq!(number(1, 20), Ok(1), "existing sessions stay");
    assert_eq!(number(3, 35), Ok(0), "the second was silent for 35 s");
    assert_eq!(number(1, 36), Ok(2));
    assert_eq!(number(2, 37), Err(Refusal::Full));
}

#[test]
fn a_silent_session_is_removed() {
    let mut reflector = Reflector::default();
    let packet = question(0, 1, 44);
    ask(&mut reflector, &packet, &arrival(1, Trust::Verified), 0).unwrap();
    ask(&mut reflector, &packet, &arrival(2, Trust::Verified), 600).unwrap();
    ask(&mut reflector, &packet, &arrival(3, Trust::Verified), 901).unwrap();
    assert_eq!(reflector.sessions(), 2);
}

proptest! {
    #[test]
    fn any_octets_are_answered_within_bounds(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..40),
        verified: bool,
        ports in 1u16..6,
    ) {
        let mut reflector = Reflector::new(4);
        let mut answer = Vec::new();
        let trust = if verified { Trust::Verified } else { Trust::Symmetric };
        for (n, packet) in packets.iter().enumerate() {
            let arrived = arrival(1 + n as u16 % ports, trust);
            if reflector.answer(packet, &arrived, &now(n as i64), &mut answer).is_ok() {
                prop_assert!(packet.len() >= packet::QUESTION_MIN);
                prop_assert!(answer.len() == packet.len().max(BASE));
                prop_assert!(verified || answer.len() == packet.len());
            }
            prop_assert!(reflector.sessions() <= 4);
        }
    }
}
