//! UDP tests: the order and what was found.
