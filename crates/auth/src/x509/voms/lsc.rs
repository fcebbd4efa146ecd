//! The trusted VOMS servers: files `VO/HOST.lsc`, as grid sites have them in `/etc/grid-security/vomsdir`. Each line is a name in the
//! slash form: the server's, then that of the authority that signed its certificate, and so on up.

use model::fault::{Blame, Fault};

use crate::limits::{LSC_BYTES, VOMS_SERVERS};
use crate::policy::{DistinguishedName, DnError};

/// The separator between two chains in one file.
const NEXT: &str = "NEXT CHAIN";

/// The trusted VOMS servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VomsServers(Vec<Server>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    vo: String,
    /// The server's own name first.
    names: Vec<DistinguishedName>,
}

/// Why a list of VOMS servers is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LscError {
    /// It is too long, or there are too many.
    #[error("more than {LSC_BYTES} bytes in a file, or more than {VOMS_SERVERS} servers")]
    TooLong,
    /// A line that is not a name.
    #[error("line {line}: {source}")]
    Name {
        /// Which.
        line: usize,
        /// Why.
        source: DnError,
    },
    /// A server without an authority.
    #[error("it names no server with its authority: a line for each, the server first")]
    Incomplete,
}

impl Blame for LscError {
    fn fault(&self) -> Fault {
        Fault::Config
    }
}

impl VomsServers {
    /// Adds the servers of a virtual organisation from the text of an `.lsc` file.
    ///
    /// # Errors
    /// [`LscError`]: the text is too long, a line is not a name, or a server has no authority.
    pub fn add(&mut self, vo: &str, text: &str) -> Result<(), LscError> {
        if text.len() > LSC_BYTES {
            return Err(LscError::TooLong);
        }
        let mut names = Vec::new();
        let mut found = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('-') && line.contains(NEXT) {
                found.push(std::mem::take(&mut names));
            } else if !line.is_empty() && !line.starts_with('#') {
                let name = DistinguishedName::parse(line);
                names.push(name.map_err(|source| LscError::Name { line: at + 1, source })?);
            }
        }
        found.push(names);
        if found.iter().any(|names| names.len() < 2) {
            return Err(LscError::Incomplete);
        }
        if self.0.len() + found.len() > VOMS_SERVERS {
            return Err(LscError::TooLong);
        }
        self.0.extend(found.into_iter().map(|names| Server { vo: vo.to_owned(), names }));
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a server is one of an organisation: the names of its chain begin with all names of an entry of the list.
    pub(super) fn know(&self, vo: &str, chain: &[DistinguishedName]) -> bool {
        self.0.iter().any(|server| server.vo == vo && chain.starts_with(&server.names))
    }
}
