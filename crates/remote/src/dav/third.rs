//! A copy that two servers make between themselves (COPY, as the WLCG has it): the bytes do not come here.
//!
//! Whoever has the bytes in the end is asked to fetch them; where that is not to be had, whoever has them now is asked to
//! bring them. What they say of how it went is believed as far as what is there afterwards bears it out.

use model::checksum::Digest;
use model::fault::Fault;
use model::name::RelPath;
use model::{Algorithm, Expected, Kind, Refusal};
use store::Store;
use web::copy::marker::{Heard, Markers};
use web::copy::outcome::Last;
use web::{Headers, HttpUrl, Method};

use super::Dav;
use crate::failed::Failed;
use crate::known::Told;
use crate::server::Asked;

/// Bytes read of an answer at a time.
const PIECE_BYTES: usize = 4 << 10;

/// Why a copy between two servers did not come about.
#[derive(Debug)]
pub enum NotCopied {
    /// Neither of them copies from or to others; why, in words.
    Cannot(String),
    /// They tried.
    Failed(store::Error),
    /// Whoever asked for it has ended it.
    Cancelled,
}

/// A copy, and who hears of it.
pub struct Between<'a> {
    /// Where the file is.
    pub from: (&'a Dav, &'a RelPath),
    /// Where it is to be.
    pub to: (&'a Dav, &'a RelPath),
    /// What is there may be replaced.
    pub replace: bool,
    /// What the file must be.
    pub expected: Expected,
    /// The experiment and activity that its packets are to tell of, as whoever copies is told (SciTags).
    pub scitag: Option<u16>,
    /// Hears of bytes that have arrived so far; `false` ends the copy.
    pub progress: &'a dyn Fn(u64) -> bool,
}

/// How far one way of asking got.
enum Asking {
    Done,
    Cancelled,
}

/// What servers say who do not know COPY from or to others, or do not do it for us.
const NOT_HERE: [u16; 5] = [400, 403, 405, 501, 502];

impl Between<'_> {
    /// Has the file copied, and makes sure that it is there. Returns its bytes.
    pub fn run(&self) -> Result<u64, NotCopied> {
        let failed = |failed: Failed| NotCopied::Failed(failed.doing("copy", self.from.1));
        let source = self.from.0.ask_facts(self.from.1).map_err(failed)?;
        if source.kind != Kind::File {
            return Err(NotCopied::Cannot("only files are copied".into()));
        }
        self.check_source(source.size).map_err(failed)?;
        let before = self.to.0.there(self.to.1).map_err(failed)?;
        if before.as_ref().is_some_and(|there| there.kind == Kind::Dir) {
            let path = store::error::shown(self.to.1);
            return Err(NotCopied::Failed(store::Error::Kind { path, found: "a directory", wanted: "a file" }));
        }
        let asked = match self.fetch() {
            Err(pull) if pull.is(&NOT_HERE) => match self.bring() {
                Err(push) if push.is(&NOT_HERE) => return Err(NotCopied::Cannot(format!("{pull}; {push}"))),
                other => other,
            },
            other => other,
        };
        match asked.map_err(failed)? {
            Asking::Cancelled => return Err(NotCopied::Cancelled),
            Asking::Done => {}
        }
        let after = self.to.0.there(self.to.1).map_err(failed)?;
        if before.zip(after).is_some_and(|(before, after)| before.is_untouched(&after)) {
            return Err(NotCopied::Cannot(format!("{} says that it copied, and did not", self.to.0.host())));
        }
        self.verify(source.size).map_err(failed)?;
        Ok(source.size)
    }

    /// The target fetches.
    fn fetch(&self) -> Result<Asking, Failed> {
        let (from, to) = (self.from.0.url(self.from.1, false)?, self.to.0.url(self.to.1, false)?);
        self.ask(self.to.0, &to, "Source", &from)
    }

    /// The source brings.
    fn bring(&self) -> Result<Asking, Failed> {
        let (from, to) = (self.from.0.url(self.from.1, false)?, self.to.0.url(self.to.1, false)?);
        self.ask(self.from.0, &from, "Destination", &to)
    }

    fn ask(&self, dav: &Dav, url: &HttpUrl, field: &str, other: &HttpUrl) -> Result<Asking, Failed> {
        let mut headers = headers(field, other, self.replace, self.scitag);
        // The other server is shown what it would be shown by us; never in clear, on neither line.
        if let Some(token) = dav.0.server.token(other)?.filter(|_| url.is_secure()) {
            headers.add("TransferHeaderAuthorization", format!("Bearer {token}"));
        }
        let method = Method::Copy;
        let mut begun = dav.0.server.begin(&Asked::plain(&method, url, &headers))?;
        if !(200..300).contains(&begun.response.status) {
            return Err(begun.refusal());
        }
        let (mut markers, mut piece, mut heard_any) = (Markers::default(), [0; PIECE_BYTES], false);
        let mut stripes = std::collections::BTreeMap::new();
        loop {
            let got = begun.client.read(&mut begun.body, &mut piece)?;
            let heard = if got == 0 { markers.finish().into_iter().collect() } else { markers.push(&piece[..got]) };
            for heard in heard {
                match heard {
                    Heard::Marker(marker) => {
                        heard_any = true;
                        stripes.insert(marker.stripe, marker.bytes);
                        if !(self.progress)(stripes.values().sum()) {
                            // Whoever hangs up has the copy ended.
                            return Ok(Asking::Cancelled);
                        }
                    }
                    Heard::Last(Last::Success) => return Ok(Asking::Done),
                    Heard::Last(Last::Failure(why) | Last::Aborted(why)) => {
                        return Err(Failed::peer(format!("{} could not: {why}", url.authority())));
                    }
                }
            }
            if got == 0 {
                // Some answer without a word when it is done.
                let silent = !heard_any && begun.response.status != 202;
                let why = format!("{} ended its answer without saying how the copy went", url.authority());
                return if silent { Ok(Asking::Done) } else { Err(Failed::path(why)) };
            }
        }
    }

    /// The digest that is compared: the one that was ordered, or the one that all of these servers know.
    fn algorithm(&self) -> Algorithm {
        self.expected.digest.map_or(Algorithm::Adler32, |digest| digest.algorithm())
    }

    fn told(&self, (dav, path): (&Dav, &RelPath)) -> Option<Digest> {
        dav.digests(path, &[self.algorithm()]).unwrap_or_default().first().copied()
    }

    /// What the source has must be what was ordered, as far as it says.
    fn check_source(&self, size: u64) -> Result<(), Failed> {
        self.expected.check_bytes(size).map_err(damaged)?;
        let told = self.expected.digest.and_then(|_| self.told(self.from));
        told.map_or(Ok(()), |told| self.expected.check_digests(&[told])).map_err(damaged)
    }

    /// What is there must be what was: its length, and the digest that was ordered, or that both ends know.
    fn verify(&self, size: u64) -> Result<(), Failed> {
        let (dav, path) = self.to;
        let there = dav.ask_facts(path)?;
        let checked = self.check_target(size, there.size);
        dav.0.known.learn(path, there);
        checked.map_err(|refusal| {
            // What is not what it should be must not be taken for it.
            let _ = dav.remove(path);
            damaged(refusal)
        })
    }

    fn check_target(&self, size: u64, there: u64) -> Result<(), Refusal> {
        let host = self.to.0.host();
        let wrong = |why: String| Refusal::new(Fault::Integrity, why);
        if there != size {
            return Err(wrong(format!("{host} has {there} bytes of a file of {size}")));
        }
        let theirs = self.told(self.to);
        let wanted = self.expected.digest.or_else(|| self.told(self.from));
        match (wanted, theirs) {
            (Some(wanted), Some(theirs)) if wanted != theirs => {
                Err(wrong(format!("{host} has {theirs}, and it should be {wanted}")))
            }
            (Some(wanted), None) if self.expected.digest.is_some() => {
                let name = wanted.algorithm();
                Err(wrong(format!(
                    "{host} tells no {name} of what it has: it cannot be compared with {wanted}, which was ordered"
                )))
            }
            _ => Ok(()),
        }
    }
}

fn damaged(refusal: Refusal) -> Failed {
    Failed { fault: refusal.fault, ..Failed::peer(refusal.reason) }
}

/// What whoever is to copy is asked with.
fn headers(field: &str, other: &HttpUrl, replace: bool, scitag: Option<u16>) -> Headers {
    let mut headers = Headers::new()
        .with(field, other.as_str())
        .with("Overwrite", if replace { "T" } else { "F" })
        .with("Credential", "none")
        // Compared here, afterwards: some servers know another digest than the one they ask for.
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
    fn whoever_copies_is_told_what_its_packets_are_to_say() {
        let other = HttpUrl::parse("https://h/f").unwrap();
        let told = |scitag| {
            let headers = headers("Source", &other, false, scitag);
            ["source", "overwrite", "scitag"].map(|name| headers.get(name).map(str::to_owned))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(told(Some(333)), [text("https://h/f"), text("F"), text("333")]);
        assert_eq!(told(None)[2], None);
    }
}
