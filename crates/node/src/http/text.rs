//! Answers that are text: listings, pages, JSON. They are sent while they are written, and compressed if the client accepts that
//! (RFC 9110, section 12.5.3). Files are never sent this way: their bytes are sent as they are stored.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serve::{Exchange, Length};
use web::{Headers, Response};

use super::refused::RequestOutcome;

/// Bytes that are sent together.
const BUFFER_BYTES: usize = 64 << 10;
/// Answers from this length on are compressed: for shorter ones the gzip header costs more than it saves.
const COMPRESSED_FROM_BYTES: u64 = 1 << 10;

/// A text that is being sent.
pub(crate) struct Text {
    status: u16,
    /// Bytes that were not sent yet.
    waiting: Vec<u8>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    sent: u64,
}

impl Text {
    /// Begins an answer. A known length is sent only if the text is not compressed.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn begin(exchange: &mut dyn Exchange, mut response: Response, length: Length) -> io::Result<Text> {
        let is_worth_it = !matches!(length, Length::Known(bytes) if bytes < COMPRESSED_FROM_BYTES);
        let is_compressed = is_worth_it && exchange.request().headers.accepts_coding("gzip");
        response.headers.add("Vary", "Accept-Encoding");
        if is_compressed {
            response.headers.add("Content-Encoding", "gzip");
        }
        let status = response.status;
        exchange.begin(response, if is_compressed { Length::Open } else { length })?;
        let encoder = is_compressed.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        Ok(Text { status, waiting: Vec::new(), encoder, sent: 0 })
    }

    /// Sends a whole text.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn send(exchange: &mut dyn Exchange, response: Response, text: &[u8]) -> io::Result<RequestOutcome> {
        let mut sending = Text::begin(exchange, response, Length::Known(text.len() as u64))?;
        sending.write(exchange, text)?;
        sending.end(exchange)
    }

    /// Sends more of the text.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn write(&mut self, exchange: &mut dyn Exchange, text: &[u8]) -> io::Result<()> {
        match &mut self.encoder {
            Some(encoder) => {
                encoder.write_all(text)?;
                self.waiting.append(encoder.get_mut());
            }
            None => self.waiting.extend_from_slice(text),
        }
        if self.waiting.len() >= BUFFER_BYTES { self.flush(exchange) } else { Ok(()) }
    }

    fn flush(&mut self, exchange: &mut dyn Exchange) -> io::Result<()> {
        exchange.write(&self.waiting)?;
        self.sent += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn end(mut self, exchange: &mut dyn Exchange) -> io::Result<RequestOutcome> {
        if let Some(encoder) = self.encoder.take() {
            self.waiting.append(&mut encoder.finish()?);
        }
        self.flush(exchange)?;
        exchange.end(&Headers::new())?;
        Ok(RequestOutcome { status: self.status, bytes: self.sent })
    }
}
