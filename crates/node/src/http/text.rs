//! Answers that are text: listings, pages, JSON. They are sent while they are made, compressed where the client accepts that
//! (RFC 9110, section 12.5.3). Files are never sent this way: their bytes go out as they are stored.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serve::{Exchange, Length};
use web::{Headers, Response};

use super::refused::RequestOutcome;

/// Bytes that are sent together.
const TOGETHER_BYTES: usize = 64 << 10;
/// Answers from this length on are compressed: for shorter ones the gzip header costs more than it saves.
const PACKED_FROM: u64 = 1 << 10;

/// A text that is being sent.
pub(crate) struct Text {
    status: u16,
    waiting: Vec<u8>,
    packer: Option<GzEncoder<Vec<u8>>>,
    sent: u64,
}

impl Text {
    /// Begins an answer. A known length is sent where the text is not compressed.
    pub fn begin(exchange: &mut dyn Exchange, mut response: Response, length: Length) -> io::Result<Text> {
        let is_worth_it = !matches!(length, Length::Known(bytes) if bytes < PACKED_FROM);
        let packs = is_worth_it && exchange.request().headers.accepts_coding("gzip");
        response.headers.add("Vary", "Accept-Encoding");
        if packs {
            response.headers.add("Content-Encoding", "gzip");
        }
        let status = response.status;
        exchange.begin(response, if packs { Length::Open } else { length })?;
        let packer = packs.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        Ok(Text { status, waiting: Vec::new(), packer, sent: 0 })
    }

    /// Sends a whole text.
    pub fn send(exchange: &mut dyn Exchange, response: Response, text: &[u8]) -> io::Result<RequestOutcome> {
        let mut sending = Text::begin(exchange, response, Length::Known(text.len() as u64))?;
        sending.write(exchange, text)?;
        sending.end(exchange)
    }

    /// Sends more of the text.
    pub fn write(&mut self, exchange: &mut dyn Exchange, text: &[u8]) -> io::Result<()> {
        match &mut self.packer {
            Some(packer) => {
                packer.write_all(text)?;
                self.waiting.append(packer.get_mut());
            }
            None => self.waiting.extend_from_slice(text),
        }
        if self.waiting.len() >= TOGETHER_BYTES { self.flush(exchange) } else { Ok(()) }
    }

    fn flush(&mut self, exchange: &mut dyn Exchange) -> io::Result<()> {
        exchange.write(&self.waiting)?;
        self.sent += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Ends the answer.
    pub fn end(mut self, exchange: &mut dyn Exchange) -> io::Result<RequestOutcome> {
        if let Some(packer) = self.packer.take() {
            self.waiting.append(&mut packer.finish()?);
        }
        self.flush(exchange)?;
        exchange.end(&Headers::new())?;
        Ok(RequestOutcome { status: self.status, bytes: self.sent })
    }
}
