//! Moves a transfer; the data plane.
