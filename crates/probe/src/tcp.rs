//! TCP tests: streams in either direction, both ends counted, with what limits them.
