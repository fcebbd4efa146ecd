//! A copy between two servers (third-party COPY of the WLCG): the bytes do not pass through this host.
//!
//! The target is asked to fetch the file; where it cannot, the source is asked to send it. Afterwards the file at the target is
//! compared with their report.

use model::checksum::Digest;
use model::fault::Fault;
use model::name::RelPath;
use model::{Algorithm, Expected, Kind, Refusal};
use store::Store;
use web::copy::marker::{MarkerEvent, Markers};
use web::copy::outcome::CopyOutcome;
use web::{Headers, HttpUrl, Method};

use super::Dav;
use crate::facts_cache::Namespace;
use crate::request_error::RequestError;
use crate::server::ClientRequest;

/// Bytes of a response that are read at a time.
const PIECE_BYTES: usize = 4 << 10;

/// Why a copy between two servers was not made.
#[derive(Debug)]
pub enum CopyError {
    /// Neither server copies from or to others; the reason, in words.
    Cannot(String),
    /// A server tried, and failed.
    Failed(store::Error),
    /// The progress callback has ended the copy.
    Cancelled,
}

/// A copy between two servers.
pub struct ServerCopy<'a> {
    /// The source: a server, and the file's path on it.
    pub from: (&'a Dav, &'a RelPath),
    /// The target: a server, and the file's path on it.
    pub to: (&'a Dav, &'a RelPath),
    /// Whether a file at the target may be replaced.
    pub replace: bool,
    /// The expected size and digest.
    pub expected: Expected,
    /// The SciTags number of the experiment and activity, with which the copying server marks its packets.
    pub scitag: Option<u16>,
    /// Called with the bytes that have arrived so far; returns `false` to end the copy.
    pub progress: &'a dyn Fn(u64) -> bool,
}

/// How a COPY request ended.
enum CopyEnd {
    Done,
    Cancelled,
}

/// Statuses of servers that do not support COPY from or to other servers, or refuse it to this client.
const UNSUPPORTED: [u16; 5] = [400, 403, 405, 501, 502];

impl ServerCopy<'_> {
    /// Has the file copied, and verifies the copy. Returns its size in bytes.
    ///
    /// # Errors
    /// [`CopyError`]: neither server can make the copy, it failed or was cancelled, or the target has another file afterwards.
    pub fn run(&self) -> Result<u64, CopyError> {
        let failed = |failed: RequestError| CopyError::Failed(failed.into_store_error("copy", self.from.1));
        let source = self.from.0.ask_facts(self.from.1).map_err(failed)?;
        if source.kind != Kind::File {
            return Err(CopyError::Cannot("only files are copied".into()));
        }
        self.check_source(source.size).map_err(failed)?;
        let before = self.to.0.find(self.to.1).map_err(failed)?;
        if before.as_ref().is_some_and(|there| there.kind == Kind::Dir) {
            let path = store::error::shown(self.to.1);
            return Err(CopyError::Failed(store::Error::Kind { path, found: "a directory", wanted: "a file" }));
        }
        let copied = match self.pull() {
            Err(pull) if pull.is(&UNSUPPORTED) => match self.push() {
                Err(push) if push.is(&UNSUPPORTED) => return Err(CopyError::Cannot(format!("{pull}; {push}"))),
                other => other,
            },
            other => other,
        };
        match copied.map_err(failed)? {
            CopyEnd::Cancelled => return Err(CopyError::Cancelled),
            CopyEnd::Done => {}
        }
        let after = self.to.0.find(self.to.1).map_err(failed)?;
        if before.zip(after).is_some_and(|(before, after)| before.is_untouched(&after)) {
            return Err(CopyError::Cannot(format!("{} reports a copy that it did not make", self.to.0.host())));
        }
        self.verify(source.size).map_err(failed)?;
        Ok(source.size)
    }

    /// Asks the target to fetch the file.
    fn pull(&self) -> Result<CopyEnd, RequestError> {
        let (from, to) = (self.from.0.url(self.from.1, false)?, self.to.0.url(self.to.1, false)?);
        self.ask(self.to.0, &to, "Source", &from)
    }

    /// Asks the source to send the file.
    fn push(&self) -> Result<CopyEnd, RequestError> {
        let (from, to) = (self.from.0.url(self.from.1, false)?, self.to.0.url(self.to.1, false)?);
        self.ask(self.from.0, &from, "Destination", &to)
    }

    fn ask(&self, dav: &Dav, url: &HttpUrl, field: &str, other: &HttpUrl) -> Result<CopyEnd, RequestError> {
        let mut headers = headers(field, other, self.replace, self.scitag);
        // The other server gets the token that this client would send to it; never in clear text, on either connection.
        if let Some(token) = dav.0.server.token(other)?.filter(|_| url.is_secure()) {
            headers.add("TransferHeaderAuthorization", format!("Bearer {token}"));
        }
        let method = Method::Copy;
        let mut streaming = dav.0.server.streaming(&ClientRequest::plain(&method, url, &headers))?;
        if !(200..300).contains(&streaming.response.status) {
            return Err(streaming.refusal());
        }
        let mut markers = Markers::default();
        let mut piece = [0; PIECE_BYTES];
        let mut any_marker = false;
        let mut stripes = std::collections::BTreeMap::new();
        loop {
            let got = streaming.client.read(&mut streaming.body, &mut piece)?;
            let events = if got == 0 { markers.finish().into_iter().collect() } else { markers.push(&piece[..got]) };
            for event in events {
                match event {
                    MarkerEvent::Marker(marker) => {
                        any_marker = true;
                        stripes.insert(marker.stripe, marker.bytes);
                        if !(self.progress)(stripes.values().sum()) {
                            // Closing the connection ends the copy.
                            return Ok(CopyEnd::Cancelled);
                        }
                    }
                    MarkerEvent::Outcome(CopyOutcome::Success) => return Ok(CopyEnd::Done),
                    MarkerEvent::Outcome(CopyOutcome::Failure(why) | CopyOutcome::Aborted(why)) => {
                        return Err(RequestError::protocol_error(format!("{} could not: {why}", url.authority())));
                    }
                }
            }
            if got == 0 {
                // Some servers end a finished copy with an empty body.
                let silent = !any_marker && streaming.response.status != 202;
                let why = format!("{} ended its answer without saying how the copy went", url.authority());
                return if silent { Ok(CopyEnd::Done) } else { Err(RequestError::connection_error(why)) };
            }
        }
    }

    /// The algorithm of the digest to compare: that of the expected digest, or the one that all of these servers know.
    fn algorithm(&self) -> Algorithm {
        self.expected.digest.map_or(Algorithm::Adler32, |digest| digest.algorithm())
    }

    /// The digest that a server reports.
    fn reported(&self, (dav, path): (&Dav, &RelPath)) -> Option<Digest> {
        dav.digests(path, &[self.algorithm()]).unwrap_or_default().first().copied()
    }

    /// Checks the source against the expected size and digest, as far as the server reports them.
    fn check_source(&self, size: u64) -> Result<(), RequestError> {
        self.expected.check_bytes(size).map_err(damaged)?;
        let reported = self.expected.digest.and_then(|_| self.reported(self.from));
        reported.map_or(Ok(()), |digest| self.expected.check_digests(&[digest])).map_err(damaged)
    }

    /// Checks the target: its size, and the expected digest or else the one that both servers report.
    fn verify(&self, size: u64) -> Result<(), RequestError> {
        let (dav, path) = self.to;
        let facts = dav.ask_facts(path)?;
        let checked = self.check_target(size, facts.size);
        dav.0.cache.store(path, facts);
        checked.map_err(|refusal| {
            // A damaged file must not be mistaken for the copy.
            let _ = dav.remove(path);
            damaged(refusal)
        })
    }

    fn check_target(&self, size: u64, reported_bytes: u64) -> Result<(), Refusal> {
        let host = self.to.0.host();
        let wrong = |why: String| Refusal::new(Fault::Integrity, why);
        if reported_bytes != size {
            return Err(wrong(format!("{host} has {reported_bytes} bytes of a file of {size}")));
        }
        let theirs = self.reported(self.to);
        let wanted = self.expected.digest.or_else(|| self.reported(self.from));
        match (wanted, theirs) {
            (Some(wanted), Some(theirs)) if wanted != theirs => {
                Err(wrong(format!("{host} reports {theirs} of the copy, and {wanted} was expected")))
            }
            (Some(wanted), None) if self.expected.digest.is_some() => {
                let name = wanted.algorithm();
                Err(wrong(format!(
                    "{host} reports no {name} of the copy, so it cannot be compared with the expected {wanted}"
                )))
            }
            _ => Ok(()),
        }
    }
}

fn damaged(refusal: Refusal) -> RequestError {
    RequestError { fault: refusal.fault, ..RequestError::protocol_error(refusal.reason) }
}

/// The headers of the COPY request.
fn headers(field: &str, other: &HttpUrl, replace: bool, scitag: Option<u16>) -> Headers {
    let mut headers = Headers::new()
        .with(field, other.as_str())
        .with("Overwrite", if replace { "T" } else { "F" })
        .with("Credential", "none")
        // The digests are compared afterwards, because some servers report another digest than the one that they request.
        .with("RequireChecksumVerification", "false");
    if let Some(tag) = scitag {
        headers.add("SciTag", tag.to_string());
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copying_server_gets_the_scitag_of_its_packets() {
        let other = HttpUrl::parse("https://h/f").unwrap();
        let sent = |scitag| {
            let headers = headers("Source", &other, false, scitag);
            ["source", "overwrite", "scitag"].map(|name| headers.get(name).map(str::to_owned))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(sent(Some(333)), [text("https://h/f"), text("F"), text("333")]);
        assert_eq!(sent(None)[2], None);
    }
}
