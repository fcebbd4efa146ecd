//! A STAMP reflector whose clock can be set: sites of a lab share the clock of the machine, which must not be changed.

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
struct SetClock(AtomicI64);

impl SetClock {
    fn ahead_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for SetClock {
    fn read(&self) -> Reading {
        let reading = HostClock.read();
        Reading { real_ns: reading.real_ns + self.ahead_ns(), ..reading }
    }

    fn quality(&self) -> Option<ClockQuality> {
        HostClock.quality()
    }

    fn of_kernel(&self, stamp: Duration) -> Option<i64> {
        Some(HostClock.of_kernel(stamp)? + self.ahead_ns())
    }
}

/// A reflector at a site of a lab. It ends when it is dropped.
#[derive(Debug)]
pub struct ReflectorAtSite {
    clock: Arc<SetClock>,
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
        let (clock, stop) = (Arc::<SetClock>::default(), Stop::default());
        let (its_clock, its_stop) = (Arc::clone(&clock), stop.clone());
        let answer = move || {
            // Packets that it could not answer show as loss.
            let _ = serve(&socket, &its_stop, &*its_clock, &mut Reflector::default(), &|_| Trust::Symmetric);
        };
        let thread = std::thread::Builder::new().name("reflector".into()).spawn(answer)?;
        Ok(ReflectorAtSite { clock, stop, thread: Some(thread) })
    }

    /// Sets its clock this many milliseconds ahead of the machine's.
    pub fn set_ahead(&self, milliseconds: i64) {
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
