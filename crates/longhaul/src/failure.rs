//! A command's failure: one sentence and the exit code that goes with it.

use model::Locator;
use model::fault::{Blame, Exit, Fault};

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// Whose fault it is.
    pub fault: Fault,
    /// What, where, why and the remedy.
    pub message: String,
}

impl Failure {
    /// The command line asks for something that makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, fault: Fault::Config, message: message.into() }
    }

    /// Something on this host is at fault.
    pub fn local(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, fault: Fault::Local, message: message.into() }
    }

    /// Adds the full locators of the command: an error from a lower layer names only a path within a directory, an export or a
    /// bucket.
    pub fn with_locators(mut self, locators: &[String]) -> Failure {
        if self.exit != Exit::Usage {
            self.message = with_locators(&self.message, locators);
        }
        self
    }

    /// An error with its chain of causes, each named once.
    pub fn from_chain(fault: Fault, error: &dyn std::error::Error) -> Failure {
        Failure { exit: fault.into(), fault, message: model::fault::with_causes(error) }
    }
}

/// A message, followed by the locators that it does not contain.
pub fn with_locators(message: &str, locators: &[String]) -> String {
    let missing: Vec<&str> = locators.iter().map(String::as_str).filter(|locator| !message.contains(locator)).collect();
    if missing.is_empty() { message.to_owned() } else { format!("{message} [{}]", missing.join(" -> ")) }
}

/// A locator that does not depend on the working directory: a path becomes absolute.
pub fn in_full(locator: &Locator) -> String {
    match locator {
        Locator::Local(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Locator::Local(path).to_string()
        }
        other => other.to_string(),
    }
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Failure {
        Failure::from_chain(error.fault(), &error)
    }
}

/// An error of this end: a session asks the command for its sources or its target, and they cannot be opened.
impl From<Failure> for engine::Error {
    fn from(Failure { fault, message, .. }: Failure) -> engine::Error {
        engine::Error::ThisEnd(model::Refusal::new(fault, message))
    }
}

impl From<model::Refusal> for Failure {
    fn from(model::Refusal { fault, reason }: model::Refusal) -> Failure {
        Failure { exit: fault.into(), fault, message: reason }
    }
}

impl From<client::remote_store::Error> for Failure {
    fn from(error: client::remote_store::Error) -> Failure {
        Failure::from_chain(error.fault(), &error)
    }
}

impl From<report::Error> for Failure {
    fn from(error: report::Error) -> Failure {
        Failure::from_chain(error.fault(), &error)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        let fault = if error.is_not_found() { Fault::Missing } else { error.fault() };
        Failure::from_chain(fault, &error)
    }
}

impl From<client::StateError> for Failure {
    fn from(error: client::StateError) -> Failure {
        Failure::from_chain(Fault::Local, &error)
    }
}

impl From<node::NodeError> for Failure {
    fn from(error: node::NodeError) -> Failure {
        let fault = match error {
            node::NodeError::Export(node::ExportError::Directory { .. }) => Fault::Storage,
            node::NodeError::Export(_) | node::NodeError::Access(_) => Fault::Config,
            _ => Fault::Local,
        };
        Failure::from_chain(fault, &error)
    }
}

impl From<lab::Error> for Failure {
    fn from(error: lab::Error) -> Failure {
        // A message of the lab contains its causes already.
        let fault = error.fault();
        Failure { exit: fault.into(), fault, message: error.to_string() }
    }
}

impl From<node::ExportError> for Failure {
    fn from(error: node::ExportError) -> Failure {
        Failure::usage(error.to_string())
    }
}

impl From<model::locator::LocatorError> for Failure {
    fn from(error: model::locator::LocatorError) -> Failure {
        Failure::usage(error.to_string())
    }
}
