//! The other server of a copy: how it is dialled, the size and digests of its file, and the meaning of its refusals for the client.

use std::sync::Arc;
use std::time::Duration;

use model::{Digest, Fault, Retry};
use web::client::{FinalResponse, fetch, fields_for_other_servers, without_credentials};
use web::copy::CopyRequest;
use web::{Client, Dialer, Headers, HttpUrl, Method, Response};

use super::digests;
use crate::copies::progress::{CopyProgress, Failure, FlowTag};
use crate::http::refused::{RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::secrets::Secrets;
use crate::services::user;

/// Timeout for a connection with its handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);
/// Timeout for a byte of an answer: a digest of a large file takes time.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes of a refusal that are quoted.
const QUOTED_BYTES: usize = 300;

/// The dialer for the copies of this order.
pub(crate) fn dialer(context: &RequestContext<'_>, order: &CopyRequest) -> Dialer {
    let service = context.service.dialling();
    let prepare = context.service.prepare(order.scitag);
    Dialer {
        tls: Arc::clone(&service.tls),
        guard: Arc::clone(&service.guard),
        prepare,
        connect: CONNECT_WITHIN,
        silence: SILENCE,
    }
}

/// The progress of a copy, with its SciTag.
pub(crate) fn progress(context: &RequestContext<'_>, order: &CopyRequest, is_sender: bool) -> CopyProgress {
    let fireflies = (*context.service.fireflies()).clone();
    let tag = order.scitag.filter(|tag| tag.is_marked()).map(|tag| FlowTag { tag, fireflies, is_sender });
    CopyProgress::new(tag, context.service.services.meters.copy(user(context.access())), is_sender)
}

/// The name of a field with the capital letters that are usual in HTTP/1.1. HTTP/2 has lower-case names only, and some servers
/// recognise `Authorization` only with its capital letter.
fn with_capitals(name: &str) -> String {
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

/// The fields of every request to the other server.
pub(crate) fn headers(order: &CopyRequest) -> Headers {
    let mut headers: Headers =
        order.transfer_headers.iter().map(|(name, value)| (with_capitals(name), value)).collect();
    if headers.get("user-agent").is_none() {
        headers.add("User-Agent", concat!("longhaul/", env!("CARGO_PKG_VERSION"), " (third-party copy)"));
    }
    headers.add("Accept", "*/*");
    // The file is requested as it is stored, without a content coding.
    headers.add("Accept-Encoding", "identity");
    headers
}

/// The secrets that the client gave for the other server.
pub(crate) fn secrets(order: &CopyRequest) -> Secrets {
    Secrets::of(order.transfer_headers.iter().map(|(_, value)| value))
}

/// The failure of a copy that the other server refused. Its text goes to the client, the log and the audit log, without the secrets
/// that were sent.
pub(crate) fn refused(
    client: &mut Client,
    answer: &Response,
    mut body: web::Body,
    what: &str,
    url: &HttpUrl,
    secrets: &Secrets,
) -> Failure {
    let bytes = client.read_all(&mut body, 16 << 10).unwrap_or_default();
    let mut text = String::from_utf8_lossy(&bytes);
    // The answer to a HEAD has no body: the reason may be in the challenge.
    let challenge = answer.headers.get("www-authenticate").unwrap_or_default();
    if text.is_empty()
        && let Some((_, why)) = challenge.split_once("error_description=\"")
    {
        text = why.split('"').next().unwrap_or_default().into();
    }
    // The first line of an HTML page holds no reason.
    let reason = text.trim().lines().next().filter(|line| !line.starts_with('<')).unwrap_or_default();
    let reason = secrets.hide(reason, &[&url.to_string()]);
    let quoted: String = reason.chars().filter(|c| !c.is_control()).take(QUOTED_BYTES).collect();
    let quoted = if quoted.is_empty() { String::new() } else { format!("; error message: \"{quoted}\"") };
    let text = format!("Remote side failed with status code {} ({what} {}){quoted}", answer.status, url.redacted());
    of_status(answer.status, text)
}

/// The failure that a status of the other server means.
pub(crate) fn of_status(status: u16, text: String) -> Failure {
    let (fault, retry) = match status {
        401 | 403 => (Fault::Auth, Retry::Never),
        404 | 410 => (Fault::Missing, Retry::Never),
        408 | 429 | 500 | 502..=504 => (Fault::Path, Retry::After),
        507 => (Fault::Storage, Retry::Never),
        _ => (Fault::Peer, Retry::Never),
    };
    // Only a status of an error is passed on.
    let status = if matches!(status, 400..=599) { status } else { 502 };
    Failure { fault, retry, status, text }
}

/// Turns a failure before the answer has begun into a refusal with its status.
pub(crate) fn as_status(failure: Failure) -> RequestFailure {
    refuse(failure.status, failure.text)
}

/// A file at the other server, as the server describes it.
#[derive(Clone, Debug)]
pub(crate) struct RemoteFile {
    /// The URL after redirects.
    pub url: HttpUrl,
    /// The fields that may be sent there.
    pub headers: Headers,
    pub size: Option<u64>,
    pub etag: Option<String>,
    pub takes_ranges: bool,
    pub digests: Vec<Digest>,
    /// Whether the server has not been asked for digests yet, and is to be: see [`digests::request`].
    pub digests_follow: bool,
    /// The fingerprint, if the server is a Longhaul node.
    pub node: Option<String>,
}

/// Checks that an answer has no content coding, because a compressed body would be stored compressed under the file's name. A
/// stated digest makes the check unnecessary; some servers declare a coding for files that are stored compressed.
pub(crate) fn check_coding(response: &Response, url: &HttpUrl, has_stated_digest: bool) -> Result<(), Failure> {
    match content_coding(response) {
        Some(coding) if !has_stated_digest => {
            let coding: String = coding.chars().filter(|c| !c.is_control()).take(40).collect();
            let text = format!(
                "the source sends {} encoded (Content-Encoding: {coding}), though the file was requested as it is stored; its \
                 server must not encode this file",
                url.redacted()
            );
            Err(Failure::new(Fault::Peer, 502, text))
        }
        _ => Ok(()),
    }
}

/// The content coding of an answer's body, if it has one.
fn content_coding(response: &Response) -> Option<&str> {
    let coding = response.headers.get("content-encoding").map(str::trim);
    coding.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
}

/// Reads the description of a file from an answer.
pub(crate) fn read(response: &Response, url: HttpUrl, headers: Headers) -> RemoteFile {
    let fields = &response.headers;
    RemoteFile {
        url,
        headers,
        size: fields.get("content-length").and_then(|text| text.parse().ok()),
        etag: fields.get("etag").map(str::to_owned),
        takes_ranges: fields.lists("accept-ranges", "bytes"),
        digests: digests::in_fields(fields),
        digests_follow: false,
        node: fields.get("longhaul-node").map(str::to_owned),
    }
}

/// Asks the source for the description of its file, before anything is created here. It is asked for digests at once only if they decide
/// whether the copy begins: a server may have to read its whole file for them.
pub(crate) fn find_source(
    dialer: &Dialer,
    order: &CopyRequest,
    source: &HttpUrl,
    requested: &[Digest],
) -> Result<RemoteFile, Failure> {
    let base = headers(order);
    if order.no_head {
        let nothing = Response::new(200);
        return Ok(read(&nothing, source.clone(), without_authorization(source, base)));
    }
    let digests_decide = !requested.is_empty() || order.require_checksum == Some(true);
    let mut answer = None;
    if !digests_decide {
        answer = head(dialer, order, source, &base)?;
        if let Some(found) = answer.as_ref().filter(|found| is_plain(&found.response)) {
            let file = describe(found, source, base);
            let digests_follow = file.digests.is_empty() && order.require_checksum.is_none();
            return Ok(RemoteFile { digests_follow, ..file });
        }
    }
    // A file with a content coding, or of unknown length, is accepted only with a digest.
    if answer.as_ref().is_none_or(|found| digests::in_fields(&found.response.headers).is_empty()) {
        answer = head(dialer, order, source, &digests::want(order, base.clone(), requested))?;
    }
    // Some servers do not support HEAD: the answer to GET has the description.
    let Some(found) = answer else { return Ok(read(&Response::new(200), source.clone(), base)) };
    let has_stated_digest = !requested.is_empty() || !digests::in_fields(&found.response.headers).is_empty();
    check_coding(&found.response, &found.url, has_stated_digest)?;
    Ok(describe(&found, source, base))
}

/// The answer to a HEAD; none of a server that does not support it.
fn head(
    dialer: &Dialer,
    order: &CopyRequest,
    source: &HttpUrl,
    fields: &Headers,
) -> Result<Option<FinalResponse>, Failure> {
    let mut answer = fetch(dialer, &Method::Head, source, &fields.clone().with("Longhaul-Offer", "1"))?;
    match answer.response.status {
        200 if answer.url.is_directory_of(source) => {
            let text = format!("{} is a directory, for which its server sends a page", source.redacted());
            Err(Failure { fault: Fault::Config, retry: Retry::Never, status: 409, text })
        }
        200 => Ok(Some(answer)),
        405 | 501 => Ok(None),
        _ => {
            let FinalResponse { client, response, body, url, .. } = &mut answer;
            Err(refused(client, response, body.clone(), "HEAD", url, &secrets(order)))
        }
    }
}

/// Whether an answer describes a file of known length without a content coding. Some servers say 0 if they do not know the length.
fn is_plain(response: &Response) -> bool {
    let length = response.headers.get("content-length").and_then(|text| text.parse::<u64>().ok());
    length.is_some_and(|bytes| bytes > 0) && content_coding(response).is_none()
}

/// Reads the description of the source's file from an answer.
fn describe(found: &FinalResponse, source: &HttpUrl, base: Headers) -> RemoteFile {
    let headers = if found.url.is_same_origin(source) { base } else { fields_for_other_servers(&base) };
    read(&found.response, found.url.clone(), headers)
}

/// The fields for a URL: a signed URL is sent without another credential.
pub(crate) fn without_authorization(url: &HttpUrl, headers: Headers) -> Headers {
    if url.is_presigned() { without_credentials(&headers) } else { headers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_quoted() {
        let order = CopyRequest::from_headers([
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
    fn lower_case_field_names_get_their_capitals() {
        assert_eq!(with_capitals("authorization"), "Authorization");
        assert_eq!(with_capitals("x-amz-date"), "X-Amz-Date");
        assert_eq!(with_capitals("X-oddCase"), "X-oddCase");
    }
}
