//! Subscriptions: rules that new data gets automatically, by its name and metadata. The data flows of an observatory are written as subscriptions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DataKind, Grouping, Metadata};

/// Which names are meant. In names and texts `*` stands for any characters; what is not said holds for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataFilter {
    /// In one of these scopes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// With one of these names, without the scope.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Datasets unless said; files are never meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<DataKind>,
    /// Of one of these accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// With these words of metadata; of a list, one of the values.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// Not before they are closed: nothing is added any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

/// A rule that a name gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTemplate {
    /// How many copies; 1 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// At which endpoints.
    pub at: String,
    /// Copies are read from these endpoints alone: a copy waits until it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Which files go to the same endpoints.
    #[serde(default)]
    pub grouping: Grouping,
    /// An attribute whose number is the part that an endpoint is to have, beside the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// 1 to 5; 3 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// For which activity of the community.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The rule ends so many seconds after it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_s: Option<u64>,
    /// It is to be fulfilled so many seconds after it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<u64>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A subscription that is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionOrder {
    /// Which names get the rules.
    #[serde(default)]
    pub filter: DataFilter,
    /// The rules; 20 at most.
    pub rules: Vec<RuleTemplate>,
    /// For which community; the owner's unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub community: Option<String>,
    /// Names that are there already get them, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
    /// Nothing gets them for now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// It ends then; rules that it has made stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// Whose it is, and whose rules it makes.
    pub account: String,
    /// For which community.
    pub community: String,
    /// Which names get the rules.
    pub filter: DataFilter,
    /// The rules.
    pub rules: Vec<RuleTemplate>,
    /// When it was made.
    pub created: String,
    /// It ends then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Nothing gets them for now.
    pub suspended: bool,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Names that have got its rules.
    pub names: u64,
    /// Names whose rules could not be made yet; they are tried again every 10 min.
    pub waiting: u64,
    /// Why the last of them could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Subscriptions {
    /// By name.
    pub subscriptions: Vec<Subscription>,
}
