//! Signals to a node: SIGHUP reads its settings again, SIGINT and SIGTERM end it.

use std::io::{IsTerminal, stderr};
use std::net::SocketAddr;
use std::sync::Arc;

use client::StateDir;
use node::Node;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::settings_sources::SettingsSource;
use super::supervisor::Supervisor;
use crate::failure::Failure;

/// A running node, with what a reload needs.
pub struct RunningNode {
    pub node: Arc<Node>,
    pub source: SettingsSource,
    /// The `listen` setting, and the address that the node listens on.
    pub listen: (Option<String>, SocketAddr),
    pub state: StateDir,
    pub supervisor: Supervisor,
    /// A terminal that hangs up sends SIGHUP as well.
    pub has_terminal: bool,
}

impl RunningNode {
    /// Answers signals until one ends the node.
    pub fn heed(&self, signals: &mut Signals) {
        for signal in signals.forever() {
            let has_hung_up = self.has_terminal && !stderr().is_terminal();
            if signal == SIGHUP && !has_hung_up {
                self.reload();
                continue;
            }
            self.supervisor.stopping();
            return self.node.stopper().stop();
        }
    }

    fn reload(&self) {
        self.supervisor.reloading();
        let how = match self.read_again() {
            Ok(()) => format!("listening on {}", self.listen.1),
            Err(failure) => {
                self.node.reload_failed();
                let error = failure.message.replace('\n', " ");
                tracing::error!(error, "the new settings are refused: those before them count on");
                format!("listening on {}; the last reload was refused: {error}", self.listen.1)
            }
        };
        self.supervisor.ready(&how);
    }

    fn read_again(&self) -> Result<(), Failure> {
        if !self.source.has_file() {
            tracing::info!(
                "there is no settings file (--config): certificates, authorities and the policy are read again"
            );
        }
        let settings = self.source.read()?;
        let listens = settings.listen != self.listen.0;
        let state = settings.state != self.state.path();
        self.node.reload(&settings.config(self.listen.1, self.state.clone()))?;
        for (key, _) in [("listen", listens), ("state", state)].iter().filter(|(_, differs)| *differs) {
            tracing::warn!(key, "changed in the settings, and not while a node runs: restart it");
        }
        Ok(())
    }
}
