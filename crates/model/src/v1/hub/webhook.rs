//! Webhooks: events of names are posted to a URL, signed as Standard Webhooks says.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A webhook that is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookOrder {
    /// Where events are posted: `https://…` or `http://…`.
    pub url: String,
    /// Kinds of events (`complete`, `replica_bad`, …); all unless said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Names (`scope:name`) like one of these, in which `*` stands for any characters; all unless said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// With what it is signed: `whsec_` and 24 to 64 bytes in Base64; made unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// Where events are posted.
    pub url: String,
    /// Kinds of events; all where none is named.
    pub kinds: Vec<String>,
    /// Names like one of these; all where none is named.
    pub names: Vec<String>,
    /// Who made it.
    pub account: String,
    /// When.
    pub created: String,
    /// Events that were taken there.
    pub told: u64,
    /// Times in a row that nothing was.
    pub failures: u64,
    /// Why not, the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// It is tried again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// With what it is signed; told only to whoever made it, when it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhooks {
    /// By name.
    pub webhooks: Vec<Webhook>,
}
