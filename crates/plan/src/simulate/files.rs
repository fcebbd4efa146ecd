//! The files of a queue: when they arrive, and how large they are. Nothing is kept of files that have not begun: each is drawn when its turn comes.
//!
//! Does not know: transfers.

use std::collections::VecDeque;
use std::sync::Arc;

use scenario::Sizes;

use crate::cache::{LruCache, Popularity};

/// The deviation of the logarithm of lognormal sizes.
const LOG_DEVIATION: f64 = 1.0;

/// A file whose turn has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedFile {
    /// When it arrived, seconds.
    pub arrived_s: f64,
    /// Its size.
    pub bytes: f64,
    /// What is left to move after attempts that failed: transfers resume.
    pub left_bytes: f64,
    /// Attempts that have failed.
    pub failures: u32,
}

/// The files that a queue gets.
#[derive(Clone, Debug)]
pub enum QueueFiles {
    /// Files that arrive evenly.
    Even(EvenFiles),
    /// Files that another queue has brought to the source.
    Fed(VecDeque<SimulatedFile>),
}

/// Files that arrive evenly over a time, or all at once.
#[derive(Clone, Debug)]
pub struct EvenFiles {
    /// When the first arrives.
    pub first_s: f64,
    /// The time between two; 0 if all are there at once.
    pub interval_s: f64,
    /// The number of all files.
    pub count: u64,
    /// Those that have begun.
    pub begun: u64,
    /// The mean size.
    pub mean_bytes: f64,
    /// How sizes are spread.
    pub sizes: Sizes,
    /// The cache at the target, if files are requests for named data.
    pub cache: Option<Box<TargetCache>>,
}

/// A cache at the target of a queue: it answers requests for what it has.
#[derive(Clone, Debug)]
pub struct TargetCache {
    /// What it has.
    pub objects: LruCache,
    /// What is asked for.
    pub popularity: Arc<Popularity>,
    /// Files that it has answered since the last call of [`QueueFiles::take_answered`].
    pub answered: Vec<SimulatedFile>,
}

impl QueueFiles {
    /// When the next file is there; infinite if none comes by itself.
    pub fn next_s(&self) -> f64 {
        match self {
            QueueFiles::Even(files) if files.begun < files.count => {
                files.first_s + files.begun as f64 * files.interval_s
            }
            QueueFiles::Even(_) => f64::INFINITY,
            QueueFiles::Fed(files) => files.front().map_or(f64::INFINITY, |file| file.arrived_s),
        }
    }

    /// Takes the next file. None if none is left, or if a cache at the target answers it.
    pub fn take(&mut self, random: &mut fastrand::Rng) -> Option<SimulatedFile> {
        let arrived_s = self.next_s();
        match self {
            QueueFiles::Even(files) if files.begun < files.count => {
                files.begun += 1;
                let bytes = size(files.mean_bytes, files.sizes, random);
                let file = SimulatedFile { arrived_s, bytes, left_bytes: bytes, failures: 0 };
                let Some(cache) = &mut files.cache else { return Some(file) };
                let is_there = cache.objects.ask(cache.popularity.draw(random));
                if is_there {
                    cache.answered.push(file);
                }
                (!is_there).then_some(file)
            }
            QueueFiles::Even(_) => None,
            QueueFiles::Fed(files) => files.pop_front(),
        }
    }

    /// Takes the files that a cache at the target has answered since the last call.
    pub fn take_answered(&mut self) -> Vec<SimulatedFile> {
        match self {
            QueueFiles::Even(EvenFiles { cache: Some(cache), .. }) => std::mem::take(&mut cache.answered),
            _ => Vec::new(),
        }
    }

    /// Files that are there at a time and have not begun.
    pub fn waiting(&self, now_s: f64) -> u64 {
        match self {
            QueueFiles::Even(files) if now_s < files.first_s => 0,
            QueueFiles::Even(files) if files.interval_s == 0.0 => files.count - files.begun,
            QueueFiles::Even(files) => {
                let arrived = ((now_s - files.first_s) / files.interval_s) as u64 + 1;
                arrived.min(files.count).saturating_sub(files.begun)
            }
            QueueFiles::Fed(files) => files.iter().filter(|file| file.arrived_s <= now_s).count() as u64,
        }
    }

    /// Files that have not begun, whether they are there or not.
    pub fn left(&self) -> u64 {
        match self {
            QueueFiles::Even(files) => files.count - files.begun,
            QueueFiles::Fed(files) => files.len() as u64,
        }
    }

    /// The mean size of the files.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            QueueFiles::Even(files) => files.mean_bytes,
            QueueFiles::Fed(files) => files.iter().map(|file| file.bytes).sum::<f64>() / files.len().max(1) as f64,
        }
    }
}

fn size(mean_bytes: f64, sizes: Sizes, random: &mut fastrand::Rng) -> f64 {
    match sizes {
        Sizes::Equal => mean_bytes,
        // The mean of a lognormal variable is exp(mu + sigma² / 2).
        Sizes::Lognormal => mean_bytes * (LOG_DEVIATION * normal(random) - LOG_DEVIATION * LOG_DEVIATION / 2.0).exp(),
    }
}

/// A normal variable (Box and Muller, 1958).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(interval_s: f64, sizes: Sizes) -> QueueFiles {
        QueueFiles::Even(EvenFiles {
            first_s: 10.0,
            interval_s,
            count: 100_000,
            begun: 0,
            mean_bytes: 2e9,
            sizes,
            cache: None,
        })
    }

    #[test]
    fn files_wait_from_their_arrival_on() {
        let mut files = even(2.0, Sizes::Equal);
        assert_eq!([9.0, 10.0, 13.9, 14.0].map(|now| files.waiting(now)), [0, 1, 2, 3]);
        assert_eq!(files.take(&mut fastrand::Rng::with_seed(1)).unwrap().arrived_s, 10.0);
        assert_eq!((files.next_s(), files.waiting(14.0)), (12.0, 2));
        assert_eq!(even(0.0, Sizes::Equal).waiting(10.0), 100_000);
    }

    #[test]
    fn lognormal_sizes_have_the_stated_mean() {
        let mut files = even(0.0, Sizes::Lognormal);
        let mut random = fastrand::Rng::with_seed(7);
        let sum: f64 = std::iter::from_fn(|| files.take(&mut random)).map(|file| file.bytes).sum();
        assert!((sum / 1e5 / 2e9 - 1.0).abs() < 0.02, "{}", sum / 1e5);
    }
}
