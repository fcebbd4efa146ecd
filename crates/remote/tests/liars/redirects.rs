//! Servers of an export that redirect to addresses which only the node can reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::fault::Fault;
use remote::{Redirects, ServerSettings};
use web::{Headers, Response};

use super::{content, dav, impatient, put, read_all, refused};
use crate::script::{Reply, Script};

fn exported() -> ServerSettings {
    ServerSettings { redirects: Redirects::SameKind, ..impatient() }
}

fn sends_to(to: String) -> Script {
    let headers = Headers::new().with("Location", to);
    Script::new(move |request| match request.method() {
        "PUT" => Reply::early(Response { status: 307, minor: 1, headers: headers.clone() }),
        "OPTIONS" => Reply::new(405, Headers::new(), b""),
        _ => Reply::new(307, headers.clone(), b""),
    })
}

#[test]
fn redirects_to_links_and_private_networks_are_not_followed() {
    for to in
        ["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/f", "http://[fe80::1]:80/f", "http://0.0.0.0/"]
    {
        let script = sends_to(to.to_owned());
        // For reads and writes; no address is dialled, so there is nothing to wait for.
        refused(read_all(&dav(&script, exported()), 100), Fault::Auth, "127.0.0.1 redirects to");
        refused(put(&dav(&script, exported()), b"bytes").map(|()| Vec::new()), Fault::Auth, "127.0.0.1 redirects to");
    }
}

#[test]
fn every_redirect_of_a_chain_is_compared_with_the_first_server() {
    // To a server of its own kind, which redirects to one of another kind.
    let second = sends_to("http://169.254.169.254/f".to_owned());
    let first = sends_to(second.url().join("/f").unwrap().as_str().to_owned());
    refused(read_all(&dav(&first, exported()), 100), Fault::Auth, "127.0.0.1 redirects to 169.254.169.254");
}

#[test]
fn a_redirect_to_the_servers_own_kind_is_followed() {
    let heard = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&heard);
    let keeps = Script::new(move |request| {
        noted.fetch_add(1, Ordering::SeqCst);
        Reply::honest(request, &content(100))
    });
    let script = sends_to(keeps.url().join("/f").unwrap().as_str().to_owned());
    assert!(read_all(&dav(&script, exported()), 100).unwrap() == content(100));
    assert!(heard.load(Ordering::SeqCst) > 0);
}
