//! New settings for a running node: all of them, or, where one cannot be, none. Nobody is sent away: a connection keeps the
//! TLS it began with, a session whom it let in, a job and a request what they were told to do.

use super::{Node, tls_settings};
use crate::access::LiveConfiguration;
use crate::config::NodeConfig;
use crate::error::NodeError;

impl Node {
    /// Exports, who is let in without a key, clear text, certificates, authorities, the policy's file, collectors, responders,
    /// who may read the numbers, and the audit are as this says from now on. Where the node listens, its state, its bounds on
    /// waiting and the grants that it holds in memory stay.
    ///
    /// # Errors
    /// Why it cannot be; then everything is as before.
    pub fn reload(&self, config: &NodeConfig) -> Result<(), NodeError> {
        let port = self.port();
        let live = LiveConfiguration::open(config)?;
        let tls = tls_settings(&self.identity, &config.web)?;
        let ways = port.web.prepare_ways(&config.web)?;
        port.responders.could_answer(&config.responders).map_err(NodeError::Datagrams)?;
        // From here on nothing fails.
        let changes = port.services.access.replace(live);
        port.web.replace(ways);
        port.responders.replace(config.responders.clone());
        port.services.responders.store(std::sync::Arc::new(config.responders.clone()));
        self.server.replace_tls(tls);
        port.services.meters.reloaded(true);
        // Said when it is so: whoever waits for these words relies on them.
        let exports = if changes.is_empty() { "as before" } else { changes.as_str() };
        tracing::info!(exports, "the settings were read again, and count from now on");
        Ok(())
    }
}
