//! The sender at the highest rate: trains of datagrams that the kernel or the interface cuts (UDP_SEGMENT), several trains in
//! one system call. The datagrams of a train leave back to back, without a spacing.

use std::io::{self, IoSlice};
use std::net::UdpSocket;

use model::v1::probe::udp::UdpSent;
use rustix::io::Errno;
use sys::datagrams::{MESSAGES_MAX, send_many, set_send_buffer};
use sys::udp::set_datagram_bytes;

use super::RunProgress;
use super::clock::Clock;
use super::datagram::{FlowId, Head, Kind, random_payload};
use super::order::Plan;
use super::sent::{SendFaults, drain_reports, with_rates};
use crate::{Result, Stop};

/// Datagrams that the kernel cuts from one train (UDP_MAX_SEGMENTS before Linux 6.9; 128 since).
const TRAIN_DATAGRAMS_MAX: usize = 64;
/// Bytes of a train: with its headers it has to fit into 64 KiB.
const TRAIN_BYTES_MAX: usize = 65_000;
/// Trains in one system call. With 8 the call itself is a few per cent of the cost, and half a MiB fits a cache.
const TRAINS: usize = 8;
/// A send buffer that holds the trains of several calls with the kernel's overhead.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// The datagrams of one system call, back to back.
struct TrainBatch {
    bytes: Vec<u8>,
    datagram_bytes: usize,
    /// Datagrams of a train.
    train_datagrams: usize,
}

impl TrainBatch {
    fn new(flow: FlowId, datagram_bytes: usize, train_datagrams: usize) -> TrainBatch {
        let trains = if train_datagrams > 1 { TRAINS } else { MESSAGES_MAX };
        let mut bytes = random_payload(trains * train_datagrams * datagram_bytes);
        for room in bytes.chunks_exact_mut(datagram_bytes) {
            Head { flow, kind: Kind::Data, number: 0, sent_ns: 0 }.write(room);
        }
        TrainBatch { bytes, datagram_bytes, train_datagrams }
    }

    /// Numbers the datagrams from `from` on, at most `count_max` of them; returns how many.
    fn renumber(&mut self, from: u64, count_max: u64, real_ns: u64) -> usize {
        let mut count = 0;
        for (room, number) in self.bytes.chunks_exact_mut(self.datagram_bytes).zip(from..from.saturating_add(count_max))
        {
            Head::renumber(room, number, real_ns);
            count += 1;
        }
        count
    }

    /// Sends the first `count` datagrams; returns how many of them were sent, and whether these are all.
    fn send(&self, socket: &UdpSocket, count: usize) -> io::Result<(u64, bool)> {
        let train_bytes = self.train_datagrams * self.datagram_bytes;
        let mut slices = [IoSlice::new(&[]); MESSAGES_MAX];
        let mut trains = 0;
        for (slice, bytes) in slices.iter_mut().zip(self.bytes[..count * self.datagram_bytes].chunks(train_bytes)) {
            *slice = IoSlice::new(bytes);
            trains += 1;
        }
        let sent_trains = send_many(socket, &slices[..trains]).map_err(|error| drain_reports(socket, error))?;
        Ok(((sent_trains * self.train_datagrams).min(count) as u64, sent_trains == trains))
    }
}

/// Sends as fast as the host can.
///
/// # Errors
/// As [`super::send`].
pub(super) fn trains(
    socket: &UdpSocket,
    plan: &Plan,
    flow: FlowId,
    to: &str,
    clock: &mut impl Clock,
    stop: &Stop,
    watch: &RunProgress,
) -> Result<UdpSent> {
    // If the kernel refuses, the default of 208 KiB remains. It holds three trains, so sending is only slower.
    let _ = set_send_buffer(socket, SEND_BUFFER_BYTES);
    let mut batch = TrainBatch::new(flow, plan.bytes, start_cutting(socket, plan.bytes));
    let mut faults = SendFaults::new(to, plan.bytes);
    let begun = clock.now();
    let mut sent = 0;
    let mut now = begun;
    let mut result = loop {
        let over = plan.length_ns.is_some_and(|length| now - begun >= length);
        if sent >= plan.count || over || stop.is_stopped() {
            break UdpSent { datagrams: sent, train_datagrams: batch.train_datagrams as u32, ..UdpSent::default() };
        }
        let count = batch.renumber(sent, plan.count - sent, clock.real());
        match batch.send(socket, count) {
            Ok((sent_now, is_all)) => {
                faults.clear_stuck();
                if !is_all {
                    faults.count_partial();
                }
                sent += sent_now;
                watch.set(sent, 0);
            }
            Err(error) if batch.train_datagrams > 1 && cannot_cut(&error) => {
                batch = TrainBatch::new(flow, plan.bytes, stop_cutting(socket));
            }
            Err(error) => {
                if let Err(error) = faults.judge(error, clock) {
                    stop_cutting(socket);
                    return Err(error);
                }
            }
        }
        now = clock.now();
    };
    stop_cutting(socket);
    faults.add_to(&mut result);
    result.interrupted = stop.is_stopped();
    Ok(with_rates(result, plan, now - begun))
}

/// Turns on the cutting of trains in the kernel; returns the datagrams of a train.
fn start_cutting(socket: &UdpSocket, bytes: usize) -> usize {
    let train_datagrams = (TRAIN_BYTES_MAX / bytes).clamp(1, TRAIN_DATAGRAMS_MAX);
    match u16::try_from(bytes) {
        Ok(size) if train_datagrams > 1 && set_datagram_bytes(socket, size).is_ok() => train_datagrams,
        _ => 1,
    }
}

/// Turns off the cutting of trains; returns the datagrams of a train, which is 1.
fn stop_cutting(socket: &UdpSocket) -> usize {
    let _ = set_datagram_bytes(socket, 0);
    1
}

/// Whether an error means that this path cannot cut trains: a datagram is larger than the MTU, so that IP would have to cut it as
/// well, or the interface does not compute checksums.
fn cannot_cut(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::MSGSIZE | Errno::IO))
}
