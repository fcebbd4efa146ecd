//! Predicts when a transfer will end, and the error of the prediction, from the work that is done and the work that is left.
//!
//! The work of a transfer is its bytes, and its files as far as the transfer itself shows that a file costs time in addition to its bytes.
//! Time counts only while data may move. Data that was in place already is no evidence of a rate. Only the part of the past counts that is
//! like the present: slow start, a cache that filled up and an old limit are found by comparing the time before a moment with the time
//! after it, and left out.
//!
//! What this module does not know: clocks, and the reasons for a rate.

mod cost;
mod history;
mod regime;

#[cfg(test)]
mod tests;

use std::time::Duration;

use model::Progress;
use model::spec::LiveSettings;

use history::{History, Span};

/// A prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eta {
    /// The time from now to the end.
    pub left: Duration,
    /// The error, in either direction: nine predictions in ten are within it, if the future varies like the past.
    pub error: Duration,
}

/// The shortest time that is evidence of a rate, s.
const LEAST_SECONDS: f64 = 0.9;
/// After this time there is a prediction even if the rate still rises, s.
const RISING_MAX_SECONDS: f64 = 20.0;
/// After this part of the work there is a prediction even if the rate still rises.
const RISING_MAX_DONE: f64 = 0.08;
/// While the rate still grows by this factor, there is no prediction.
const RISING: f64 = 1.25;
/// After a break the connection starts anew: its rate is no evidence until it has reached this part of the rate before…
const RECOVERED: f64 = 0.7;
/// …or this time has passed, s.
const RECOVERY_MAX_SECONDS: f64 = 6.0;
/// A gap that is this many times longer than any before is a stall…
const GAP_GROWTH: f64 = 1.5;
/// …if it is longer than this, s.
const GAP_LEAST_SECONDS: f64 = 1.0;
/// The least error of a prediction, as a part of the time left.
const ERROR_MIN: f64 = 0.02;
/// Standard deviations within which nine in ten values lie.
const NINE_IN_TEN: f64 = 1.65;

/// Predicts the end of one transfer from its progress.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    last: Option<(Duration, Progress)>,
    history: History,
    /// Data has moved. The first data only shows when the transfer began, not at what rate.
    has_begun: bool,
    /// Seconds since data last moved, and the longest such gap so far. The rate of data that arrives in bursts is measured from burst to
    /// burst: the time since the last burst belongs to the next one.
    gap: f64,
    longest_gap: f64,
    /// The work since a break, while the connection has not reached its rate again.
    recovering: Option<Span>,
    /// The work left and the settings when data last moved.
    basis: Option<(Duration, Progress, LiveSettings)>,
}

impl Estimator {
    /// Takes the transfer's progress at a time (from any origin), its settings, and whether it waits for something other than the
    /// path.
    pub fn observe(&mut self, now: Duration, progress: &Progress, settings: &LiveSettings, waits: bool) {
        let before = self.last.replace((now, *progress));
        let Some((then, before)) = before else { return };
        if settings.paused || waits || progress.bytes_arrived < before.bytes_arrived {
            // The transfer was paused, or a new attempt counts from zero.
            self.recovering = Some(Span::default());
            self.gap = 0.0;
            self.basis = None;
            return;
        }
        let files_moved = |p: &Progress| p.files_settled.saturating_sub(p.files_in_place);
        let span = Span {
            seconds: now.saturating_sub(then).as_secs_f64(),
            bytes: progress.bytes_sent().saturating_sub(before.bytes_sent()) as f64,
            files: files_moved(progress).saturating_sub(files_moved(&before)) as f64,
        };
        let is_skipping = progress.files_in_place > before.files_in_place
            || progress.bytes_in_place > before.bytes_in_place
            || progress.bytes_of_holes > before.bytes_of_holes;
        let idle = span.bytes == 0.0 && span.files == 0.0;
        // Time in which files that are in place are skipped is no stall.
        if self.has_begun && !(idle && is_skipping) {
            self.gather(span, idle);
        }
        self.has_begun |= !idle;
        if !idle || self.gap == 0.0 {
            self.basis = Some((now, *progress, *settings));
        }
    }

    /// Adds idle time to the span that ends it, unless it is so long that it is a stall.
    fn gather(&mut self, mut span: Span, idle: bool) {
        if !idle {
            self.longest_gap = self.longest_gap.max(self.gap);
            span.seconds += std::mem::take(&mut self.gap);
            self.take(span);
            return;
        }
        self.gap += span.seconds;
        if self.gap > (self.longest_gap * GAP_GROWTH).max(GAP_LEAST_SECONDS) {
            span.seconds = std::mem::take(&mut self.gap);
            self.take(span);
        }
    }

    fn take(&mut self, span: Span) {
        if let Some(mut since) = self.recovering.take() {
            since += span;
            let cost = cost::fit(&self.history.spans());
            let rate_before = cost.rate(&self.history.recent());
            let rate_now = cost.work(&span) / span.seconds.max(1e-9);
            if since.seconds < RECOVERY_MAX_SECONDS && rate_now < rate_before * RECOVERED {
                self.recovering = Some(since);
                return;
            }
        }
        self.history.push(span);
    }

    /// The prediction, counted down from the last movement. It is computed here and not in `observe`, since most predictions would never be
    /// used.
    pub fn eta(&self, now: Duration) -> Option<Eta> {
        let (at, progress, settings) = self.basis.as_ref().filter(|_| self.recovering.is_none())?;
        let eta = self.predict(progress, settings)?;
        Some(Eta { left: eta.left.saturating_sub(now.saturating_sub(*at)), ..eta })
    }

    fn predict(&self, progress: &Progress, settings: &LiveSettings) -> Option<Eta> {
        if !progress.scanned || progress.is_endless() {
            return None;
        }
        let spans = self.history.spans();
        let cost = cost::fit(&spans);
        let left = Span {
            seconds: 0.0,
            bytes: progress.bytes_offered.saturating_sub(progress.bytes_arrived) as f64,
            files: progress.files_offered.saturating_sub(progress.files_settled) as f64,
        };
        let left_work = cost.work(&left);
        let past = self.history.total();
        let done = cost.work(&past) / (left_work + cost.work(&past)).max(1e-9);
        let rate = regime::rate(&spans, &cost)?;
        let is_early = done < RISING_MAX_DONE && past.seconds < RISING_MAX_SECONDS;
        if rate.seconds < LEAST_SECONDS || rate.mean <= 0.0 || (is_early && rate.rising > RISING) {
            return None;
        }
        // The rate cannot exceed the limit, even if it was just lowered, or a first burst exceeded it.
        let least = if settings.limit_bit_s > 0 { left.bytes * 8.0 / settings.limit_bit_s as f64 } else { 0.0 };
        let seconds = (left_work / rate.mean).max(least);
        let spread = rate.deviation * (rate.block / rate.seconds + rate.block / seconds.max(rate.block)).sqrt();
        let cost_error = cost.error_seconds(&left) / left_work.max(1e-9);
        let error = seconds * (ERROR_MIN + NINE_IN_TEN * spread / rate.mean + cost_error);
        // A time that does not fit a `Duration` is not predicted.
        let duration = |s: f64| Duration::try_from_secs_f64(s).ok();
        Some(Eta { left: duration(seconds)?, error: duration(error)? })
    }
}
