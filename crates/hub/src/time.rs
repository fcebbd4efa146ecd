//! Times as the database stores them: milliseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// The time now.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// A time as text of RFC 3339, to the millisecond.
pub fn show(at: i64) -> String {
    Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |at| at.to_string())
}

/// The time of a text of RFC 3339.
pub fn parse(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        assert_eq!(show(1_500), "1970-01-01T00:00:01.5Z");
        assert_eq!(parse("1970-01-01T00:00:01.5Z"), Some(1_500));
        assert_eq!(parse("1970-01-01T01:00:01+01:00"), Some(1_000));
        assert_eq!(parse("soon"), None);
    }
}
