//! The input of a sender and a reflector of STAMP; see [`crate::fuzzing`].

use std::net::{Ipv4Addr, SocketAddr};

use super::clock::Reading;
use super::delays::{Delays, Times};
use super::packet::{Answer, BASE, Question, is_answer};
use super::reflect::{AnswerClock, QuestionArrival, Reflector, Refusal, Trust};
use super::tally::PacketCounts;
use super::tlv::{HEAD, walk};

/// Sessions of the reflector: few, so that the table gets full.
const SESSIONS: usize = 4;
/// When the questions arrive, nanoseconds since 1970.
const ARRIVED_NS: i64 = 1_795_000_000_000_000_000;

/// Questions to a reflector. Each follows three bytes: its length, its sender, and the time until the next question.
pub fn stamp_question(bytes: &[u8]) {
    let mut reflector = Reflector::new(SESSIONS);
    let mut rest = bytes;
    let mut mono_ns = 0;
    let mut answer = Vec::new();
    while let Some(([length, from, pause], questions)) = rest.split_first_chunk::<3>() {
        let (question, others) = questions.split_at(usize::from(*length).min(questions.len()));
        rest = others;
        mono_ns += i64::from(*pause) << 30;
        let trust = [Trust::Symmetric, Trust::Verified, Trust::None][usize::from(from % 3)];
        let arrival = QuestionArrival {
            from: SocketAddr::from((Ipv4Addr::LOCALHOST, u16::from(from >> 4))),
            at: ARRIVED_NS,
            ttl: (from & 1 == 0).then_some(*from),
            trust,
        };
        let reading = Reading { mono_ns, real_ns: ARRIVED_NS + i64::from(*pause), apart_ns: 0 };
        let now = AnswerClock { reading, quality: None };
        let answered = reflector.answer(question, &arrival, &now, &mut answer);
        assert!(reflector.sessions() <= SESSIONS);
        let Ok((key, sequence)) = answered else { continue };
        assert!(trust != Trust::None && !is_answer(question));
        assert!(
            answer.len() <= question.len() || trust == Trust::Verified && answer.len() == BASE,
            "an answer is longer"
        );
        assert!(
            Answer::read(&answer)
                .is_some_and(|read| Question::read(question).is_some_and(|q| q.sequence == read.question_sequence))
        );
        assert_eq!(Reflector::default().answer(&answer, &arrival, &now, &mut Vec::new()), Err(Refusal::NotAQuestion));
        reflector.record_departure(&key, sequence, arrival.at);
    }
}

/// A packet, read as a question and as an answer, with its TLVs.
pub fn stamp_answer(bytes: &[u8]) {
    if let Some(question) = Question::read(bytes) {
        let mut packet = [0; BASE];
        question.write(&mut packet);
        assert_eq!(Question::read(&packet), Some(question), "a question reads otherwise");
        let _ = (question.error.error(), question.error.read(question.at));
    }
    if let Some(answer) = Answer::read(bytes) {
        assert_eq!(Answer::read(&answer.write()), Some(answer), "an answer reads otherwise");
        let _ = (
            answer.error.error(),
            answer.error.read(answer.received),
            answer.question_error.read(answer.question_sent),
        );
    }
    let tail = bytes.get(BASE..).unwrap_or_default();
    let taken: usize = walk(tail).map(|tlv| if tlv.is_whole { HEAD + tlv.value.len() } else { 0 }).sum();
    assert!(taken <= tail.len() && walk(tail).count() <= tail.len() / HEAD + 1);
}

/// The numbers of answers. The first byte is the number of packets sent. Each answer has seven bytes: whether it arrived in time and
/// whether a closing packet was sent before it, the packet that it answers, and the reflector's own number.
pub fn stamp_counts(bytes: &[u8]) {
    let Some((packets, rest)) = bytes.split_first() else { return };
    let mut tally = PacketCounts::new(0);
    (0..*packets).for_each(|_| tally.sent());
    for [kind, sequence @ .., a, b, c, d] in rest.as_chunks::<7>().0 {
        if *kind >= 0xf0 {
            tally.closer_sent();
        }
        tally.answer(u16::from_be_bytes(*sequence).into(), u32::from_be_bytes([*a, *b, *c, *d]), kind & 1 == 0);
        tally.wants_closing();
    }
    let counts = tally.packets();
    assert_eq!(counts.sent, u64::from(*packets));
    assert_eq!(counts.received + counts.lost, counts.sent);
    let placed = counts.lost_forward.unwrap_or(0) + counts.lost_reverse.unwrap_or(0);
    assert_eq!(placed + counts.lost_unplaced, counts.lost, "each lost packet is counted once");
}

/// The times of answers: 44 bytes of the answer, and two bytes of its round trip.
pub fn stamp_delays(bytes: &[u8]) {
    let mut delays = Delays::new(ARRIVED_NS, 1_000, 100.0);
    for (sequence, chunk) in bytes.chunks_exact(BASE + 2).enumerate() {
        let Some(answer) = Answer::read(chunk) else { return };
        let (received_ns, answered_ns) = (answer.error.read(answer.received), answer.error.read(answer.at));
        let sent_ns = sequence as i64 * 1_000_000;
        let took = i64::from(u16::from_be_bytes([chunk[BASE], chunk[BASE + 1]])) << 10;
        // Some packets are lost.
        let number = (sequence + usize::from(chunk[BASE] & 1)) as u64;
        delays.record(number, &Times { sent_ns, received_ns, answered_ns, returned_ns: sent_ns + took });
    }
    let _ = (delays.far_step_ns(), delays.forward.delay(), delays.reverse.delay());
    let counts = [&delays.round_trip, &delays.variation_forward].map(|spread| {
        spread.variation();
        spread.buckets().iter().map(|bucket| bucket.count).sum::<u64>()
    });
    assert_eq!(counts[0], delays.round_trip.count(), "every packet is in one bucket");
}
