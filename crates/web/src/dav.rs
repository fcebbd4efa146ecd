//! WebDAV documents (RFC 4918): requests of PROPFIND, PROPPATCH and LOCK, and multistatus documents, which are parsed and written.
//!
//! XML from peers is parsed within bounds. Document types and entities are refused: WebDAV does not need them, and they permit attacks
//! such as exponential expansion and reading local files.

pub mod condition;
#[cfg(test)]
mod damaged;
pub mod listing;
pub mod lock;
pub mod multistatus;
pub mod propfind;
pub mod proppatch;
mod xml;

use model::{Digest, Timestamp};
use percent_encoding::percent_decode_str;

pub use propfind::{Depth, PropfindRequest};

/// The longest body of a PROPFIND, PROPPATCH or LOCK, bytes.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// The longest multistatus document that is read, bytes: some 50,000 entries.
pub const LISTING_BYTES_MAX: usize = 32 << 20;
/// The deepest nesting of elements; documents of WebDAV have six levels.
pub const DEPTH_MAX: usize = 32;
/// The most properties that one request may name.
pub const PROPS_MAX: usize = 128;
/// The longest value of one property, bytes of XML.
pub const FRAGMENT_BYTES_MAX: usize = 16 << 10;
/// The most attributes of one element, its declarations of namespaces included.
pub const ATTRIBUTES_MAX: usize = 64;

/// The namespace of WebDAV itself.
pub const DAV: &str = "DAV:";
/// The namespace of `executable`, which mod_dav invented and grid clients ask for.
pub const APACHE: &str = "http://apache.org/dav/props/";
/// The namespace of `checksums`, which ownCloud invented and rclone asks for.
pub const OWNCLOUD: &str = "http://owncloud.org/ns";
/// The namespace of `Checksums`, which dCache invented.
pub const DCACHE: &str = "http://www.dcache.org/2013/webdav";

/// A property's full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prop {
    /// The namespace; empty for none.
    pub namespace: String,
    /// The name within it.
    pub name: String,
}

impl Prop {
    /// A property of WebDAV itself.
    pub fn dav(name: &str) -> Prop {
        Prop { namespace: DAV.to_owned(), name: name.to_owned() }
    }
}

/// Space below a directory (RFC 4331), bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes that can still be written.
    pub available: u64,
    /// Bytes that are used below it, where known.
    pub used: Option<u64>,
}

/// One file or directory in a multistatus document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Its address, escaped: an absolute path; some servers write a URL.
    pub href: String,
    /// Whether it is a collection.
    pub is_dir: bool,
    /// Its length, bytes.
    pub size: Option<u64>,
    /// When it changed.
    pub modified: Option<Timestamp>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Its entity tag, in the form of `ETag`.
    pub etag: Option<String>,
    /// Whether it may be executed, if known.
    pub executable: Option<bool>,
    /// The space below it, if requested and known.
    pub quota: Option<Quota>,
    /// Checksums that are known without reading it.
    pub digests: Vec<Digest>,
    /// The media type of its bytes, as in `Content-Type`.
    pub content_type: Option<String>,
    /// Properties that clients have set.
    pub dead: Vec<DeadProperty>,
    /// Locks on it.
    pub locks: Vec<lock::ActiveLock>,
}

/// A dead property (RFC 4918, section 4.4): one that a client has set, without a meaning to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadProperty {
    /// Its name.
    pub prop: Prop,
    /// The language of its value, where given.
    pub language: Option<String>,
    /// Its value, as XML that declares all of its prefixes.
    pub xml: String,
}

impl Resource {
    /// The last name in its address, decoded; empty for a root.
    pub fn name(&self) -> Vec<u8> {
        let path = self.href.trim_end_matches('/');
        percent_decode_str(path.rsplit('/').next().unwrap_or_default()).collect()
    }
}

impl DeadProperty {
    /// Whether a stored property is well-formed: another program may have changed it.
    pub fn is_sound(&self) -> bool {
        let language = self.language.as_deref().unwrap_or_default();
        xml::is_name(&self.prop.name) && xml::is_fragment(&self.xml) && !language.contains(char::is_control)
    }
}

/// Why a document or a header of WebDAV cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DavError {
    /// Not well-formed.
    #[error("the body is not well-formed XML: {0}")]
    Xml(String),
    /// A document type or an entity of its own.
    #[error("the body declares a document type or uses an entity; WebDAV needs neither, and both are refused")]
    Entities,
    /// Well-formed, but with another root element.
    #[error("the body has the root element {found:?} instead of {wanted:?} of the namespace DAV:")]
    Root {
        /// The root element.
        found: String,
        /// The expected root element.
        wanted: &'static str,
    },
    /// Beyond a bound.
    #[error("the body has more than {limit} {what}, the most that are permitted")]
    Bounds {
        /// The things that are counted.
        what: &'static str,
        /// The most that are read.
        limit: usize,
    },
    /// A lock of an unknown kind.
    #[error("the body asks for an unsupported lock; supported are <exclusive/> or <shared/> with <write/>")]
    Lock,
    /// A malformed `Depth`.
    #[error("Depth must be 0, 1 or infinity, not {0:?}")]
    Depth(String),
}

impl DavError {
    /// The status of the refusal.
    pub fn status(&self) -> u16 {
        match self {
            DavError::Bounds { .. } => 413,
            _ => 400,
        }
    }
}
