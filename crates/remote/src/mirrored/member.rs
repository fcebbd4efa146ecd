//! What is known of one member of a set: how fast it is, how long it takes to begin, how often it failed.
//!
//! Does not know: clocks (it is told the time, in seconds), who it is, which bytes are asked of it.

/// Bytes that a member is asked for at least, if so many are left: an answer has a head, and a request a round trip.
pub(super) const PIECE_MIN: u64 = 128 << 10;
/// And at most: what is lost where it dies, and what others wait for where it slows down.
pub(super) const PIECE_MAX: u64 = 4 << 20;
/// Pieces that one member has on their way at most.
const ON_WAY_MAX: usize = 16;
/// Pieces that it has on their way at least: one arrives while the next is asked for.
const ON_WAY_MIN: usize = 2;

/// A rate is looked at so often, seconds.
const SAMPLE_S: f64 = 0.2;
/// What was seen so long ago counts a third, seconds.
const MEMORY_S: f64 = 1.0;
/// A piece should take about so long, and at least four times what passes before its first byte, seconds.
const PIECE_S: f64 = 0.4;
const PIECE_LONGEST_S: f64 = 2.0;
/// Pauses after failures: the first, and the longest, seconds.
const PAUSE_S: f64 = 1.0;
const PAUSE_LONGEST_S: f64 = 60.0;

/// One member.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    /// Bytes per second, all its lines together; none until some came.
    rate: Option<f64>,
    /// Seconds from a question to its first byte: as of late, and the least there ever was.
    latency: Option<f64>,
    nearest: Option<f64>,
    /// Pieces on their way.
    pub on_way: usize,
    /// Since when the bytes of this sample are counted.
    since: f64,
    sample: u64,
    /// Failures since something came in full.
    failures: u32,
    fell: f64,
    paused_until: f64,
    /// For good.
    pub gone: bool,
}

impl Member {
    /// Bytes per second, where that is known.
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

    /// Whether it may be asked for one more piece. Who has just failed is asked for one.
    pub fn is_free(&self, now: f64) -> bool {
        let most = if self.failures > 0 { 1 } else { self.slots() };
        self.is_usable(now) && self.on_way < most
    }

    /// Pieces that fill the path to it: twice its bandwidth-delay product, so that a rate that is held back by the number of
    /// lines grows with it. By the least delay there was: by that of late, a line on which our own pieces wait for each other
    /// would be given ever more of them.
    pub fn slots(&self) -> usize {
        let (Some(rate), Some(nearest)) = (self.rate, self.nearest) else { return ON_WAY_MIN };
        let due = (2.0 * rate * nearest / PIECE_MAX as f64).ceil() as usize;
        (ON_WAY_MIN + due).min(ON_WAY_MAX)
    }

    /// How many bytes it should be asked for at once.
    pub fn piece(&self) -> u64 {
        let Some(rate) = self.rate.filter(|_| self.failures == 0) else { return PIECE_MIN };
        let seconds = (4.0 * self.latency()).clamp(PIECE_S, PIECE_LONGEST_S);
        ((rate / self.slots() as f64 * seconds) as u64).clamp(PIECE_MIN, PIECE_MAX)
    }

    /// Seconds until so many bytes would be here if it were asked for them now, beside all that it has on its way.
    pub fn expected(&self, bytes: u64) -> f64 {
        let rate = self.rate.unwrap_or(PIECE_MAX as f64).max(1.0);
        self.latency() + bytes as f64 * (self.on_way + 1) as f64 / rate
    }

    /// Seconds for so many bytes on a line that has begun.
    pub fn rest(&self, bytes: u64) -> f64 {
        bytes as f64 * self.on_way.max(1) as f64 / self.rate.unwrap_or(PIECE_MAX as f64).max(1.0)
    }

    /// It is asked for a piece.
    pub fn asked(&mut self, now: f64) {
        if self.on_way == 0 {
            (self.since, self.sample) = (now, 0);
        }
        self.on_way += 1;
    }

    /// Bytes came, the first of a piece after so many seconds.
    pub fn brought(&mut self, bytes: u64, first_after: Option<f64>) {
        self.sample += bytes;
        if let Some(after) = first_after {
            let late = self.latency.map_or(after, |before| before + (after - before) * 0.3);
            self.latency = Some(late);
            self.nearest = Some(self.nearest.map_or(after, |nearest| nearest.min(after)));
        }
    }

    /// A piece is no longer on its way. Since when it was, where it came in full: what was asked for before a failure, and was in
    /// some buffer then, proves nothing.
    pub fn over(&mut self, now: f64, in_full: Option<f64>) {
        if self.on_way == 1 || self.rate.is_none() {
            self.look(now, 0.0);
        }
        self.on_way = self.on_way.saturating_sub(1);
        if in_full.is_some_and(|asked| asked > self.fell) {
            self.failures = 0;
        }
    }

    /// The rate of late, where it is time to look.
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

    /// It failed in a way that may pass: it is left alone for a while, or as long as it asks to be.
    pub fn stumbled(&mut self, now: f64, asked: Option<f64>) {
        // Pieces that were on their way together fail together, and are one failure.
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
