//! The clock of this host.

use std::io;
use std::time::Duration;

use sys::clock_quality::ClockQuality;

use super::Diagnosis;

/// An error of the clock from which tokens and one-way delays are wrong.
const ERROR_MAX: Duration = Duration::from_secs(1);

/// Judges the clock: tokens, certificates and one-way delays depend on it.
pub fn clock(quality: io::Result<ClockQuality>) -> Diagnosis {
    let remedy =
        "run chrony or systemd-timesyncd; `chronyc tracking` or `timedatectl timesync-status` says what it hears";
    match quality {
        Err(error) => Diagnosis::unknown("clock", format!("the kernel does not say how good it is: {error}"), remedy),
        Ok(quality) if !quality.synchronised => Diagnosis::warning(
            "clock",
            "nothing synchronises it: tokens may count as expired, and one-way delays are wrong",
            remedy,
        ),
        Ok(quality) if quality.error > ERROR_MAX => {
            let error = quality.error.as_secs_f64();
            Diagnosis::warning("clock", format!("it may be wrong by {error:.1} s"), remedy)
        }
        Ok(quality) => Diagnosis::well(
            "clock",
            format!("synchronised, wrong by {:.1} ms at most", quality.error.as_secs_f64() * 1e3),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    #[test]
    fn a_clock_without_a_reference_or_with_a_large_error_draws_a_warning() {
        let clock = |synchronised, ms| {
            super::clock(Ok(ClockQuality { synchronised, error: Duration::from_millis(ms), ..ClockQuality::default() }))
        };
        assert_eq!(clock(true, 3).status, CheckStatus::Well);
        assert_eq!(clock(false, 3).status, CheckStatus::Warning);
        assert!(clock(true, 2_000).found.contains("2.0 s"));
        assert_eq!(super::clock(Err(io::Error::other("a filter"))).status, CheckStatus::Unknown);
    }
}
