//! Pauses between the tries of one request that fails for a passing reason. They double up to a limit, and are at least as long
//! as the server asks for. The tries end after a time, because the transfer has retries of its own.

use std::time::{Duration, Instant};

use crate::request_error::RequestError;

/// The first pause; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Tries of a request that the server answers with 500. Some of these failures pass; most belong to that one request.
const TRIES_AFTER_500: u32 = 3;
/// The longest pause, unless the server asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// The longest pause that a server may ask for within a request. The caller takes half a minute of silence for a broken
/// connection; a transfer can wait longer, and reports that it waits.
const SERVER_PAUSE_MAX: Duration = Duration::from_secs(20);

/// The tries of one request.
#[derive(Debug)]
pub(crate) struct Retries {
    began: Instant,
    within: Duration,
    next: Duration,
    tries: u32,
}

impl Retries {
    pub fn new(within: Duration) -> Retries {
        Retries { began: Instant::now(), within, next: FIRST_PAUSE, tries: 0 }
    }

    /// The pause before the next try; `None` where no further try is made.
    fn pause(&mut self, requested: Option<Duration>) -> Option<Duration> {
        let pause = requested.unwrap_or(self.next).max(self.next.min(FIRST_PAUSE));
        self.next = (self.next * 2).min(PAUSE_MAX);
        (pause <= SERVER_PAUSE_MAX && self.began.elapsed() + pause <= self.within).then_some(pause)
    }

    /// Whether the request has been tried before.
    pub fn is_repeated(&self) -> bool {
        self.tries > 0
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// Returns `failed` where no further try is made.
    pub fn wait(&mut self, failed: RequestError) -> Result<(), RequestError> {
        if !failed.may_retry || failed.status == Some(500) && self.tries + 1 >= TRIES_AFTER_500 {
            return Err(failed);
        }
        match self.pause(failed.pause) {
            Some(pause) => {
                self.tries += 1;
                std::thread::sleep(pause);
                Ok(())
            }
            None => Err(failed),
        }
    }
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date.
pub(crate) fn retry_after(value: Option<&str>) -> Option<Duration> {
    let value = value?.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let at = web::date::parse_http(value)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(Duration::from_secs(u64::try_from(at.seconds).ok()?.saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let mut retries = Retries::new(Duration::from_secs(60));
        let pauses: Vec<_> = (0..7).filter_map(|_| retries.pause(None)).map(|p| p.as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 15000]);
        assert_eq!(retries.pause(Some(Duration::from_secs(20))), Some(Duration::from_secs(20)));
        assert_eq!(retries.pause(Some(Duration::from_secs(21))), None, "longer than one request may be silent");
        assert_eq!(
            Retries::new(FIRST_PAUSE).pause(Some(Duration::from_secs(1))),
            None,
            "longer than the tries may take"
        );
        assert!(retries.pause(Some(Duration::ZERO)).is_some_and(|p| !p.is_zero()), "never at once");
    }

    #[test]
    fn a_lasting_failure_is_not_tried_again() {
        let mut retries = Retries::new(Duration::from_secs(60));
        assert!(retries.wait(RequestError::protocol_error("no")).is_err());
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        assert_eq!(retry_after(Some(" 7 ")), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(Some("Sun, 06 Nov 1994 08:49:37 GMT")), Some(Duration::ZERO));
        assert_eq!(retry_after(Some("soon")), None);
        assert_eq!(retry_after(Some("-1")), None);
    }
}
