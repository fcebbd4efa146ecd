//! The digests that a request asks for: `Want-Digest` (RFC 3230) and `Want-Repr-Digest` (RFC 9530).

use std::io;
use std::sync::Arc;

use model::{Algorithm, RelPath};
use serve::Exchange;
use store::Source;
use web::{Headers, Method, digest};

use super::refused::{Outcome, Refused, RequestFailure};
use crate::digests::{BUSY, Digests, NoDigest};

/// The algorithms that are offered, the most common one first.
pub(crate) const OFFERED: [Algorithm; 6] =
    [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];

/// Adds the digest that a request asks for to the fields of its answer. If this node is too busy, a GET is answered without the
/// digest, as RFC 3230 and RFC 9530 allow.
///
/// # Errors
/// The node is too busy to answer a HEAD, the client has hung up, or the file cannot be read.
pub(crate) fn add_digest(
    digests: &Digests,
    exchange: &dyn Exchange,
    source: &Arc<dyn Source>,
    path: &RelPath,
    headers: &mut Headers,
) -> Outcome<()> {
    let request = exchange.request();
    // Want-Digest takes precedence if both fields are present.
    let wanted = digest::wanted(request.headers.all("want-digest"), &OFFERED).map(|algorithm| (algorithm, false));
    let wanted = wanted.or_else(|| {
        digest::repr::wanted(request.headers.all("want-repr-digest"), &OFFERED).map(|algorithm| (algorithm, true))
    });
    let Some((algorithm, is_repr)) = wanted else { return Ok(()) };
    match digests.compute_for(&**source, path, algorithm, &|| exchange.is_closed_by_peer()) {
        Ok(made) if is_repr => headers.add("Repr-Digest", digest::repr::format(&made)),
        Ok(made) => headers.add("Digest", digest::format(&made)),
        Err(NoDigest::Busy) if request.method == Method::Get => {}
        Err(why) => return Err(why.into()),
    }
    Ok(())
}

impl From<NoDigest> for RequestFailure {
    fn from(why: NoDigest) -> RequestFailure {
        match why {
            NoDigest::Gone => {
                let error = "the client hung up before its digest was computed";
                RequestFailure::Broken(io::Error::new(io::ErrorKind::BrokenPipe, error))
            }
            NoDigest::Busy => Refused::new(503, BUSY).with("Retry-After", "30").into(),
            NoDigest::Store(error) => error.into(),
        }
    }
}
