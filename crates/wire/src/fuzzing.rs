//! The parsers that a stranger can reach, as plain functions: the property tests run them in every `make test`, and `make fuzz`
//! (`fuzz/` at the root of the workspace) runs them for as long as wanted.
//!
//! Each takes any bytes, drives the real code as an engine would, and must return: without a panic or an overflow, within
//! the bounds of [`crate::limits`], and without a message that the peer could not read.

use model::checksum::BlockSum;
use model::entry::Timestamp;
use model::fault::Fault;
use model::name::{Name, RelPath};
use model::{Algorithm, Digest, Refusal};

use crate::error::WireError;
use crate::frame::{self, Entry, Frame, FrameBuffer, Offered, Outcome, UNKNOWN_SIZE, Verdict};
use crate::join::Join;
use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX};
use crate::receiver::{Action, Judgement, Receiver, Stored, Target};
use crate::record::{self, HEAD_BYTES, Head};
use crate::sender::{Built, Order, Range, Sender};

/// Orders taken from the sender between two messages: a peer that wants an endless file could be served forever.
const ORDERS: usize = 64;

/// The control connection: the first byte gives the size of the pieces in which the others are read.
pub fn frames(bytes: &[u8]) {
    let Some((piece, rest)) = bytes.split_first() else { return };
    let mut buffer = FrameBuffer::default();
    for chunk in rest.chunks(usize::from(*piece) + 1) {
        buffer.push(chunk);
        loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => check_round_trip(&frame),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// Checks that a frame that was decoded is encoded within bounds, and decoded again as the same frame.
fn check_round_trip(frame: &Frame) {
    let mut bytes = Vec::new();
    frame::encode(frame, &mut bytes);
    assert!(bytes.len() <= FRAME_BYTES_MAX + frame::HEAD_BYTES, "a message of {} bytes", bytes.len());
    let again = frame::decode(bytes[4], &bytes[frame::HEAD_BYTES..]);
    assert_eq!(again.as_ref(), Ok(frame), "the frame is decoded as another one");
}

/// A data stream: head and table of a record.
pub fn record(bytes: &[u8]) {
    let Some((head, body)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return };
    let Ok(head) = Head::decode(head) else { return };
    let Ok(parts) = record::decode_table(&head, body) else { return };
    let mut table = vec![0; head.table_len()];
    record::encode_table(&head, &parts, &mut table);
    assert_eq!(table, body[..head.table_len()], "a table has one form");
}

/// A data stream's first message.
pub fn join(bytes: &[u8]) {
    if let Ok(join) = Join::decode(bytes) {
        assert_eq!(join.encode(), bytes, "the message has one form");
    }
}

fn file(size: u64) -> Offered {
    Offered::File { mode: 0o644, mtime: Timestamp::default(), size }
}

/// The entries of both machines before the stranger's bytes: all kinds, small and large, with ids from 1.
fn tree() -> Vec<Offered> {
    vec![
        Offered::Dir { mode: 0o755, mtime: Timestamp::default() },
        file(10),
        file(3 * BLOCK_BYTES),
        file(i64::MAX as u64),
        file(UNKNOWN_SIZE),
        Offered::HardLink { to: 3, path: RelPath::root() },
        Offered::Symlink { mtime: Timestamp::default(), target: b"x".to_vec() },
        Offered::Special,
        file(100_000),
        file(200_000),
    ]
}

/// A sender in the middle of a job receives these frames.
pub fn sender_hears(bytes: &[u8]) {
    let Ok(name) = Name::new(b"n") else { return };
    let mut sender = Sender::new(vec![Algorithm::Crc32c], vec![name.clone()]);
    for what in tree() {
        sender.offer(0, RelPath::root(), name.clone(), what);
    }
    sender.stream_joined(1);
    let wanted = [3, 4, 5].map(|id| (id, Verdict::Want));
    let begun = sender.handle_frame(Frame::Verdicts(wanted.to_vec())).and_then(|()| serve(&mut sender));
    assert_eq!(begun, Ok(()), "an honest start");
    sender.leave();
    sender.scan_end();
    let mut buffer = FrameBuffer::default();
    buffer.push(bytes);
    while let Ok(Some(frame)) = buffer.next_frame() {
        if sender.handle_frame(frame).and_then(|()| serve(&mut sender)).is_err() {
            return;
        }
    }
    sender.stream_lost(1);
    sender.stream_joined(2);
}

/// Does the work of an engine for a sender between two messages.
fn serve(sender: &mut Sender) -> Result<(), WireError> {
    while let Some(range) = sender.next_inline() {
        sender.built_inline(Vec::new(), &[built(&range)])?;
    }
    for _ in 0..ORDERS {
        match sender.next_order(1) {
            Some(Order::Send(ranges)) => sender.built(1, &ranges.iter().map(built).collect::<Vec<_>>())?,
            Some(Order::Compare { range, .. }) => sender.compared(range.file, Ok(range.file.is_multiple_of(2))),
            Some(Order::Check { range, .. }) => {
                let same = range.offset.is_multiple_of(2).then(|| BlockSum::of_zeros(range.len, false));
                sender.checked(range.file, (range.offset, range.len), Ok(same));
            }
            None => break,
        }
    }
    while let Some(frame) = sender.poll_frame() {
        check_round_trip(&frame);
    }
    Ok(())
}

fn built(range: &Range) -> Built {
    let Range { file, offset, len, .. } = *range;
    Built { file, offset, len, sum: BlockSum::of_zeros(len, false), hole: false, whole: range.is_whole() }
}

/// A receiver in the middle of a job receives these frames, inline records included.
pub fn receiver_hears(bytes: &[u8]) {
    let Ok(name) = Name::new(b"n") else { return };
    let target = Target { path: RelPath::root().join(&name), into: true, is_dir: true };
    let mut receiver = Receiver::new(target, vec![Algorithm::Crc32c]).deleting();
    let entry = |(at, what)| Entry::New {
        id: at as u64 + 1,
        parent: u64::from(at > 0),
        name: name.clone(),
        what,
        attributes: None,
    };
    let entries = tree().into_iter().enumerate().map(entry).collect();
    let begun = receiver.handle_frame(Frame::Entries(entries)).and_then(|()| act(&mut receiver));
    assert_eq!(begun, Ok(()), "an honest start");
    let mut buffer = FrameBuffer::default();
    buffer.push(bytes);
    while let Ok(Some(frame)) = buffer.next_frame() {
        if receiver.handle_frame(frame).and_then(|()| act(&mut receiver)).is_err() {
            return;
        }
    }
}

/// Does the work of an engine for a receiver between two messages; the store's results depend on the id alone.
fn act(receiver: &mut Receiver) -> Result<(), WireError> {
    let refusal = || Refusal::new(Fault::Storage, "no");
    let outcome = |id: u64| if id.is_multiple_of(5) { Outcome::Failed(refusal()) } else { Outcome::Done };
    while let Some(action) = receiver.poll_action() {
        match action {
            Action::MakeDir { id, .. } => {
                receiver.dir_made(id, if id.is_multiple_of(4) { Err(refusal()) } else { Ok(()) })
            }
            Action::Judge(wanted) => receiver.judged(wanted.id, judgement(wanted.id, refusal())),
            Action::Symlink { id, .. } | Action::HardLink { id, .. } => receiver.settled(id, outcome(id)),
            Action::Record(record) => take(receiver, &record)?,
            Action::Commit(complete) => receiver.settled(complete.id, outcome(complete.id)),
            Action::Discard(_) => {}
            Action::FinishDir { id, .. } => receiver.dir_finished(id, Ok(())),
            Action::NoteExtras { .. } => {}
            Action::RemoveExtras { unread } => {
                (0..unread).for_each(|_| receiver.removed());
                receiver.extras_settled();
            }
        }
    }
    receiver.tick();
    while let Some(frame) = receiver.poll_frame() {
        check_round_trip(&frame);
    }
    Ok(())
}

fn judgement(id: u64, refusal: Refusal) -> Judgement {
    match id {
        0..=5 => Judgement::Want,
        9 => Judgement::WantRest(vec![(10, 20, BlockSum::of_zeros(20, false)), (50, 5, BlockSum::of_zeros(5, false))]),
        10 => Judgement::WantUnless(Digest::crc32c(0)),
        _ if id.is_multiple_of(7) => Judgement::Refuse(refusal),
        _ if id.is_multiple_of(3) => Judgement::Skip,
        _ => Judgement::Want,
    }
}

/// Processes a record; the part's checksum field decides whether it counts as damaged.
fn take(receiver: &mut Receiver, record: &[u8]) -> Result<(), WireError> {
    let Some((head, body)) = record.split_first_chunk::<HEAD_BYTES>() else { return Err(WireError::Short("a record")) };
    let head = Head::decode(head)?;
    for part in record::decode_table(&head, body)? {
        if !receiver.expects(&part)? {
            continue;
        }
        if part.crc32c % 4 == 3 {
            receiver.damaged(&part)?;
            continue;
        }
        let sum = BlockSum { crc32c: part.crc32c, adler32: None };
        if let Stored::Complete(complete) = receiver.stored(&part, sum)? {
            receiver.settled(complete.id, Outcome::Done);
        }
    }
    receiver.record_done(1);
    Ok(())
}
