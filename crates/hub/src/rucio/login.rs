//! Login: the password of `userpass` is an access key of the hub, which then serves as the token. A client with a certificate gets a key
//! that expires.

use auth::{AccessKey, Fingerprint};
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

use super::errors::RucioError;
use super::{RucioRequest, RucioResult, TOKEN, done, json_answer, unknown};
use crate::database::roles::KeyGrant;
use crate::time;

/// How long the key of a client with a certificate lasts, milliseconds.
const KEY_MS: i64 = 3_600_000;

/// The credential of a request as the value of `Authorization`.
pub(super) fn credential(path: &str, headers: &HeaderMap) -> Option<HeaderValue> {
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    let is_login = path.trim_matches('/') == "auth/userpass";
    let key = if is_login { field("x-rucio-password") } else { field(TOKEN.as_str()) };
    HeaderValue::try_from(format!("Bearer {}", key?.trim())).ok()
}

/// `auth/…`.
pub(super) async fn answer(request: RucioRequest, method: &str, how: &[&str]) -> RucioResult {
    match (method, how) {
        ("GET", ["userpass"]) => {
            let field = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
            let name = field("x-rucio-username").unwrap_or_default();
            if !name.is_empty() && name != request.member.owner {
                let text = format!("that is the key of {}, not of {name}", request.member.owner);
                return Err(RucioError::new(401, "CannotAuthenticate", text));
            }
            let key = field("x-rucio-password").unwrap_or_default().to_owned();
            with_token(&key)
        }
        ("GET", ["x509" | "x509_proxy"]) => {
            let key = temporary_key(&request).await?;
            with_token(&key)
        }
        ("GET", ["validate"]) => json_answer(200, &serde_json::json!({"account": request.member.owner})),
        _ => Err(unknown(method, how)),
    }
}

fn with_token(token: &str) -> RucioResult {
    let mut response = done()?;
    let value = HeaderValue::try_from(token)
        .map_err(|_| RucioError::new(401, "CannotAuthenticate", "the key cannot be a token"))?;
    response.headers_mut().insert(TOKEN, value);
    Ok(response)
}

/// Makes an expiring key with the role of the client's certificate: clients send the certificate with this request only.
async fn temporary_key(request: &RucioRequest) -> Result<String, RucioError> {
    let member = &request.member;
    let now = time::now();
    let mut id = [0u8; 8];
    let mut secret = [0u8; 32];
    for bytes in [&mut id[..], &mut secret[..]] {
        let filled = auth::trust::provider().secure_random.fill(bytes);
        filled.map_err(|_| RucioError::new(500, "RucioException", "the system gives no random numbers"))?;
    }
    let grant = KeyGrant {
        id: model::hex::encode(&id),
        role: member.role,
        community: member.community.clone(),
        name: member.owner.clone(),
        created: now,
        expires: Some(now + KEY_MS),
        secret_sha256: model::hex::encode(&Sha256::digest(secret)),
    };
    request.hub.database.add_role_grant(grant).await?;
    // Rucio's clients verify the certificate of the hub by an authority, so the key needs no fingerprint.
    Ok(AccessKey::new(id, secret, Fingerprint([0; 32])).expose_text())
}
