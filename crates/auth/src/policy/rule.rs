//! One rule: who may do what, where, and from where.

use std::net::IpAddr;

use ipnet::IpNet;
use model::name::RelPath;

use super::address::is_in;
use super::dn::DistinguishedName;
use crate::access::{Opens, Permit};
use crate::actions::Actions;
use crate::mark::mark;

/// Whom a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever comes.
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
    /// The holder of an access key, by the id of its grant.
    Key(String),
}

impl Who {
    /// Its mark: the same for all rules that are for the same visitors.
    pub fn mark(&self) -> String {
        mark(&format!("{self:?}"))
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whom it is for.
    pub who: Who,
    /// For which export.
    pub export: String,
    /// For which path below it.
    pub path: RelPath,
    /// What is allowed.
    pub actions: Actions,
    /// From where; anywhere if empty.
    pub from: Vec<IpNet>,
}

impl Rule {
    /// Whether it counts for visitors from an address.
    pub fn is_from(&self, address: IpAddr) -> bool {
        self.from.is_empty() || is_in(&self.from, address)
    }

    /// What it permits.
    pub fn permit(&self) -> Permit {
        let permit = Permit::own(self.export.clone(), self.path.clone(), Opens::Tree, self.actions);
        Permit { from: self.from.clone(), by: Some(self.who.mark()), ..permit }
    }
}
