//! Automation that is not shipped: `cargo xtask <task>`, and the tidy test that holds the house rules.

pub mod tidy;
