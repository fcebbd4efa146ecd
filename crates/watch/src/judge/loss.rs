//! Loss by exact counts: 24 hours in bins of five minutes, and whether the rate is above what the path allows, with 99 % confidence.
//!
//! At ten packets a second and a loss of 4.6e-5, an hour has 1.7 lost packets and a minute 0.03: a minute shows only noise. The lower bound of a
//! Poisson rate over six and 24 hours does show the loss.

use std::collections::VecDeque;

/// The length of a bin, milliseconds, and the number of bins.
const BIN_MS: i64 = 300_000;
const BINS: usize = 288;
/// Windows that are judged, in bins: ten minutes, one hour, six hours, 24 hours.
const WINDOWS: [usize; 4] = [2, 12, 72, BINS];
/// The least number of bins with loss in each window: a change of route loses one burst, a bad optic loses again and again.
const LOSSY_BINS: [usize; 4] = [2, 3, 3, 3];
/// The least number of packets lost in each window. At a loss of one in ten million, three of a day's 864,000 packets are lost once in
/// 10,000 days, and four once in half a million days; 30 directions have 10,950 days a year.
const LOST_MIN: [u64; 4] = [3, 3, 3, 4];
/// The quantile of the normal distribution for the lower bound: 99 %.
const Z: f64 = 2.326;
/// The least number of bins for an index of dispersion.
const DISPERSION_BINS_MIN: f64 = 4.0;
/// A loss has ended when no packet was lost where this many bursts were expected (a burst of one packet, where packets are lost independently): P = e^-7 if
/// the rate has not changed.
const ENDED_AFTER: f64 = 7.0;

/// Counts of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bin {
    /// Its number since 1970.
    number: i64,
    sent: u32,
    lost: u32,
}

/// The index of dispersion of the losses of bins; 1 if there are too few bins.
fn dispersion<'a>(bins: impl Iterator<Item = &'a Bin>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for lost in bins.map(|bin| f64::from(bin.lost)) {
        (count, sum, squares) = (count + 1.0, sum + lost, squares + lost * lost);
    }
    if count < DISPERSION_BINS_MIN || sum == 0.0 {
        return 1.0;
    }
    let mean = sum / count;
    (squares / count - mean * mean) * count / (count - 1.0) / mean
}

/// Loss in one direction.
#[derive(Clone, Debug)]
pub struct Loss {
    bins: VecDeque<Bin>,
    /// The length of a bin, milliseconds.
    bin: i64,
    /// Lost packets of all bins.
    lost: u64,
    /// The first finding of a loss that has not ended.
    first: Option<FirstFinding>,
    /// The result of the last judgement.
    latest: Option<LossFinding>,
    /// Packets since the last loss.
    since_loss: u64,
}

/// The first finding of a loss.
#[derive(Clone, Copy, Debug)]
struct FirstFinding {
    rate: f64,
    /// When the first packet was lost, milliseconds since 1970.
    began: i64,
}

/// A loss that chance does not explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossFinding {
    /// Lost packets of the window.
    pub lost: u64,
    /// Packets of the window.
    pub sent: u64,
    /// Its length, milliseconds.
    pub window: i64,
    /// The beginning of the first bin with loss in the window, milliseconds since 1970: the cause may be younger than the window.
    pub since: i64,
    /// The value of `since` at the first finding.
    pub began: i64,
    /// The lower bound of the rate, with 99 %.
    pub at_least: f64,
}

impl LossFinding {
    /// The rate.
    pub fn rate(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// The least rate that explains `lost` packets of `sent`, with 99 % (Wilson and Hilferty's approximation of the Poisson bound).
pub fn lower_bound(lost: u64, sent: u64) -> f64 {
    if lost == 0 || sent == 0 {
        return 0.0;
    }
    let lost = lost as f64;
    let root = (1.0 - 1.0 / (9.0 * lost) - Z / (3.0 * lost.sqrt())).max(0.0);
    lost * root.powi(3) / sent as f64
}

impl Loss {
    /// Begins without counts; `scale` shortens all times.
    pub fn new(scale: f64) -> Loss {
        let bin = ((BIN_MS as f64 * scale) as i64).max(1);
        Loss { bins: VecDeque::new(), bin, lost: 0, first: None, latest: None, since_loss: 0 }
    }

    /// Adds the packets sent and lost at a time, milliseconds since 1970.
    pub fn add(&mut self, at: i64, sent: u64, lost: u64) {
        let number = at.div_euclid(self.bin);
        let count = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        match self.bins.back_mut() {
            Some(last) if last.number >= number => {
                last.sent = last.sent.saturating_add(count(sent));
                last.lost = last.lost.saturating_add(count(lost));
            }
            _ => self.bins.push_back(Bin { number, sent: count(sent), lost: count(lost) }),
        }
        self.lost += u64::from(count(lost));
        while let Some(old) = self.bins.front().copied().filter(|bin| bin.number <= number - BINS as i64) {
            self.lost = self.lost.saturating_sub(u64::from(old.lost));
            self.bins.pop_front();
        }
        self.since_loss = if lost > 0 { sent } else { self.since_loss.saturating_add(sent) };
    }

    /// Packets lost and sent in the last `bins` bins, and the number of these bins that have loss.
    fn window(&self, bins: usize) -> (u64, u64, usize) {
        let Some(last) = self.bins.back() else { return (0, 0, 0) };
        let within = self.bins.iter().rev().take_while(|bin| bin.number > last.number - bins as i64);
        within.fold((0, 0, 0), |(lost, sent, lossy), bin| {
            (lost + u64::from(bin.lost), sent + u64::from(bin.sent), lossy + usize::from(bin.lost > 0))
        })
    }

    /// The beginning of the first bin with loss among the last `bins` bins.
    fn first_lost(&self, bins: usize) -> i64 {
        let Some(last) = self.bins.back() else { return 0 };
        let mut within = self.bins.iter().filter(|bin| bin.number > last.number - bins as i64);
        within.find(|bin| bin.lost > 0).map_or(0, |bin| bin.number * self.bin)
    }

    /// Packets lost and sent since the beginning of the bin of a time.
    pub fn since(&self, time: i64) -> (u64, u64) {
        let first = time.div_euclid(self.bin);
        let within = self.bins.iter().rev().take_while(|bin| bin.number >= first);
        within.fold((0, 0), |(lost, sent), bin| (lost + u64::from(bin.lost), sent + u64::from(bin.sent)))
    }

    /// The index of dispersion of the losses of bins since a time: 1 where packets are lost independently, about the length of a burst where they are
    /// lost in bursts.
    pub fn dispersion(&self, time: i64) -> f64 {
        let first = time.div_euclid(self.bin);
        // The last bin is not full yet.
        dispersion(self.bins.iter().rev().skip(1).take_while(|bin| bin.number >= first))
    }

    /// The same from the first finding to the last loss.
    fn dispersion_while_lossy(&self, first: FirstFinding) -> f64 {
        let first = first.began.div_euclid(self.bin);
        let lossy = self.bins.iter().rev().skip_while(|bin| bin.lost == 0);
        dispersion(lossy.take_while(|bin| bin.number >= first))
    }

    /// The result of the last [`Loss::judge`].
    pub fn latest(&self) -> Option<LossFinding> {
        self.latest
    }

    /// Packets lost and sent in six hours, and in 24.
    pub fn totals(&self) -> [(u64, u64); 2] {
        [WINDOWS[2], WINDOWS[3]].map(|bins| {
            let (lost, sent, _) = self.window(bins);
            (lost, sent)
        })
    }

    /// Whether enough packets are lost for [`Loss::judge`] to find anything.
    pub fn may_be_found(&self) -> bool {
        self.lost >= LOST_MIN[0] || self.first.is_some()
    }

    /// The loss whose lower bound is above `floor`, in the shortest window that shows it. Once found, it lasts until `ENDED_AFTER` shows its end.
    pub fn judge(&mut self, floor: f64) -> Option<LossFinding> {
        self.latest = self.find(floor);
        self.latest
    }

    /// Drops all counts, unless a loss is found; returns whether they were dropped.
    pub fn forget(&mut self) -> bool {
        let is_found = self.first.is_some();
        if !is_found {
            *self = Loss { since_loss: self.since_loss, ..Loss::new(self.bin as f64 / BIN_MS as f64) };
        }
        !is_found
    }

    fn find(&mut self, floor: f64) -> Option<LossFinding> {
        if let Some(first) = self.first
            && self.since_loss as f64 * first.rate > ENDED_AFTER * self.dispersion_while_lossy(first).max(1.0)
        {
            // The packets of a loss that has ended must not be found again.
            self.first = None;
            self.forget();
            return None;
        }
        if !self.may_be_found() {
            return None;
        }
        let found = WINDOWS.into_iter().zip(LOSSY_BINS).zip(LOST_MIN).find_map(|((bins, lossy_min), lost_min)| {
            let (lost, sent, lossy) = self.window(bins);
            let at_least = lower_bound(lost, sent);
            let is_found = lost >= lost_min && lossy >= lossy_min && at_least > floor;
            is_found.then(|| {
                let since = self.first_lost(bins);
                let began = self.first.map_or(since, |first| first.began);
                LossFinding { lost, sent, window: bins as i64 * self.bin, since, began, at_least }
            })
        });
        match (found, self.first) {
            // The rate at a first finding is too high on average: with one packet less the loss would have been found later. So that packet does not count.
            (Some(found), None) => {
                let rate = (found.lost - 1) as f64 / found.sent.max(1) as f64;
                self.first = Some(FirstFinding { rate, began: found.began });
            }
            (None, Some(first)) => {
                // The loss is rarer now, but nothing shows that it has ended.
                let (lost, sent, _) = self.window(BINS);
                return Some(LossFinding {
                    lost,
                    sent,
                    window: BINS as i64 * self.bin,
                    since: self.first_lost(BINS),
                    began: first.began,
                    at_least: lower_bound(lost, sent).min(first.rate),
                });
            }
            _ => {}
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    /// The number of minutes of 600 packets, each lost with this chance, after which loss is found.
    fn found_after(random: &mut fastrand::Rng, chance: f64, minutes: i64, floor: f64) -> Option<i64> {
        let mut loss = Loss::new(1.0);
        (0..minutes).find(|minute| {
            let lost = (0..600).filter(|_| random.f64() < chance).count() as u64;
            loss.add(minute * MINUTE, 600, lost);
            loss.judge(floor).is_some()
        })
    }

    #[test]
    fn the_bound_agrees_with_the_exact_poisson_bound() {
        // Exact one-sided 99 % bounds (Garwood 1936): 0.4360 of 3, 1.2791 of 5, 4.1300 of 10.
        for (lost, exact) in [(3, 0.4360), (5, 1.2791), (10, 4.1300)] {
            let bound = lower_bound(lost, 1);
            assert!((bound - exact).abs() < 0.03, "{lost}: {bound}");
        }
        assert_eq!((lower_bound(0, 9), lower_bound(1, 0)), (0.0, 0.0));
    }

    #[test]
    fn a_loss_of_0_0046_percent_is_found_within_hours() {
        let mut random = fastrand::Rng::with_seed(11);
        let hours: Vec<f64> = (0..40)
            .filter_map(|_| found_after(&mut random, 4.6e-5, 24 * 60, 5e-6))
            .map(|minutes| minutes as f64 / 60.0)
            .collect();
        assert_eq!(hours.len(), 40, "each within a day");
        let early = hours.iter().filter(|hours| **hours <= 6.0).count();
        assert!(early >= 36, "{early} of 40 within six hours: {hours:?}");
    }

    #[test]
    fn a_clean_year_of_thirty_directions_has_no_loss() {
        let mut random = fastrand::Rng::with_seed(5);
        // One packet in ten million is lost, which is within what the path allows: no finding may come of it.
        let mut loss = Loss::new(1.0);
        let mut found = 0;
        for minute in 0..30 * 366 * 24 * 60 / 5 {
            // Bins of five minutes at once: 3,000 packets.
            let lost = u64::from(random.f64() < 3_000.0 * 1e-7);
            loss.add(minute * 5 * MINUTE, 3_000, lost);
            // A path of 100 Gbit/s and 300 ms allows no more than this.
            found += u64::from(loss.judge(1.3e-7).is_some());
        }
        assert_eq!(found, 0);
    }

    #[test]
    fn a_burst_is_no_finding_and_a_loss_ends() {
        let mut loss = Loss::new(1.0);
        let mut minute = 0;
        let mut run = |loss: &mut Loss, minutes: i64, lost: u64| {
            let mut found = None;
            for _ in 0..minutes {
                loss.add(minute * MINUTE, 600, lost);
                minute += 1;
                found = loss.judge(1e-5);
            }
            found
        };
        run(&mut loss, 60, 0);
        assert_eq!(run(&mut loss, 1, 200), None, "a route that changes loses a burst");
        assert_eq!(run(&mut loss, 30, 0), None);
        let found = run(&mut loss, 12, 2).unwrap();
        assert!(found.rate() > 1e-3 && found.window == 2 * BIN_MS, "{found:?}");
        assert!(run(&mut loss, 1, 0).is_some(), "one clean minute proves nothing");
        assert_eq!(run(&mut loss, 30, 0), None, "half an hour without any, at three in a thousand, does");
        assert_eq!(run(&mut loss, 60, 0), None, "and what was before it does not come back");
    }

    #[test]
    fn a_loss_in_bursts_does_not_end_between_two_of_them() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut loss = Loss::new(1.0);
        let mut missed = 0;
        for minute in 0..24 * 60 {
            // A burst of ten packets every seventeen minutes on average.
            let lost = if random.f64() < 0.06 { 10 } else { 0 };
            loss.add(minute * MINUTE, 600, lost);
            missed += usize::from(loss.judge(5e-6).is_none() && minute > 120);
        }
        assert_eq!(missed, 0, "minutes without a finding");
        let clean = (1..600).find(|minute| {
            loss.add((24 * 60 + minute) * MINUTE, 600, 0);
            loss.judge(5e-6).is_none()
        });
        assert!(clean.is_some_and(|minutes| minutes < 300), "{clean:?}");
    }

    #[test]
    fn bins_older_than_a_day_are_dropped() {
        let mut loss = Loss::new(1.0);
        loss.add(0, 600, 5);
        loss.add(BIN_MS * 287, 600, 0);
        assert_eq!(loss.totals()[1], (5, 1_200));
        loss.add(BIN_MS * 288, 600, 0);
        assert_eq!((loss.totals()[1], loss.bins.len()), ((0, 1_200), 2));
    }
}
