//! Who is met by what: random gaps, periods, bursts and lists.
//!
//! Gaps are drawn, not each segment's fate: an undisturbed super-packet costs one subtraction per kind of disturbance.
//! Does not know: packets.

use crate::scenario::Loss;

/// How many segments pass before the next one that is met by something of this probability.
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

    pub fn meets(&mut self, random: &mut fastrand::Rng) -> bool {
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
pub enum Losing {
    Gap(Gap),
    /// Segments until the next one is lost; every so many.
    Every(u64, u64),
    Burst {
        bad: bool,
        begins: f64,
        ends: f64,
    },
    /// What is left of the list; segments so far.
    List(Vec<u64>, u64),
}

impl Losing {
    pub fn new(loss: &Loss, seen: u64, random: &mut fastrand::Rng) -> Losing {
        match loss {
            Loss::None => Losing::Gap(Gap::new(0.0, random)),
            Loss::Random(p) => Losing::Gap(Gap::new(*p, random)),
            Loss::Every(n) => Losing::Every(n.saturating_sub(1), *n),
            Loss::Burst(begins, ends) => Losing::Burst { bad: false, begins: *begins, ends: *ends },
            Loss::List(list) => Losing::List(list.iter().rev().copied().filter(|n| *n > seen).collect(), seen),
        }
    }

    /// Segments that pass for sure.
    pub fn clear(&self) -> u64 {
        match self {
            Losing::Gap(gap) => gap.left,
            Losing::Every(left, _) => *left,
            Losing::Burst { .. } => 0,
            Losing::List(list, seen) => list.last().map_or(u64::MAX, |next| next - seen - 1),
        }
    }

    pub fn pass(&mut self, segments: u64) {
        match self {
            Losing::Gap(gap) => gap.pass(segments),
            Losing::Every(left, _) => *left -= segments,
            Losing::Burst { .. } => {}
            Losing::List(_, seen) => *seen += segments,
        }
    }

    pub fn meets(&mut self, random: &mut fastrand::Rng) -> bool {
        match self {
            Losing::Gap(gap) => gap.meets(random),
            Losing::Every(left, every) => {
                let lost = *left == 0;
                *left = if lost { every.saturating_sub(1) } else { *left - 1 };
                lost
            }
            Losing::Burst { bad, begins, ends } => {
                if random.f64() < if *bad { *ends } else { *begins } {
                    *bad = !*bad;
                }
                *bad
            }
            Losing::List(list, seen) => {
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
