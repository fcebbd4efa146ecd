//! Why something was refused or failed.

use model::fault::Fault;

/// Why something was refused or failed, in the words that the other end shows to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose fault, from the view of the one who says it.
    pub fault: Fault,
    /// One sentence: what, where and the remedy.
    pub reason: String,
}
