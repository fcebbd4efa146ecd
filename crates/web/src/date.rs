//! Dates of HTTP and WebDAV, to and from [`Timestamp`]. Reads no clock.

use std::time::{Duration, SystemTime};

use model::Timestamp;

/// The last second of the year 9999, the last one with four digits: 9999-12-31T23:59:59Z.
const LAST_S: u64 = 253_402_300_799;

/// An HTTP date (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. Times outside 1970 to 9999, which files can
/// have and HTTP cannot express, become the nearer bound.
pub fn http(at: Timestamp) -> String {
    let seconds = u64::try_from(at.seconds).unwrap_or(0).min(LAST_S);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Parses an HTTP date in any of its three forms; `None` where it is malformed.
pub fn parse_http(text: &str) -> Option<Timestamp> {
    let at = httpdate::parse_http_date(text.trim()).ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(since.as_secs()).ok()?, nanos: 0 })
}

fn instant(at: Timestamp) -> jiff::Timestamp {
    let nanos = i32::try_from(at.nanos).unwrap_or(0);
    jiff::Timestamp::new(at.seconds, nanos).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// A date of RFC 3339 to the second, for `DAV:creationdate`; 1970 where the library cannot express the year.
pub fn rfc3339(at: Timestamp) -> String {
    format!("{:.0}", instant(Timestamp { seconds: at.seconds, nanos: 0 }))
}

/// A date of RFC 3339 to the microsecond.
pub fn rfc3339_us(at: Timestamp) -> String {
    format!("{:.6}", instant(at))
}

/// Reads a date of RFC 3339.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.trim().parse().ok()?;
    let nanos = u32::try_from(at.as_nanosecond().rem_euclid(1_000_000_000)).ok()?;
    Some(Timestamp { seconds: i64::try_from(at.as_nanosecond().div_euclid(1_000_000_000)).ok()?, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64, nanos: u32) -> Timestamp {
        Timestamp { seconds, nanos }
    }

    #[test]
    fn dates_are_written_and_parsed_as_in_the_rfcs() {
        assert_eq!(http(at(784_111_777, 5)), "Sun, 06 Nov 1994 08:49:37 GMT");
        for form in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse_http(form), Some(at(784_111_777, 0)), "{form}");
        }
        assert_eq!(parse_http("yesterday"), None);
        assert_eq!(rfc3339(at(881_085_466, 1)), "1997-12-02T17:57:46Z");
        assert_eq!(rfc3339_us(at(881_085_466, 69_473_000)), "1997-12-02T17:57:46.069473Z");
        assert_eq!(parse_rfc3339("1997-12-02T17:57:46.5+01:00"), Some(at(881_081_866, 500_000_000)));
        assert_eq!(parse_rfc3339("1997"), None);
    }

    proptest! {
        #[test]
        fn any_time_of_a_file_becomes_a_valid_date(seconds in any::<i64>(), nanos in 0u32..1_000_000_000) {
            prop_assert!(parse_http(&http(at(seconds, nanos))).is_some());
            prop_assert!(parse_rfc3339(&rfc3339(at(seconds, nanos))).is_some());
            prop_assert!(parse_rfc3339(&rfc3339_us(at(seconds, nanos))).is_some());
        }
    }
}
