//! Finds where the heads of requests end among the incoming frames (RFC 9113, section 4.1), so that the h2 library can be paused
//! after each head: the server then sees a request before the library judges the bytes behind it.
//!
//! Why that matters: stock xrootd, when it pushes, announces a body over HTTP/2 and sends none (5.5.3; any server refuses
//! that). If the server asks for HTTP/1.1 early enough, xrootd's library tries again with HTTP/1.1 and succeeds.

/// The client's preface, before all frames.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;
const END_HEADERS: u8 = 0x4;

/// Follows the frames of one connection.
pub(super) struct Frames {
    head: [u8; HEAD_BYTES],
    /// Bytes of `head` that have arrived.
    head_bytes: usize,
    /// Bytes of the frame, or of the preface, that are still to come.
    left: usize,
    /// The frame ends a head.
    ends_head: bool,
}

impl Frames {
    /// The state at the beginning of a connection.
    pub fn new() -> Frames {
        Frames { head: [0; HEAD_BYTES], head_bytes: 0, left: PREFACE_BYTES, ends_head: false }
    }

    /// Follows the next bytes of the connection. Returns how many of them may be handed on at once, and whether a head ends there.
    pub fn span(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let step = self.left.min(bytes.len() - at);
                (at, self.left) = (at + step, self.left - step);
            } else {
                let step = (HEAD_BYTES - self.head_bytes).min(bytes.len() - at);
                self.head[self.head_bytes..self.head_bytes + step].copy_from_slice(&bytes[at..at + step]);
                (at, self.head_bytes) = (at + step, self.head_bytes + step);
                if self.head_bytes < HEAD_BYTES {
                    continue;
                }
                let [a, b, c, kind, flags, ..] = self.head;
                self.head_bytes = 0;
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.ends_head = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0;
            }
            if self.left == 0 && self.head_bytes == 0 && std::mem::take(&mut self.ends_head) {
                return (at, true);
            }
        }
        (at, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let mut bytes = vec![0, (payload >> 8) as u8, payload as u8, kind, flags, 0, 0, 0, 1];
        bytes.resize(HEAD_BYTES + payload, 7);
        bytes
    }

    #[test]
    fn each_head_ends_a_span_however_the_bytes_come() {
        let parts = [
            vec![b'P'; PREFACE_BYTES],
            frame(0x4, 0, 18),
            frame(HEADERS, END_HEADERS, 50),
            frame(0x0, 1, 0),
            frame(HEADERS, 0, 300),
            frame(CONTINUATION, END_HEADERS, 5),
            frame(0x0, 0, 1000),
        ];
        let bytes = parts.concat();
        let first = parts[..3].concat().len();
        let second = parts[..6].concat().len();
        for step in [1, 2, 8, 9, 10, 100, bytes.len()] {
            let mut frames = Frames::new();
            let mut at = 0;
            let mut head_ends = Vec::new();
            while at < bytes.len() {
                let (taken, ends_head) = frames.span(&bytes[at..(at + step).min(bytes.len())]);
                at += taken;
                if ends_head {
                    head_ends.push(at);
                }
            }
            assert_eq!(head_ends, [first, second], "{step}");
        }
    }
}
