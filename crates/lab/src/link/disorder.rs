//! Disturbances of segments: random gaps, periods, bursts and lists.
//!
//! Gaps are drawn, not the fate of each segment: an undisturbed super-packet costs one subtraction for each kind of disturbance.
//! Does not know: packets.

use crate::scenario::Loss;

/// The number of segments that pass before the next one that a disturbance of this probability hits.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    probability: f64,
    pub left: u64,
}

impl Gap {
    pub fn new(probability: f64, random: &mut fastrand::Rng) -> Gap {
        let mut gap = Gap { probability, left: u64::MAX };
        gap.draw(random);
        gap
    }

    /// Geometric, by inversion: P(gap = n) = (1 - p)^n p.
    fn draw(&mut self, random: &mut fastrand::Rng) {
        self.left = match self.probability {
            p if p <= 0.0 => u64::MAX,
            p if p >= 1.0 => 0,
            // 1 - f64() is in (0, 1], so that the logarithm is finite.
            p => ((1.0 - random.f64()).ln() / (-p).ln_1p()) as u64,
        };
    }

    pub fn hits(&mut self, random: &mut fastrand::Rng) -> bool {
        if self.left > 0 {
            // "Never" stays never.
            self.left -= u64::from(self.left != u64::MAX);
            return false;
        }
        self.draw(random);
        true
    }

    pub fn pass(&mut self, segments: u64) {
        if self.left != u64::MAX {
            self.left -= segments;
        }
    }
}

/// The state of the loss model.
#[derive(Clone, Debug)]
pub enum LossProcess {
    Gap(Gap),
    /// Segments until the next one is lost; the period.
    Every(u64, u64),
    Burst {
        bad: bool,
        begins: f64,
        ends: f64,
    },
    /// The rest of the list; segments so far.
    List(Vec<u64>, u64),
}

impl LossProcess {
    pub fn new(loss: &Loss, seen: u64, random: &mut fastrand::Rng) -> LossProcess {
        match loss {
            Loss::None => LossProcess::Gap(Gap::new(0.0, random)),
            Loss::Random(p) => LossProcess::Gap(Gap::new(*p, random)),
            Loss::Every(n) => LossProcess::Every(n.saturating_sub(1), *n),
            Loss::Burst(begins, ends) => LossProcess::Burst { bad: false, begins: *begins, ends: *ends },
            Loss::List(list) => LossProcess::List(list.iter().rev().copied().filter(|n| *n > seen).collect(), seen),
        }
    }

    /// The number of segments that pass for certain.
    pub fn undisturbed(&self) -> u64 {
        match self {
            LossProcess::Gap(gap) => gap.left,
            LossProcess::Every(left, _) => *left,
            LossProcess::Burst { .. } => 0,
            LossProcess::List(list, seen) => list.last().map_or(u64::MAX, |next| next - seen - 1),
        }
    }

    pub fn pass(&mut self, segments: u64) {
        match self {
            LossProcess::Gap(gap) => gap.pass(segments),
            LossProcess::Every(left, _) => *left -= segments,
            LossProcess::Burst { .. } => {}
            LossProcess::List(_, seen) => *seen += segments,
        }
    }

    pub fn hits(&mut self, random: &mut fastrand::Rng) -> bool {
        match self {
            LossProcess::Gap(gap) => gap.hits(random),
            LossProcess::Every(left, every) => {
                let lost = *left == 0;
                *left = if lost { every.saturating_sub(1) } else { *left - 1 };
                lost
            }
            LossProcess::Burst { bad, begins, ends } => {
                if random.f64() < if *bad { *ends } else { *begins } {
                    *bad = !*bad;
                }
                *bad
            }
            LossProcess::List(list, seen) => {
                *seen += 1;
                let lost = list.last() == Some(seen);
                if lost {
                    list.pop();
                }
                lost
            }
        }
    }
}
