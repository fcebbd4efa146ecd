//! Webhooks: the hub posts events of names to a URL, signed according to Standard Webhooks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request to create or replace a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookOrder {
    /// The URL to which events are posted: `https://…` or `http://…`.
    pub url: String,
    /// The kinds of events (`complete`, `replica_bad`, …); default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Patterns of names (`scope:name`), in which `*` stands for any characters; default: all names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The secret for signatures: `whsec_` and 24 to 64 bytes in Base64; default: the hub makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    /// The name of the webhook.
    pub name: String,
    /// The URL to which events are posted.
    pub url: String,
    /// The kinds of events; all if the list is empty.
    pub kinds: Vec<String>,
    /// Patterns of names; all names if the list is empty.
    pub names: Vec<String>,
    /// The account that made it.
    pub account: String,
    /// When it was made.
    pub created: String,
    /// The number of events that the server has accepted.
    pub told: u64,
    /// The number of failed posts since the last success.
    pub failures: u64,
    /// Why the last post failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The earliest time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// The secret for signatures. Returned only once, to the account that makes the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhooks {
    /// The webhooks, sorted by name.
    pub webhooks: Vec<Webhook>,
}
