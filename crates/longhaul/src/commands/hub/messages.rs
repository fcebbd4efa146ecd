//! The file of `--messages`: the brokers that get a message about each file.

use std::path::{Path, PathBuf};

use hub::messages::{Broker, Messages};
use serde::Deserialize;

use crate::failure::Failure;
use crate::toml_file;

/// The prefix of FTS's topics.
const DESTINATION: &str = "/topic/transfer.fts_monitoring_";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MessagesFile {
    brokers: Vec<String>,
    user: Option<String>,
    /// The file whose first line is the password.
    password_file: Option<PathBuf>,
    #[serde(default = "virtual_host")]
    virtual_host: String,
    #[serde(default = "destination")]
    destination: String,
    endpoint: Option<String>,
    #[serde(default = "states")]
    states: bool,
}

fn virtual_host() -> String {
    "/".to_owned()
}

fn destination() -> String {
    DESTINATION.to_owned()
}

fn states() -> bool {
    true
}

/// Checks that a text is a file of `--messages`.
///
/// # Errors
/// The text is not such a file.
#[cfg(test)]
pub fn settings(text: &str) -> Result<(), toml::de::Error> {
    toml::from_str::<MessagesFile>(text).map(drop)
}

/// Reads the file, and the password that it names.
///
/// # Errors
/// The file or its password file cannot be read, or is wrong.
pub fn read(file: &Path) -> Result<Messages, Failure> {
    let fail = |why: String| Failure::usage(format!("cannot use {} as --messages: {why}", file.display()));
    let file_settings: MessagesFile = toml_file::read(file)?;
    let brokers: Result<Vec<Broker>, String> = file_settings.brokers.iter().map(|broker| broker.parse()).collect();
    let brokers = brokers.map_err(fail)?;
    if brokers.is_empty() {
        return Err(fail("it names no broker: brokers = [\"stomp://HOST:PORT\"]".to_owned()));
    }
    let password = match &file_settings.password_file {
        None => String::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| fail(format!("{}: {error}", path.display())))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
    };
    let this_host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(Messages {
        brokers,
        user: file_settings.user,
        password,
        virtual_host: file_settings.virtual_host,
        destination: file_settings.destination,
        endpoint: file_settings.endpoint.unwrap_or_else(this_host),
        states: file_settings.states,
    })
}
