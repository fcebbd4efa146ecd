//! What can go wrong with a lab.

use std::io;
use std::path::PathBuf;

use model::fault::{Blame, Fault};

use crate::scenario::Problem;

/// Why a lab cannot be brought up or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario makes no sense.
    #[error("{0}")]
    Scenario(#[from] Problem),
    /// A site could not be made or entered.
    #[error("site {site}: cannot {doing}: {source}")]
    Site {
        /// Its name.
        site: String,
        /// What was tried.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A setting of a site's network was refused.
    #[error("site {site}: sysctl {name} cannot be set to {value:?}: {source} (is it one of a network's own settings?)")]
    Setting {
        /// The site's name.
        site: String,
        /// Of the setting.
        name: String,
        /// What it was to be.
        value: String,
        /// What the system said.
        source: io::Error,
    },
    /// A site's share of the processors.
    #[error("site {site}: cpu_share needs a control group with the cpu controller: {source}")]
    Share {
        /// The site's name.
        site: String,
        /// What the system said.
        source: io::Error,
    },
    /// No such site.
    #[error("the lab has no site {name}, only {known}")]
    NoSite {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A file of the lab's.
    #[error("{path}: cannot {doing}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The lab's process has ended.
    #[error("lab {name} has ended; bring it up again with `longhaul lab up`")]
    Ended {
        /// Its name.
        name: String,
    },
    /// What no lab can be called.
    #[error("{name:?} cannot be a lab's name: write 1 to 40 letters, digits, -, _ and . (choose one with --lab)")]
    Name {
        /// What was asked for.
        name: String,
    },
    /// A lab of this name is up.
    #[error(
        "lab {name} is up already (process {pid}); end it with `longhaul lab down --lab {name}`, or name this one --lab OTHER"
    )]
    Up {
        /// Its name.
        name: String,
        /// Of its process.
        pid: u32,
    },
    /// No lab of this name.
    #[error("no lab {name} is up; `longhaul lab status` lists those that are")]
    NotUp {
        /// Its name.
        name: String,
    },
    /// A lab said no.
    #[error("lab {name}: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// This machine cannot have labs.
    #[error("no lab can run here: {0}")]
    Unable(String),
}

impl Error {
    pub(crate) fn site(site: &str, doing: &str, source: io::Error) -> Error {
        Error::Site { site: site.to_owned(), doing: doing.to_owned(), source }
    }

    pub(crate) fn setting(site: &str, name: &str, value: &str, source: io::Error) -> Error {
        Error::Setting { site: site.to_owned(), name: name.to_owned(), value: value.to_owned(), source }
    }
}

impl Blame for Error {
    fn fault(&self) -> Fault {
        match self {
            Error::Name { .. } => Fault::Config,
            Error::Scenario(_) | Error::NoSite { .. } | Error::Refused { .. } | Error::Setting { .. } => Fault::Config,
            Error::NotUp { .. } => Fault::Missing,
            Error::File { .. } => Fault::Storage,
            _ => Fault::Local,
        }
    }
}
