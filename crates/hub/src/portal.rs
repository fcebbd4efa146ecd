//! The portal: pages for people. Its pages are files in the program that use the hub's own API, so that a script can do the same.

pub mod assets;
pub mod cookies;
pub mod files;
pub mod notices;
pub mod providers;
pub mod repeats;
pub mod sessions;
pub mod share_links;
pub mod sign_in;
pub mod site_catalogue;

use axum::response::Response;
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;

/// Whether a request was sent by a script in a page, not by a browser that follows a link.
pub fn is_from_script(head: &Parts) -> bool {
    head.headers.get("sec-fetch-mode").is_some_and(|mode| mode != "navigate")
}

/// Removes the challenge for a password (`Basic`) from an answer: it would make the browser open its own window, whereas the page has a
/// form.
pub fn without_prompt(mut response: Response) -> Response {
    let all: Vec<_> = response.headers().get_all(WWW_AUTHENTICATE).iter().cloned().collect();
    response.headers_mut().remove(WWW_AUTHENTICATE);
    for challenge in all {
        if !challenge.as_bytes().starts_with(b"Basic ") {
            response.headers_mut().append(WWW_AUTHENTICATE, challenge);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn a_script_gets_no_challenge_for_a_password() {
        let head = |mode: &str| http::Request::get("/").header("sec-fetch-mode", mode).body(()).unwrap().into_parts().0;
        assert!(is_from_script(&head("cors")) && !is_from_script(&head("navigate")));
        let response = http::Response::builder().status(401).header(WWW_AUTHENTICATE, "Bearer realm=\"longhaul\"");
        let response = response.header(WWW_AUTHENTICATE, "Basic realm=\"longhaul\"").body(Body::empty()).unwrap();
        let left = without_prompt(response);
        assert_eq!(left.headers().get_all(WWW_AUTHENTICATE).iter().collect::<Vec<_>>(), ["Bearer realm=\"longhaul\""]);
    }
}
