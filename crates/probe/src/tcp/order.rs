//! The bounds of an order for a TCP test.

use model::v1::probe::tcp::Order;

use crate::error::{Error, Result};

/// Most streams of a test in each direction.
pub(super) const STREAMS_MAX: u32 = 128;
/// The longest test, seconds: a day, as in iperf3.
const SECONDS_MAX: f64 = 86_400.0;
const BLOCK_MIN: u32 = 1;
const BLOCK_MAX: u32 = 16 << 20;
/// The largest window that TCP can express (RFC 7323); the kernel's limits are lower.
const WINDOW_MAX: u64 = 2 << 30;
/// Least (RFC 9293) and most payload bytes of a TCP segment.
const MSS: std::ops::RangeInclusive<u32> = 88..=65_483;

/// Checks the bounds of an order.
///
/// # Errors
/// [`Error::Order`], which names the value and the bounds.
pub fn check(order: &Order) -> Result<()> {
    let wrong = |what: String| Err(Error::Order(what));
    if !(1..=STREAMS_MAX).contains(&order.streams) {
        return wrong(format!("{} streams: a test has 1 to {STREAMS_MAX} of them", order.streams));
    }
    if order.bytes == 0 && !(order.seconds >= 0.1 && order.seconds <= SECONDS_MAX) {
        return wrong(format!("{} s: a test lasts 0.1 s to a day, or has --bytes", order.seconds));
    }
    if order.bytes > 0 && order.seconds != 0.0 {
        return wrong("a test ends after seconds or after bytes, not after both".into());
    }
    if order.bytes > 0 && order.bytes < u64::from(order.streams) {
        return wrong(format!("{} bytes are less than one for each of {} streams", order.bytes, order.streams));
    }
    if !(0.0..=60.0).contains(&order.omit_s) {
        return wrong(format!("an omitted start of {} s: it has 0 to 60 s", order.omit_s));
    }
    if !(0.1..=60.0).contains(&order.interval_s) {
        return wrong(format!("an interval of {} s: 0.1 to 60 s", order.interval_s));
    }
    if !(BLOCK_MIN..=BLOCK_MAX).contains(&order.block_bytes) {
        return wrong(format!("blocks of {} bytes: {BLOCK_MIN} to {BLOCK_MAX}", order.block_bytes));
    }
    if order.window_bytes > WINDOW_MAX {
        return wrong(format!("a window of {} bytes: {WINDOW_MAX} at most", order.window_bytes));
    }
    if order.mss_bytes > 0 && !MSS.contains(&order.mss_bytes) {
        return wrong(format!("segments of {} bytes: {} to {}", order.mss_bytes, MSS.start(), MSS.end()));
    }
    if order.dscp > 63 {
        return wrong(format!("DSCP {}: 0 to 63", order.dscp));
    }
    let cores = order.near_cores.len().max(order.far_cores.len());
    if cores > 1024 || order.congestion.as_ref().is_some_and(|name| name.len() > 15 || name.is_empty()) {
        return wrong(
            "a congestion control has a name of 1 to 15 bytes, and an end runs on at most 1024 processors".into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_refused_order_names_the_bounds() {
        let order = Order::default;
        assert!(check(&order()).is_ok());
        let refusal = |order: Order| check(&order).unwrap_err().to_string();
        assert!(refusal(Order { streams: 0, ..order() }).contains("1 to 128"));
        assert!(refusal(Order { seconds: f64::NAN, ..order() }).contains("0.1 s to a day"));
        assert!(refusal(Order { seconds: 0.0, ..order() }).contains("--bytes"));
        assert!(refusal(Order { bytes: 5, ..order() }).contains("not after both"));
        assert!(refusal(Order { omit_s: f64::INFINITY, ..order() }).contains("0 to 60"));
        assert!(refusal(Order { mss_bytes: 10, ..order() }).contains("88"));
        assert!(refusal(Order { dscp: 64, ..order() }).contains("63"));
        assert!(check(&Order { bytes: 1 << 40, seconds: 0.0, ..order() }).is_ok());
    }

    proptest! {
        #[test]
        fn an_order_that_passes_the_check_can_be_run(streams: u32, seconds: f64, bytes: u64, omit_s: f64, interval_s: f64) {
            let order = Order { streams, seconds, bytes, omit_s, interval_s, ..Order::default() };
            if check(&order).is_ok() {
                let planned = super::super::planned(&order);
                prop_assert_eq!(planned.len() as u32, streams);
                let sum = planned.iter().try_fold(0u64, |sum, stream| sum.checked_add(stream.quota_bytes));
                prop_assert!(bytes == 0 || sum == Some(bytes));
                prop_assert!(std::time::Duration::try_from_secs_f64(seconds + omit_s + interval_s).is_ok());
            }
        }
    }
}
