//! Where bytes rest.
