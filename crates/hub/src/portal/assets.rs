//! The files of the portal, which are compressed in the program. Each has an ETag made from its content.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use flate2::read::GzDecoder;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use sha2::{Digest, Sha256};

include!(concat!(env!("OUT_DIR"), "/portal.rs"));

/// The first parts of paths that belong to other services: there are no pages below them.
const NO_PAGES: [&str; 5] = ["api", "metrics", ".well-known", "fts3", "rucio"];
const HTML: &str = "text/html; charset=utf-8";
/// The page that shows every view.
const PAGE: &str = "index.html";
/// The content policy of the portal: a page loads nothing from other hosts, runs only files of the portal, and may not be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'ORIGINS; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The content policy of pages without scripts: a page loads nothing.
const POLICY_WITHOUT_SCRIPTS: &str = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";
/// The page that is shown if the portal was not built.
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Longhaul</title><h1>Longhaul</h1><p>This program was built \
without its portal: <code>make build</code> builds both (it needs node and npm). Its <a href=\"/api/v1\">API</a> is here, and <code>longhaul</code> on the command line.</p></html>\n";

/// A file of the portal.
struct Asset {
    name: &'static str,
    compressed: &'static [u8],
    etag: String,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let asset = |(name, compressed): &(&'static str, &'static [u8])| Asset {
        name,
        compressed,
        etag: format!("\"{}\"", &model::hex::encode(&Sha256::digest(compressed))[..32]),
    };
    FILES.iter().map(asset).collect()
});

/// The answer to a request for a page or a file of the portal; `None` for other requests. Pages may send requests to `origins`: files
/// are moved between their servers and the browser.
pub fn answer(head: &Parts, origins: impl FnOnce() -> BTreeSet<String>) -> Option<Response> {
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return None;
    }
    let path = head.uri.path().trim_start_matches('/');
    if NO_PAGES.contains(&path.split('/').next().unwrap_or_default()) {
        return None;
    }
    let find = |name: &str| ASSETS.iter().find(|asset| asset.name == name);
    if let Some(asset) = find(path) {
        return Some(send(head, asset));
    }
    let wants = |field: header::HeaderName, word: &str| {
        head.headers.get(field).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(word))
    };
    // A client that does not accept a page has the wrong path: the API answers 404.
    if !path.is_empty() && !wants(header::ACCEPT, "text/html") {
        return None;
    }
    Some(match find(PAGE) {
        Some(page) => {
            let mut response = send(head, page);
            let origins: String = origins().iter().map(|origin| format!(" {origin}")).collect();
            if let Ok(policy) = HeaderValue::try_from(POLICY.replace("ORIGINS", &origins)) {
                response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            }
            response
        }
        None => respond(&head.method, StatusCode::OK, HTML, NOT_BUILT.as_bytes().to_vec()),
    })
}

fn send(head: &Parts, asset: &Asset) -> Response {
    let field = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known = field(header::IF_NONE_MATCH).split(',').any(|etag| etag.trim() == asset.etag);
    let is_compressed = field(header::ACCEPT_ENCODING).split(',').any(|word| word.trim().starts_with("gzip"));
    let status = if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let bytes = match (is_known, is_compressed) {
        (true, _) => Vec::new(),
        (false, true) => asset.compressed.to_vec(),
        (false, false) => decompressed(asset.compressed),
    };
    let mut response = respond(&head.method, status, media(asset.name), bytes);
    let headers = response.headers_mut();
    if is_compressed && !is_known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(etag) = HeaderValue::try_from(asset.etag.as_str()) {
        headers.insert(header::ETAG, etag);
    }
    // The names below `assets/` are made from the content of the files.
    let cache_control =
        if asset.name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
    response
}

/// A page with a short text, without scripts.
pub fn page(status: StatusCode, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Longhaul</title><main>{body}</main></html>\n"
    );
    let mut response = respond(&Method::GET, status, HTML, html.into_bytes());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn respond(method: &Method, status: StatusCode, media: &'static str, bytes: Vec<u8>) -> Response {
    let length = bytes.len();
    let mut response = Response::new(Body::from(if *method == Method::HEAD { Vec::new() } else { bytes }));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if status != StatusCode::NOT_MODIFIED {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY_WITHOUT_SCRIPTS));
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn decompressed(compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The build has compressed the file, so it can be decompressed.
    let _ = GzDecoder::new(compressed).read_to_end(&mut bytes);
    bytes
}

fn media(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => HTML,
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str, fields: &[(&'static str, &str)]) -> Option<Response> {
        let mut request = http::Request::get(path);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let origins = || BTreeSet::from(["https://node.example:7411".to_owned()]);
        answer(&request.body(()).unwrap().into_parts().0, origins)
    }

    fn field<'a>(response: &'a Response, name: &str) -> &'a str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn every_view_has_the_page_and_the_api_has_none() {
        let page = [("accept", "text/html,*/*")];
        for path in ["/", "/transfers/1", "/nothing/like/that"] {
            let response = ask(path, &page).unwrap();
            assert_eq!(
                (response.status(), field(&response, "content-type")),
                (StatusCode::OK, "text/html; charset=utf-8")
            );
            let policy = field(&response, "content-security-policy");
            assert!(policy.starts_with("default-src 'none'"), "{policy}");
            assert!(FILES.is_empty() || policy.contains("connect-src 'self' https://node.example:7411;"), "{policy}");
            assert_eq!(field(&response, "x-frame-options"), "DENY");
        }
        for path in ["/api/v1/jobs", "/metrics", "/fts3/jobs", "/rucio/ping", "/.well-known/x"] {
            assert!(ask(path, &page).is_none(), "{path}");
        }
        assert!(
            ask("/v1/jobs", &[("accept", "application/json")]).is_none(),
            "a client that accepts JSON gets no page"
        );
    }

    #[test]
    fn browsers_cache_files_for_ever_and_revalidate_the_page() {
        let Some(script) = ASSETS.iter().find(|asset| asset.name.ends_with(".js")) else {
            return assert!(FILES.is_empty(), "the portal is in the program completely, or not at all");
        };
        let path = format!("/{}", script.name);
        let response = ask(&path, &[("accept-encoding", "br, gzip")]).unwrap();
        assert_eq!(field(&response, "content-encoding"), "gzip");
        assert!(field(&response, "cache-control").ends_with("immutable"));
        let known = ask(&path, &[("if-none-match", &script.etag)]).unwrap();
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        let bare = ask(&path, &[]).unwrap();
        assert_eq!(field(&bare, "content-encoding"), "");
        assert!(field(&bare, "content-length").parse::<usize>().unwrap() > script.compressed.len());
        assert_eq!(field(&ask("/", &[]).unwrap(), "cache-control"), "no-cache");
        let all: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(all <= 250_000, "the portal has {all} bytes");
    }
}
