//! Who is at the other end of a copy.

use auth::AccessKey;
use engine::Timeouts;
use engine::session::Session;
use model::HostPort;

use crate::failure::Failure;
use crate::settings::Settings;
use crate::ssh::FarEnd;

/// Who is at the other end.
pub enum Peer {
    /// A node.
    Node(HostPort),
    /// This process's own node, for a copy from here to here.
    Own(HostPort, AccessKey),
    /// The far end of ssh.
    Far(FarEnd),
}

impl Peer {
    /// Connects and logs in.
    pub fn connect(&self, settings: &Settings, plain: bool) -> Result<Session, Failure> {
        let timeouts = Timeouts::default();
        match self {
            Peer::Node(at) => settings.connect(at, plain, timeouts),
            Peer::Own(at, key) => settings.connect_own(at, key, timeouts),
            Peer::Far(far) => settings.connect_far(far, plain, timeouts),
        }
    }

    /// What was said of it, as people understand it: nobody but this process knows the port of its own node.
    pub(super) fn in_words(&self, text: &str) -> String {
        match self {
            Peer::Own(at, _) => text.replace(&at.to_string(), "this host"),
            Peer::Node(_) | Peer::Far(_) => text.to_owned(),
        }
    }

    /// Where another node finds it.
    pub fn at(&self) -> &HostPort {
        match self {
            Peer::Node(at) | Peer::Own(at, _) => at,
            Peer::Far(far) => &far.at,
        }
    }
}
