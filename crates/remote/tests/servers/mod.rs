//! Real servers, one for each test: a node of Longhaul over HTTP, and s3s-fs, an S3 server that verifies signatures.

#![allow(dead_code, reason = "each test program uses its part")]

#[path = "../../../node/tests/support/open_node.rs"]
mod open_node;
mod s3;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::RelPath;
use open_node::OpenNode;
use remote::s3::{Bucket, Credentials};
use remote::{Dav, Redirects, S3, ServerSettings};
use rustls::{ClientConfig, RootCertStore};
use web::{Dialer, HttpUrl};

pub use s3::{KEY, S3Server};

/// Settings that trust no authority, have no token, and give up soon.
pub fn settings() -> ServerSettings {
    let tls = ClientConfig::builder_with_provider(engine::identity::provider()).with_safe_default_protocol_versions();
    let tls = tls.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let (connect, silence) = (Duration::from_secs(5), Duration::from_secs(20));
    let dialer = Dialer { tls: Arc::new(tls), guard: Arc::new(|_| Ok(())), prepare: None, connect, silence };
    let (redirects, patience) = (Redirects::Anywhere, Duration::from_secs(5));
    ServerSettings { dialer, token: Arc::new(|| Ok(None)), redirects, patience }
}

pub fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

/// A node of Longhaul with the export `data`, as a WebDAV server.
pub struct OwnNode(OpenNode);

impl OwnNode {
    pub fn new() -> OwnNode {
        OwnNode(OpenNode::start("data"))
    }

    /// A path below the directory of its export.
    pub fn data(&self, below: &str) -> PathBuf {
        self.0.path("data").join(below)
    }

    pub fn url(&self) -> HttpUrl {
        HttpUrl::parse(&format!("http://{}/", self.0.address)).unwrap()
    }

    /// Its export as a store.
    pub fn store(&self) -> Dav {
        Dav::new(settings(), &self.url(), path("data"))
    }
}

impl S3Server {
    pub fn bucket(&self, secret: &str) -> Bucket {
        let key = Credentials { key: KEY.0.into(), secret: secret.into(), token: None };
        Bucket {
            name: "bucket".into(),
            endpoint: Some(format!("http://{}", self.address)),
            region: "us-east-1".into(),
            virtual_hosted: false,
            credentials: Arc::new(move || Ok(Some(key.clone()))),
        }
    }

    /// The part of its bucket below a prefix, as a store.
    pub fn store(&self) -> S3 {
        S3::new(settings(), &self.bucket(KEY.1), path("some/prefix")).unwrap()
    }
}
