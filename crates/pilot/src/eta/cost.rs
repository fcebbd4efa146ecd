//! Estimates the time that a file costs beside its bytes, from the transfer itself.
//!
//! Time is taken for a sum of bytes and files, each at its price: the prices that make it most likely are found as for
//! counts (Poisson), since then the total comes out right, neither is negative, and a stretch of nothing but bytes tells
//! nothing about files. Until some hundred files have told, a file costs little.

use super::history::Span;

/// What a file is taken to cost before any was seen, s.
const FILE_SECONDS: f64 = 50e-6;
/// How many files it takes to outweigh that.
const FILES_OF_BELIEF: f64 = 64.0;
/// The same for bytes, where a job of empty files has shown none.
const BYTE_SECONDS: f64 = 1e-8;
const BYTES_OF_BELIEF: f64 = 1e3;
/// Rounds of the fit. Each is a sum over the spans; it has settled to a percent by then.
const ROUNDS: usize = 40;

/// The price of work, in seconds at the mean rate of the job so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    byte_seconds: f64,
    file_seconds: f64,
    /// Files that told.
    files: f64,
}

impl Cost {
    /// How long so much would have taken at the rate so far, s.
    pub fn work(&self, span: &Span) -> f64 {
        span.bytes * self.byte_seconds + span.files * self.file_seconds
    }

    /// Work per second of what moved in a time; 0 in no time.
    pub fn rate(&self, span: &Span) -> f64 {
        if span.seconds > 0.0 { self.work(span) / span.seconds } else { 0.0 }
    }

    /// How far off that may be because few files were seen, s.
    pub fn doubt(&self, left: &Span) -> f64 {
        let unsure = (FILES_OF_BELIEF / (FILES_OF_BELIEF + self.files)).sqrt();
        left.files * self.file_seconds * unsure
    }
}

/// The prices.
pub(super) fn fit(spans: &[Span]) -> Cost {
    let mut all = Span::default();
    spans.iter().for_each(|span| all += *span);
    let mut byte = all.seconds / all.bytes.max(BYTES_OF_BELIEF);
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
        byte = (byte * bytes + BYTES_OF_BELIEF * BYTE_SECONDS) / (all.bytes + BYTES_OF_BELIEF);
        file = (file * files + FILES_OF_BELIEF * FILE_SECONDS) / (all.files + FILES_OF_BELIEF);
    }
    Cost { byte_seconds: byte, file_seconds: file, files: all.files }
}
