//! Automation that is not shipped; the tidy test.
