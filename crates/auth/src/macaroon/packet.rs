//! The binary form of libmacaroons version 1 in base64url: packets of a length, a key, a space, a value and a newline.
//!
//! Does not know what the values mean, nor any secret.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::error::MacaroonError;
use crate::limits::{CAVEATS, MACAROON_BYTES};

/// libmacaroons writes no padding, its bindings sometimes do; some of them do not clear the bits after the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The most bytes of length, key, space and newline around a value: `identifier` is the longest key.
const FRAME: usize = 4 + "identifier".len() + 2;

/// A macaroon's parts.
pub(super) struct Packets {
    /// Where it was made. Not signed: it is for people.
    pub location: Vec<u8>,
    pub identifier: Vec<u8>,
    pub caveats: Vec<Vec<u8>>,
    pub signature: [u8; 32],
}

/// Whether text starts like a macaroon: `0015location ...`.
pub(super) fn starts_with_location(text: &str) -> bool {
    let start = text.as_bytes().get(..16).and_then(|head| BASE64.decode(head).ok());
    start.is_some_and(|bytes| bytes[..4].iter().all(u8::is_ascii_hexdigit) && &bytes[4..] == b"location")
}

impl Packets {
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        put(&mut bytes, "location", &self.location);
        put(&mut bytes, "identifier", &self.identifier);
        for caveat in &self.caveats {
            put(&mut bytes, "cid", caveat);
        }
        put(&mut bytes, "signature", &self.signature);
        BASE64.encode(bytes)
    }

    pub fn decode(text: &str) -> Result<Packets, MacaroonError> {
        if text.len() > MACAROON_BYTES {
            return Err(MacaroonError::TooLong { bytes: text.len() });
        }
        let malformed = |what| MacaroonError::Malformed { what };
        let text = text.replace('+', "-").replace('/', "_");
        let bytes = BASE64.decode(text).map_err(|_| malformed("base64url"))?;
        let mut rest = bytes.as_slice();
        let location = expect(&mut rest, "location")?.to_vec();
        let identifier = expect(&mut rest, "identifier")?.to_vec();
        let mut caveats = Vec::new();
        let signature = loop {
            match take(&mut rest)? {
                (b"cid", _) if caveats.len() == CAVEATS => return Err(MacaroonError::TooManyCaveats),
                (b"cid", caveat) => caveats.push(caveat.to_vec()),
                (b"vid" | b"cl", _) => return Err(MacaroonError::ThirdParty),
                (b"signature", signature) => break signature,
                _ => return Err(malformed("the signature")),
            }
        };
        let signature = signature.try_into().map_err(|_| malformed("a signature of 32 bytes"))?;
        if !rest.is_empty() {
            return Err(malformed("an end after the signature"));
        }
        Ok(Packets { location, identifier, caveats, signature })
    }
}

fn put(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    // Four digits allow no more. A packet that is cut here has a wrong signature, so every reader refuses it.
    let value = &value[..value.len().min(0xffff - FRAME)];
    let length = 4 + key.len() + 1 + value.len() + 1;
    out.extend_from_slice(format!("{length:04x}{key} ").as_bytes());
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn expect<'a>(rest: &mut &'a [u8], key: &'static str) -> Result<&'a [u8], MacaroonError> {
    match take(rest)? {
        (found, value) if found == key.as_bytes() => Ok(value),
        _ => Err(MacaroonError::Malformed { what: key }),
    }
}

/// The next packet's key and value.
fn take<'a>(rest: &mut &'a [u8]) -> Result<(&'a [u8], &'a [u8]), MacaroonError> {
    let malformed = || MacaroonError::Malformed { what: "a packet" };
    // Lower case only, as libmacaroons writes them: a macaroon has one form.
    let is_digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let digits = rest.get(..4).filter(|digits| digits.iter().all(is_digit)).ok_or_else(malformed)?;
    let digits = std::str::from_utf8(digits).map_err(|_| malformed())?;
    let length = usize::from_str_radix(digits, 16).map_err(|_| malformed())?;
    let packet = rest.get(4..length).ok_or_else(malformed)?;
    *rest = &rest[length..];
    let packet = packet.strip_suffix(b"\n").ok_or_else(malformed)?;
    let space = packet.iter().position(|b| *b == b' ').ok_or_else(malformed)?;
    Ok((&packet[..space], &packet[space + 1..]))
}
