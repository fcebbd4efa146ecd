//! Pauses between the tries of one request that fails for a passing reason. They double up to a limit, and are at least as long
//! as the server asks for. The tries end after a time: the transfer above has retries of its own.

use std::time::{Duration, Instant};

use crate::failed::Failed;

/// The first pause; each later one is twice as long.
const FIRST: Duration = Duration::from_millis(250);
/// Tries of a request that the server answers with 500. Some of these failures pass; most belong to that one request.
const BROKEN_TRIES: u32 = 3;
/// The longest pause of our own.
const LONGEST: Duration = Duration::from_secs(15);
/// The longest pause that a server may ask for within a request. The caller takes half a minute of silence for a broken
/// connection; a transfer can wait longer, and reports that it waits.
const ASKED_LONGEST: Duration = Duration::from_secs(20);

/// The tries of one request.
#[derive(Debug)]
pub(crate) struct Patience {
    began: Instant,
    within: Duration,
    next: Duration,
    tries: u32,
}

impl Patience {
    pub fn new(within: Duration) -> Patience {
        Patience { began: Instant::now(), within, next: FIRST, tries: 0 }
    }

    /// The pause before the next try; `None` where no further try is made.
    fn pause(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let pause = asked.unwrap_or(self.next).max(self.next.min(FIRST));
        self.next = (self.next * 2).min(LONGEST);
        (pause <= ASKED_LONGEST && self.began.elapsed() + pause <= self.within).then_some(pause)
    }

    /// Whether the request has been tried before.
    pub fn is_repeated(&self) -> bool {
        self.tries > 0
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// Returns `failed` where no further try is made.
    pub fn wait(&mut self, failed: Failed) -> Result<(), Failed> {
        if !failed.again || failed.status == Some(500) && self.tries + 1 >= BROKEN_TRIES {
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
        let mut patience = Patience::new(Duration::from_secs(60));
        let pauses: Vec<_> = (0..7).filter_map(|_| patience.pause(None)).map(|p| p.as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 15000]);
        assert_eq!(patience.pause(Some(Duration::from_secs(20))), Some(Duration::from_secs(20)));
        assert_eq!(patience.pause(Some(Duration::from_secs(21))), None, "longer than one request may be silent");
        assert_eq!(Patience::new(FIRST).pause(Some(Duration::from_secs(1))), None, "longer than there is patience");
        assert!(patience.pause(Some(Duration::ZERO)).is_some_and(|p| !p.is_zero()), "never at once");
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        let mut patience = Patience::new(Duration::from_secs(60));
        assert!(patience.wait(Failed::peer("no")).is_err());
    }

    #[test]
    fn servers_say_when() {
        assert_eq!(retry_after(Some(" 7 ")), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(Some("Sun, 06 Nov 1994 08:49:37 GMT")), Some(Duration::ZERO));
        assert_eq!(retry_after(Some("soon")), None);
        assert_eq!(retry_after(Some("-1")), None);
    }
}
