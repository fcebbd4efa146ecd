//! A STAMP reflector with a clock that can be set. The sites of a lab share the clock of the machine, which must not be changed.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use lab::Lab;
use probe::Stop;
use probe::stamp::clock::Reading;
use probe::stamp::{Clock, HostClock, Reflector, Trust, serve};
use sys::clock_quality::ClockQuality;

/// The machine's clock plus an offset in nanoseconds.
#[derive(Debug, Default)]
struct AdjustableClock(AtomicI64);

impl AdjustableClock {
    fn offset_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for AdjustableClock {
    fn read(&self) -> Reading {
        let reading = HostClock.read();
        Reading { real_ns: reading.real_ns + self.offset_ns(), ..reading }
    }

    fn quality(&self) -> Option<ClockQuality> {
        HostClock.quality()
    }

    fn of_kernel(&self, stamp: Duration) -> Option<i64> {
        Some(HostClock.of_kernel(stamp)? + self.offset_ns())
    }
}

/// A reflector at a site of a lab. It ends when it is dropped.
#[derive(Debug)]
pub struct ReflectorAtSite {
    clock: Arc<AdjustableClock>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl ReflectorAtSite {
    /// Starts a reflector that answers all senders on the port of STAMP.
    ///
    /// # Errors
    /// Its socket or its thread cannot be made.
    pub fn start(lab: &Lab, site: &str) -> Result<ReflectorAtSite> {
        let socket =
            lab.site(site)?.within(|| UdpSocket::bind("0.0.0.0:862"))?.context("cannot bind the port of STAMP")?;
        socket.set_nonblocking(true)?;
        let clock = Arc::<AdjustableClock>::default();
        let stop = Stop::default();
        let thread_clock = Arc::clone(&clock);
        let thread_stop = stop.clone();
        let answer = move || {
            // Packets that the reflector cannot answer appear as loss.
            let _ = serve(&socket, &thread_stop, &*thread_clock, &mut Reflector::default(), &|_| Trust::Symmetric);
        };
        let thread = std::thread::Builder::new().name("reflector".into()).spawn(answer)?;
        Ok(ReflectorAtSite { clock, stop, thread: Some(thread) })
    }

    /// Sets its clock ahead of the machine's.
    pub fn set_offset_ms(&self, milliseconds: i64) {
        self.clock.0.store(milliseconds * 1_000_000, Ordering::Relaxed);
    }
}

impl Drop for ReflectorAtSite {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}
