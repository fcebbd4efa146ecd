//! The state of one member of a set: its rate, its latency, its failures.
//!
//! Does not know: clocks (the time is an argument, in seconds), the member's name, which bytes are asked of it.

/// The least bytes of a request, if so many are left: each request costs a round trip and the head of a response.
pub(super) const PIECE_MIN: u64 = 128 << 10;
/// The most bytes of a request: they are lost where the member dies, and waited for where it slows down.
pub(super) const PIECE_MAX: u64 = 4 << 20;
/// The most pieces that one member has on their way.
const ON_WAY_MAX: usize = 16;
/// The least pieces that one member has on their way: one arrives while the next is asked for.
const ON_WAY_MIN: usize = 2;

/// The interval at which a rate is measured, seconds.
const SAMPLE_S: f64 = 0.2;
/// The time constant of the average rate, seconds: a sample of that age weighs 1/e.
const MEMORY_S: f64 = 1.0;
/// The time that a piece should take, seconds: at least this, and at least four times the latency up to the longest.
const PIECE_S: f64 = 0.4;
const PIECE_LONGEST_S: f64 = 2.0;
/// Pauses after failures: the first, and the longest, seconds.
const PAUSE_S: f64 = 1.0;
const PAUSE_LONGEST_S: f64 = 60.0;

/// One member.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    /// Bytes per second, all connections together; `None` until some came.
    rate: Option<f64>,
    /// Seconds from a request to its first byte, averaged.
    latency: Option<f64>,
    /// The least such time so far.
    nearest: Option<f64>,
    /// Pieces on their way.
    pub on_way: usize,
    /// The time at which the present sample began.
    since: f64,
    sample: u64,
    /// Failures since a piece last came in full.
    failures: u32,
    fell: f64,
    paused_until: f64,
    /// The member is left out for good.
    pub gone: bool,
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
        !self.gone && now >= self.paused_until
    }

    /// Whether it may be asked for one more piece. A member that has just failed is asked for one at a time.
    pub fn is_free(&self, now: f64) -> bool {
        let most = if self.failures > 0 { 1 } else { self.slots() };
        self.is_usable(now) && self.on_way < most
    }

    /// The number of pieces that fill the path to it: twice its bandwidth-delay product, so that the number grows where it limits the
    /// rate. The delay is the least so far: with a recent one, pieces that queue behind each other would call for ever more of them.
    pub fn slots(&self) -> usize {
        let (Some(rate), Some(nearest)) = (self.rate, self.nearest) else { return ON_WAY_MIN };
        let due = (2.0 * rate * nearest / PIECE_MAX as f64).ceil() as usize;
        (ON_WAY_MIN + due).min(ON_WAY_MAX)
    }

    /// The bytes of its next request.
    pub fn piece(&self) -> u64 {
        let Some(rate) = self.rate.filter(|_| self.failures == 0) else { return PIECE_MIN };
        let seconds = (4.0 * self.latency()).clamp(PIECE_S, PIECE_LONGEST_S);
        ((rate / self.slots() as f64 * seconds) as u64).clamp(PIECE_MIN, PIECE_MAX)
    }

    /// Seconds in which it would bring so many bytes if it were asked for them now, beside its pieces on their way.
    pub fn expected(&self, bytes: u64) -> f64 {
        let rate = self.rate.unwrap_or(PIECE_MAX as f64).max(1.0);
        self.latency() + bytes as f64 * (self.on_way + 1) as f64 / rate
    }

    /// Seconds in which it brings so many more bytes of a piece that has begun to come.
    pub fn rest(&self, bytes: u64) -> f64 {
        bytes as f64 * self.on_way.max(1) as f64 / self.rate.unwrap_or(PIECE_MAX as f64).max(1.0)
    }

    /// Notes that it is asked for a piece.
    pub fn asked(&mut self, now: f64) {
        if self.on_way == 0 {
            (self.since, self.sample) = (now, 0);
        }
        self.on_way += 1;
    }

    /// Notes bytes that came; `first_after` is the latency in seconds where they are the first of a piece.
    pub fn brought(&mut self, bytes: u64, first_after: Option<f64>) {
        self.sample += bytes;
        if let Some(after) = first_after {
            let late = self.latency.map_or(after, |before| before + (after - before) * 0.3);
            self.latency = Some(late);
            self.nearest = Some(self.nearest.map_or(after, |nearest| nearest.min(after)));
        }
    }

    /// Notes that a piece is no longer on its way; `in_full` is the time of its request where it came in full. A piece that was asked
    /// for before a failure may come from a buffer: it does not show that the member works.
    pub fn over(&mut self, now: f64, in_full: Option<f64>) {
        if self.on_way == 1 || self.rate.is_none() {
            self.look(now, 0.0);
        }
        self.on_way = self.on_way.saturating_sub(1);
        if in_full.is_some_and(|asked| asked > self.fell) {
            self.failures = 0;
        }
    }

    /// Measures the rate, if the interval has passed.
    pub fn tick(&mut self, now: f64) {
        if self.on_way > 0 {
            self.look(now, SAMPLE_S);
        }
    }

    fn look(&mut self, now: f64, least: f64) {
        let took = now - self.since;
        if took < least.max(1e-4) || self.rate.is_none() && self.sample == 0 {
            return;
        }
        let seen = self.sample as f64 / took;
        let weight = 1.0 - (-took / MEMORY_S).exp();
        self.rate = Some(self.rate.map_or(seen, |rate| rate + (seen - rate) * weight));
        (self.since, self.sample) = (now, 0);
    }

    /// Notes a failure that may pass: the member is paused, at least for as long as it asks.
    pub fn stumbled(&mut self, now: f64, asked: Option<f64>) {
        // Pieces that were on their way together fail together, and count as one failure.
        if now < self.paused_until {
            return;
        }
        let pause = (PAUSE_S * f64::from(1_u32 << self.failures.min(10))).min(PAUSE_LONGEST_S);
        self.failures += 1;
        self.fell = now;
        self.paused_until = now + pause.max(asked.unwrap_or(0.0));
    }

    /// Whether it has failed, and brought nothing in full since.
    pub fn is_doubtful(&self) -> bool {
        self.failures > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_minute() {
        let (mut member, mut now) = (Member::default(), 0.0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            member.stumbled(now, None);
            member.stumbled(now, None);
            pauses.push(member.paused_until - now);
            now = member.paused_until;
        }
        assert_eq!(pauses, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        member.asked(now);
        assert!(!member.is_free(now), "who has failed is asked for one piece");
        member.over(now, Some(now - 200.0));
        assert!(member.is_doubtful(), "what was on its way when it failed proves nothing");
        member.asked(now);
        member.over(now, Some(now));
        member.stumbled(now, Some(7.0));
        assert!(!member.is_usable(now + 6.9) && member.is_usable(now + 7.1));
    }

    #[test]
    fn pieces_on_their_way_grow_with_the_product_of_rate_and_delay() {
        let mut member = Member { rate: Some(1e6), nearest: Some(0.01), latency: Some(0.01), ..Member::default() };
        assert_eq!((member.slots(), member.piece()), (3, PIECE_MIN.max(133_333)));
        member.rate = Some(125e6);
        (member.nearest, member.latency) = (Some(0.3), Some(0.3));
        assert_eq!((member.slots(), member.piece()), (ON_WAY_MAX, PIECE_MAX));
        // A queue of our own making does not add to it.
        member.rate = Some(25e6);
        let slots = member.slots();
        member.brought(1, Some(5.0));
        assert_eq!((slots, member.slots()), (6, 6));
    }

    #[test]
    fn who_brings_nothing_is_slow() {
        let mut member = Member { rate: Some(1e6), ..Member::default() };
        member.asked(0.0);
        (1..=20).for_each(|step| member.tick(f64::from(step) * 0.25));
        assert!(member.rate().unwrap() < 1e5, "{:?}", member.rate());
    }
}
