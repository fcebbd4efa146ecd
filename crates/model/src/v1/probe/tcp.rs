//! TCP tests: the order and what was found.
