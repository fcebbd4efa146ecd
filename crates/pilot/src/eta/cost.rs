//! Estimates the time that a file costs in addition to its bytes, from the transfer itself.
//!
//! Time is the sum of a price for each byte and a price for each file. The prices with the highest likelihood are found as for counts
//! (Poisson): then the total is right, neither price is negative, and a span without files is no evidence about files. Until about a
//! hundred files have been seen, the price of a file stays near its low assumed value.

use super::history::Span;

/// The assumed cost of a file before any was seen, s.
const FILE_SECONDS: f64 = 50e-6;
/// The number of files that outweighs that assumption.
const PRIOR_FILES: f64 = 64.0;
/// The assumed cost of a byte before any was seen, s.
const BYTE_SECONDS: f64 = 1e-8;
/// The number of bytes that outweighs that assumption.
const PRIOR_BYTES: f64 = 1e3;
/// Rounds of the fit, each a sum over the spans. The prices are within a percent after these.
const ROUNDS: usize = 40;

/// The price of work, in seconds at the mean rate of the job so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    byte_seconds: f64,
    file_seconds: f64,
    /// The number of files from which the price of a file was computed.
    files: f64,
}

impl Cost {
    /// How long the work of a span would have taken at the rate so far, s.
    pub fn work(&self, span: &Span) -> f64 {
        span.bytes * self.byte_seconds + span.files * self.file_seconds
    }

    /// Work per second of a span; 0 for a span of no time.
    pub fn rate(&self, span: &Span) -> f64 {
        if span.seconds > 0.0 { self.work(span) / span.seconds } else { 0.0 }
    }

    /// The error of the work left where few files were seen, s.
    pub fn error_seconds(&self, left: &Span) -> f64 {
        let part = (PRIOR_FILES / (PRIOR_FILES + self.files)).sqrt();
        left.files * self.file_seconds * part
    }
}

/// Fits the prices to the spans.
pub(super) fn fit(spans: &[Span]) -> Cost {
    let mut all = Span::default();
    spans.iter().for_each(|span| all += *span);
    let mut byte = all.seconds / all.bytes.max(PRIOR_BYTES);
    let mut file = FILE_SECONDS;
    for _ in 0..ROUNDS {
        let (mut bytes, mut files) = (0.0, 0.0);
        for span in spans {
            let expected = span.bytes * byte + span.files * file;
            if expected > 0.0 {
                bytes += span.bytes * span.seconds / expected;
                files += span.files * span.seconds / expected;
            }
        }
        byte = (byte * bytes + PRIOR_BYTES * BYTE_SECONDS) / (all.bytes + PRIOR_BYTES);
        file = (file * files + PRIOR_FILES * FILE_SECONDS) / (all.files + PRIOR_FILES);
    }
    Cost { byte_seconds: byte, file_seconds: file, files: all.files }
}
