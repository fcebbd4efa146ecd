//! Real-time priority, processor affinity and exact sleeps of a thread.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{
    ClockId, CpuSet, Timespec, clock_nanosleep_relative, sched_getaffinity, sched_setaffinity, set_current_timer_slack,
};

/// Lets this thread run before all ordinary ones (SCHED_FIFO, lowest real-time priority), and makes its sleeps end on time instead of up
/// to 50 µs late.
///
/// # Errors
/// No permission (CAP_SYS_NICE, or RLIMIT_RTPRIO). Sleeps are exact nevertheless.
pub fn set_realtime() -> io::Result<()> {
    set_current_timer_slack(NonZeroU64::new(1))?;
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is this thread; the parameters are read during the call.
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the calling thread may run on a processor; an operator may reserve processors (taskset(1), `CPUAffinity=`).
pub fn may_run_on(processor: u32) -> bool {
    let at = processor as usize;
    at < CpuSet::MAX_CPU && sched_getaffinity(None).is_ok_and(|allowed| allowed.is_set(at))
}

/// Lets this thread run only on one processor.
///
/// # Errors
/// There is no such processor, or this process may not use it.
pub fn run_on(processor: u32) -> io::Result<()> {
    let mut only = CpuSet::new();
    let at = processor as usize;
    if at >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    only.set(at);
    Ok(sched_setaffinity(None, &only)?)
}

/// Sleeps for a time, or until a signal arrives.
pub fn nap(span: Duration) {
    let nanos = i64::from(span.subsec_nanos());
    let request = Timespec { tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX), tv_nsec: nanos };
    let _ = clock_nanosleep_relative(ClockId::Monotonic, &request);
}
