//! Limits how many files are opened at an endpoint per second.

use std::collections::HashMap;
use std::time::Duration;

/// A token bucket for each endpoint with such a limit; it holds the files of one second.
#[derive(Debug, Default)]
pub struct MetadataRates {
    /// The files that may still be opened, and when that was computed.
    left: HashMap<String, (f64, Duration)>,
}

impl MetadataRates {
    /// The number of files that may be opened at an endpoint now, if `files_s` may be opened per second.
    pub fn left(&mut self, endpoint: &str, files_s: f64, now: Duration) -> usize {
        let (left, at) = self.left.entry(endpoint.to_owned()).or_insert((files_s, now));
        *left = (*left + files_s * now.saturating_sub(*at).as_secs_f64()).min(files_s.max(1.0));
        *at = now;
        *left as usize
    }

    /// Counts files that are about to be opened.
    pub fn take(&mut self, endpoint: &str, files: usize) {
        if let Some((left, _)) = self.left.get_mut(endpoint) {
            *left -= files as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_are_opened_than_the_limit_allows() {
        let mut rates = MetadataRates::default();
        let mut opened = 0;
        for tenth in 0..100 {
            let left = rates.left("e", 50.0, Duration::from_millis(tenth * 100));
            rates.take("e", left);
            opened += left;
        }
        // The bucket of one second, and ten seconds of refill.
        assert!((540..=550).contains(&opened), "{opened}");
        assert_eq!(rates.left("slow", 0.5, Duration::ZERO), 0);
        assert_eq!(rates.left("slow", 0.5, Duration::from_secs(1)), 1);
        assert_eq!(
            rates.left("slow", 0.5, Duration::from_secs(60)),
            1,
            "unused files of earlier seconds are not saved"
        );
    }
}
