//! The nodes of a test bed: their settings for the cases. No other module knows the names of the settings.

use std::net::SocketAddr;
use std::path::Path;

use crate::node::{Node, Setup};
use crate::pki::Pki;
use crate::tokens::{AUDIENCE, ISSUER, Tokens};

/// How open a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Anonymous clients may read and write; third-party copies may go to this machine.
    Open,
    /// Only clients with a credential: keys, tokens, certificates, macaroons.
    Closed,
    /// As `Open`, but it connects to no local address, which is the default of a node.
    Cautious,
}

/// The policy. No other function knows its names.
fn access(jwks: &Path, kind: NodeKind) -> String {
    let mut text = format!("audiences = [\"{AUDIENCE}\"]\n");
    if kind == NodeKind::Closed {
        text += &format!(
            "[[issuer]]\nname = \"test\"\niss = \"{ISSUER}\"\nexport = \"data\"\njwks = \"{}\"\n\
             [macaroons]\n[[allow]]\ndn = \"/DC=test/CN=alice\"\nexport = \"data\"\nrights = [\"read\", \"create\", \"modify\"]\n",
            jwks.display()
        );
    }
    text += "[third_party]\nguests = true\n";
    if kind != NodeKind::Cautious {
        text += "local = true\n";
    }
    text
}

/// Starts a node with the exports `data` (to be written) and `pub` (to be read).
pub fn start(kind: NodeKind, pki: &Pki, tokens: &Tokens, collector: SocketAddr) -> Node {
    let setup = Setup::new();
    let (data, beside) = (setup.data(), setup.data().with_file_name("pub"));
    std::fs::create_dir(&beside).unwrap();
    let (jwks, policy) = (data.with_file_name("jwks.json"), data.with_file_name("access.toml"));
    std::fs::write(&jwks, tokens.jwks().to_string()).unwrap();
    std::fs::write(&policy, access(&jwks, kind)).unwrap();
    // A node that listens on all addresses copies nothing to this machine for anonymous clients.
    let setup = match kind {
        NodeKind::Cautious => setup.on_all_addresses(),
        NodeKind::Open => setup.on_both_families(),
        NodeKind::Closed => setup,
    };
    let mut setup = setup.data_export("rw").export("pub", &beside, "ro").arg("--plain");
    for (flag, path) in [
        ("--certificate", &pki.host.certificate),
        ("--certificate-key", &pki.host.key),
        ("--client-ca", &pki.ca),
        ("--cacert", &pki.ca),
        ("--access", &policy),
    ] {
        setup = setup.arg(flag).arg(path);
    }
    if kind != NodeKind::Closed {
        setup = setup.arg("--anonymous").arg("rw");
    }
    setup.arg("--fireflies").arg(collector.to_string()).start()
}
