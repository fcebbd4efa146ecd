//! Directions of a path.

use serde::{Deserialize, Serialize};

/// A direction, seen from where the command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the other end.
    #[default]
    Forward,
    /// From the other end.
    Reverse,
}

impl Direction {
    /// Forward, or else reverse.
    pub fn of(is_forward: bool) -> Direction {
        if is_forward { Direction::Forward } else { Direction::Reverse }
    }

    /// The word in JSON and in output.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        }
    }

    /// Whether it leads to the other end.
    pub fn is_forward(self) -> bool {
        self == Direction::Forward
    }
}
