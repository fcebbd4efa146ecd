//! The quality of this host's clock, as the program that synchronises it has reported it to the kernel (adjtimex(2)).

use std::io;
use std::time::Duration;

/// The clock of this host at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockQuality {
    /// An external reference synchronises the clock to UTC, and has not been silent for too long (`STA_UNSYNC` is clear).
    pub synchronised: bool,
    /// The largest possible error of the clock. The kernel's `maxerror`: half the round trip to the reference clock, plus the drift since
    /// then; not `esterror`, which ignores that forward and reverse delay may differ. It has no meaning where the clock is not
    /// synchronised.
    pub error: Duration,
    /// The correction that remains to be made, nanoseconds.
    pub offset_ns: i64,
    /// The rate at which the clock is sped up, parts per million.
    pub frequency_ppm: f64,
}

/// The least error where the program that synchronises the clock gives no estimate of its own. Simple clients (SNTP) report an error of
/// zero as soon as they have set the clock; over the Internet they are right within some tens of milliseconds.
const ERROR_UNSTATED: Duration = Duration::from_millis(50);

/// Reads the quality of the clock from the kernel.
///
/// # Errors
/// The call is forbidden (a container's filter). The quality of the clock is then unknown.
pub fn read() -> io::Result<ClockQuality> {
    // SAFETY: all fields are integers, for which zero is a value; `modes` of zero makes the call a pure read.
    let mut raw: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure, which outlives the call.
    let state = unsafe { libc::adjtimex(&raw mut raw) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(judge(&raw))
}

fn judge(raw: &libc::timex) -> ClockQuality {
    let micros = |us: libc::c_long| Duration::from_micros(us.unsigned_abs());
    // The unit is nanoseconds where the synchronising program has chosen it, else microseconds.
    let unit = if raw.status & libc::STA_NANO != 0 { 1 } else { 1_000 };
    let offset_ns = raw.offset.saturating_mul(unit);
    let least = if raw.esterror == 0 { ERROR_UNSTATED } else { Duration::ZERO };
    ClockQuality {
        synchronised: raw.status & libc::STA_UNSYNC == 0,
        error: micros(raw.maxerror).max(Duration::from_nanos(offset_ns.unsigned_abs())).max(least),
        offset_ns,
        // 16 bits after the point.
        frequency_ppm: raw.freq as f64 / 65_536.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(status: i32, maxerror: i64, esterror: i64, offset: i64) -> libc::timex {
        // SAFETY: integers only.
        let mut raw: libc::timex = unsafe { std::mem::zeroed() };
        raw.status = status;
        raw.maxerror = maxerror;
        raw.esterror = esterror;
        raw.offset = offset;
        raw.freq = -65_536 * 3 / 2;
        raw
    }

    #[test]
    fn the_largest_error_of_the_kernel_counts() {
        let synchronised = judge(&raw(libc::STA_PLL | libc::STA_NANO, 700, 20, -3_000));
        assert!(synchronised.synchronised);
        assert_eq!((synchronised.error, synchronised.offset_ns), (Duration::from_micros(700), -3_000));
        assert_eq!(synchronised.frequency_ppm, -1.5);
        let off = judge(&raw(libc::STA_PLL, 10, 5, 40_000));
        assert_eq!(off.error, Duration::from_millis(40), "microseconds, and more than the error that is claimed");
        let simple = judge(&raw(0, 0, 0, 0));
        assert_eq!((simple.synchronised, simple.error), (true, ERROR_UNSTATED));
        assert!(!judge(&raw(libc::STA_UNSYNC, 16_000_000, 16_000_000, 0)).synchronised);
    }

    #[test]
    fn the_clock_quality_of_this_host_is_read_or_forbidden() {
        match read() {
            Ok(quality) => assert!(quality.synchronised || quality.error > Duration::ZERO),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
    }
}
