//! An item of another catalogue that is to be imported.

use model::v1::hub::{NewData, RuleOrder};

/// An item to import. Names come before the datasets and containers that contain them.
#[derive(Debug)]
pub(super) enum ImportItem {
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
