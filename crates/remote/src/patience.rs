//! How long a request that fails for reasons that pass is tried again: a little at first, longer later, as long as the server
//! asks for, and not for ever: a job has a patience of its own.

use std::time::{Duration, Instant};

use crate::failed::Failed;

/// The first pause; each is twice the one before.
const FIRST: Duration = Duration::from_millis(250);
/// Tries of what a server says is broken in it (500): it may be, for a moment, and is mostly so for this one request.
const BROKEN_TRIES: u32 = 3;
/// The longest.
const LONGEST: Duration = Duration::from_secs(15);
/// The longest pause that a server asks for and that is waited out within a request. Whoever waits for the answer takes half a
/// minute of silence for a broken line; a job can wait longer than that, and says that it does.
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

    /// The pause before the next try; none where there is none.
    fn pause(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let pause = asked.unwrap_or(self.next).max(self.next.min(FIRST));
        self.next = (self.next * 2).min(LONGEST);
        (pause <= ASKED_LONGEST && self.began.elapsed() + pause <= self.within).then_some(pause)
    }

    /// Whether this is not the first try.
    pub fn is_repeated(&self) -> bool {
        self.tries > 0
    }

    /// Waits before the next try, or gives the failure back.
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

/// What `Retry-After` says (RFC 9110, section 10.2.3): seconds, or a date.
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
