//! The progress over time, in fine spans for the last seconds and coarser ones before, so that days take little more memory than
//! minutes.

use std::collections::VecDeque;
use std::ops::AddAssign;

/// How long the finest spans are, s.
const FINEST_SECONDS: f64 = 0.25;
/// Spans of each length, before the two oldest become one of twice the length.
const SPANS_OF_A_LENGTH: usize = 16;

/// The work of a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub seconds: f64,
    pub bytes: f64,
    pub files: f64,
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        self.seconds += other.seconds;
        self.bytes += other.bytes;
        self.files += other.files;
    }
}

/// The work so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Spans by length, the finest first; each level from old to new.
    levels: Vec<VecDeque<Span>>,
    /// The finest span, while it is not full yet.
    open: Span,
    total: Span,
}

impl History {
    /// All spans as one.
    pub fn total(&self) -> Span {
        self.total
    }

    pub fn push(&mut self, span: Span) {
        self.total += span;
        self.open += span;
        if self.open.seconds >= FINEST_SECONDS {
            let full = std::mem::take(&mut self.open);
            self.keep(0, full);
        }
    }

    fn keep(&mut self, level: usize, span: Span) {
        if self.levels.len() == level {
            self.levels.push(VecDeque::new());
        }
        self.levels[level].push_back(span);
        if self.levels[level].len() > SPANS_OF_A_LENGTH
            && let (Some(mut first), Some(second)) = (self.levels[level].pop_front(), self.levels[level].pop_front())
        {
            first += second;
            self.keep(level + 1, first);
        }
    }

    /// The spans from old to new; the last may be short.
    pub fn spans(&self) -> Vec<Span> {
        self.levels.iter().rev().flatten().copied().collect()
    }

    /// The last seconds as one span.
    pub fn recent(&self) -> Span {
        let mut recent = Span::default();
        for span in self.spans().into_iter().rev().take(SPANS_OF_A_LENGTH) {
            recent += span;
        }
        recent
    }
}
