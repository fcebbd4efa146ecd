//! Delegated keys: the node that copies a file for a client gets a key from the other node, with which the native engine copies that one
//! file.

use auth::AccessKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::RelPath;
use model::id::Uuid;
use model::locator::NodePlace;
use serde::{Deserialize, Serialize};

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// A request for a key.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeyRequest {
    /// The version of the format.
    pub v: u32,
    /// To write instead of to read.
    pub write: bool,
    /// The job that the key is for.
    pub job: Uuid,
}

/// The reply to a request for a key.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeyReply {
    /// The version of the format.
    v: u32,
    /// The key, a secret. It names the node that it is for.
    key: String,
    /// The export.
    export: String,
    /// The path below it, base64: a name need not be text.
    path: String,
}

impl KeyReply {
    /// The reply with a key for a file.
    pub fn new(key: &AccessKey, export: String, path: &RelPath) -> KeyReply {
        KeyReply { v: VERSION, key: key.expose_text(), export, path: STANDARD.encode(path.as_bytes()) }
    }

    /// The key, and the file that it is for; none if they are not well formed.
    pub fn read(self) -> Option<(AccessKey, NodePlace)> {
        let key: AccessKey = self.key.parse().ok()?;
        let path = RelPath::parse(&STANDARD.decode(self.path).ok()?).ok()?;
        Some((key, NodePlace::Path { export: self.export, path }))
    }
}
