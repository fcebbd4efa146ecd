//! The other end of a transfer on somebody else's server: WebDAV and S3, with the credentials of the order, dialled as every
//! server is that a guest sends this node to.

use std::sync::Arc;

use auth::client_certificate::ClientCertificate;
use client::remote_store::{self, PATIENCE, Reach, RemoteStore};
use engine::Error;
use engine::scan::SourceRoot;
use model::v1::node::Credentials;
use model::{Fault, Refusal};
use remote::s3::Bucket;
use remote::{Redirects, TokenSource, s3};

use crate::access::refuse;
use crate::dialling::Dialling;

/// The credentials that came with an order; none where none came.
struct Ordered<'a>(Option<&'a Credentials>);

impl remote_store::Credentials for Ordered<'_> {
    fn token(&self) -> Arc<TokenSource> {
        let token = self.0.and_then(|credentials| credentials.token.clone());
        Arc::new(move || Ok(token.clone()))
    }

    fn bucket(&self, name: &str) -> Result<Bucket, remote_store::Error> {
        let said = self.0.and_then(|credentials| credentials.s3.clone()).unwrap_or_default();
        let key = match (said.access_key_id, said.secret_access_key) {
            (Some(key), Some(secret)) => Some(s3::Credentials { key, secret, token: said.session_token }),
            (None, None) => None,
            _ => {
                let why = "a key to S3 has two parts: access_key_id and secret_access_key";
                return Err(remote_store::Error::Credentials(why.into()));
            }
        };
        Ok(Bucket {
            name: name.to_owned(),
            endpoint: said.endpoint,
            region: said.region.unwrap_or_else(|| "us-east-1".to_owned()),
            virtual_hosted: said.virtual_hosted,
            // An order holds one key; a newer one comes with a new order.
            credentials: Arc::new(move || Ok(key.clone())),
        })
    }
}

/// A failure of ours, or of the server.
pub(super) fn refused(refusal: Refusal) -> Error {
    Error::Refused { peer: "this node".into(), refusal }
}

/// The certificate that came with an order, a delegated proxy for example.
pub(super) fn certificate(credentials: Option<&Credentials>) -> Result<Option<ClientCertificate>, Refusal> {
    let given = credentials.and_then(|credentials| credentials.certificate.as_deref());
    let read = given.map(ClientCertificate::from_pem).transpose();
    read.map_err(|error| Refusal::new(Fault::Config, format!("the order's credentials.certificate: {error}")))
}

/// The place that an address names. Nothing is asked of the server yet.
pub(super) fn place(url: &str, credentials: Option<&Credentials>, dialling: &Dialling) -> Result<RemoteStore, Refusal> {
    let certificate = certificate(credentials)?;
    let tls = dialling.tls_with(certificate).map_err(|error| Refusal::new(Fault::Local, error.to_string()))?;
    let dialer = remote_store::dialer(tls, Arc::clone(&dialling.guard));
    // Wherever a server sends us, the dialer looks at the address as it did at the first one.
    let reach = Reach { dialer, redirects: Redirects::Anywhere, patience: PATIENCE };
    remote_store::open(url, reach, &Ordered(credentials)).map_err(|error| refuse(&error))
}

/// Sources there. One that is not there, or not reachable, is known at once.
pub(super) fn sources(
    urls: &[String],
    credentials: Option<&Credentials>,
    dialling: &Dialling,
) -> engine::Result<Vec<SourceRoot>> {
    let root = |url: &String| {
        let there = place(url, credentials, dialling).map_err(refused)?;
        there.source().map_err(|error| match error {
            remote_store::Error::Store(error) => error.into(),
            error => refused(refuse(&error)),
        })
    };
    let roots = urls.iter().map(root).collect::<engine::Result<Vec<_>>>()?;
    engine::scan::distinct_names(&roots).map_err(refused)?;
    Ok(roots)
}
