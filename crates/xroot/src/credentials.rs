//! Credentials of a login: a bearer token (`ztn`), and the name that the client's system gives its user (`unix`), which proves nothing.

use crate::Malformed;
use crate::bytes::{Fields, before_nul};
use crate::limits::CREDENTIAL_BYTES_MAX;

/// The name of a kind of credentials, four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialKind(pub [u8; 4]);

impl CredentialKind {
    /// A bearer token.
    pub const TOKEN: CredentialKind = CredentialKind(*b"ztn\0");
    /// The user's name, without a proof.
    pub const NAME: CredentialKind = CredentialKind(*b"unix");
}

impl std::fmt::Display for CredentialKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(before_nul(&self.0)))
    }
}

/// The head of a token: the kind, the version, the operation, two reserved bytes and the length.
const TOKEN_VERSION: u8 = 0;
const TOKEN_OPERATION: u8 = b'T';

/// The token of a credential.
///
/// # Errors
/// [`Malformed::Field`]: the bytes are no token.
pub fn parse_token(credential: &[u8]) -> Result<String, Malformed> {
    const WHAT: &str = "the token";
    let mut fields = Fields(credential);
    if fields.take(4, WHAT)? != CredentialKind::TOKEN.0 {
        return Err(Malformed::Field(WHAT));
    }
    if (fields.u8(WHAT)?, fields.u8(WHAT)?) != (TOKEN_VERSION, TOKEN_OPERATION) {
        return Err(Malformed::Field(WHAT));
    }
    fields.take(2, WHAT)?;
    let length = fields.u16(WHAT)?;
    let token = before_nul(fields.take(length.into(), WHAT)?);
    let token = std::str::from_utf8(token).map_err(|_| Malformed::Field(WHAT))?.trim();
    if token.is_empty() { Err(Malformed::Field(WHAT)) } else { Ok(token.to_owned()) }
}

/// A token as a credential; none if it is too long for one.
pub fn write_token(token: &str) -> Option<Vec<u8>> {
    let length = u16::try_from(token.len() + 1).ok().filter(|_| token.len() < CREDENTIAL_BYTES_MAX)?;
    let head = [&CredentialKind::TOKEN.0[..], &[TOKEN_VERSION, TOKEN_OPERATION, 0, 0]].concat();
    Some([&head[..], &length.to_be_bytes(), token.as_bytes(), &[0]].concat())
}

/// A user's name as a credential.
pub fn write_name(user: &str, group: &str) -> Vec<u8> {
    format!("unix\0{user} {group}\0").into_bytes()
}

/// What a server asks for: tokens of at most this length, if it takes any, and the name of the user.
pub fn security_text(token_bytes_max: Option<usize>, takes_name: bool) -> String {
    let token = token_bytes_max.map_or_else(String::new, |most| format!("&P=ztn,0:{most}:"));
    let name = if takes_name { "&P=unix" } else { "" };
    token + name
}

/// The kinds that a server takes, in its order.
pub fn kinds(security: &str) -> impl Iterator<Item = &str> {
    security.split("&P=").skip(1).map(|kind| kind.split([',', '\0']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_parsed_as_it_is_written() {
        let credential = write_token("a.b.c").unwrap();
        assert_eq!(credential, b"ztn\0\0T\0\0\0\x06a.b.c\0");
        assert_eq!(parse_token(&credential).as_deref(), Ok("a.b.c"));
        assert!(write_token(&"x".repeat(70_000)).is_none());
        for bad in
            [&b"ztn\0\0T\0\0\0\xffa"[..], b"gsi\0\0T\0\0\0\x02a\0", b"ztn\0\0S\0\0\0\x02a\0", b"ztn\0\0T\0\0\0\x01\0"]
        {
            assert!(parse_token(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_kinds_that_a_server_takes_are_listed() {
        let all: Vec<&str> = kinds("&P=gsi,v:10600,c:ssl,ca:1234&P=ztn,0:4096:&P=unix").collect();
        assert_eq!(all, ["gsi", "ztn", "unix"]);
        assert_eq!(kinds(&security_text(Some(4096), true)).collect::<Vec<_>>(), ["ztn", "unix"]);
    }
}
