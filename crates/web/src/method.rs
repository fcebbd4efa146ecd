//! The methods that a node supports. Other methods keep their name, for the log and for the answer 501.

use std::fmt;

/// A request's method (RFC 9110, section 9; RFC 4918, section 9).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Returns the head of the response to a GET, without the bytes.
    Head,
    /// Returns the bytes of a resource.
    Get,
    /// Stores bytes under a name.
    Put,
    /// Continues an upload (RFC 5789).
    Patch,
    /// Removes a resource.
    Delete,
    /// Returns the capabilities of the server.
    Options,
    /// Asks for a macaroon, or for a session of the native protocol.
    Post,
    /// Makes a directory.
    Mkcol,
    /// Renames a resource.
    Move,
    /// Copies within the server, or from or to a third party.
    Copy,
    /// Returns properties of a resource, or of a directory and its entries, as a document.
    Propfind,
    /// Changes properties.
    Proppatch,
    /// Locks a resource against changes by other clients.
    Lock,
    /// Removes a lock.
    Unlock,
    /// Any other method.
    Other(String),
}

/// Methods by name, in the order in which `Allow` names them.
const NAMES: [(&str, Method); 14] = [
    ("HEAD", Method::Head),
    ("GET", Method::Get),
    ("PUT", Method::Put),
    ("PATCH", Method::Patch),
    ("DELETE", Method::Delete),
    ("OPTIONS", Method::Options),
    ("POST", Method::Post),
    ("MKCOL", Method::Mkcol),
    ("MOVE", Method::Move),
    ("COPY", Method::Copy),
    ("PROPFIND", Method::Propfind),
    ("PROPPATCH", Method::Proppatch),
    ("LOCK", Method::Lock),
    ("UNLOCK", Method::Unlock),
];

/// The value of `Allow`.
pub const ALLOW: &str = "HEAD,GET,PUT,PATCH,DELETE,OPTIONS,POST,MKCOL,MOVE,COPY,PROPFIND,PROPPATCH,LOCK,UNLOCK";

impl Method {
    /// The method of a name; names are case-sensitive.
    pub fn parse(name: &str) -> Method {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map_or_else(|| Method::Other(name.to_owned()), |(_, method)| method.clone())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Method::Other(name) => name,
            known => NAMES.iter().find(|(_, method)| method == known).map_or("", |(name, _)| name),
        }
    }

    /// Whether it changes something on the server.
    pub fn changes(&self) -> bool {
        matches!(
            self,
            Method::Put
                | Method::Patch
                | Method::Delete
                | Method::Mkcol
                | Method::Move
                | Method::Copy
                | Method::Proppatch
                | Method::Lock
                | Method::Unlock
        )
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_in_allow_is_known() {
        for name in ALLOW.split(',') {
            let method = Method::parse(name);
            assert!(!matches!(method, Method::Other(_)), "{name}");
            assert_eq!(method.name(), name);
        }
        assert_eq!(Method::parse("get"), Method::Other("get".into()));
    }
}
