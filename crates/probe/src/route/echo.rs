//! Questions and answers between two nodes: a probe datagram, and the short answer of its receiver.
//!
//! An answer is never longer than its question, goes to the question's source address, and requires a known token: a sender that
//! forges its address gains nothing. The answer holds the question's size and TTL on arrival, and its own initial TTL.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::SockRef;
use sys::errqueue::{enable_arrival_info, receive, send_from};

use crate::{Error, Result, Stop};

/// The secret that the two ends of a test share.
pub type Token = [u8; 16];

/// Length of an answer, and of the shortest question, in bytes.
pub const ECHO_BYTES: usize = 32;

/// Question: these bytes, the probe's number (8 bytes, big endian), the token (16), and any payload.
/// The number comes early, as some routers quote only a little of a dropped packet.
const QUESTION: [u8; 4] = *b"LHrq";
/// Answer: these bytes, the number (8), the first 12 bytes of the token, the count of questions of this flow so far (4), the
/// question's length (2), its TTL as received (1; 0 where it is not known), and the answer's initial TTL (1).
const ANSWER: [u8; 4] = *b"LHra";

/// Answers leave with the highest TTL, so that the reverse path may have any length.
const ANSWER_TTL: u8 = u8::MAX;
/// The longest wait before the loop checks whether to end.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Most answers in a row before the loop checks whether to end.
const BURST: usize = 1_024;

/// The fields of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the question.
    pub number: u64,
    /// Payload bytes of the question on arrival.
    pub bytes: u16,
    /// TTL of the question on arrival, if known.
    pub ttl: Option<u8>,
    /// TTL that the answer was sent with.
    pub own_ttl: u8,
    /// Questions of the flow that have arrived so far, this one included: missing ones were lost in forward direction.
    pub count: u32,
}

/// Makes the first [`ECHO_BYTES`] of a datagram a question. A shorter datagram is not changed.
pub fn write_question(datagram: &mut [u8], number: u64, token: &Token) {
    if let Some(head) = datagram.first_chunk_mut::<ECHO_BYTES>() {
        head[..4].copy_from_slice(&QUESTION);
        head[4..12].copy_from_slice(&number.to_be_bytes());
        head[12..28].copy_from_slice(token);
        head[28..].fill(0);
    }
}

/// The number of a question with this token, from the part that a router quotes. Only the quoted part of the token is
/// compared.
pub fn quoted_number(part: &[u8], token: &Token) -> Option<u64> {
    let rest = part.strip_prefix(&QUESTION)?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let quoted_token = &rest[..rest.len().min(token.len())];
    token.starts_with(quoted_token).then(|| u64::from_be_bytes(*number))
}

/// The answer to a datagram; none if the datagram is not a question, or its token is not known. `ttl` is the datagram's on arrival,
/// `own_ttl` the initial TTL of the answer, `count` the number of questions that have arrived.
pub fn answer(
    datagram: &[u8],
    ttl: Option<u8>,
    own_ttl: u8,
    count: u32,
    is_known: impl FnOnce(&Token) -> bool,
) -> Option<[u8; ECHO_BYTES]> {
    let head = datagram.first_chunk::<ECHO_BYTES>()?;
    let token = head[12..].first_chunk::<16>()?;
    if !head.starts_with(&QUESTION) || !is_known(token) {
        return None;
    }
    let mut answer = *head;
    answer[..4].copy_from_slice(&ANSWER);
    let [high, low] = u16::try_from(datagram.len()).unwrap_or(u16::MAX).to_be_bytes();
    answer[24..28].copy_from_slice(&count.to_be_bytes());
    answer[28..].copy_from_slice(&[high, low, ttl.unwrap_or(0), own_ttl]);
    Some(answer)
}

/// Reads an answer to a question with this token.
pub fn read(datagram: &[u8], token: &Token) -> Option<Answer> {
    let head: &[u8; ECHO_BYTES] = datagram.try_into().ok()?;
    let rest = head.strip_prefix(&ANSWER)?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (count, rest) = rest.strip_prefix(&token[..12])?.split_first_chunk::<4>()?;
    let &[high, low, ttl, own_ttl] = rest.first_chunk()?;
    let ttl = (ttl > 0).then_some(ttl);
    let count = u32::from_be_bytes(*count);
    Some(Answer { number: u64::from_be_bytes(*number), bytes: u16::from_be_bytes([high, low]), ttl, own_ttl, count })
}

/// Counters of [`serve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoCounts {
    /// Questions that were answered.
    pub answered: u64,
    /// Datagrams that are not questions, or have an unknown token.
    pub ignored: u64,
    /// Answers that the host could not send.
    pub unsent: u64,
}

/// Answers the questions that arrive at a socket, until a stop or until the time is over. A connected socket answers only its
/// peer.
///
/// # Errors
/// [`Error::Host`]: the socket fails.
pub fn serve(
    socket: &UdpSocket,
    is_known: impl Fn(&Token) -> bool,
    lasts: Duration,
    stop: &Stop,
) -> Result<EchoCounts> {
    let failed = |source| Error::Host { doing: "answer probes", source };
    enable_arrival_info(socket).map_err(failed)?;
    set_answer_ttl(socket).map_err(failed)?;
    let start = Instant::now();
    let mut buffer = vec![0; 1 << 16];
    let mut served = EchoCounts::default();
    while !stop.is_stopped() {
        let Some(left) = lasts.checked_sub(start.elapsed()) else { break };
        let wait = left.min(WAIT_MAX);
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(failed(error.into())),
        }
        for _ in 0..BURST {
            match serve_one(socket, &mut buffer, &is_known, &mut served) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_about_an_answer(&error) => served.unsent += 1,
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(served)
}

fn serve_one(
    socket: &UdpSocket,
    buffer: &mut [u8],
    is_known: &impl Fn(&Token) -> bool,
    served: &mut EchoCounts,
) -> io::Result<()> {
    let arrival = receive(socket, buffer)?;
    let count = served.answered.saturating_add(served.unsent).saturating_add(1);
    let answer = answer(&buffer[..arrival.bytes], arrival.ttl, ANSWER_TTL, count as u32, is_known);
    let (Some(answer), Some(from)) = (answer, arrival.from) else {
        served.ignored += 1;
        return Ok(());
    };
    match send_from(socket, &answer, from, arrival.to) {
        Ok(_) => served.answered += 1,
        // A full buffer loses an answer, as the network may; the loop continues.
        Err(_) => served.unsent += 1,
    }
    Ok(())
}

/// Whether an error is the ICMP error of an earlier answer, whose receiver is gone. Receiving on a connected socket returns some of
/// these.
fn is_about_an_answer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, PermissionDenied};
    let kinds = [ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied, Interrupted];
    // Other kinds of unreachable (icmp(7)).
    let others = [Errno::MSGSIZE, Errno::PROTO, Errno::NOPROTOOPT];
    kinds.contains(&error.kind()) || Errno::from_io_error(error).is_some_and(|errno| others.contains(&errno))
}

fn set_answer_ttl(socket: &UdpSocket) -> io::Result<()> {
    let socket_ref = SockRef::from(socket);
    if socket.local_addr()?.is_ipv4() {
        return socket_ref.set_ttl_v4(ANSWER_TTL.into());
    }
    // An IPv6 socket may answer IPv4 as well.
    let _ = socket_ref.set_ttl_v4(ANSWER_TTL.into());
    socket_ref.set_unicast_hops_v6(ANSWER_TTL.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOKEN: Token = *b"sixteen letters!";

    fn question(bytes: usize) -> Vec<u8> {
        let mut datagram = vec![7; bytes];
        write_question(&mut datagram, 0x0102_0304_0506_0708, &TOKEN);
        datagram
    }

    #[test]
    fn an_answer_holds_the_size_and_ttl_of_its_question() {
        let answer_bytes = answer(&question(9_000), Some(61), 255, 77, |token| *token == TOKEN).unwrap();
        let wanted = Answer { number: 0x0102_0304_0506_0708, bytes: 9_000, ttl: Some(61), own_ttl: 255, count: 77 };
        assert_eq!(read(&answer_bytes, &TOKEN), Some(wanted));
        assert_eq!(read(&answer_bytes, &[0; 16]), None, "the answer of another test");
        let unknown = answer(&question(32), None, 64, 1, |_| true).unwrap();
        assert_eq!(read(&unknown, &TOKEN).unwrap().ttl, None);
    }

    #[test]
    fn unknown_tokens_and_answers_are_not_answered() {
        assert_eq!(answer(&question(32), None, 64, 1, |_| false), None);
        assert_eq!(answer(&question(31), None, 64, 1, |_| true), None, "an answer would be longer");
        let answer_bytes = answer(&question(32), None, 64, 1, |_| true).unwrap();
        assert_eq!(answer(&answer_bytes, None, 64, 1, |_| true), None, "or two nodes would answer each other for ever");
    }

    #[test]
    fn a_short_quote_yields_the_number() {
        let question = question(100);
        for length in 0..100 {
            let wanted = (length >= 12).then_some(0x0102_0304_0506_0708);
            assert_eq!(quoted_number(&question[..length], &TOKEN), wanted, "{length}");
        }
        assert_eq!(quoted_number(&question[..20], &[1; 16]), None);
    }

    proptest! {
        /// No datagram causes a panic, or an answer that is longer than it.
        #[test]
        fn answers_are_never_longer(datagram in proptest::collection::vec(any::<u8>(), 0..100), marked: bool) {
            let mut datagram = datagram;
            if marked && datagram.len() >= 4 {
                datagram[..4].copy_from_slice(&QUESTION);
            }
            let answer_bytes = answer(&datagram, Some(1), 2, 3, |_| true);
            prop_assert!(answer_bytes.is_none_or(|bytes| bytes.len() <= datagram.len()));
            let _ = (read(&datagram, &TOKEN), quoted_number(&datagram, &TOKEN));
        }
    }

    /// Over real sockets: known tokens are answered, others are not, and a stop ends the loop.
    #[test]
    fn the_loop_answers_known_tokens() {
        for host in ["127.0.0.1", "::1"] {
            let server = UdpSocket::bind((host, 0)).unwrap();
            let client = UdpSocket::bind((host, 0)).unwrap();
            client.connect(server.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let stop = Stop::default();
            std::thread::scope(|scope| {
                let serving = scope.spawn(|| serve(&server, |token| *token == TOKEN, Duration::from_secs(20), &stop));
                let mut stranger = question(64);
                stranger[12] ^= 1;
                client.send(&stranger).unwrap();
                client.send(&question(1_000)).unwrap();
                let mut buffer = [0; 100];
                let length = client.recv(&mut buffer).unwrap();
                let found = read(&buffer[..length], &TOKEN).unwrap();
                assert_eq!((found.bytes, found.ttl, found.own_ttl), (1_000, Some(64), 255), "{host}");
                stop.stop();
                let served = serving.join().unwrap().unwrap();
                assert_eq!(served, EchoCounts { answered: 1, ignored: 1, unsent: 0 });
            });
        }
    }
}
