//! A range of a file for whoever reads it from several servers at once: one try, told as it comes, and given up from outside.
//!
//! Does not know: the other servers.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use model::RelPath;
use web::{Headers, Method};

use super::Fetching;
use crate::dav::Dav;
use crate::failed::Failed;
use crate::known::{Facts, Told};
use crate::pieces::{Flight, Pieces, Trouble};
use crate::server::Asked;

/// Bytes that are taken from a line at a time.
const SIP_BYTES: usize = 64 << 10;

impl Dav {
    /// A file as one of several of the same bytes, with its length.
    pub(crate) fn pieces(&self, path: &RelPath) -> Result<(u64, Box<dyn Pieces>), Trouble> {
        let facts = self.facts_to_read(path).map_err(|failed| Trouble::of(failed, "open", path))?;
        let size = if facts.kind == model::Kind::File { facts.size } else { return Err(Trouble::dir(path)) };
        Ok((size, Box::new(fetching(self, path, facts))))
    }
}

fn fetching(dav: &Dav, path: &RelPath, facts: Facts) -> Fetching {
    let (dav, path) = (dav.clone(), path.clone());
    Fetching { dav, path, facts, no_ranges: AtomicBool::new(false), flow: Default::default() }
}

impl Pieces for Fetching {
    fn bring(&self, span: Range<u64>, flight: &Flight, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Trouble> {
        self.bring_once(&span, flight, take).map_err(|failed| match failed.status {
            Some(404 | 410 | 412 | 416) => {
                self.dav.0.known.forget(&self.path);
                Trouble::of(Failed { status: None, again: false, ..failed }, "read", &self.path)
            }
            _ => Trouble::of(failed, "read", &self.path),
        })
    }
}

impl Fetching {
    fn bring_once(
        &self,
        span: &Range<u64>,
        flight: &Flight,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failed> {
        let url = self.dav.url(&self.path, false)?;
        let mut headers = Headers::new().with("Accept-Encoding", "identity");
        if !self.is_whole(span) {
            headers.add("Range", format!("bytes={}-{}", span.start, span.end - 1));
        }
        let method = Method::Get;
        let mut begun = self.dav.0.server.once(&Asked::plain(&method, &url, &headers))?;
        match begun.response.status {
            206 if !self.is_whole(span) => self.check_range(&begun, span)?,
            200 if self.is_whole(span) => self.check_facts(&begun, begun.body.length())?,
            200 => return Err(Failed::peer(format!("{} knows no ranges", self.dav.host()))),
            status if (200..300).contains(&status) => {
                return Err(Failed::peer(format!("{} answered {status} to a GET", self.dav.host())));
            }
            _ => return Err(begun.refusal()),
        }
        flight.over(begun.client.conn().socket());
        let (mut left, mut sip) = (span.end - span.start, vec![0; SIP_BYTES]);
        while left > 0 {
            let got = begun.client.read(&mut begun.body, &mut sip)?;
            if got == 0 || got as u64 > left {
                let why = format!(
                    "{} sends another number of bytes than the {} that were due",
                    self.dav.host(),
                    span.end - span.start
                );
                return Err(Failed { again: got == 0, ..Failed::peer(why) });
            }
            left -= got as u64;
            if !take(&sip[..got]) {
                return Ok(());
            }
        }
        // Not every framing has said its end with the last byte.
        let ended = begun.body.length().is_some() || begun.client.read(&mut begun.body, &mut sip)? == 0;
        if flight.landed() && ended && !begun.body.ends_with_line() {
            self.dav.0.server.keep(&begun.url, &begun.response, begun.client);
        }
        Ok(())
    }
}
