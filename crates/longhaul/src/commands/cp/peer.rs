//! The other end of a copy.

use auth::AccessKey;
use engine::Timeouts;
use engine::session::Session;
use model::HostPort;

use crate::failure::Failure;
use crate::settings::Settings;
use crate::ssh::FarEnd;

/// The node at the other end of a copy.
pub enum Peer {
    /// A node of a site.
    Node(HostPort),
    /// The loopback node of this process, for a local copy, and its access key.
    Loopback(HostPort, AccessKey),
    /// The far end of a copy over ssh.
    Far(FarEnd),
}

impl Peer {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The node cannot be reached or authenticated, or refuses the login.
    pub fn connect(&self, settings: &Settings, plain: bool) -> Result<Session, Failure> {
        let timeouts = Timeouts::default();
        match self {
            Peer::Node(at) => settings.connect(at, plain, timeouts),
            Peer::Loopback(at, key) => settings.connect_loopback(at, key, timeouts),
            Peer::Far(far) => settings.connect_far(far, plain, timeouts),
        }
    }

    /// A message for users: "this host" replaces the address of the loopback node, which they do not know.
    pub(super) fn without_loopback_address(&self, text: &str) -> String {
        match self {
            Peer::Loopback(at, _) => text.replace(&at.to_string(), "this host"),
            Peer::Node(_) | Peer::Far(_) => text.to_owned(),
        }
    }

    /// The address at which another node reaches this one.
    pub fn at(&self) -> &HostPort {
        match self {
            Peer::Node(at) | Peer::Loopback(at, _) => at,
            Peer::Far(far) => &far.at,
        }
    }
}
