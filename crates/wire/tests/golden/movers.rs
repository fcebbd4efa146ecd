//! One of each message between a coordinator and a mover.

use model::Refusal;
use model::checksum::BlockSum;
use model::entry::Timestamp;
use model::fault::Fault;
use model::name::RelPath;
use wire::Frame;
use wire::frame::{Open, Suite};
use wire::mover::{Answer, DelegatedAddress, DelegatedSession, FileLocation, MoverMessage, StreamQuery};
use wire::record::Part;
use wire::sender::{Built, Range};

pub fn frames(order: Open) -> Vec<(&'static str, Vec<Frame>)> {
    let address = |at: &str, id| DelegatedAddress { at: at.parse().unwrap(), session: [id; 16] };
    let session = |suite| {
        Frame::Lend(Box::new(DelegatedSession { session: [7; 16], secret: [9; 32], suite, order: order.clone() }))
    };
    vec![
        ("movers", vec![Frame::Movers(vec![address("192.0.2.7:4433", 5), address("[2001:db8::7]:9", 6)])]),
        ("lend", vec![session(Some(Suite::ChaCha20Poly1305)), session(None)]),
        ("word", messages().into_iter().map(Frame::Word).collect()),
    ]
}

fn messages() -> Vec<MoverMessage> {
    let queries = queries().into_iter().map(|query| MoverMessage::Ask(3, query));
    let answers = answers().into_iter().map(|answer| MoverMessage::Answer(1024, answer));
    let plain = [
        MoverMessage::Ready,
        MoverMessage::Beat(300),
        MoverMessage::Surplus(vec![1, 1024]),
        MoverMessage::Gone(7),
        MoverMessage::Close(300),
        MoverMessage::Closed(u64::MAX),
        MoverMessage::Over,
    ];
    plain.into_iter().chain(queries).chain(answers).collect()
}

fn queries() -> Vec<StreamQuery> {
    let sum = BlockSum { crc32c: 0x0123_4567, adler32: Some(u32::MAX) };
    let part = Part { file: 300, offset: 1 << 40, len: 1 << 20, crc32c: 0x89ab_cdef, hole: false, whole: false };
    let hole = Part { file: 1, offset: 0, len: 5, crc32c: 0, hole: true, whole: true };
    let built = Built { file: 300, offset: 9, len: 1 << 20, sum, hole: false, whole: true };
    vec![
        StreamQuery::Next,
        StreamQuery::Claim { file: 1, from: 1 << 20, to: 1 << 44 },
        StreamQuery::Built { parts: vec![built], bytes: 1 << 20, last: vec![300] },
        StreamQuery::Unread(4, Refusal::new(Fault::Storage, "it is not there")),
        StreamQuery::Where(300),
        StreamQuery::Pass(b"a record".to_vec()),
        StreamQuery::Took(vec![(part, Some(sum)), (hole, None)]),
    ]
}

fn answers() -> Vec<Answer> {
    let path = RelPath::parse(b"a/b\xff").unwrap();
    let range = Range {
        file: 300,
        source: 2,
        path: path.clone(),
        size: 1 << 41,
        changed: None,
        mtime: Timestamp { seconds: -2, nanos: 999_999_999 },
        offset: 1 << 40,
        len: 1 << 20,
        last: true,
    };
    vec![
        Answer::Send(vec![range]),
        Answer::Retire,
        Answer::Over,
        Answer::Claimed(Some((1 << 20, 1 << 30)), true),
        Answer::Claimed(None, false),
        Answer::Noted,
        Answer::Here(FileLocation { path, tag: "0123456789abcdef".into(), size: 1 << 41, fills_holes: true }),
        Answer::Nowhere,
    ]
}
