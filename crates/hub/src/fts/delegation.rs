//! Delegation by GridSite's protocol, as FTS clients use it: the hub makes a key and a certificate request, the client signs a proxy
//! certificate (RFC 3820) for it with its own certificate or proxy, and the hub uses the proxy at storages in its owner's name. The key never
//! leaves the hub.

use auth::x509::{PublicKey, public_key};
use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_RSA_SHA256, PublicKeyData, RsaKeySize};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use web::Refused;

use super::forms::{delegation_id, user_dn};
use super::{FtsRequest, FtsResult, json_answer};
use crate::database::delegations::{Delegation, DelegationRequest};
use crate::limits;
use crate::state::unavailable;
use crate::time;

/// How long a certificate request is valid, milliseconds. Within this time, clients get the same request.
const REQUEST_MS: i64 = 60 * 60 * 1000;
/// The lifetime that a proxy must have left when a job is submitted with it, milliseconds.
const LEFT_MS: i64 = 60 * 60 * 1000;

/// Bounds the number of keys that are made at the same time; further requests wait.
static KEYS_MADE: Semaphore = Semaphore::const_new(limits::KEYS_MADE_MAX);

/// `GET /whoami/certificate`.
pub(super) fn certificate(request: &FtsRequest) -> FtsResult {
    let chain = request.client_chain.as_ref().ok_or_else(|| Refused::new(404, "the connection has no certificate"))?;
    text(chain.0.iter().map(|certificate| pem(certificate)).collect(), &[])
}

/// A certificate in PEM.
fn pem(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines: Vec<&str> = encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

fn text(body: String, headers: &[(&'static str, &str)]) -> FtsResult {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).map_err(|error| Refused::new(500, error.to_string()))?;
        response.headers_mut().insert(*name, value);
    }
    Ok(response)
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Requires a client with a certificate, and the delegation id of this certificate.
fn check(request: &FtsRequest, id: &str) -> Result<(), Refused> {
    if request.member.certificate.is_none() {
        return Err(Refused::new(
            403,
            "delegation is for clients with a certificate: a client with a token needs none",
        ));
    }
    if id == delegation_id(&request.member) {
        Ok(())
    } else {
        Err(Refused::new(403, "this is not the delegation id of the certificate: /whoami says which one is"))
    }
}

/// The delegation of the client.
async fn own_delegation(request: &FtsRequest) -> Result<Option<Delegation>, Refused> {
    let id = delegation_id(&request.member);
    let found = request.hub.database.delegation(&id, &request.member.owner, time::now()).await;
    found.map_err(|error| unavailable(error).into())
}

/// `GET /delegation/ID`: when it ends, or `null`.
pub(super) async fn show(request: FtsRequest, id: &str) -> FtsResult {
    check(&request, id)?;
    let body = own_delegation(&request).await?.map_or(Value::Null, |delegation| {
        let ends = time::show(delegation.expires);
        // UTC without a zone, to the second.
        let ends = ends.split(['.', 'Z']).next().unwrap_or_default();
        json!({"termination_time": ends, "voms_attrs": delegation.attributes})
    });
    json_answer(200, &body)
}

/// `DELETE /delegation/ID`.
pub(super) async fn remove(request: FtsRequest, id: &str) -> FtsResult {
    check(&request, id)?;
    let removal = request.hub.database.remove_delegation(id.to_owned(), request.member.owner.clone());
    if removal.await.map_err(unavailable)? {
        Ok(empty(StatusCode::NO_CONTENT))
    } else {
        Err(Refused::new(404, format!("there is no delegation {id}")))
    }
}

/// `GET /delegation/ID/request`: a certificate request, which the client signs.
pub(super) async fn request(request: FtsRequest, id: &str) -> FtsResult {
    check(&request, id)?;
    let database = &request.hub.database;
    let (owner, since) = (&request.member.owner, time::now() - REQUEST_MS);
    let stored = match database.delegation_request(id, owner, since).await.map_err(unavailable)? {
        Some(stored) => stored,
        None => {
            let kind = kind_of_key(&request);
            let name = id.to_owned();
            let failed = |why: String| Refused::new(500, format!("cannot make a key: {why}"));
            let permit = KEYS_MADE.acquire().await.map_err(|error| failed(error.to_string()))?;
            let result = tokio::task::spawn_blocking(move || make_key(&name, kind)).await;
            drop(permit);
            let (private_key, request) = result.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
            let made = DelegationRequest {
                id: id.to_owned(),
                owner: owner.clone(),
                private_key,
                request,
                created: time::now(),
            };
            database.keep_delegation_request(made, since).await.map_err(unavailable)?
        }
    };
    text(stored.request, &[("x-delegation-id", id)])
}

/// The kind of key of the user's certificate, whatever the proxies below it have.
fn kind_of_key(request: &FtsRequest) -> PublicKey {
    let proxies = request.member.certificate.as_ref().map_or(0, |identity| identity.proxies);
    let person = request.client_chain.as_ref().and_then(|chain| chain.0.get(proxies));
    person.and_then(|der| public_key(der)).map_or(PublicKey::Other, |(_, kind)| kind)
}

/// Makes a key and a certificate request for it: the private key in base64, the request in PEM.
fn make_key(id: &str, kind: PublicKey) -> Result<(String, String), String> {
    let key = match kind {
        PublicKey::Rsa(bits) => {
            let size = match bits {
                ..=2048 => RsaKeySize::_2048,
                2049..=3072 => RsaKeySize::_3072,
                _ => RsaKeySize::_4096,
            };
            KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size)
        }
        PublicKey::Other => KeyPair::generate(),
    };
    let key = key.map_err(|error| error.to_string())?;
    let mut params = CertificateParams::default();
    // The signer gives the proxy its name; a request must have any name.
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, id);
    let request =
        params.serialize_request(&key).and_then(|request| request.pem()).map_err(|error| error.to_string())?;
    Ok((STANDARD.encode(key.serialized_der()), request))
}

/// `PUT /delegation/ID/credential`: the signed proxy and the certificates above it, in PEM.
pub(super) async fn take(request: FtsRequest, id: &str) -> FtsResult {
    check(&request, id)?;
    if request.body.len() > limits::DELEGATION_BYTES_MAX {
        return Err(Refused::new(413, format!("a proxy has at most {} bytes", limits::DELEGATION_BYTES_MAX)));
    }
    let database = &request.hub.database;
    let now = time::now();
    let stored = database.delegation_request(id, &request.member.owner, now - REQUEST_MS).await.map_err(unavailable)?;
    let stored =
        stored.ok_or_else(|| Refused::new(400, "no request was made within the last hour: GET the request first"))?;
    let delegation = verify(&request, stored, now)?;
    database.keep_delegation(delegation, now).await.map_err(unavailable)?;
    Ok(empty(StatusCode::CREATED))
}

/// Verifies a signed proxy: it is for the hub's key, and signed by the client.
fn verify(request: &FtsRequest, stored: DelegationRequest, now: i64) -> Result<Delegation, Refused> {
    let bad = |why: &str| Refused::new(400, why);
    let read: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&request.body).collect();
    let chain = read.map_err(|error| Refused::new(400, format!("the proxy is not valid PEM: {error}")))?;
    let leaf = chain.first().ok_or_else(|| bad("the body has no certificate"))?;
    let der =
        STANDARD.decode(&stored.private_key).map_err(|_| Refused::new(500, "the key that was made is damaged"))?;
    let key = KeyPair::try_from(der.as_slice()).map_err(|error| Refused::new(500, error.to_string()))?;
    if public_key(leaf).is_none_or(|(public_key, _)| public_key != key.subject_public_key_info()) {
        return Err(bad(
            "the proxy is not for the key of the request: sign the request that /delegation/ID/request gives",
        ));
    }
    let authorities =
        request.hub.credentials.authorities().ok_or_else(|| bad("this hub accepts no client certificates"))?;
    let identity =
        auth::x509::verify(&chain, &authorities, now / 1000).map_err(|error| Refused::new(400, error.to_string()))?;
    if identity.proxies == 0 {
        return Err(bad("this is a certificate, not a proxy"));
    }
    if identity.name != request.member.owner {
        return Err(Refused::new(
            403,
            format!("the proxy belongs to {}, not to {}", identity.grid_name, user_dn(&request.member)),
        ));
    }
    Ok(Delegation {
        id: stored.id,
        owner: stored.owner,
        private_key: stored.private_key,
        chain: chain.iter().map(|one| pem(one)).collect(),
        attributes: identity.fqans().map(str::to_owned).collect(),
        expires: identity.expires * 1000,
    })
}

/// `POST /delegation/ID/voms`: refused, because the hub sends no requests to VOMS servers.
pub(super) fn no_voms(request: &FtsRequest, id: &str) -> FtsResult {
    check(request, id)?;
    Err(Refused::new(
        501,
        "the hub adds no VOMS attributes: delegate a proxy that has them (voms-proxy-init --voms VO)",
    ))
}

/// The id of the delegation that a job is submitted with. A client with a certificate needs one that lasts for at least an hour (419);
/// other clients have none.
pub(super) async fn for_job(request: &FtsRequest) -> Result<Option<String>, Refused> {
    if request.member.certificate.is_none() {
        return Ok(None);
    }
    let dn = user_dn(&request.member);
    let id = delegation_id(&request.member);
    let delegate = "delegate a proxy again";
    match own_delegation(request).await? {
        None => {
            Err(Refused::new(419, format!("no valid proxy of {dn} was delegated to this hub under {id}: {delegate}")))
        }
        Some(delegation) if delegation.expires < time::now() + LEFT_MS => {
            let ends = time::show(delegation.expires);
            Err(Refused::new(
                419,
                format!("the proxy that {dn} delegated ends at {ends}, in less than an hour: {delegate}"),
            ))
        }
        Some(delegation) => Ok(Some(delegation.id)),
    }
}
