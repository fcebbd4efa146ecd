//! The thread that carries the packets: reads them from the ports, gives them to the fabric, and writes what is due.
//!
//! One thread does everything. While packets flow it sleeps at most [`QUANTUM`], so that it is woken some thousand times a second rather
//! than for each packet; otherwise it waits in `poll`.
//! Does not know: namespaces, or who sends requests.

mod timeline;

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::ClockId;
use sys::waker::Waker;

use crate::fabric::{Delivery, Fabric};
use crate::packet::{self, FRAME_MAX, HEADERS_MAX};
use crate::reading::{Lateness, LinkReading, Reading};
use crate::scenario::{Change, Event};
use timeline::Timeline;

/// The longest sleep while packets flow.
const QUANTUM: Duration = Duration::from_micros(100);
/// Packets that are due this soon leave at once: half a quantum early and half a quantum late cancel out. So a packet arrives at most this
/// early.
pub const EARLY_MAX: Duration = Duration::from_micros(50);
const SLACK_NS: u64 = EARLY_MAX.as_nanos() as u64;
/// How long packets count as flowing after the last one.
const BUSY: Duration = Duration::from_millis(2);
/// Packets read from each port before writing has its turn.
const BATCH: usize = 32;

/// A request to the thread.
enum EmulatorRequest {
    Read(Sender<Reading>),
    Change(Change, Option<Duration>),
    Stop,
}

/// A handle to the thread.
#[derive(Clone)]
pub struct EmulatorHandle {
    requests: Sender<EmulatorRequest>,
    waker: Waker,
}

impl EmulatorHandle {
    fn send(&self, request: EmulatorRequest) -> bool {
        let sent = self.requests.send(request).is_ok();
        self.waker.wake();
        sent
    }

    /// The counts so far; none if the thread has ended.
    pub fn read(&self) -> Option<Reading> {
        let (reply, replies) = channel();
        self.send(EmulatorRequest::Read(reply));
        replies.recv().ok()
    }

    /// Changes the network now, for a while only if `lasts` says so. `false` if the thread has ended.
    pub fn change(&self, change: Change, lasts: Option<Duration>) -> bool {
        self.send(EmulatorRequest::Change(change, lasts))
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.send(EmulatorRequest::Stop);
    }
}

/// The state of the thread.
pub struct Emulator {
    fabric: Fabric,
    ports: Vec<File>,
    started: Instant,
    timeline: Timeline,
    requests: Receiver<EmulatorRequest>,
    waker: Waker,
    lateness: Vec<Lateness>,
    /// How late the thread was woken from sleeps while packets flowed.
    woken: Lateness,
    /// Frames that a port did not accept.
    not_written: u64,
    /// Whether the thread has real-time priority.
    has_real_time_priority: bool,
    scratch: Vec<u8>,
}

impl Emulator {
    /// An emulator over these ports, in the order of the topology. Its time begins now.
    ///
    /// # Errors
    /// The waker cannot be made.
    pub fn new(fabric: Fabric, ports: Vec<File>, events: &[Event]) -> io::Result<(Emulator, EmulatorHandle)> {
        let (sender, requests) = channel();
        let waker = Waker::new()?;
        let lateness = fabric.links().iter().map(|_| Lateness::default()).collect();
        let emulator = Emulator {
            fabric,
            ports,
            started: Instant::now(),
            timeline: Timeline::new(events),
            requests,
            waker: waker.clone(),
            lateness,
            woken: Lateness::default(),
            not_written: 0,
            has_real_time_priority: false,
            scratch: Vec::with_capacity(FRAME_MAX),
        };
        Ok((emulator, EmulatorHandle { requests: sender, waker }))
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Carries packets until it is stopped.
    pub fn run(mut self) {
        self.has_real_time_priority = sys::schedule::set_realtime().is_ok();
        let mut busy_until = Instant::now();
        loop {
            let now = self.now();
            self.timeline.run_due(now, &mut self.fabric);
            if !self.handle_requests() {
                return;
            }
            let written = self.write_due();
            let read = self.read_ports();
            if written + read > 0 {
                busy_until = Instant::now() + BUSY;
            }
            let next = [self.fabric.next_due(), self.timeline.next()].into_iter().flatten().min();
            let now = self.now();
            let wait = next.map(|next| next.saturating_sub(now + SLACK_NS));
            if wait == Some(0) {
                continue;
            }
            let wait = wait.map(Duration::from_nanos);
            if Instant::now() < busy_until {
                self.nap(wait.unwrap_or(QUANTUM).min(QUANTUM));
            } else {
                self.wait_for_events(wait);
            }
        }
    }

    /// Sleeps while packets flow, and notes how late it is woken: packets that come in meanwhile wait that long.
    fn nap(&mut self, span: Duration) {
        let started = Instant::now();
        sys::schedule::nap(span);
        self.woken.record(started.elapsed().saturating_sub(span).as_nanos() as u64);
    }

    /// Handles requests. Returns whether to continue.
    fn handle_requests(&mut self) -> bool {
        loop {
            match self.requests.try_recv() {
                Ok(EmulatorRequest::Read(reply)) => drop(reply.send(self.reading())),
                Ok(EmulatorRequest::Change(change, lasts)) => {
                    let now = self.now();
                    self.timeline.change(now, &change, lasts, &mut self.fabric);
                }
                Ok(EmulatorRequest::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Waits for a packet, a request or the next packet that is due.
    fn wait_for_events(&self, wait: Option<Duration>) {
        let mut descriptors: Vec<PollFd<'_>> = self.ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
        descriptors.push(PollFd::new(&self.waker, PollFlags::IN));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let _ = poll(&mut descriptors, wait.as_ref());
        // A device that was deleted is always ready, and never has data.
        if descriptors.iter().any(|descriptor| descriptor.revents().contains(PollFlags::ERR)) {
            sys::schedule::nap(QUANTUM);
        }
        self.waker.clear();
    }

    fn write_due(&mut self) -> usize {
        // Twice as much as reading may add in its turn, so that due packets never pile up.
        let packets_max = 2 * BATCH * self.ports.len();
        let mut written = 0;
        while written < packets_max {
            let now = self.now();
            let Some(delivery) = self.fabric.due(now + SLACK_NS) else { break };
            if let Some(link) = delivery.link {
                self.lateness[link].record(now.saturating_sub(delivery.due));
            }
            if self.write(&delivery).is_err() {
                self.not_written += 1;
            }
            self.fabric.done(delivery);
            written += 1;
        }
        written
    }

    fn write(&mut self, delivery: &Delivery) -> rustix::io::Result<()> {
        let port = &self.ports[delivery.port];
        let (frame, shape) = self.fabric.frame(delivery);
        if let Some((damage, bit)) = delivery.damage {
            // The link has checked that the segment has a suitable bit.
            let _ = packet::damaged(frame, shape, delivery.segments.start, damage, bit, &mut self.scratch);
            rustix::io::write(port, &self.scratch)?;
        } else if delivery.segments == (0..shape.segments()) {
            rustix::io::write(port, frame)?;
        } else {
            let mut headers = [0; HEADERS_MAX];
            let (length, payload) = packet::cut(frame, shape, delivery.segments.clone(), &mut headers);
            let parts = [io::IoSlice::new(&headers[..length]), io::IoSlice::new(&frame[payload])];
            rustix::io::writev(port, &parts)?;
        }
        Ok(())
    }

    fn read_ports(&mut self) -> usize {
        let mut read = 0;
        for port in 0..self.ports.len() {
            for _ in 0..BATCH {
                let now = self.now();
                let Some(room) = self.fabric.room() else {
                    // The packet is read and dropped: in the kernel's queue it would only arrive later.
                    match rustix::io::read(&self.ports[port], &mut [0; 64]) {
                        Ok(_) => self.fabric.count_no_room(),
                        Err(_) => break,
                    }
                    continue;
                };
                match rustix::io::read(&self.ports[port], room) {
                    Ok(length) => self.fabric.arrive(now, port, length),
                    Err(_) => break,
                }
                read += 1;
            }
        }
        read
    }

    fn reading(&self) -> Reading {
        let links = self.fabric.links().iter().zip(&self.lateness);
        let now = self.now();
        let links = links.map(|(link, lateness)| LinkReading {
            counts: link.counts(),
            backlog: link.backlog(now),
            lateness: lateness.clone(),
            settings: link.settings().clone(),
        });
        let cpu = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
        let (memory, memory_peak) = self.fabric.memory();
        Reading {
            at: self.started.elapsed(),
            links: links.collect(),
            refused: self.fabric.refused(),
            woken: self.woken.clone(),
            not_written: self.not_written,
            not_read: 0,
            memory,
            memory_peak,
            cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32),
            has_real_time_priority: self.has_real_time_priority,
        }
    }
}
