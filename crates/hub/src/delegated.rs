//! A delegated proxy as the client certificate of a connection.

use std::sync::Arc;

use auth::trust::provider;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use crate::database::delegations::Delegation;
use crate::database::{Database, DatabaseError};
use crate::time;

/// Shows a proxy to whoever asks for a certificate, whichever authorities it names: those of a proxy are its owner's.
#[derive(Debug)]
struct Proxy(Arc<CertifiedKey>);

impl ResolvesClientCert for Proxy {
    fn resolve(&self, _hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.key.choose_scheme(schemes).map(|_| Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The proxy that was delegated for a job, where it was submitted with one. Ends that have keys of their own do without one that is over.
///
/// # Errors
/// It is over or was removed, and is what would open an end; or the database cannot be read.
pub async fn of_job(database: &Database, job: i64, has_keys: bool) -> Result<Option<Delegation>, String> {
    let unread = |error: DatabaseError| format!("the delegated proxy cannot be read: {error}");
    let Some((id, owner)) = database.delegation_of_job(job).await.map_err(unread)? else { return Ok(None) };
    match database.delegation(&id, &owner, time::now()).await.map_err(unread)? {
        Some(proxy) => Ok(Some(proxy)),
        None if has_keys => Ok(None),
        None => Err(format!(
            "the proxy that was delegated for this job as {id} has expired or was removed: delegate again, and submit again"
        )),
    }
}

/// TLS towards servers that these authorities vouch for, in the name of the owner of a proxy, where there is one.
///
/// # Errors
/// The proxy or its key is damaged, or TLS cannot be spoken.
pub fn client_config(roots: &Arc<RootCertStore>, proxy: Option<&Delegation>) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.with_root_certificates(Arc::clone(roots));
    let mut config = match proxy {
        None => builder.with_no_client_auth(),
        Some(delegation) => builder.with_client_cert_resolver(Arc::new(Proxy(certified(delegation)?))),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The chain and the key of a proxy. The library's own constructor parses certificates, and takes no proxies.
fn certified(delegation: &Delegation) -> Result<Arc<CertifiedKey>, String> {
    let damaged = || format!("the proxy that was delegated as {} is damaged", delegation.id);
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(delegation.chain.as_bytes()).collect();
    let der = STANDARD.decode(&delegation.private_key).map_err(|_| damaged())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der));
    let key = provider().key_provider.load_private_key(key).map_err(|_| damaged())?;
    Ok(Arc::new(CertifiedKey::new(chain.map_err(|_| damaged())?, key)))
}
