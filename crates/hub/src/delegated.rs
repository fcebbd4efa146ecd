//! Delegated proxy certificates (RFC 3820), as client certificates for storages and as PEM for nodes.

use auth::client_certificate::ClientCertificate;

use crate::database::delegations::Delegation;
use crate::database::{Database, DatabaseError};
use crate::time;

/// The proxy that was delegated for a job, if there is one. If both endpoints have keys of their own, an expired proxy is left out.
///
/// # Errors
/// The proxy has expired or was removed, and an endpoint needs it; or the database cannot be read.
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

/// A proxy as a client certificate for TLS.
///
/// # Errors
/// The stored proxy is damaged.
pub fn certificate(delegation: &Delegation) -> Result<ClientCertificate, String> {
    ClientCertificate::from_pem(&pem(delegation))
        .map_err(|_| format!("the proxy that was delegated as {} is damaged", delegation.id))
}

/// A proxy and its key as one PEM text, in the form that nodes accept.
pub fn pem(delegation: &Delegation) -> String {
    let mut text = delegation.chain.clone();
    text.push_str("\n-----BEGIN PRIVATE KEY-----\n");
    for line in delegation.private_key.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str("-----END PRIVATE KEY-----\n");
    text
}
