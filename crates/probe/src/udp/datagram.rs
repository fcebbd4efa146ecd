//! The head of every datagram of a test: its flow, its run, its number, and its sending time.
//!
//! ```text
//!  0  magic "LHU1"        4
//!  4  token of the flow  16
//! 20  kind                1
//! 21  run                 4   big endian, as all numbers
//! 25  number              8
//! 33  sent at             8   nanoseconds since 1970 by the sender's clock
//! 41  padding             …   a Request begins it with the 4 bytes of the answer's size
//! ```

/// The first bytes.
pub const MAGIC: [u8; 4] = *b"LHU1";
/// Bytes of a head; the smallest datagram.
pub const HEAD_BYTES: usize = 41;
/// Bytes of a [`Kind::Request`], at least.
pub const REQUEST_BYTES_MIN: usize = HEAD_BYTES + 4;
/// The largest payload over IPv4: 65,535 less 20 of IP and 8 of UDP.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// The secret of a flow: datagrams without it are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 16]);

/// Identifies the flow of a datagram, and the run over that flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId {
    /// Token of the flow.
    pub token: Token,
    /// Number of the run: distinguishes its datagrams from late ones of the previous run.
    pub run: u32,
}

/// Kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Begins a flow.
    Hello,
    /// Answers a hello.
    Welcome,
    /// Data, which is counted.
    Data,
    /// Ends a run; its number is the number of data datagrams sent.
    End,
    /// Requests an answer of a given size.
    Request,
    /// Answers the `Request` of the same number.
    Answer,
}

const KINDS: [(Kind, u8); 6] =
    [(Kind::Hello, 1), (Kind::Welcome, 2), (Kind::Data, 3), (Kind::End, 4), (Kind::Request, 5), (Kind::Answer, 6)];

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        KINDS.iter().find(|(_, known)| *known == byte).map(|(kind, _)| *kind)
    }

    fn byte(self) -> u8 {
        KINDS.iter().find(|(known, _)| *known == self).map_or(0, |(_, byte)| *byte)
    }
}

/// The head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Flow and run.
    pub flow: FlowId,
    /// Kind.
    pub kind: Kind,
    /// Number within the run.
    pub number: u64,
    /// Sending time, nanoseconds since 1970 by the sender's clock.
    pub sent_ns: u64,
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

impl Head {
    /// Reads a head; none where the bytes have no such head.
    pub fn read(bytes: &[u8]) -> Option<Head> {
        if bytes.len() < HEAD_BYTES || bytes[..4] != MAGIC {
            return None;
        }
        let flow = FlowId { token: Token(field(bytes, 4)?), run: u32::from_be_bytes(field(bytes, 21)?) };
        let kind = Kind::of(bytes[20])?;
        let [number, sent_ns] = [u64::from_be_bytes(field(bytes, 25)?), u64::from_be_bytes(field(bytes, 33)?)];
        Some(Head { flow, kind, number, sent_ns })
    }

    /// Writes it to the beginning of a datagram; returns whether there was room.
    pub fn write(&self, bytes: &mut [u8]) -> bool {
        let Some(room) = bytes.get_mut(..HEAD_BYTES) else { return false };
        room[..4].copy_from_slice(&MAGIC);
        room[4..20].copy_from_slice(&self.flow.token.0);
        room[20] = self.kind.byte();
        room[21..25].copy_from_slice(&self.flow.run.to_be_bytes());
        room[25..33].copy_from_slice(&self.number.to_be_bytes());
        room[33..41].copy_from_slice(&self.sent_ns.to_be_bytes());
        true
    }

    /// Writes number and sending time only: all that differs between datagrams of one run.
    pub(super) fn renumber(bytes: &mut [u8], number: u64, sent_ns: u64) {
        if let Some(room) = bytes.get_mut(25..HEAD_BYTES) {
            room[..8].copy_from_slice(&number.to_be_bytes());
            room[8..].copy_from_slice(&sent_ns.to_be_bytes());
        }
    }
}

/// The size of the answer that a request asks for.
pub fn answer_bytes(request: &[u8]) -> Option<u32> {
    field(request, HEAD_BYTES).map(u32::from_be_bytes)
}

/// Writes the size of the answer that a request asks for; returns whether there was room.
pub fn set_answer_bytes(request: &mut [u8], bytes: u32) -> bool {
    request.get_mut(HEAD_BYTES..REQUEST_BYTES_MIN).map(|room| room.copy_from_slice(&bytes.to_be_bytes())).is_some()
}

/// Random bytes, which no link on the path can compress; the same in each run.
pub(super) fn random_payload(bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    fastrand::Rng::with_seed(0x4c48_5531).fill(&mut payload);
    payload
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_head_has_its_golden_bytes() {
        let flow = FlowId { token: Token(*b"0123456789abcdef"), run: 0x0102_0304 };
        let head = Head { flow, kind: Kind::Data, number: 7, sent_ns: 0x1122_3344_5566_7788 };
        let mut bytes = [0xff; HEAD_BYTES + 1];
        assert!(head.write(&mut bytes));
        let golden = b"LHU10123456789abcdef\x03\x01\x02\x03\x04\0\0\0\0\0\0\0\x07\x11\x22\x33\x44\x55\x66\x77\x88\xff";
        assert_eq!(&bytes, golden);
        Head::renumber(&mut bytes, 8, 9);
        assert_eq!(Head::read(&bytes), Some(Head { number: 8, sent_ns: 9, ..head }));
        assert!(!head.write(&mut bytes[..HEAD_BYTES - 1]));
    }

    #[test]
    fn a_request_holds_the_size_of_its_answer() {
        let mut request = [0; REQUEST_BYTES_MIN];
        assert!(set_answer_bytes(&mut request, 8_973));
        assert_eq!(answer_bytes(&request), Some(8_973));
        assert!(!set_answer_bytes(&mut request[..REQUEST_BYTES_MIN - 1], 1));
        assert_eq!(answer_bytes(&request[..REQUEST_BYTES_MIN - 1]), None);
    }

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(token: [u8; 16], run: u32, kind in 0..6usize, number: u64, sent_ns: u64,
                                    padding in 0..100usize) {
            let head = Head { flow: FlowId { token: Token(token), run }, kind: KINDS[kind].0, number, sent_ns };
            let mut bytes = vec![0; HEAD_BYTES + padding];
            prop_assert!(head.write(&mut bytes));
            prop_assert_eq!(Head::read(&bytes), Some(head));
            prop_assert_eq!(Head::read(&bytes[..HEAD_BYTES - 1]), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..100), ours: bool) {
            if ours && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&MAGIC);
            }
            if let Some(head) = Head::read(&bytes) {
                let mut rewritten = bytes.clone();
                prop_assert!(head.write(&mut rewritten));
                prop_assert_eq!(&rewritten, &bytes);
            }
            let _ = answer_bytes(&bytes);
        }
    }
}
