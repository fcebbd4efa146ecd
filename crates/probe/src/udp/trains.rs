//! The sender at the highest rate: trains of datagrams that the kernel or the interface cuts (UDP_SEGMENT), several trains in
//! one system call. A train leaves back to back, so there is no spacing.

use std::io::{self, IoSlice};
use std::net::UdpSocket;

use model::v1::probe::udp::UdpSent;
use rustix::io::Errno;
use sys::datagrams::{MESSAGES_MAX, send_many, set_send_buffer};
use sys::udp::set_datagram_bytes;

use super::Watch;
use super::clock::Clock;
use super::datagram::{FlowId, Head, Kind, filling};
use super::order::Plan;
use super::sent::{Faults, sift, with_rates};
use crate::{Result, Stop};

/// Datagrams that the kernel cuts from one train (UDP_MAX_SEGMENTS before Linux 6.9; 128 since).
const CARS_MAX: usize = 64;
/// Bytes of a train: with its headers it has to fit into 64 KiB.
const TRAIN_BYTES_MAX: usize = 65_000;
/// Trains in one system call. With 8 the call itself is some hundredths of the cost, and half a MiB stays in a cache.
const TRAINS: usize = 8;
/// A send buffer that holds some calls' worth of trains with the kernel's overhead.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// The datagrams of one system call, back to back.
struct TrainBatch {
    bytes: Vec<u8>,
    datagram: usize,
    /// Datagrams of a train.
    cars: usize,
}

impl TrainBatch {
    fn new(flow: FlowId, datagram: usize, cars: usize) -> TrainBatch {
        let trains = if cars > 1 { TRAINS } else { MESSAGES_MAX };
        let mut bytes = filling(trains * cars * datagram);
        for room in bytes.chunks_exact_mut(datagram) {
            Head { flow, kind: Kind::Data, number: 0, sent_ns: 0 }.write(room);
        }
        TrainBatch { bytes, datagram, cars }
    }

    /// Numbers as many as there is room for, of `left`; returns how many.
    fn number(&mut self, from: u64, left: u64, real_ns: u64) -> usize {
        let mut many = 0;
        for (room, number) in self.bytes.chunks_exact_mut(self.datagram).zip(from..from.saturating_add(left)) {
            Head::renumber(room, number, real_ns);
            many += 1;
        }
        many
    }

    /// Sends the first `many` datagrams; returns how many of them left, and whether that was all.
    fn send(&self, socket: &UdpSocket, many: usize) -> io::Result<(u64, bool)> {
        let train = self.cars * self.datagram;
        let mut slices = [IoSlice::new(&[]); MESSAGES_MAX];
        let mut trains = 0;
        for (slice, bytes) in slices.iter_mut().zip(self.bytes[..many * self.datagram].chunks(train)) {
            *slice = IoSlice::new(bytes);
            trains += 1;
        }
        let left = send_many(socket, &slices[..trains]).map_err(|error| sift(socket, error))?;
        Ok(((left * self.cars).min(many) as u64, left == trains))
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
    watch: &Watch,
) -> Result<UdpSent> {
    // A refusal leaves the default of 208 KiB, which holds three trains: slower, and otherwise the same.
    let _ = set_send_buffer(socket, SEND_BUFFER_BYTES);
    let mut batch = TrainBatch::new(flow, plan.bytes, couple(socket, plan.bytes));
    let mut faults = Faults::new(to, plan.bytes);
    let (begun, mut sent) = (clock.now(), 0);
    let mut now = begun;
    let mut told = loop {
        let over = plan.length_ns.is_some_and(|length| now - begun >= length);
        if sent >= plan.count || over || stop.is_stopped() {
            break UdpSent { datagrams: sent, train_datagrams: batch.cars as u32, ..UdpSent::default() };
        }
        let many = batch.number(sent, plan.count - sent, clock.real());
        match batch.send(socket, many) {
            Ok((left, is_all)) => {
                faults.passed();
                if !is_all {
                    faults.took_some();
                }
                sent += left;
                watch.set(sent, 0);
            }
            Err(error) if batch.cars > 1 && cannot_cut(&error) => {
                batch = TrainBatch::new(flow, plan.bytes, uncouple(socket));
            }
            Err(error) => {
                if let Err(error) = faults.judge(error, clock) {
                    uncouple(socket);
                    return Err(error);
                }
            }
        }
        now = clock.now();
    };
    uncouple(socket);
    faults.tell(&mut told);
    told.interrupted = stop.is_stopped();
    Ok(with_rates(told, plan, now - begun))
}

/// Turns on the cutting of trains in the kernel; returns the datagrams of a train.
fn couple(socket: &UdpSocket, bytes: usize) -> usize {
    let cars = (TRAIN_BYTES_MAX / bytes).clamp(1, CARS_MAX);
    match u16::try_from(bytes) {
        Ok(size) if cars > 1 && set_datagram_bytes(socket, size).is_ok() => cars,
        _ => 1,
    }
}

/// Turns off the cutting of trains; returns the datagrams of a train, which is 1.
fn uncouple(socket: &UdpSocket) -> usize {
    let _ = set_datagram_bytes(socket, 0);
    1
}

/// A datagram is larger than the MTU, so each would have to be cut by IP as well, or the interface does not do
/// checksums.
fn cannot_cut(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::MSGSIZE | Errno::IO))
}
