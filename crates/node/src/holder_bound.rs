//! Bounds of what clients may have at once.

/// A bound for each holder, and one for all holders together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderBound {
    /// Of one holder.
    pub each: usize,
    /// Of all.
    pub all: usize,
}
