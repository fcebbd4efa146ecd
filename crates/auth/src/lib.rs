//! Who may do what; no IO.
