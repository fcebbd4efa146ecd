//! Subscriptions: rules that new data gets automatically, by its name and metadata. They describe the data flows of an observatory.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DataKind, Grouping, Metadata};

/// A filter that selects names. In names and strings `*` stands for any characters. A field that is left out matches every name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataFilter {
    /// The name is in one of these scopes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The name, without its scope, matches one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Datasets or containers; default: datasets. Files are never selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<DataKind>,
    /// The name belongs to one of these accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// The metadata has these keys and values; a list matches any of its values.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Metadata,
    /// Select names only when they are closed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

/// A template of a rule, applied to each selected name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTemplate {
    /// The number of replicas; default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// The expression that selects the endpoints.
    pub at: String,
    /// An expression: files are copied only from these endpoints. A copy waits until one of them has the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Which files go to the same endpoints.
    #[serde(default)]
    pub grouping: Grouping,
    /// An attribute whose number is the weight of an endpoint in the distribution of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// The priority, 1 to 5; default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The activity of the community.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The lifetime of the rule, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_s: Option<u64>,
    /// The deadline of the rule, seconds after it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<u64>,
    /// A comment for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A request to create or replace a subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionOrder {
    /// Selects the names that get the rules.
    #[serde(default)]
    pub filter: DataFilter,
    /// The rules; at most 20.
    pub rules: Vec<RuleTemplate>,
    /// The community; default: that of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub community: Option<String>,
    /// Names that exist already get the rules, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
    /// The subscription is suspended: no name gets the rules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// When the subscription ends. Rules that it has made stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// A comment for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// The name of the subscription.
    pub name: String,
    /// The account that owns the subscription and its rules.
    pub account: String,
    /// The community.
    pub community: String,
    /// Selects the names that get the rules.
    pub filter: DataFilter,
    /// The rules.
    pub rules: Vec<RuleTemplate>,
    /// When the subscription was made.
    pub created: String,
    /// When the subscription ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The subscription is suspended: no name gets the rules.
    pub suspended: bool,
    /// A comment for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The number of names that have got its rules.
    pub names: u64,
    /// The number of names whose rules could not be made yet. The hub tries again every 10 minutes.
    pub waiting: u64,
    /// Why the last of these rules could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Subscriptions {
    /// The subscriptions, sorted by name.
    pub subscriptions: Vec<Subscription>,
}
