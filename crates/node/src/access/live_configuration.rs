//! What a node offers, and on what terms: the part of it that its operator may replace while it runs. It is opened whole or not
//! at all, and whoever began something under the former offer ends it under that.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use auth::{Access, Rights};
use engine::movers::Peers;
use rustix::fs::{Access as Asked, access};

use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::exports::{Export, ExportError, Served};
use crate::networks::Networks;
use crate::policy_file::PolicyFile;
use crate::test_service::Audit;

/// What is offered.
pub(crate) struct LiveConfiguration {
    pub served: Vec<Served>,
    /// What whoever comes without a key may do, on every export.
    pub anonymous: Option<Rights>,
    /// Whether payload may go in clear.
    pub plain: bool,
    pub policy: PolicyFile,
    /// Where streams are taken besides; port 0 for the node's own.
    pub advertise: Vec<SocketAddr>,
    /// Who carries streams beside this node.
    pub movers: Option<Arc<Peers>>,
    /// How the host's settings stand, for those who have a key.
    pub audit: Option<Audit>,
    /// Who may read the numbers of this node without a key, also in clear.
    pub metrics: Networks,
    /// When the site's certificate ends, seconds since 1970; none without one.
    pub certificate_ends: Option<i64>,
}

impl LiveConfiguration {
    /// Reads the policy and opens the exports.
    pub fn open(config: &NodeConfig) -> Result<LiveConfiguration, NodeError> {
        // A node that lives for a copy is its operator's own: no policy counts but that of whoever started it.
        let policy = match config.own_guests {
            true => PolicyFile::none(),
            false => PolicyFile::open(config.web.access.as_deref(), config.state.path())?,
        };
        let mut served: Vec<Served> = Vec::new();
        for export in config.exports.iter().cloned() {
            if served.iter().any(|s| s.export.name == export.name) {
                return Err(ExportError::Twice(export.name).into());
            }
            served.push(Served::open(export, config.state.path())?);
        }
        let (anonymous, plain, audit) = (config.anonymous, config.plain, config.audit);
        let (metrics, certificate_ends) = (config.metrics.clone(), ends(config));
        let (advertise, movers) = (config.advertise.clone(), config.movers.clone());
        Ok(LiveConfiguration { served, anonymous, plain, policy, advertise, movers, audit, metrics, certificate_ends })
    }

    /// An export, whoever may see it.
    pub fn export(&self, name: &str) -> Option<&Served> {
        self.served.iter().find(|served| served.export.name == name)
    }

    /// AccessControl that somebody may know of.
    pub fn visible<'a>(&'a self, access: &'a Access) -> impl Iterator<Item = &'a Served> {
        self.served.iter().filter(|served| access.may_see(&served.export.name))
    }

    /// Says what of it will not work as it was meant: now, and not when the first guest finds out.
    pub fn warn(&self) {
        self.policy.compare(self.served.iter().map(|served| served.export.name.as_str()));
        let here = |export: &&Export| export.writable && export.abroad.is_none();
        for export in self.served.iter().map(|served| &served.export).filter(here) {
            if let Err(error) = may_write(&export.dir) {
                let (export, dir) = (&export.name, export.dir.display());
                let remedy =
                    "let the user of this node write there; under systemd, ReadWritePaths= must name it as well";
                tracing::warn!(export, %dir, %error, remedy, "the export is rw, and nothing can be written to it");
            }
        }
    }

    /// What is other than before, in words for the log; nothing where exports are the same.
    pub fn changes_since(&self, before: &LiveConfiguration) -> String {
        let mut said = Vec::new();
        for Served { export, .. } in &self.served {
            match before.export(&export.name).map(|served| &served.export) {
                None => said.push(format!("{} is new", export.name)),
                Some(old) if old.dir != export.dir => said.push(format!("{} is elsewhere", export.name)),
                Some(old) if old.writable != export.writable => {
                    said.push(format!("{} is {}", export.name, if export.writable { "rw" } else { "ro" }));
                }
                Some(_) => {}
            }
        }
        let gone = before.served.iter().map(|served| &served.export.name).filter(|name| self.export(name).is_none());
        said.extend(gone.map(|name| format!("{name} is gone")));
        said.join(", ")
    }
}

/// When the first certificate of the site's chain ends: the node's own.
fn ends(config: &NodeConfig) -> Option<i64> {
    let own = config.web.certificate.as_ref()?.chain.first()?;
    let (_, own) = x509_parser::parse_x509_certificate(own).ok()?;
    Some(own.validity().not_after.timestamp())
}

fn may_write(dir: &Path) -> Result<(), std::io::Error> {
    access(dir, Asked::WRITE_OK | Asked::EXEC_OK).map_err(Into::into)
}
