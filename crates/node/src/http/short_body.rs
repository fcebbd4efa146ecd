//! Short request bodies: forms, documents, orders.

use serve::Exchange;

use super::refused::{Outcome, cut_short, refuse};

/// Reads a short body: at most `most` bytes, in at most 20 s.
///
/// # Errors
/// The body is too long or does not arrive in time, or the connection breaks.
pub(crate) fn read_short_body(exchange: &mut dyn Exchange, most: usize, what: &str) -> Outcome<Vec<u8>> {
    let too_long = || refuse(413, format!("{what} is at most {most} bytes long"));
    if exchange.body_length().is_some_and(|bytes| bytes > most as u64) {
        return Err(too_long());
    }
    exchange.expect_short_body();
    let mut body = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match exchange.read(&mut piece).map_err(cut_short)? {
            0 => return Ok(body),
            got if body.len() + got > most => return Err(too_long()),
            got => body.extend_from_slice(&piece[..got]),
        }
    }
}
