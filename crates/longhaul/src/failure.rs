//! A command's failure: one sentence and the exit code that goes with it.

use model::fault::{Blame, Exit, Fault};

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// Whose fault.
    pub fault: Fault,
    /// What, where, why and the remedy.
    pub message: String,
}

impl Failure {
    /// The command line asks for something that makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, fault: Fault::Config, message: message.into() }
    }

    /// Something on this host.
    pub fn local(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, fault: Fault::Local, message: message.into() }
    }

    /// An error with its chain of causes, each said once.
    pub fn from_chain(fault: Fault, error: &dyn std::error::Error) -> Failure {
        Failure { exit: fault.into(), fault, message: model::fault::with_causes(error) }
    }
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Failure {
        Failure::from_chain(error.fault(), &error)
    }
}

impl From<Failure> for engine::Error {
    fn from(Failure { fault, message, .. }: Failure) -> engine::Error {
        engine::Error::Later { fault, message }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        let fault = if error.is_not_found() { Fault::Missing } else { error.fault() };
        Failure::from_chain(fault, &error)
    }
}

impl From<door::StateError> for Failure {
    fn from(error: door::StateError) -> Failure {
        Failure::from_chain(Fault::Local, &error)
    }
}

impl From<door::NodeError> for Failure {
    fn from(error: door::NodeError) -> Failure {
        let fault = match error {
            door::NodeError::Export(door::ExportError::Directory { .. }) => Fault::Storage,
            door::NodeError::Export(_) | door::NodeError::Access(_) => Fault::Config,
            _ => Fault::Local,
        };
        Failure::from_chain(fault, &error)
    }
}

impl From<lab::Error> for Failure {
    fn from(error: lab::Error) -> Failure {
        // The lab's messages name their causes themselves.
        let fault = error.fault();
        Failure { exit: fault.into(), fault, message: error.to_string() }
    }
}

impl From<door::ExportError> for Failure {
    fn from(error: door::ExportError) -> Failure {
        Failure::usage(error.to_string())
    }
}

impl From<model::locator::LocatorError> for Failure {
    fn from(error: model::locator::LocatorError) -> Failure {
        Failure::usage(error.to_string())
    }
}
