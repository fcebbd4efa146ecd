//! The node that is installed on this host: its settings file and its state directory.

use std::path::{Path, PathBuf};

use super::serve;
use crate::args::Common;
use crate::failure::Failure;
use crate::settings::Settings;

/// The settings file of the package.
const PACKAGED_SETTINGS: &str = "/etc/longhaul/longhaul.toml";

/// Where the files of a node are.
pub struct InstalledNode {
    /// The state directory.
    pub state: PathBuf,
    /// The settings file, if there is one.
    pub config: Option<PathBuf>,
}

impl InstalledNode {
    /// The node with this settings file, else with that of the package. A state directory on the command line or in the environment wins
    /// over the one in the settings file.
    ///
    /// # Errors
    /// No place for the state is known.
    pub fn find(config: Option<&PathBuf>, common: &Common, settings: &Settings) -> Result<InstalledNode, Failure> {
        let packaged = || Some(PathBuf::from(PACKAGED_SETTINGS)).filter(|path| path.exists());
        let config = config.cloned().or_else(packaged);
        let is_state_typed =
            common.state.is_some() || std::env::var_os("LONGHAUL_STATE").is_some_and(|dir| !dir.is_empty());
        let in_file = config.as_deref().filter(|_| !is_state_typed).and_then(serve::state_in_file);
        let state = in_file.map_or_else(|| settings.state_path().map(Path::to_owned), Ok)?;
        Ok(InstalledNode { state, config })
    }
}
