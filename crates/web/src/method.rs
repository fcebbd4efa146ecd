//! Methods that a node answers. Others are kept by name, for the log and for 501.

use std::fmt;

/// A request's method (RFC 9110, section 9; RFC 4918, section 9).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Facts of a resource.
    Head,
    /// Its bytes.
    Get,
    /// New bytes under a name.
    Put,
    /// More bytes of an upload that has begun (RFC 5789).
    Patch,
    /// Away with it.
    Delete,
    /// What the server can do.
    Options,
    /// A macaroon, or a session of the native protocol.
    Post,
    /// A directory.
    Mkcol,
    /// Another name.
    Move,
    /// A copy, here or from or to a third party.
    Copy,
    /// Facts as a document.
    Propfind,
    /// Facts to be changed.
    Proppatch,
    /// Nobody else may change it.
    Lock,
    /// Others may again.
    Unlock,
    /// Anything else.
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

/// What `Allow` says.
pub const ALLOW: &str = "HEAD,GET,PUT,PATCH,DELETE,OPTIONS,POST,MKCOL,MOVE,COPY,PROPFIND,PROPPATCH,LOCK,UNLOCK";

impl Method {
    /// By name; names are case-sensitive.
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

    /// Whether it changes anything here.
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
    fn names() {
        for name in ALLOW.split(',') {
            let method = Method::parse(name);
            assert!(!matches!(method, Method::Other(_)), "{name}");
            assert_eq!(method.name(), name);
        }
        assert_eq!(Method::parse("get"), Method::Other("get".into()));
    }
}
