//! Replaces the settings of a running node: all of them, or none if one is invalid. Nothing is interrupted: a connection keeps its
//! TLS settings, a session its principal, a job and a request their options.

use super::{Node, tls_settings};
use crate::access::LiveConfiguration;
use crate::config::NodeConfig;
use crate::error::NodeError;

impl Node {
    /// Replaces exports, rights of anonymous clients, clear text, certificates, authorities, the policy's file, collectors,
    /// responders, the networks that may read the metrics, and the audit. The node's addresses, state directory, timeouts, grants
    /// in memory and scratch places stay.
    ///
    /// # Errors
    /// A setting is invalid; then nothing has changed.
    pub fn reload(&self, config: &NodeConfig) -> Result<(), NodeError> {
        let port = self.port();
        let live = LiveConfiguration::open(config, port.services.access.scratch().as_deref())?;
        let tls = tls_settings(&self.identity, &config.web)?;
        let settings = port.http.prepare_settings(&config.web)?;
        port.responders.check_available(&config.responders).map_err(NodeError::Datagrams)?;
        // From here on nothing fails.
        let changes = port.services.access.replace(live);
        port.http.replace(settings);
        port.responders.replace(config.responders.clone());
        port.services.responders.store(std::sync::Arc::new(config.responders.clone()));
        self.server.replace_tls(tls);
        port.services.meters.reloaded(true);
        // Logged last: operators and tests wait for this line.
        let exports = if changes.is_empty() { "as before" } else { changes.as_str() };
        tracing::info!(exports, "the settings were read again and are in force");
        Ok(())
    }
}
