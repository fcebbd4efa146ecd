//! Something of another catalogue, for this one.

use model::v1::hub::{NewData, RuleOrder};

/// What is taken in, one after another: names before what contains them.
#[derive(Debug)]
pub(super) enum Item {
    /// A scope and its account.
    Scope(String, String),
    New(NewData),
    Contents {
        of: String,
        names: Vec<String>,
    },
    Closed(String),
    Rule(RuleOrder),
}
