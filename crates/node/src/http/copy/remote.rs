//! The other end of a copy: whether one may go there, what it says of the file, and what its no means to our client.

use std::sync::Arc;
use std::time::Duration;

use model::{Algorithm, Digest, Fault, Retry};
use web::client::{Answer, ask, for_others, without_credentials};
use web::copy::Order;
use web::{Client, Dialer, Headers, HttpUrl, Method, Request, Response, digest};

use super::gauge::{Failure, Gauge, Mark};
use crate::http::put;
use crate::http::refused::{Outcome, Trouble, refuse};
use crate::http::request_context::RequestContext;
use crate::secrets::Secrets;
use crate::services::user;

/// For a connection with its handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);
/// For a byte of an answer: a digest of a large file takes its time.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes of a refusal that are quoted.
const QUOTED_BYTES: usize = 300;

/// How copies for this order are dialled.
pub(crate) fn dialer(context: &RequestContext<'_>, order: &Order) -> Dialer {
    let web = context.web.dialling();
    let prepare = context.web.prepare(order.scitag);
    Dialer {
        tls: Arc::clone(&web.tls),
        guard: Arc::clone(&web.guard),
        prepare,
        connect: CONNECT_WITHIN,
        silence: SILENCE,
    }
}

/// The gauge of a copy, with its mark.
pub(crate) fn gauge(context: &RequestContext<'_>, order: &Order, we_send: bool) -> Gauge {
    let fireflies = (*context.web.fireflies()).clone();
    let mark = order.scitag.filter(|tag| tag.is_marked()).map(|tag| Mark { tag, fireflies, we_send });
    Gauge::new(mark, context.web.services.meters.copy(user(context.access())), we_send)
}

/// A name as HTTP/1.1 has always written it. A client that came over HTTP/2 could only write it small, and there are servers
/// that know `Authorization` by its capital letter.
fn as_of_old(name: &str) -> String {
    if name.contains(|c: char| c.is_ascii_uppercase()) {
        return name.to_owned();
    }
    let mut starts = true;
    let mut capital = |c: char| {
        let c = if starts { c.to_ascii_uppercase() } else { c };
        starts = c == '-';
        c
    };
    name.chars().map(&mut capital).collect()
}

/// What every request to the other end carries.
pub(crate) fn headers(order: &Order) -> Headers {
    let mut headers: Headers = order.transfer_headers.iter().map(|(name, value)| (as_of_old(name), value)).collect();
    if headers.get("user-agent").is_none() {
        headers.add("User-Agent", concat!("longhaul/", env!("CARGO_PKG_VERSION"), " (third-party copy)"));
    }
    headers.add("Accept", "*/*");
    // The file is wanted as it lies there, not packed for the way.
    headers.add("Accept-Encoding", "identity");
    headers
}

/// What the client gave us for the other end, and nobody else is to read.
pub(crate) fn secrets(order: &Order) -> Secrets {
    Secrets::of(order.transfer_headers.iter().map(|(_, value)| value))
}

/// A no of the other end. What it says goes to our client, into the log and the audit trail: not with what it was shown.
pub(crate) fn refused(
    client: &mut Client,
    answer: &Response,
    mut body: web::Body,
    what: &str,
    url: &HttpUrl,
    secrets: &Secrets,
) -> Failure {
    let said = client.read_all(&mut body, 16 << 10).unwrap_or_default();
    let mut said = String::from_utf8_lossy(&said);
    // A HEAD is answered without a body: the challenge says why as well.
    let challenge = answer.headers.get("www-authenticate").unwrap_or_default();
    if said.is_empty()
        && let Some((_, why)) = challenge.split_once("error_description=\"")
    {
        said = why.split('"').next().unwrap_or_default().into();
    }
    // A page for a browser says nothing in one line.
    let said = said.trim().lines().next().filter(|line| !line.starts_with('<')).unwrap_or_default();
    let said = secrets.hide(said, &[&url.to_string()]);
    let quoted: String = said.chars().filter(|c| !c.is_control()).take(QUOTED_BYTES).collect();
    let quoted = if quoted.is_empty() { String::new() } else { format!("; error message: \"{quoted}\"") };
    let text = format!("Remote side failed with status code {} ({what} {}){quoted}", answer.status, url.redacted());
    of_status(answer.status, text)
}

/// What a status of the other end is to us.
pub(crate) fn of_status(status: u16, text: String) -> Failure {
    let (fault, retry) = match status {
        401 | 403 => (Fault::Auth, Retry::Never),
        404 | 410 => (Fault::Missing, Retry::Never),
        408 | 429 | 500 | 502..=504 => (Fault::Path, Retry::After),
        507 => (Fault::Storage, Retry::Never),
        _ => (Fault::Peer, Retry::Never),
    };
    // Not every number is one that we should say ourselves.
    let status = if matches!(status, 400..=599) { status } else { 502 };
    Failure { fault, retry, status, text }
}

/// A failure before anything was said: a status.
pub(crate) fn before(failure: Failure) -> Trouble {
    refuse(failure.status, failure.text)
}

/// What is known of the file at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Where redirects led, and what may be sent there.
    pub url: HttpUrl,
    pub headers: Headers,
    pub size: Option<u64>,
    pub etag: Option<String>,
    pub takes_ranges: bool,
    pub digests: Vec<Digest>,
    /// The identity of a node of ours.
    pub node: Option<String>,
}

/// Digests of a file that its server tells, in the head or behind the body.
pub(crate) fn digests(fields: &Headers) -> Vec<Digest> {
    let mut digests = digest::parse(fields.all("digest"));
    digests.extend(digest::repr::parse(fields.all("repr-digest")));
    digests.extend(fields.get("content-md5").and_then(digest::parse_content_md5));
    digests
}

/// What a COPY says of the bytes: in those fields that are about the file, and not about the body of the request itself.
pub(crate) fn promised(request: &Request) -> Outcome<Vec<Digest>> {
    let of_file =
        |name: &str| ["digest", "repr-digest", "oc-checksum"].iter().any(|known| name.eq_ignore_ascii_case(known));
    let headers: Headers = request.headers.iter().filter(|(name, _)| of_file(name)).collect();
    put::promised(&headers)
}

/// Whether an answer holds the bytes of the file themselves: what is packed would be kept packed, under the file's name. Where a
/// digest has to be met it shows that: there are servers that say so of files which are packed for good.
pub(crate) fn uncoded(response: &Response, url: &HttpUrl, has_promise: bool) -> Result<(), Failure> {
    match response.headers.get("content-encoding").map(str::trim) {
        Some(coding) if !has_promise && !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") => {
            let coding: String = coding.chars().filter(|c| !c.is_control()).take(40).collect();
            let text = format!(
                "the source sends {} packed (Content-Encoding: {coding}), though it was asked for the file as it is; its server \
                 has to stop that for this file",
                url.redacted()
            );
            Err(Failure::new(Fault::Peer, 502, text))
        }
        _ => Ok(()),
    }
}

/// The fields that a pull looks for in an answer.
pub(crate) fn read(response: &Response, url: HttpUrl, headers: Headers) -> Found {
    let fields = &response.headers;
    Found {
        url,
        headers,
        size: fields.get("content-length").and_then(|text| text.parse().ok()),
        etag: fields.get("etag").map(str::to_owned),
        takes_ranges: fields.lists("accept-ranges", "bytes"),
        digests: digests(fields),
        node: fields.get("longhaul-node").map(str::to_owned),
    }
}

/// Asks the source about its file, before anything is made here.
pub(crate) fn look(dialer: &Dialer, order: &Order, source: &HttpUrl, said: &[Digest]) -> Result<Found, Failure> {
    let base = headers(order);
    if order.no_head {
        let nothing = Response::new(200);
        return Ok(read(&nothing, source.clone(), without_authorization(source, base)));
    }
    let wanted = order
        .want_digest
        .clone()
        .unwrap_or_else(|| digest::want(&[Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5]));
    let mut asked = base.clone().with("Want-Digest", wanted).with("Longhaul-Offer", "1");
    if let Some(digest) = said.first() {
        asked.add("Want-Repr-Digest", digest::repr::want(&[digest.algorithm()]));
    }
    let mut answer = ask(dialer, &Method::Head, source, &asked)?;
    match answer.response.status {
        200 if answer.url.is_directory_of(source) => {
            let text = format!("{} is a directory, of which its server shows a page", source.redacted());
            Err(Failure { fault: Fault::Config, retry: Retry::Never, status: 409, text })
        }
        200 => {
            let has_promise = !said.is_empty() || !digests(&answer.response.headers).is_empty();
            uncoded(&answer.response, &answer.url, has_promise)?;
            let headers = if answer.url.is_same_origin(source) { base } else { for_others(&base) };
            Ok(read(&answer.response, answer.url, headers))
        }
        // Some know no HEAD: the GET will say.
        405 | 501 => Ok(read(&Response::new(200), source.clone(), base)),
        _ => {
            let Answer { client, response, body, url, .. } = &mut answer;
            Err(refused(client, response, body.clone(), "HEAD", url, &secrets(order)))
        }
    }
}

/// A URL that is signed bears no other credential beside it.
pub(crate) fn without_authorization(url: &HttpUrl, headers: Headers) -> Headers {
    if url.is_presigned() { without_credentials(&headers) } else { headers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shown_is_not_quoted() {
        let order = Order::from_headers([
            ("Source", "https://there.example/f"),
            ("TransferHeaderAuthorization", "Bearer eyJ0b2tlbg.x=="),
            ("TransferHeaderX-Auth-Token", "4711"),
            ("TransferHeaderX-Amz-Flag", "T"),
        ]);
        let (secrets, url) = (secrets(&order.unwrap()), "https://there.example/f?authz=abcdefghi");
        let hidden = |text: &str| secrets.hide(text, &[url]);
        assert_eq!(hidden("bad Bearer eyJ0b2tlbg.x== of T"), "bad … of T");
        assert_eq!(hidden("token 'eyJ0b2tlbg.x' (pin 4711)"), "token '…' (pin …)");
        assert_eq!(hidden("no /f?authz=abcdefghi, Bearer"), "no /f?authz=…, Bearer");
    }

    #[test]
    fn names_that_http2_made_small_are_written_as_of_old() {
        assert_eq!(as_of_old("authorization"), "Authorization");
        assert_eq!(as_of_old("x-amz-date"), "X-Amz-Date");
        assert_eq!(as_of_old("X-oddCase"), "X-oddCase");
    }
}
