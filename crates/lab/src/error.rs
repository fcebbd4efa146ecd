//! The errors of a lab.

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
        /// The site's name.
        site: String,
        /// The step that failed.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A setting of a site's network was refused.
    #[error("site {site}: sysctl {name} cannot be set to {value:?}: {source} (is it one of a network's own settings?)")]
    Setting {
        /// The site's name.
        site: String,
        /// The name of the setting.
        name: String,
        /// The value that was refused.
        value: String,
        /// The system's error.
        source: io::Error,
    },
    /// A site's share of the processors cannot be set.
    #[error("site {site}: cpu_share needs a control group with the cpu controller: {source}")]
    Share {
        /// The site's name.
        site: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such site.
    #[error("the lab has no site {name}, only {known}")]
    NoSite {
        /// The name that was asked for.
        name: String,
        /// The names of the sites.
        known: String,
    },
    /// A file of the lab cannot be used.
    #[error("{path}: cannot {doing}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The lab's process has ended.
    #[error("lab {name} has ended; bring it up again with `longhaul lab up`")]
    Ended {
        /// The lab's name.
        name: String,
    },
    /// A lab cannot have this name.
    #[error("{name:?} cannot be a lab's name: write 1 to 40 letters, digits, -, _ and . (choose one with --lab)")]
    Name {
        /// The name that was asked for.
        name: String,
    },
    /// A lab of this name is up.
    #[error(
        "lab {name} is up already (process {pid}); end it with `longhaul lab down --lab {name}`, or name this one --lab OTHER"
    )]
    Up {
        /// The lab's name.
        name: String,
        /// The number of its process.
        pid: u32,
    },
    /// No lab of this name is up.
    #[error("no lab {name} is up; `longhaul lab status` lists those that are")]
    NotUp {
        /// The name that was asked for.
        name: String,
    },
    /// A lab refused a request.
    #[error("lab {name}: {reason}")]
    Refused {
        /// The lab's name.
        name: String,
        /// Its reason.
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
