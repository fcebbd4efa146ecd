//! One rule: a subject, its actions, a path, and the addresses that it is for.

use std::net::IpAddr;

use ipnet::IpNet;
use model::name::RelPath;

use super::address::is_in;
use super::dn::DistinguishedName;
use crate::access::{PathKind, Permit};
use crate::actions::Actions;
use crate::mark::mark;

/// The subject of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSubject {
    /// All clients.
    Anyone,
    /// A group of an issuer, exactly: being in `/a/b` is not being in `/a`.
    Group {
        /// The issuer's `iss`.
        iss: String,
        /// The group.
        group: String,
    },
    /// One subject of an issuer.
    Subject {
        /// The issuer's `iss`.
        iss: String,
        /// The subject.
        subject: String,
    },
    /// The owner of a certificate.
    Dn(DistinguishedName),
    /// The members of a group of a virtual organisation, or those with a role in it, as a VOMS server attests (FQAN): exactly, in the
    /// form of [`plain_fqan`](crate::voms_attributes::plain_fqan).
    Fqan(String),
    /// The holder of an access key, by the id of its grant.
    Key(String),
}

impl RuleSubject {
    /// Its mark: the same for all rules with the same subject.
    pub fn mark(&self) -> String {
        mark(&format!("{self:?}"))
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The subject.
    pub subject: RuleSubject,
    /// The export.
    pub export: String,
    /// The path below the export.
    pub path: RelPath,
    /// The allowed actions.
    pub actions: Actions,
    /// The addresses that the rule is for; empty for all.
    pub addresses: Vec<IpNet>,
}

impl Rule {
    /// Whether it is for clients from an address.
    pub fn is_from(&self, address: IpAddr) -> bool {
        self.addresses.is_empty() || is_in(&self.addresses, address)
    }

    /// Its permit.
    pub fn permit(&self) -> Permit {
        let permit = Permit::own(self.export.clone(), self.path.clone(), PathKind::Tree, self.actions);
        Permit { addresses: self.addresses.clone(), rule_mark: Some(self.subject.mark()), ..permit }
    }
}
