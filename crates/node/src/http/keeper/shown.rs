//! What a request shows of who sends it: `Authorization`, else `?authz=`. Nothing here is checked, and nothing here is ever
//! written down.

use auth::AccessKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use web::target::Target;

use serve::Exchange;

/// What a request shows.
pub(crate) enum Shown {
    Nothing,
    Key(AccessKey),
    /// A JSON Web Token, or what is taken for one.
    Token(String),
    Macaroon(String),
    /// Something that is none of ours.
    Unknown(&'static str),
}

/// What the bearer of a text shows.
pub(crate) fn bearer(text: &str) -> Shown {
    let text = text.trim();
    if text.starts_with("lhk1_") {
        return text
            .parse()
            .map_or(Shown::Unknown("the access key is damaged or incomplete; copy all of it again"), Shown::Key);
    }
    if auth::macaroon::is_macaroon(text) { Shown::Macaroon(text.to_owned()) } else { Shown::Token(text.to_owned()) }
}

/// What follows a scheme, which has no case.
fn strip<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (first, rest) = text.split_once(' ')?;
    first.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

/// The credentials of a request.
pub(crate) fn shown(exchange: &dyn Exchange, target: &Target) -> Shown {
    let headers = &exchange.request().headers;
    if headers.all("authorization").nth(1).is_some() {
        return Shown::Unknown("there is more than one field Authorization; show one credential");
    }
    let field = headers.get("authorization").map(str::trim).filter(|field| !field.is_empty());
    let Some(field) = field else {
        return target.authz().map_or(Shown::Nothing, |text| bearer(strip(&text, "bearer").unwrap_or(&text)));
    };
    of_field(field)
}

fn of_field(field: &str) -> Shown {
    if let Some(text) = strip(field, "bearer") {
        return bearer(text);
    }
    let Some(encoded) = strip(field, "basic") else {
        return Shown::Unknown("of the schemes of Authorization, Bearer and Basic are known here");
    };
    // The user's name says nothing; the password is a key or a token.
    let decoded = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((_, password)) if !password.is_empty() => bearer(password),
        _ => Shown::Unknown("Basic takes an access key or a token as the password"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let key = AccessKey::new([1; 8], [2; 32], auth::Fingerprint([3; 32])).expose_text();
        let macaroon = auth::macaroon::mint(&[1; 32], "here", "u:h", &["activity:LIST".into()]);
        let basic = |text: &str| of_field(&format!("Basic {}", STANDARD.encode(text)));
        assert!(matches!(of_field(&format!("bEARER  {key}")), Shown::Key(_)));
        assert!(matches!(basic(&format!("me:{key}")), Shown::Key(_)));
        assert!(matches!(of_field(&format!("Bearer {}", &key[..40])), Shown::Unknown(_)));
        assert!(matches!(of_field(&format!("Bearer {macaroon}")), Shown::Macaroon(_)));
        assert!(matches!(basic(":a.b.c"), Shown::Token(_)));
        for bad in ["Bearer", "Digest x", "Basic !", "Negotiate abc="] {
            assert!(matches!(of_field(bad), Shown::Unknown(_)), "{bad}");
        }
        assert!(matches!(basic("me"), Shown::Unknown(_)) && matches!(basic("me:"), Shown::Unknown(_)));
    }
}
