//! The live configuration of a node: the part that its operator may replace while the node runs. It is opened as a whole or not at
//! all; a request keeps the configuration under which it has begun.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use auth::{Access, Rights};
use engine::movers::ConfiguredMovers;
use rustix::fs::{Access as AccessMode, access};

use crate::config::NodeConfig;
use crate::error::NodeError;
use crate::exports::{Export, ExportError, ServedExport};
use crate::movers::RootMovers;
use crate::networks::Networks;
use crate::policy_file::PolicyFile;
use crate::scratch::{EXPORT, ScratchPlaces};
use crate::test_service::Audit;

/// The exports, the policy and the other replaceable settings that are in force.
pub(crate) struct LiveConfiguration {
    pub served: Vec<ServedExport>,
    /// The rights of anonymous clients on every export; none where they have no right.
    pub anonymous: Option<Rights>,
    /// Whether payload may be sent unencrypted.
    pub plain: bool,
    pub policy: PolicyFile,
    /// Further addresses that accept streams; port 0 stands for the node's own port.
    pub advertise: Vec<SocketAddr>,
    /// The movers of this node.
    pub movers: Option<Arc<ConfiguredMovers>>,
    /// The movers that clients of XRootD's protocol are sent to.
    pub root_movers: Option<Arc<RootMovers>>,
    /// The audit of the host's settings, for principals with a key.
    pub audit: Option<Audit>,
    /// The networks that may read the metrics of this node without a key, also in clear.
    pub metrics: Networks,
    /// Expiry of the site's certificate, seconds since 1970; none without a certificate.
    pub certificate_ends: Option<i64>,
}

impl LiveConfiguration {
    /// Reads the policy and opens the exports. The export of the scratch places is open already, and stays the same over a reload.
    ///
    /// # Errors
    /// The policy is not valid, an export cannot be opened, or two exports have one name.
    pub fn open(config: &NodeConfig, scratch: Option<&ScratchPlaces>) -> Result<LiveConfiguration, NodeError> {
        // A node that exists for one copy serves only its operator: it reads no policy file.
        let policy = if config.serves_one_copy {
            PolicyFile::none()
        } else {
            PolicyFile::open(config.web.access.as_deref(), config.state.path())?
        };
        let mut served: Vec<ServedExport> = scratch.map(ScratchPlaces::served).into_iter().collect();
        for export in config.exports.iter().cloned() {
            if scratch.is_some() && export.name == EXPORT {
                return Err(ExportError::Exercise(export.name).into());
            }
            if served.iter().any(|s| s.export.name == export.name) {
                return Err(ExportError::Twice(export.name).into());
            }
            served.push(ServedExport::open(export, config.state.path())?);
        }
        Ok(LiveConfiguration {
            served,
            anonymous: config.anonymous,
            plain: config.plain,
            policy,
            advertise: config.advertise.clone(),
            movers: config.movers.clone(),
            root_movers: config.root_movers.clone(),
            audit: config.audit,
            metrics: config.metrics.clone(),
            certificate_ends: certificate_expiry(config),
        })
    }

    /// The export of this name, without a check of who may see it.
    pub fn export(&self, name: &str) -> Option<&ServedExport> {
        self.served.iter().find(|served| served.export.name == name)
    }

    /// The exports that a principal may see.
    pub fn visible<'a>(&'a self, access: &'a Access) -> impl Iterator<Item = &'a ServedExport> {
        self.served.iter().filter(|served| access.may_see(&served.export.name))
    }

    /// Logs warnings about parts of the configuration that will not work as intended.
    pub fn warn(&self) {
        self.policy.compare(self.served.iter().map(|served| served.export.name.as_str()));
        let is_local = |export: &&Export| export.writable && export.remote_store.is_none();
        for export in self.served.iter().map(|served| &served.export).filter(is_local) {
            if let Err(error) = may_write(&export.dir) {
                let (export, dir) = (&export.name, export.dir.display());
                let remedy =
                    "let the user of this node write there; under systemd, ReadWritePaths= must name it as well";
                tracing::warn!(export, %dir, %error, remedy, "the export is rw, and nothing can be written to it");
            }
        }
    }

    /// The changes of the exports since `before`, as text for the log; empty if there are none.
    pub fn changes_since(&self, before: &LiveConfiguration) -> String {
        let mut changes = Vec::new();
        for ServedExport { export, .. } in &self.served {
            match before.export(&export.name).map(|served| &served.export) {
                None => changes.push(format!("{} is new", export.name)),
                Some(old) if old.dir != export.dir => changes.push(format!("{} is elsewhere", export.name)),
                Some(old) if old.writable != export.writable => {
                    changes.push(format!("{} is {}", export.name, if export.writable { "rw" } else { "ro" }));
                }
                Some(_) => {}
            }
        }
        let removed = before.served.iter().map(|served| &served.export.name).filter(|name| self.export(name).is_none());
        changes.extend(removed.map(|name| format!("{name} is gone")));
        changes.join(", ")
    }
}

/// Expiry of the first certificate of the site's chain, which is the node's own; seconds since 1970.
fn certificate_expiry(config: &NodeConfig) -> Option<i64> {
    let own = config.web.certificate.as_ref()?.chain.first()?;
    let (_, own) = x509_parser::parse_x509_certificate(own).ok()?;
    Some(own.validity().not_after.timestamp())
}

fn may_write(dir: &Path) -> Result<(), std::io::Error> {
    access(dir, AccessMode::WRITE_OK | AccessMode::EXEC_OK).map_err(Into::into)
}
