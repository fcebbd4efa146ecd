//! The table of schedules, without a network.
