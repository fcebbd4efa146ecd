//! The time of the wall clock, in the forms that files, grants and logs use.

use std::time::{SystemTime, UNIX_EPOCH};

use model::Timestamp;

/// The time, in the form of file times.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

/// The time in seconds since 1970, as grants and tokens state it.
pub(crate) fn unix_seconds() -> i64 {
    now().seconds
}

/// The time in microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let now = now();
    now.seconds.unsigned_abs() * 1_000_000 + u64::from(now.nanos / 1000)
}

/// The time as text (RFC 3339).
pub(crate) fn now_text() -> String {
    web::date::rfc3339_us(now())
}
