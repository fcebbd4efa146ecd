//! The other end of a transfer on a remote server: WebDAV and S3, with the credentials of the order, dialled like every server on
//! behalf of a client.

use std::sync::Arc;

use auth::client_certificate::ClientCertificate;
use client::remote_store::{self, PATIENCE, RemoteSettings, RemoteStore};
use engine::Error;
use engine::scan::SourceRoot;
use model::v1::node::Credentials;
use model::{Fault, Refusal};
use remote::ftp::FtpUser;
use remote::s3::Bucket;
use remote::{Redirects, TokenSource, s3};

use crate::access::refusal;
use crate::dialling::Dialling;

/// The credentials of an order, if it has any.
struct OrderCredentials<'a>(Option<&'a Credentials>);

impl remote_store::Credentials for OrderCredentials<'_> {
    fn token(&self) -> Arc<TokenSource> {
        let token = self.0.and_then(|credentials| credentials.token.clone());
        Arc::new(move || Ok(token.clone()))
    }

    fn bucket(&self, name: &str) -> Result<Bucket, remote_store::Error> {
        let s3 = self.0.and_then(|credentials| credentials.s3.clone()).unwrap_or_default();
        let key = match (s3.access_key_id, s3.secret_access_key) {
            (Some(key), Some(secret)) => Some(s3::Credentials { key, secret, token: s3.session_token }),
            (None, None) => None,
            _ => {
                let why = "a key to S3 has two parts: access_key_id and secret_access_key";
                return Err(remote_store::Error::Credentials(why.into()));
            }
        };
        Ok(Bucket {
            name: name.to_owned(),
            endpoint: s3.endpoint,
            region: s3.region.unwrap_or_else(|| "us-east-1".to_owned()),
            virtual_hosted: s3.virtual_hosted,
            // An order holds one key; a newer one comes with a new order.
            credentials: Arc::new(move || Ok(key.clone())),
        })
    }

    /// Orders name no FTP servers ([`super::SCHEMES`]).
    fn ftp_user(&self, _: &str, _: Option<&str>) -> Result<Option<FtpUser>, remote_store::Error> {
        Err(remote_store::Error::Credentials("a node reads no FTP server for its clients".into()))
    }

    /// The node's own keys are not for its clients.
    fn ssh(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A refusal as an error of the engine.
pub(super) fn refused(refusal: Refusal) -> Error {
    Error::Refused { peer: "this node".into(), refusal }
}

/// The client certificate of an order, for example a delegated proxy.
///
/// # Errors
/// The certificate or its key cannot be read.
pub(super) fn certificate(credentials: Option<&Credentials>) -> Result<Option<ClientCertificate>, Refusal> {
    let given = credentials.and_then(|credentials| credentials.certificate.as_deref());
    let read = given.map(ClientCertificate::from_pem).transpose();
    read.map_err(|error| Refusal::new(Fault::Config, format!("the order's credentials.certificate: {error}")))
}

/// The place that an address names. The server is not asked yet.
///
/// # Errors
/// The address or the credentials cannot be used.
pub(super) fn place(url: &str, credentials: Option<&Credentials>, dialling: &Dialling) -> Result<RemoteStore, Refusal> {
    let certificate = certificate(credentials)?;
    let tls = dialling.tls_with(certificate).map_err(|error| Refusal::new(Fault::Local, error.to_string()))?;
    let dialer = remote_store::dialer(tls, Arc::clone(&dialling.guard));
    // The dialer checks the address of every redirect like the first one.
    let settings = RemoteSettings { dialer, redirects: Redirects::Anywhere, patience: PATIENCE };
    remote_store::open(url, settings, &OrderCredentials(credentials)).map_err(|error| refusal(&error))
}

/// The sources on a server.
///
/// # Errors
/// A source does not exist or cannot be reached, or two have one name.
pub(super) fn sources(
    urls: &[String],
    credentials: Option<&Credentials>,
    dialling: &Dialling,
) -> engine::Result<Vec<SourceRoot>> {
    let root = |url: &String| {
        let store = place(url, credentials, dialling).map_err(refused)?;
        store.source().map_err(|error| match error {
            remote_store::Error::Store(error) => error.into(),
            error => refused(refusal(&error)),
        })
    };
    let roots = urls.iter().map(root).collect::<engine::Result<Vec<_>>>()?;
    engine::scan::distinct_names(&roots).map_err(refused)?;
    Ok(roots)
}
