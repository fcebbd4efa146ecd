//! The responses that agree with all trials: a sample that is weighed, drawn again and moved with each trial (Gilks and Berzuini 2001, the
//! resample-move algorithm; moves by differences of the sample, ter Braak 2006, of some numbers at once, Vrugt and others 2009).

use super::SlotTrial;
use super::response::{Law, Prior, RateResponse, SettingLoad, UNKNOWNS};

/// Responses that are kept.
const KEPT: usize = 600;
/// Responses that are drawn before the first trial: of so many, some hundred agree with it.
const DRAWN: usize = 8_000;
/// Moves of each response after a trial.
const MOVES: usize = 10;
/// How wrong a response of this form is, as a part of the rate: real hosts are not this simple.
const FORM_ERROR: f64 = 0.05;
/// Degrees of freedom of the errors: few, so that one odd trial does not decide.
const FREEDOM: f64 = 4.0;
/// The part of the unknown numbers that one move changes. Few at once, because a move that changes all is mostly refused.
const CHANGED: f64 = 0.35;
/// The factor of a difference in a move is this by the root of twice the numbers that change (ter Braak 2006).
const DIFFERENCE: f64 = 2.38;
/// The least random step of a move, in logarithms: it lets equal responses part.
const STEP: f64 = 0.02;
/// The value of a setting under a response is the part of the best rate that it reaches, to this power: a setting that reaches 95 % is worth 0.44,
/// one that reaches 80 % is worth 0.03.
const SHARPNESS: i32 = 16;
/// The same trials give the same settings.
const SEED: u64 = 0x736c_6f74;

/// What is believed after some trials.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    prior: Prior,
    random: fastrand::Rng,
    responses: Vec<RateResponse>,
}

impl Belief {
    /// What is believed before any trial.
    pub(super) fn new(prior: Prior) -> Belief {
        let mut random = fastrand::Rng::with_seed(SEED);
        let responses = (0..DRAWN).map(|_| prior.draw(&mut random)).collect();
        Belief { prior, random, responses }
    }

    /// Takes trials into account, of which the last is new.
    pub(super) fn update(&mut self, trials: &[(SettingLoad, SlotTrial)]) {
        let Some(newest) = trials.last() else { return };
        let log_weights: Vec<f64> =
            self.responses.iter().map(|response| log_likelihood(&response.law(), &[*newest])).collect();
        self.responses = self.drawn_again(&log_weights);
        let mut densities: Vec<f64> =
            self.responses.iter().map(|response| self.log_density(response, trials)).collect();
        for _ in 0..MOVES {
            for (at, density) in densities.iter_mut().enumerate() {
                let moved = self.moved(at);
                let moved_density = self.log_density(&moved, trials);
                if moved_density >= *density || self.random.f64() < (moved_density - *density).exp() {
                    self.responses[at] = moved;
                    *density = moved_density;
                }
            }
        }
    }

    /// The candidate, by its number among `loads`, that is worth most beyond what has been tried; none without candidates.
    pub(super) fn most_promising(
        &self,
        loads: &[SettingLoad],
        tried: &[SettingLoad],
        candidates: &[usize],
    ) -> Option<usize> {
        let mut gains = vec![0.0; candidates.len()];
        for response in self.responses.iter().take(KEPT) {
            let law = response.law();
            let rates: Vec<f64> = loads.iter().map(|load| law.rate_bit_s(load)).collect();
            let best = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            let worth = |rate: f64| (rate / best).powi(SHARPNESS);
            let had = tried.iter().map(|load| worth(law.rate_bit_s(load))).fold(0.0, f64::max);
            for (gain, at) in gains.iter_mut().zip(candidates) {
                *gain += (worth(rates[*at]) - had).max(0.0);
            }
        }
        let best = (0..candidates.len()).reduce(|best, other| if gains[other] > gains[best] { other } else { best })?;
        Some(candidates[best])
    }

    /// A sample of the responses by their weights, systematic: of each as many as its weight says, up to one.
    fn drawn_again(&mut self, log_weights: &[f64]) -> Vec<RateResponse> {
        let highest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log_weights.iter().map(|log| (log - highest).exp()).collect();
        let step = weights.iter().sum::<f64>() / KEPT as f64;
        let mut next = self.random.f64() * step;
        let mut sum = 0.0;
        let mut drawn = Vec::with_capacity(KEPT);
        for (response, weight) in self.responses.iter().zip(weights) {
            sum += weight;
            while next < sum && drawn.len() < KEPT {
                drawn.push(*response);
                next += step;
            }
        }
        drawn
    }

    /// A response of which some numbers are moved by the difference of two others.
    fn moved(&mut self, at: usize) -> RateResponse {
        let one = self.responses[self.random.usize(0..self.responses.len())];
        let other = self.responses[self.random.usize(0..self.responses.len())];
        let mut changes = [(); UNKNOWNS].map(|()| self.random.f64() < CHANGED);
        changes[self.random.usize(0..UNKNOWNS)] = true;
        let factor = DIFFERENCE / (2.0 * changes.iter().filter(|changes| **changes).count() as f64).sqrt();
        let mut moved = self.responses[at];
        for unknown in (0..UNKNOWNS).filter(|unknown| changes[*unknown]) {
            let noise = STEP * (self.random.f64() - self.random.f64());
            moved.logs[unknown] += factor * (one.logs[unknown] - other.logs[unknown]) + noise;
        }
        moved
    }

    /// The logarithm of the density of a response after the trials; negative infinity where it is impossible.
    fn log_density(&self, response: &RateResponse, trials: &[(SettingLoad, SlotTrial)]) -> f64 {
        let prior = self.prior.log_density(response);
        prior.map_or(f64::NEG_INFINITY, |prior| prior + log_likelihood(&response.law(), trials))
    }
}

/// How likely trials are under a law: Student's t of the logarithms of their rates.
fn log_likelihood(law: &Law, trials: &[(SettingLoad, SlotTrial)]) -> f64 {
    let mut sum = 0.0;
    for (load, trial) in trials {
        let noise = if trial.error_bit_s.is_finite() { trial.error_bit_s / trial.rate_bit_s } else { 0.0 };
        let variance = noise * noise + FORM_ERROR * FORM_ERROR;
        let off = (trial.rate_bit_s / law.rate_bit_s(load)).ln();
        sum -= (FREEDOM + 1.0) / 2.0 * (off * off / variance / FREEDOM).ln_1p();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::SearchHints;
    use super::super::setting::{ParameterName, Setting};
    use super::*;

    fn load(streams: u64, window_bytes: u64) -> SettingLoad {
        SettingLoad::of(&Setting::new([(ParameterName::Streams, streams), (ParameterName::Window, window_bytes)]))
    }

    fn trial(rate_bit_s: f64) -> SlotTrial {
        SlotTrial { rate_bit_s, error_bit_s: 0.02 * rate_bit_s, failed: false }
    }

    /// The rates of a load that a tenth and nine tenths of the responses stay below.
    fn range(belief: &Belief, load: &SettingLoad) -> (f64, f64) {
        let mut rates: Vec<f64> = belief.responses.iter().map(|response| response.law().rate_bit_s(load)).collect();
        rates.sort_by(f64::total_cmp);
        (rates[rates.len() / 10], rates[rates.len() * 9 / 10])
    }

    #[test]
    fn responses_agree_with_all_trials() {
        let mut belief = Belief::new(Prior::new(&SearchHints::default()));
        let trials =
            [(load(1, 1 << 20), trial(0.08e9)), (load(8, 1 << 20), trial(0.64e9)), (load(8, 1 << 24), trial(5e9))];
        for count in 1..=trials.len() {
            belief.update(&trials[..count]);
            assert_eq!(belief.responses.len(), KEPT);
            for (load, trial) in &trials[..count] {
                let (low, high) = range(&belief, load);
                assert!(low > 0.85 * trial.rate_bit_s && high < 1.18 * trial.rate_bit_s, "{load:?}: {low} to {high}");
            }
        }
        // Half of the streams at a window of 1 MiB carry half, because each stream is bound by its window.
        let (low, high) = range(&belief, &load(4, 1 << 20));
        assert!(low > 0.27e9 && high < 0.38e9, "{low} to {high}");
    }

    #[test]
    fn a_trial_that_no_response_explains_does_no_harm() {
        let mut belief = Belief::new(Prior::new(&SearchHints::default()));
        let odd = [(load(1, 1 << 20), trial(1e-3)), (load(2, 1 << 20), trial(1e18))];
        belief.update(&odd[..1]);
        belief.update(&odd);
        assert_eq!(belief.responses.len(), KEPT);
        assert!(belief.responses.iter().all(|response| response.logs.iter().all(|log| log.is_finite())));
        let loads = [load(1, 1 << 20), load(2, 1 << 20), load(4, 1 << 20)];
        assert_eq!(belief.most_promising(&loads, &loads[..2], &[2]), Some(2));
        assert_eq!(belief.most_promising(&loads, &loads, &[]), None);
    }
}
