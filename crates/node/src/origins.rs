//! Pages of other sites that may have a browser ask this node (CORS, the Fetch standard, section 3.2). They ask with a credential of their
//! own in `Authorization`; cookies of this node's pages are not sent along, and nothing here allows it.

use web::{Headers, Request};

/// What a page may read of an answer besides its body.
const EXPOSED: &str = "Accept-Ranges, Allow, Content-Length, Content-Range, DAV, Digest, ETag, Last-Modified, Location, Lock-Token, \
    Repr-Digest, Retry-After, Upload-Complete, Upload-Length, Upload-Offset, WWW-Authenticate, X-OC-Mtime";
/// Which pages those are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Vec<String>);

impl Origins {
    /// Those of a list of `https://HOST[:PORT]`, or of all sites, `*`.
    ///
    /// # Errors
    /// What is no origin, and how one is written.
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

    /// What every answer to a page says, whether it is a file or a no.
    pub(crate) fn fields(&self, request: &Request) -> Headers {
        let mut fields = Headers::new();
        if self.0.is_empty() {
            return fields;
        }
        // Who keeps answers must not give one page what was meant for another.
        fields.add("Vary", "Origin");
        if let Some(origin) = request.headers.get("origin").filter(|origin| self.allow(origin)) {
            fields.add("Access-Control-Allow-Origin", origin);
            fields.add("Access-Control-Expose-Headers", EXPOSED);
        }
        fields
    }
}
