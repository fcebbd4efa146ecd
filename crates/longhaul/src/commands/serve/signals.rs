//! Signals to a node: SIGHUP reads its settings again, SIGINT and SIGTERM end it.

use std::io::{IsTerminal, stderr};
use std::net::SocketAddr;
use std::sync::Arc;

use client::StateDir;
use node::{ExerciseConfig, Node};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::settings_sources::SettingsSource;
use crate::failure::Failure;
use crate::supervisor::Supervisor;

/// A running node, with the values that a reload needs.
pub struct RunningNode {
    pub node: Arc<Node>,
    pub source: SettingsSource,
    /// The `listen` setting at start.
    pub listen: Option<String>,
    /// The `exercise` setting at start.
    pub exercise: Option<ExerciseConfig>,
    /// The address that the node listens on.
    pub address: SocketAddr,
    pub state: StateDir,
    pub supervisor: Supervisor,
    /// Whether stderr was a terminal at start: a terminal that hangs up sends SIGHUP, too.
    pub has_terminal: bool,
}

impl RunningNode {
    /// Handles signals until one ends the node.
    pub fn handle_signals(&self, signals: &mut Signals) {
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
        let status = match self.read_again() {
            Ok(()) => format!("listening on {}", self.address),
            Err(failure) => {
                self.node.reload_failed();
                let error = failure.message.replace('\n', " ");
                tracing::error!(error, "the new settings are refused; the former ones stay in force");
                format!("listening on {}; the last reload was refused: {error}", self.address)
            }
        };
        self.supervisor.ready(&status);
    }

    fn read_again(&self) -> Result<(), Failure> {
        if !self.source.has_file() {
            tracing::info!(
                "there is no settings file (--config): certificates, authorities and the policy are read again"
            );
        }
        let settings = self.source.read()?;
        let has_other_listen = settings.listen != self.listen;
        let has_other_state = settings.state != self.state.path();
        let has_other_exercise = settings.exercise != self.exercise;
        let has_other_fips = settings.fips != auth::approved::is_restricted();
        self.node.reload(&settings.config(self.address, self.state.clone()))?;
        let fixed = [
            ("listen", has_other_listen),
            ("state", has_other_state),
            ("exercise", has_other_exercise),
            ("fips", has_other_fips),
        ];
        for (key, _) in fixed.iter().filter(|(_, differs)| *differs) {
            tracing::warn!(key, "this setting has changed, and takes effect only when the node starts: restart it");
        }
        Ok(())
    }
}
