//! The state of one member of a set: its rate, its latency, its failures.
//!
//! Does not know: clocks (the time is an argument, in seconds), the member's name, which bytes are asked of it.

/// The least bytes of a request, if that many are left: each request costs a round trip and the head of a response.
pub(super) const PIECE_MIN: u64 = 128 << 10;
/// The most bytes of a request: they are lost where the member fails, and delayed where it becomes slow.
pub(super) const PIECE_MAX: u64 = 4 << 20;
/// The most requests in flight to one member.
const IN_FLIGHT_MAX: usize = 16;
/// The least requests in flight to one member: one is answered while the next is under way.
const IN_FLIGHT_MIN: usize = 2;

/// The interval at which a rate is measured, seconds.
const SAMPLE_S: f64 = 0.2;
/// The time constant of the average rate, seconds: a sample of that age weighs 1/e.
const MEMORY_S: f64 = 1.0;
/// The time that a piece should take, seconds: four times the latency, and at least this.
const PIECE_S: f64 = 0.4;
/// The most time that a piece should take, seconds.
const PIECE_LONGEST_S: f64 = 2.0;
/// The pause after the first failure, seconds; it doubles with each further one.
const PAUSE_S: f64 = 1.0;
/// The longest pause after a failure, seconds.
const PAUSE_LONGEST_S: f64 = 60.0;

/// One member.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    /// Bytes per second, all connections together; `None` before the first.
    rate: Option<f64>,
    /// Seconds from a request to its first byte, averaged.
    latency: Option<f64>,
    /// The least such time so far.
    min_latency: Option<f64>,
    /// Requests in flight.
    pub in_flight: usize,
    /// The time at which the present sample began.
    since: f64,
    sample: u64,
    /// Failures since a piece last came in full.
    failures: u32,
    failed_at: f64,
    paused_until: f64,
    /// The member is left out for good.
    pub is_excluded: bool,
}

impl Member {
    /// Bytes per second, where known.
    pub fn rate(&self) -> Option<f64> {
        self.rate.map(|rate| rate.max(1.0))
    }

    /// Seconds before the first byte.
    pub fn latency(&self) -> f64 {
        self.latency.unwrap_or(0.05)
    }

    /// Whether it may be asked.
    pub fn is_usable(&self, now: f64) -> bool {
        !self.is_excluded && now >= self.paused_until
    }

    /// Whether it may be asked for one more piece. A member that has just failed is asked for one at a time.
    pub fn is_free(&self, now: f64) -> bool {
        let most = if self.failures > 0 { 1 } else { self.slots() };
        self.is_usable(now) && self.in_flight < most
    }

    /// The number of pieces that fill the path to it: twice its bandwidth-delay product, so that the number grows where it limits the
    /// rate. The delay is the least so far: with a recent one, pieces that queue behind each other would call for ever more of them.
    pub fn slots(&self) -> usize {
        let (Some(rate), Some(min_latency)) = (self.rate, self.min_latency) else { return IN_FLIGHT_MIN };
        let due = (2.0 * rate * min_latency / PIECE_MAX as f64).ceil() as usize;
        (IN_FLIGHT_MIN + due).min(IN_FLIGHT_MAX)
    }

    /// The bytes of its next request.
    pub fn piece_bytes(&self) -> u64 {
        let Some(rate) = self.rate.filter(|_| self.failures == 0) else { return PIECE_MIN };
        let seconds = (4.0 * self.latency()).clamp(PIECE_S, PIECE_LONGEST_S);
        ((rate / self.slots() as f64 * seconds) as u64).clamp(PIECE_MIN, PIECE_MAX)
    }

    /// Seconds in which it would send this number of bytes if they were requested now, beside the requests in flight.
    pub fn expected_s(&self, bytes: u64) -> f64 {
        let rate = self.rate.unwrap_or(PIECE_MAX as f64).max(1.0);
        self.latency() + bytes as f64 * (self.in_flight + 1) as f64 / rate
    }

    /// Seconds in which it sends the last `bytes` of a piece that it has begun to send.
    pub fn remaining_s(&self, bytes: u64) -> f64 {
        bytes as f64 * self.in_flight.max(1) as f64 / self.rate.unwrap_or(PIECE_MAX as f64).max(1.0)
    }

    /// Notes that it is asked for a piece.
    pub fn note_request(&mut self, now: f64) {
        if self.in_flight == 0 {
            (self.since, self.sample) = (now, 0);
        }
        self.in_flight += 1;
    }

    /// Notes bytes that came; `first_after` is the latency in seconds where they are the first of a piece.
    pub fn record_bytes(&mut self, bytes: u64, first_after: Option<f64>) {
        self.sample += bytes;
        if let Some(after) = first_after {
            let late = self.latency.map_or(after, |before| before + (after - before) * 0.3);
            self.latency = Some(late);
            self.min_latency = Some(self.min_latency.map_or(after, |min_latency| min_latency.min(after)));
        }
    }

    /// Notes that a request has ended; `in_full` is the time at which it was made, where all its bytes came. Bytes that were requested
    /// before a failure may come from a buffer: they do not show that the member works.
    pub fn end_request(&mut self, now: f64, in_full: Option<f64>) {
        if self.in_flight == 1 || self.rate.is_none() {
            self.measure_rate(now, 0.0);
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if in_full.is_some_and(|requested_at| requested_at > self.failed_at) {
            self.failures = 0;
        }
    }

    /// Measures the rate, if the interval has passed.
    pub fn tick(&mut self, now: f64) {
        if self.in_flight > 0 {
            self.measure_rate(now, SAMPLE_S);
        }
    }

    fn measure_rate(&mut self, now: f64, least: f64) {
        let took = now - self.since;
        if took < least.max(1e-4) || self.rate.is_none() && self.sample == 0 {
            return;
        }
        let seen = self.sample as f64 / took;
        let weight = 1.0 - (-took / MEMORY_S).exp();
        self.rate = Some(self.rate.map_or(seen, |rate| rate + (seen - rate) * weight));
        (self.since, self.sample) = (now, 0);
    }

    /// Notes a failure that may pass: the member is paused, at least for the time that it asks for.
    pub fn note_failure(&mut self, now: f64, requested_pause_s: Option<f64>) {
        // Requests that were in flight together fail together, and count as one failure.
        if now < self.paused_until {
            return;
        }
        let pause = (PAUSE_S * f64::from(1_u32 << self.failures.min(10))).min(PAUSE_LONGEST_S);
        self.failures += 1;
        self.failed_at = now;
        self.paused_until = now + pause.max(requested_pause_s.unwrap_or(0.0));
    }

    /// Whether it has failed, and completed no request since.
    pub fn is_doubtful(&self) -> bool {
        self.failures > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_double_up_to_a_minute() {
        let (mut member, mut now) = (Member::default(), 0.0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            member.note_failure(now, None);
            member.note_failure(now, None);
            pauses.push(member.paused_until - now);
            now = member.paused_until;
        }
        assert_eq!(pauses, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        member.note_request(now);
        assert!(!member.is_free(now), "a member that has failed gets one request at a time");
        member.end_request(now, Some(now - 200.0));
        assert!(member.is_doubtful(), "a request from before the failure proves nothing");
        member.note_request(now);
        member.end_request(now, Some(now));
        member.note_failure(now, Some(7.0));
        assert!(!member.is_usable(now + 6.9) && member.is_usable(now + 7.1));
    }

    #[test]
    fn requests_in_flight_grow_with_the_product_of_rate_and_delay() {
        let mut member = Member { rate: Some(1e6), min_latency: Some(0.01), latency: Some(0.01), ..Member::default() };
        assert_eq!((member.slots(), member.piece_bytes()), (3, PIECE_MIN.max(133_333)));
        member.rate = Some(125e6);
        (member.min_latency, member.latency) = (Some(0.3), Some(0.3));
        assert_eq!((member.slots(), member.piece_bytes()), (IN_FLIGHT_MAX, PIECE_MAX));
        // A queue that these requests make does not add to the delay.
        member.rate = Some(25e6);
        let slots = member.slots();
        member.record_bytes(1, Some(5.0));
        assert_eq!((slots, member.slots()), (6, 6));
    }

    #[test]
    fn the_rate_of_a_member_that_sends_nothing_falls() {
        let mut member = Member { rate: Some(1e6), ..Member::default() };
        member.note_request(0.0);
        (1..=20).for_each(|step| member.tick(f64::from(step) * 0.25));
        assert!(member.rate().unwrap() < 1e5, "{:?}", member.rate());
    }
}
