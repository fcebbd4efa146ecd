//! The functions of `xroot::fuzzing`, with random bytes: half of them begin as a message of a client or a server does.

use proptest::prelude::*;

fn message() -> impl Strategy<Value = Vec<u8>> {
    let payload = proptest::collection::vec(any::<u8>(), 0..200);
    let text = "[ -~\\n\0]{0,80}";
    let body = prop_oneof![payload, text.prop_map(String::into_bytes)];
    (any::<[u8; 2]>(), 2999..3034_u16, any::<[u8; 16]>(), body).prop_map(|(stream, code, fields, body)| {
        let length = body.len() as u32;
        [&stream[..], &code.to_be_bytes(), &fields, &length.to_be_bytes(), &body].concat()
    })
}

fn answer() -> impl Strategy<Value = Vec<u8>> {
    let body = proptest::collection::vec(any::<u8>(), 0..100);
    (any::<[u8; 2]>(), prop_oneof![Just(0_u16), 4000..4009_u16], body).prop_map(|(stream, status, body)| {
        let length = body.len() as u32;
        [&stream[..], &status.to_be_bytes(), &length.to_be_bytes(), &body].concat()
    })
}

proptest! {
    #[test]
    fn any_request_is_parsed_or_refused(bytes in prop_oneof![message(), proptest::collection::vec(any::<u8>(), 0..100)]) {
        xroot::fuzzing::request(&bytes);
    }

    #[test]
    fn any_answer_is_parsed_or_refused(bytes in prop_oneof![answer(), proptest::collection::vec(any::<u8>(), 0..100)]) {
        xroot::fuzzing::answer(&bytes);
    }

    #[test]
    fn any_text_is_parsed_or_refused(bytes in prop_oneof!["[0-9 .\\n/?=&a-c]{0,60}".prop_map(String::into_bytes), proptest::collection::vec(any::<u8>(), 0..100)]) {
        xroot::fuzzing::text(&bytes);
    }

    #[test]
    fn any_pages_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        xroot::fuzzing::pages(&bytes);
    }
}
