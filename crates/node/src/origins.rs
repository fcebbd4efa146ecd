//! Other sites whose pages may send requests to this node from a browser (CORS, the Fetch standard, section 3.2). Their requests have
//! a credential of their own in `Authorization`; cookies of this node's pages are not sent with them, and this module does not allow it.

use web::{Headers, Request};

/// The fields of an answer that a page may read.
const EXPOSED: &str = "Accept-Ranges, Allow, Content-Length, Content-Range, DAV, Digest, ETag, Last-Modified, Location, Lock-Token, \
    Repr-Digest, Retry-After, Upload-Complete, Upload-Length, Upload-Offset, WWW-Authenticate, X-OC-Mtime";
/// The sites whose pages may send requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Vec<String>);

impl Origins {
    /// Reads a list of `https://HOST[:PORT]`, or `*` for all sites.
    ///
    /// # Errors
    /// A word is not an origin; the text names it and the form of one.
    pub fn parse(words: &[String]) -> Result<Origins, String> {
        for word in words.iter().filter(|word| *word != "*") {
            let host = word.strip_prefix("https://").or_else(|| word.strip_prefix("http://")).unwrap_or_default();
            if host.is_empty() || host.contains(['/', '@', '?', '#', ' ', '*']) {
                return Err(format!(
                    "--allow-origin {word}: write https://HOST or https://HOST:PORT without a path, or * for all sites"
                ));
            }
        }
        Ok(Origins(words.iter().map(|word| word.to_ascii_lowercase()).collect()))
    }

    pub(crate) fn allow(&self, origin: &str) -> bool {
        self.0.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
    }

    /// The CORS fields of every answer, refusals included.
    pub(crate) fn fields(&self, request: &Request) -> Headers {
        let mut fields = Headers::new();
        if self.0.is_empty() {
            return fields;
        }
        // A cache must not give one page the answer for another.
        fields.add("Vary", "Origin");
        if let Some(origin) = request.headers.get("origin").filter(|origin| self.allow(origin)) {
            fields.add("Access-Control-Allow-Origin", origin);
            fields.add("Access-Control-Expose-Headers", EXPOSED);
        }
        fields
    }
}
