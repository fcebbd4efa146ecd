//! The native protocol, sans IO.
