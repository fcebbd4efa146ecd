//! The policy of a node: the one file `access.toml`, and what it gives to whoever comes.
//!
//! Does not know where the file lies, which exports there are, or how credentials were checked: it is handed what they
//! came to. Without a file nothing counts but keys.

use std::net::IpAddr;
use std::time::Duration;

use model::name::RelPath;

mod address;
mod dn;
mod error;
mod file;
mod judge;
mod nat64;
mod rule;

pub use address::{Addresses, ThirdParty, is_public};
pub use dn::{DistinguishedName, DnError};
pub use error::PolicyError;
pub use judge::Visitor;
pub use rule::{Rule, Who};

use crate::actions::Actions;
use crate::issuer::Issuer;

/// The policy of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What tokens may call this node in `aud`.
    pub audiences: Vec<String>,
    /// Whose tokens count.
    pub issuers: Vec<Issuer>,
    /// What is allowed to whom.
    pub rules: Vec<Rule>,
    /// Which addresses are served.
    pub addresses: Addresses,
    /// Where third-party copies go.
    pub third_party: ThirdParty,
    /// A program that is asked.
    pub callout: Option<Callout>,
    /// Whether and for how long macaroons are given.
    pub macaroons: Macaroons,
}

/// A program that is asked about visitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callout {
    /// It and its arguments.
    pub command: Vec<String>,
    /// How long it may take; then the answer is no.
    pub timeout: Duration,
    /// When it is asked.
    pub when: When,
}

/// When a program is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Where no rule decides.
    #[default]
    Undecided,
    /// Each time; it can refuse what rules allow.
    Always,
}

/// Whether and for how long macaroons are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macaroons {
    /// Whether any are given, and count.
    pub on: bool,
    /// How long one is good for at most.
    pub max_validity: Duration,
}

impl Default for Macaroons {
    fn default() -> Macaroons {
        Macaroons { on: false, max_validity: Duration::from_secs(24 * 3600) }
    }
}

impl Policy {
    /// Reads `access.toml`.
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        file::parse(text)
    }

    /// Somebody whose tokens count, by the exact `iss`.
    pub fn issuer(&self, iss: &str) -> Option<&Issuer> {
        self.issuers.iter().find(|issuer| issuer.iss == iss)
    }

    /// What tokens of an issuer may call this node.
    pub fn audiences_for(&self, issuer: &Issuer) -> Vec<String> {
        self.audiences.iter().chain(&issuer.audiences).cloned().collect()
    }

    /// Whether an address is served at all.
    pub fn admits(&self, address: IpAddr) -> bool {
        self.addresses.admit(address)
    }

    /// What anyone who comes from an address may do at a path of an export and below, without a credential.
    pub fn anyone_may(&self, address: IpAddr, export: &str, path: &RelPath) -> Actions {
        let open = |rule: &&Rule| rule.who == Who::Anyone && rule.is_from(address);
        let here = |rule: &&Rule| rule.export == export && path.starts_with(&rule.path);
        self.rules.iter().filter(open).filter(here).fold(Actions::NONE, |all, rule| all | rule.actions)
    }

    /// All exports that the policy names, so that a node can say which of them it does not have.
    pub fn exports_named(&self) -> Vec<&str> {
        let of_issuers = self.issuers.iter().flat_map(|i| i.export.iter().chain(i.exports.iter().flatten()));
        let mut names: Vec<&str> = self.rules.iter().map(|r| &r.export).chain(of_issuers).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
