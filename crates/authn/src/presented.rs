//! The credential that a request presents: in `Authorization`, else in `?authz=`. It is not checked here, and never logged.

use std::net::IpAddr;
use std::sync::Arc;

use auth::AccessKey;
use auth::x509::CertificateCheck;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use web::Request;
use web::target::Target;

/// The parts of a request that authentication uses.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    /// Its method, target and fields.
    pub request: &'a Request,
    /// Its parsed target: a credential may stand in its query.
    pub target: &'a Target,
    /// The address of the client.
    pub peer: IpAddr,
    /// The connection uses TLS.
    pub is_secure: bool,
    /// The verified or rejected certificates of the client, where it showed some.
    pub certificate: Option<&'a Arc<CertificateCheck>>,
    /// The request reads data that may be public: then an invalid credential does not prevent an anonymous answer.
    pub reads_public_data: bool,
}

/// The credential that a request presents, unchecked.
pub enum Presented {
    /// None.
    Nothing,
    /// An access key.
    Key(AccessKey),
    /// A JSON Web Token, or any text of no other kind.
    Token(String),
    /// A macaroon.
    Macaroon(String),
    /// A credential of an unknown kind, or a malformed one; the reason.
    Unknown(&'static str),
}

/// Recognises the kind of a credential.
pub(crate) fn bearer(text: &str) -> Presented {
    let text = text.trim();
    if text.starts_with("lhk1_") {
        return text.parse().map_or(
            Presented::Unknown("the access key is damaged or incomplete; copy all of it again"),
            Presented::Key,
        );
    }
    if auth::macaroon::is_macaroon(text) {
        Presented::Macaroon(text.to_owned())
    } else {
        Presented::Token(text.to_owned())
    }
}

/// The text after a scheme, which is compared without regard to case.
fn strip<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (first, rest) = text.split_once(' ')?;
    first.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

impl Presented {
    /// The credential of a request.
    pub fn of(request: &Request, target: &Target) -> Presented {
        let headers = &request.headers;
        if headers.all("authorization").nth(1).is_some() {
            return Presented::Unknown("there is more than one field Authorization; show one credential");
        }
        let field = headers.get("authorization").map(str::trim).filter(|field| !field.is_empty());
        let Some(field) = field else {
            return target.authz().map_or(Presented::Nothing, |text| bearer(strip(&text, "bearer").unwrap_or(&text)));
        };
        of_field(field)
    }
}

fn of_field(field: &str) -> Presented {
    if let Some(text) = strip(field, "bearer") {
        return bearer(text);
    }
    let Some(encoded) = strip(field, "basic") else {
        return Presented::Unknown("only the schemes Bearer and Basic of Authorization are supported");
    };
    // The user's name is ignored; the password is a key or a token.
    let decoded = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((_, password)) if !password.is_empty() => bearer(password),
        _ => Presented::Unknown("Basic takes an access key or a token as the password"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_authorization_is_read() {
        let key = AccessKey::new([1; 8], [2; 32], auth::Fingerprint([3; 32])).expose_text();
        let macaroon = auth::macaroon::mint(&[1; 32], "here", "u:h", &["activity:LIST".into()]);
        let basic = |text: &str| of_field(&format!("Basic {}", STANDARD.encode(text)));
        assert!(matches!(of_field(&format!("bEARER  {key}")), Presented::Key(_)));
        assert!(matches!(basic(&format!("me:{key}")), Presented::Key(_)));
        assert!(matches!(of_field(&format!("Bearer {}", &key[..40])), Presented::Unknown(_)));
        assert!(matches!(of_field(&format!("Bearer {macaroon}")), Presented::Macaroon(_)));
        assert!(matches!(basic(":a.b.c"), Presented::Token(_)));
        for bad in ["Bearer", "Digest x", "Basic !", "Negotiate abc="] {
            assert!(matches!(of_field(bad), Presented::Unknown(_)), "{bad}");
        }
        assert!(matches!(basic("me"), Presented::Unknown(_)) && matches!(basic("me:"), Presented::Unknown(_)));
    }
}
