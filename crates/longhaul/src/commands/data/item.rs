//! One item of another catalogue, to be imported.

use model::v1::hub::{NewData, RuleOrder};

/// An item to import. Names come before the datasets and containers that contain them.
#[derive(Debug)]
pub(super) enum ImportItem {
    /// A scope and its account.
    Scope(String, String),
    /// A name, with its metadata and replicas.
    New(NewData),
    /// The names in a dataset or container, or a part of them.
    Contents {
        of: String,
        names: Vec<String>,
    },
    /// A dataset or container that is closed.
    Closed(String),
    Rule(RuleOrder),
}
