//! The pair: both state machines, their links, and one queue of events in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::Algorithm;
use model::name::{Name, RelPath};
use wire::frame::{self, Frame, FrameBuffer};
use wire::receiver::{Receiver, Target};
use wire::record::{HEAD_BYTES, Head};
use wire::sender::Order;
use wire::{Sender, WireError, limits};

use crate::link::Link;
use crate::rng::Rng;
use crate::source::Source;
use crate::store::Store;
use crate::tree::{Node, Step, steps};

pub const MS: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct Config {
    pub rtt: Duration,
    pub stream_bytes_s: u64,
    pub streams: u32,
    /// The client is the receiver: it opens the streams.
    pub pull: bool,
    pub checksums: Vec<Algorithm>,
    /// Time the scanner takes for an entry.
    pub scan_gap: Duration,
    /// Time until the store starts an action.
    pub action_delay: Duration,
    /// Every root keeps its name below the target.
    pub into: bool,
    /// Of a thousand records, the number that are cut together with their stream.
    pub cut_per_mille: u64,
    /// Damages the table of this record on a stream, counted from 1.
    pub flip_table_of: u64,
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rtt: 20 * MS,
            stream_bytes_s: 125_000_000,
            streams: 4,
            pull: false,
            checksums: vec![Algorithm::Crc32c],
            scan_gap: Duration::ZERO,
            action_delay: Duration::ZERO,
            into: true,
            cut_per_mille: 0,
            flip_table_of: 0,
            seed: 1,
        }
    }
}

enum Event {
    ToReceiver(Vec<u8>),
    ToSender(Vec<u8>),
    Record(u32, Vec<u8>),
    /// The stream has sent its record and can take an order.
    Idle,
    Act,
    Scan,
    Joined(u32),
    Cut(u32),
    Lost(u32),
    Tick,
}

pub struct Pair {
    pub config: Config,
    pub now: Duration,
    pub sender: Sender,
    pub receiver: Receiver,
    pub source: Source,
    pub store: Store,
    pub rng: Rng,
    events: BTreeMap<(Duration, u64), Event>,
    events_made: u64,
    to_sender: FrameBuffer,
    to_receiver: FrameBuffer,
    links: BTreeMap<u32, Link>,
    opening: u32,
    pub streams_opened: u32,
    scanning: bool,
    scan_due: bool,
    act_due: bool,
    /// Ticks since the last event other than ticks, scans and actions.
    idle_ticks: u32,
    pub records_sent: u64,
    pub first_record_at: Option<Duration>,
    pub scan_ended_at: Option<Duration>,
    pub first_file_at: Option<Duration>,
}

impl Pair {
    pub fn new(config: Config, roots: &[Node]) -> Pair {
        let names = roots.iter().map(|r| r.name.clone()).collect();
        Pair::of_steps(config, names, Box::new(steps(roots).into_iter()))
    }

    pub fn of_steps(config: Config, names: Vec<Name>, steps: Box<dyn Iterator<Item = Step>>) -> Pair {
        let target = Target { path: RelPath::root(), into: config.into, is_dir: config.into };
        let checksums = config.checksums.clone();
        let mut pair = Pair {
            now: Duration::ZERO,
            sender: Sender::new(checksums.clone(), names),
            receiver: Receiver::new(target, checksums.clone()),
            source: Source::new(steps, &checksums),
            store: Store { with_adler32: checksums.contains(&Algorithm::Adler32), ..Store::default() },
            rng: Rng::new(config.seed),
            config,
            events: BTreeMap::new(),
            events_made: 0,
            to_sender: FrameBuffer::default(),
            to_receiver: FrameBuffer::default(),
            links: BTreeMap::new(),
            opening: 0,
            streams_opened: 0,
            scanning: true,
            scan_due: false,
            act_due: false,
            idle_ticks: 0,
            records_sent: 0,
            first_record_at: None,
            scan_ended_at: None,
            first_file_at: None,
        };
        pair.schedule(TICK, Event::Tick);
        pair
    }

    fn schedule(&mut self, wait: Duration, event: Event) {
        self.events_made += 1;
        self.events.insert((self.now + wait, self.events_made), event);
    }

    /// Cuts a stream after this time, with the bytes that are on it.
    pub fn cut_after(&mut self, wait: Duration, stream: u32) {
        self.schedule(wait, Event::Cut(stream));
    }

    /// Runs the job to its end. Panics if it makes no progress.
    pub fn run(&mut self) -> Result<(), WireError> {
        let ended = self.run_for(u64::MAX)?;
        assert!(ended && self.receiver.is_finished());
        Ok(())
    }

    /// Runs the job until it ends, for at most `events` events, or until the store is full. Returns whether the job ended.
    pub fn run_for(&mut self, events: u64) -> Result<bool, WireError> {
        self.pump()?;
        let mut happened = 0;
        while self.sender.finished().is_none() {
            if happened == events || self.store.full {
                return Ok(false);
            }
            happened += 1;
            let ((at, _), event) = self.events.pop_first().unwrap();
            self.now = at;
            self.idle_ticks = match event {
                Event::Tick => self.idle_ticks + 1,
                Event::Act | Event::Scan => self.idle_ticks,
                _ => 0,
            };
            assert!(self.idle_ticks < 100, "stuck at {at:?}: {:?}\n{:?}", self.sender, self.receiver);
            self.handle(event)?;
            self.pump()?;
        }
        Ok(true)
    }

    fn handle(&mut self, event: Event) -> Result<(), WireError> {
        match event {
            Event::ToReceiver(bytes) => self.give_to_receiver(&bytes)?,
            Event::ToSender(bytes) => self.give_to_sender(&bytes)?,
            Event::Record(stream, bytes) => self.take_record(stream, bytes)?,
            Event::Idle => {}
            Event::Act => {
                self.act_due = false;
                while let Some(action) = self.receiver.poll_action() {
                    self.store.act(action, &mut self.receiver, &mut self.rng)?;
                }
            }
            Event::Scan => {
                self.scan_due = false;
                self.scan_one();
            }
            Event::Joined(stream) => {
                self.opening -= 1;
                self.links.insert(stream, Link::new(stream, self.now));
                self.sender.stream_joined(stream);
            }
            Event::Cut(stream) => self.cut(stream),
            Event::Lost(stream) => {
                self.links.remove(&stream);
                self.sender.stream_lost(stream);
            }
            Event::Tick => {
                self.receiver.tick();
                self.schedule(TICK, Event::Tick);
            }
        }
        Ok(())
    }

    fn give_to_receiver(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        // A read may end anywhere in a frame.
        for chunk in bytes.chunks(1 + self.rng.below(40_000) as usize) {
            self.to_receiver.push(chunk);
            while let Some(frame) = self.to_receiver.next_frame()? {
                self.receiver.handle_frame(frame)?;
            }
        }
        Ok(())
    }

    fn give_to_sender(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        for chunk in bytes.chunks(1 + self.rng.below(40_000) as usize) {
            self.to_sender.push(chunk);
            while let Some(frame) = self.to_sender.next_frame()? {
                self.source.note_outcomes(&frame);
                self.sender.handle_frame(frame)?;
            }
        }
        Ok(())
    }

    fn take_record(&mut self, stream: u32, mut bytes: Vec<u8>) -> Result<(), WireError> {
        if self.links.get(&stream).is_none_or(|link| link.cut) {
            return Ok(());
        }
        self.records_sent += 1;
        if self.records_sent == self.config.flip_table_of {
            let at = HEAD_BYTES + self.rng.below(36) as usize;
            bytes[at] ^= 1 << self.rng.below(8);
        }
        let head = Head::decode(bytes.first_chunk().unwrap())?;
        self.store.take_record(&head, &mut bytes[HEAD_BYTES..], &mut self.receiver, &mut self.rng)?;
        self.receiver.record_done(stream);
        if self.store.files_committed > 0 {
            self.first_file_at.get_or_insert(self.now);
        }
        Ok(())
    }

    fn cut(&mut self, stream: u32) {
        let until_noticed = self.config.rtt.mul_f64(self.rng.below(1000) as f64 / 500.0);
        if let Some(link) = self.links.get_mut(&stream).filter(|link| !link.cut) {
            link.cut = true;
            self.schedule(until_noticed, Event::Lost(stream));
        }
    }

    fn scan_one(&mut self) {
        if self.scanning && self.sender.has_room() {
            self.scanning = self.source.scan(&mut self.sender);
            if !self.scanning {
                self.scan_ended_at = Some(self.now);
            }
        }
    }

    fn pump(&mut self) -> Result<(), WireError> {
        self.pump_sender()?;
        self.pump_receiver()
    }

    fn pump_sender(&mut self) -> Result<(), WireError> {
        if self.config.scan_gap.is_zero() {
            while self.scanning && self.sender.has_room() {
                self.scan_one();
            }
        } else if self.scanning && !self.scan_due {
            self.scan_due = true;
            self.schedule(self.config.scan_gap, Event::Scan);
        }
        while let Some(range) = self.sender.next_inline() {
            self.source.build(&mut self.sender, 0, &[range])?;
        }
        let idle: VecDeque<u32> = self.links.values().filter(|l| l.free_at <= self.now).map(|l| l.id).collect();
        for stream in idle {
            self.give_order(stream)?;
        }
        let mut out = Vec::new();
        while let Some(frame) = self.sender.poll_frame() {
            encode(&frame, &mut out);
        }
        if !out.is_empty() {
            self.schedule(self.config.rtt / 2, Event::ToReceiver(out));
        }
        self.open_streams();
        Ok(())
    }

    /// Gives a stream orders until it has a record to send.
    fn give_order(&mut self, stream: u32) -> Result<(), WireError> {
        while let Some(order) = self.sender.next_order(stream) {
            let ranges = match order {
                Order::Send(ranges) => ranges,
                Order::Compare { range, known } => {
                    let equal = self.source.equals(range.file, &known);
                    self.sender.compared(range.file, Ok(equal));
                    continue;
                }
                Order::Check { range, crc32c } => {
                    self.source.check(&mut self.sender, &range, crc32c);
                    continue;
                }
            };
            self.source.build(&mut self.sender, stream, &ranges)?;
            let Some(record) = self.source.ready.take() else { continue };
            self.first_record_at.get_or_insert(self.now);
            let Some(link) = self.links.get_mut(&stream) else { return Ok(()) };
            let latency = self.config.rtt / 2;
            let until_arrival = link.send(self.now, record.len(), self.config.stream_bytes_s, latency) - self.now;
            let until_free = link.free_at - self.now;
            self.schedule(until_arrival, Event::Record(stream, record));
            self.schedule(until_free, Event::Idle);
            // At some point no more streams are cut: a session has a bounded number of streams, and a path that loses all of them fails
            // the job.
            if self.streams_opened < limits::STREAMS_MAX / 2 && self.rng.chance(self.config.cut_per_mille) {
                // At a random time before the record arrives.
                let wait = until_arrival.mul_f64(self.rng.below(1000) as f64 / 1000.0);
                self.schedule(wait, Event::Cut(stream));
            }
            return Ok(());
        }
        Ok(())
    }

    fn open_streams(&mut self) {
        let (wanted, wait) = if self.config.pull {
            (self.receiver.wants_streams(), self.config.rtt.mul_f64(1.5))
        } else {
            (self.sender.wants_streams(), self.config.rtt)
        };
        let have = self.opening + self.links.len() as u32;
        if !wanted || self.receiver.is_finished() {
            return;
        }
        for _ in have..self.config.streams {
            self.opening += 1;
            self.streams_opened += 1;
            assert!(self.streams_opened <= limits::STREAMS_MAX, "stream numbers are used up");
            self.schedule(wait, Event::Joined(self.streams_opened));
        }
    }

    fn pump_receiver(&mut self) -> Result<(), WireError> {
        if self.config.action_delay.is_zero() {
            while let Some(action) = self.receiver.poll_action() {
                self.store.act(action, &mut self.receiver, &mut self.rng)?;
            }
            if self.store.files_committed > 0 {
                self.first_file_at.get_or_insert(self.now);
            }
        } else if !self.act_due {
            self.act_due = true;
            self.schedule(self.config.action_delay, Event::Act);
        }
        let mut out = Vec::new();
        while let Some(frame) = self.receiver.poll_frame() {
            encode(&frame, &mut out);
        }
        if !out.is_empty() {
            self.schedule(self.config.rtt / 2, Event::ToSender(out));
        }
        Ok(())
    }
}

/// Appends an encoded frame, and asserts that the peer would accept its length.
fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    frame::encode(frame, out);
    assert!(out.len() - start <= limits::FRAME_BYTES_MAX + frame::HEAD_BYTES, "an oversized frame");
}
