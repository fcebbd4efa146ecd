//! The policy of a node: the file `access.toml`, and the access that it gives to a client.
//!
//! Does not know where the file is stored, which exports exist, or how credentials are verified: it gets the verified results. Without a
//! file only keys give access.

use std::net::IpAddr;
use std::time::Duration;

use model::name::RelPath;

mod address;
mod dn;
mod error;
mod evaluation;
mod file;
mod nat64;
mod rule;

pub use address::{Addresses, ThirdParty, is_public};
pub use dn::{DistinguishedName, DnError};
pub use error::PolicyError;
pub use evaluation::PresentedCredentials;
pub use rule::{Rule, RuleSubject};

use crate::actions::Actions;
use crate::issuer::Issuer;

/// The policy of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Accepted `aud` values of tokens.
    pub audiences: Vec<String>,
    /// The trusted issuers of tokens.
    pub issuers: Vec<Issuer>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The addresses that are served.
    pub addresses: Addresses,
    /// The addresses that third-party copies may use.
    pub third_party: ThirdParty,
    /// A program that takes part in decisions.
    pub callout: Option<Callout>,
    /// Whether macaroons are issued, and their longest validity.
    pub macaroons: Macaroons,
}

/// A program that decides about clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callout {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The longest time that it may take; then the client is refused.
    pub timeout: Duration,
    /// When it is asked.
    pub asked: AskedWhen,
}

/// When the program is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskedWhen {
    /// Where no rule decides.
    #[default]
    Undecided,
    /// Each time; it can refuse actions that rules allow.
    Always,
}

/// Settings of macaroons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macaroons {
    /// Whether macaroons are issued and accepted.
    pub on: bool,
    /// The longest validity of a macaroon.
    pub max_validity: Duration,
}

impl Default for Macaroons {
    fn default() -> Macaroons {
        Macaroons { on: false, max_validity: Duration::from_secs(24 * 3600) }
    }
}

impl Policy {
    /// Parses `access.toml`.
    ///
    /// # Errors
    /// [`PolicyError`]: the text is too long, no TOML, or makes no sense; with the line and the remedy.
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        file::parse(text)
    }

    /// The trusted issuer with the exact `iss`.
    pub fn issuer(&self, iss: &str) -> Option<&Issuer> {
        self.issuers.iter().find(|issuer| issuer.iss == iss)
    }

    /// Accepted `aud` values of an issuer's tokens.
    pub fn audiences_for(&self, issuer: &Issuer) -> Vec<String> {
        self.audiences.iter().chain(&issuer.audiences).cloned().collect()
    }

    /// Whether an address is served at all.
    pub fn admits(&self, address: IpAddr) -> bool {
        self.addresses.admit(address)
    }

    /// The actions that a client from an address may do at a path of an export and below, without a credential.
    pub fn anyone_may(&self, address: IpAddr, export: &str, path: &RelPath) -> Actions {
        let open = |rule: &&Rule| rule.subject == RuleSubject::Anyone && rule.is_from(address);
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
