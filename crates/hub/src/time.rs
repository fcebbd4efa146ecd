//! Times as the database keeps them: milliseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Now.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// RFC 3339, to the millisecond.
pub fn show(at: i64) -> String {
    Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |at| at.to_string())
}

/// A time of RFC 3339.
pub fn parse(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_shown() {
        assert_eq!(show(1_500), "1970-01-01T00:00:01.5Z");
        assert_eq!(parse("1970-01-01T00:00:01.5Z"), Some(1_500));
        assert_eq!(parse("1970-01-01T01:00:01+01:00"), Some(1_000));
        assert_eq!(parse("soon"), None);
    }
}
