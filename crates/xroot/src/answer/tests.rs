//! Answers as bytes, and back.

use super::*;

fn round_trip(answer: &RootAnswer) {
    let bytes = answer.to_bytes(StreamId([1, 2]));
    let (head, body) = bytes.split_first_chunk().unwrap();
    let head = AnswerHead::parse(head).unwrap();
    assert_eq!(head.bytes as usize, body.len());
    assert_eq!(RootAnswer::parse(&head, body).as_ref(), Ok(answer));
}

#[test]
fn answers_are_parsed_as_they_are_written() {
    for answer in [
        RootAnswer::Ok(b"abc".to_vec()),
        RootAnswer::Partial(Vec::new()),
        RootAnswer::AuthenticateMore(vec![1]),
        RootAnswer::error(ErrorCode::NotFound, "no such file"),
        RootAnswer::Redirect { port: 1094, host: "mover-2.example?tried=x".into() },
        RootAnswer::Wait { seconds: 5, text: "staging".into() },
        RootAnswer::WaitForAnswer(60),
        RootAnswer::Async { stream: StreamId([7, 7]), answer: Box::new(RootAnswer::Ok(b"late".to_vec())) },
        RootAnswer::Notice,
    ] {
        round_trip(&answer);
    }
}

#[test]
fn an_error_has_the_bytes_of_the_specification() {
    let bytes = RootAnswer::error(ErrorCode::NotFound, "no").to_bytes(StreamId([0, 9]));
    assert_eq!(bytes, [0, 9, 0x0f, 0xa3, 0, 0, 0, 7, 0, 0, 0x0b, 0xc3, b'n', b'o', 0]);
}

#[test]
fn an_answer_within_an_answer_within_an_answer_is_refused() {
    let inner = RootAnswer::Async { stream: StreamId([1, 1]), answer: Box::new(RootAnswer::Ok(Vec::new())) };
    let bytes = RootAnswer::Async { stream: StreamId([2, 2]), answer: Box::new(inner) }.to_bytes(StreamId::default());
    let (head, body) = bytes.split_first_chunk().unwrap();
    assert!(RootAnswer::parse(&AnswerHead::parse(head).unwrap(), body).is_err());
}

#[test]
fn bodies_of_answers_are_parsed_as_they_are_written() {
    let open = OpenAnswer { file: FileHandle([1, 0, 0, 0]), facts: Some(EntryFacts { size: 3, ..Default::default() }) };
    assert_eq!(OpenAnswer::parse(&open.to_bytes()), Ok(open.clone()));
    let without = OpenAnswer { facts: None, ..open };
    assert_eq!(OpenAnswer::parse(&without.to_bytes()), Ok(without));
    let login = LoginAnswer { session: SessionId([9; 16]), security: "&P=ztn,0:4096:".into() };
    assert_eq!(LoginAnswer::parse(&login.to_bytes()), Ok(login));
    let protocol = ProtocolAnswer { version: 0x511, flags: 1 };
    assert_eq!(ProtocolAnswer::parse(&protocol.to_bytes(true)), Ok(protocol));
}

#[test]
fn the_status_of_an_answer_with_checksums_is_protected() {
    let answer = CheckedAnswer {
        stream: StreamId([3, 4]),
        code: RequestCode::PageRead,
        is_last: false,
        offset: 8192,
        data_bytes: 4100,
    };
    let bytes = answer.to_bytes();
    let head = AnswerHead::parse(bytes.first_chunk().unwrap()).unwrap();
    assert_eq!((head.status, head.bytes), (Status::Checked, 24));
    assert_eq!(CheckedAnswer::parse(&bytes[8..]), Ok(answer));
    for at in 8..bytes.len() {
        let mut damaged = bytes;
        damaged[at] ^= 1;
        assert!(CheckedAnswer::parse(&damaged[8..]).is_err(), "byte {at}");
    }
}
