//! The digests of the file at the other server: when it is asked for them, and which ones the bytes must have.

use std::time::Duration;

use model::{Algorithm, Digest, Fault};
use web::copy::CopyRequest;
use web::{Dialer, Headers, HttpUrl, Method, Request, Response, digest};

use crate::copies::progress::{CopyConnection, CopyProgress, Failure};
use crate::http::put;
use crate::http::refused::{Outcome, refuse};

/// How long the source may take for the digests of its file: it reads 1 TB at 300 MB/s in this time.
const DIGESTS_WITHIN: Duration = Duration::from_secs(3600);
/// How often a source that fails is asked, and the pause after the first time.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

/// Digests of a file in the head or the trailers of an answer.
pub(crate) fn in_fields(fields: &Headers) -> Vec<Digest> {
    let mut digests = digest::parse(fields.all("digest"));
    digests.extend(digest::repr::parse(fields.all("repr-digest")));
    digests.extend(fields.get("content-md5").and_then(digest::parse_content_md5));
    digests
}

/// The digests that a COPY names for the file, in the fields that are not about the body of the request itself.
pub(crate) fn in_request(request: &Request) -> Outcome<Vec<Digest>> {
    let of_file =
        |name: &str| ["digest", "repr-digest", "oc-checksum"].iter().any(|known| name.eq_ignore_ascii_case(known));
    let headers: Headers = request.headers.iter().filter(|(name, _)| of_file(name)).collect();
    put::stated_digests(&headers)
}

/// Adds the fields that ask for digests: those that the client wants, and the one that it has stated.
pub(crate) fn want(order: &CopyRequest, fields: Headers, requested: &[Digest]) -> Headers {
    let wanted = order
        .want_digest
        .clone()
        .unwrap_or_else(|| digest::want(&[Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5]));
    let mut fields = fields.with("Want-Digest", wanted);
    if let Some(digest) = requested.first() {
        fields.add("Want-Repr-Digest", digest::repr::want(&[digest.algorithm()]));
    }
    fields
}

/// The digests that the bytes must have: those of the request, and those that the source has for its file.
pub(crate) fn expected(order: &CopyRequest, of_source: &[Digest], requested: &[Digest]) -> Outcome<Vec<Digest>> {
    let mut stated = of_source.to_vec();
    for wanted in requested {
        if let Some(theirs) = of_source.iter().find(|d| d.algorithm() == wanted.algorithm() && *d != wanted) {
            let reason = format!("checksum mismatch: the source has {theirs}, and the request says {wanted}");
            return Err(refuse(412, reason));
        }
        stated.push(*wanted);
    }
    if stated.is_empty() && order.require_checksum == Some(true) {
        let reason =
            "the source reports no checksum that this node can verify, and RequireChecksumVerification is true";
        return Err(refuse(412, reason));
    }
    if order.require_checksum == Some(false) {
        // The client compares by itself; only the digests of its request are compared here.
        stated.retain(|digest| requested.contains(digest));
    }
    Ok(stated)
}

/// A file at another server: its URL, and the fields that may be sent there.
pub(crate) struct FileAddress<'a> {
    pub url: &'a HttpUrl,
    pub headers: &'a Headers,
}

/// Asks the source for the digests of its file while the bytes move, over a connection of its own. A source that refuses to say one is trusted
/// like one that has none, since the client did not require it.
///
/// # Errors
/// The source failed several times; the copy is cancelled.
pub(crate) fn request(
    dialer: &Dialer,
    order: &CopyRequest,
    file: &FileAddress<'_>,
    progress: &CopyProgress,
) -> Result<Vec<Digest>, Failure> {
    let mut attempt = 0;
    loop {
        let failure = match answer(dialer, order, file, progress) {
            Ok(answer) => match answer.status {
                200 => return Ok(in_fields(&answer.headers)),
                status @ (408 | 429 | 500 | 502..=504) => {
                    let text =
                        format!("Remote side failed with status code {status} (HEAD, for the digest of its file)");
                    Failure::new(Fault::Path, status, text)
                }
                status => {
                    tracing::warn!(
                        status,
                        "the source does not say the digest of its file; the copy is not compared with one"
                    );
                    return Ok(Vec::new());
                }
            },
            Err(failure) => failure,
        };
        if progress.is_cancelled() {
            return Ok(Vec::new());
        }
        attempt += 1;
        if attempt == ATTEMPTS || !failure.is_temporary() {
            // The bytes could not be trusted: the rest of them need not come.
            progress.cancel();
            return Err(failure);
        }
        std::thread::sleep(PAUSE * attempt);
    }
}

fn answer(
    dialer: &Dialer,
    order: &CopyRequest,
    file: &FileAddress<'_>,
    progress: &CopyProgress,
) -> Result<Response, Failure> {
    let dialer = Dialer { silence: DIGESTS_WITHIN, ..dialer.clone() };
    let mut connection = CopyConnection::dial(&dialer, file.url, progress)?;
    let fields = want(order, file.headers.clone(), &[]);
    connection.client.send(&Method::Head, file.url.path_and_query(), &fields)?;
    Ok(connection.client.final_response(&Method::Head)?.0)
}
