//! Answers to CORS preflight requests of browsers (the Fetch standard, section 3.2.2).

use serve::{Exchange, Length};
use web::{Headers, Method, Request, Response};

use super::refused::{Outcome, RequestOutcome, refuse};
use crate::origins::Origins;

/// How long a browser may remember the answer to a preflight request, seconds.
const REMEMBERED_S: u32 = 86_400;
/// The greatest length of a list of fields that is answered, bytes.
const FIELDS_BYTES_MAX: usize = 2 << 10;

/// Whether a request is a preflight request.
pub(crate) fn is_preflight(request: &Request) -> bool {
    let has = |name: &str| request.headers.get(name).is_some();
    request.method == Method::Options && has("origin") && has("access-control-request-method")
}

/// Answers a preflight request, which browsers send without credentials.
pub(crate) fn answer(origins: &Origins, exchange: &mut dyn Exchange) -> Outcome {
    let headers = &exchange.request().headers;
    if !headers.get("origin").is_some_and(|origin| origins.allow(origin)) {
        return Err(refuse(403, "this node answers no pages of that site (--allow-origin)"));
    }
    let wanted = headers.all("access-control-request-headers").collect::<Vec<_>>().join(", ");
    let is_list =
        wanted.len() <= FIELDS_BYTES_MAX && wanted.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_, ".contains(&b));
    let mut response = Response::new(204)
        .with("Access-Control-Allow-Methods", web::method::ALLOW.replace(',', ", "))
        .with("Access-Control-Max-Age", REMEMBERED_S.to_string());
    if is_list && !wanted.is_empty() {
        response = response.with("Access-Control-Allow-Headers", wanted);
    }
    exchange.begin(response, Length::Known(0))?;
    exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 204, bytes: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_origin_is_a_scheme_host_and_port() {
        let parse = |words: &[&str]| Origins::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let request = |origin: &str| Request::new(Method::Get, "/", Headers::new().with("Origin", origin));
        let allowed = |origins: &Origins, origin| {
            origins.fields(&request(origin)).get("access-control-allow-origin").map(str::to_owned)
        };
        let one = parse(&["https://Portal.example:8443"]).unwrap();
        assert_eq!(allowed(&one, "https://portal.example:8443").as_deref(), Some("https://portal.example:8443"));
        for other in
            ["https://portal.example", "http://portal.example:8443", "null", "https://portal.example:8443.evil"]
        {
            assert_eq!(allowed(&one, other), None, "{other}");
        }
        assert_eq!(one.fields(&request("null")).get("vary"), Some("Origin"));
        assert_eq!(allowed(&parse(&["*"]).unwrap(), "https://any.example").as_deref(), Some("https://any.example"));
        assert_eq!(Origins::default().fields(&request("https://a")), Headers::new());
        for bad in ["portal.example", "https://", "https://a/", "https://*.a", "ftp://a", "https://u@a"] {
            assert!(parse(&[bad]).unwrap_err().contains("--allow-origin"), "{bad}");
        }
    }
}
