//! Removes secrets from texts: known secrets in any encoding, and whatever looks like a secret. It removes too much rather than
//! too little: a lost file name does less harm than a leaked key.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The text that replaces a secret.
pub const REMOVED: &str = "[removed]";
/// The shortest known secret, bytes: a shorter one would match parts of too many words.
const SECRET_BYTES_MIN: usize = 6;
/// The shortest run of letters and digits that may be a key.
const PIECE_CHARS_MIN: usize = 32;
/// How many characters of a hash are kept, so that it can be recognised.
const HASH_CHARS: usize = 8;
/// Parts of the names of secrets.
const NAMES: [&str; 11] = [
    "passw",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authz",
    "signature",
    "apikey",
    "api-key",
    "api_key",
    "private",
];
/// Words before a credential (RFC 9110, section 11).
const SCHEMES: [&str; 3] = ["bearer", "basic", "authorization"];
/// The prefix of Longhaul's access keys.
const KEY_PREFIX: &str = "lhk1_";

/// Whether a name, in lower case, is that of a secret.
pub fn is_secret_name(name: &str) -> bool {
    NAMES.iter().any(|part| name.contains(part))
}

/// The known secrets.
#[derive(Debug, Default)]
pub struct Redactor {
    known: Vec<String>,
}

impl Redactor {
    /// Adds a secret: as it is, in hexadecimal, and in base64 of either alphabet.
    pub fn add(&mut self, secret: &[u8]) {
        if secret.len() < SECRET_BYTES_MIN {
            return;
        }
        let hex = auth::hex(secret);
        let mut forms =
            vec![hex.to_ascii_uppercase(), hex, STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
        forms.extend(std::str::from_utf8(secret).ok().map(str::to_owned));
        self.known.extend(forms);
        // The longest come first: one may contain another.
        self.known.sort_by_key(|form| std::cmp::Reverse(form.len()));
        self.known.dedup();
    }

    /// A text without secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut text = without_pem(text);
        for form in self.known.iter().filter(|form| text.contains(form.as_str())).collect::<Vec<_>>() {
            text = text.replace(form.as_str(), REMOVED);
        }
        let mut words = WordRedactor::default();
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let start = rest.find(|c| !is_separator(c)).unwrap_or(rest.len());
            out.push_str(&rest[..start]);
            let end = start + rest[start..].find(is_separator).unwrap_or(rest.len() - start);
            if end > start {
                out.push_str(&words.redact(&rest[start..end]));
            }
            rest = &rest[end..];
        }
        out
    }
}

/// Whether a character separates words.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || "\"'<>(){}[],;|`\\".contains(c)
}

/// Removes keys and certificates in PEM, however their line breaks are written.
fn without_pem(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("-----BEGIN ") {
        out.push_str(&rest[..at]);
        out.push_str(REMOVED);
        let Some(end) = rest[at..].find("-----END ") else { return out };
        let after = &rest[at + end + "-----END ".len()..];
        rest = after.find("-----").map_or("", |close| &after[close + 5..]);
    }
    out + rest
}

/// Redacts word by word: a word may announce that the next one is a secret.
#[derive(Debug, Default)]
struct WordRedactor {
    /// Whether the last word is the name of a secret, whose value follows if a colon or an equals sign comes next.
    last_is_name: bool,
    /// Whether the next word is a secret.
    next_is_secret: bool,
}

impl WordRedactor {
    fn redact(&mut self, word: &str) -> String {
        if matches!(word, ":" | "=" | "=>") {
            self.next_is_secret |= std::mem::take(&mut self.last_is_name);
            return word.to_owned();
        }
        let lower = word.to_ascii_lowercase();
        let plain = lower.trim_matches(|c| "-:=".contains(c));
        if SCHEMES.contains(&plain) {
            // In `Authorization: Bearer X` both words announce a secret.
            self.last_is_name = false;
            self.next_is_secret = true;
            return word.to_owned();
        }
        if std::mem::take(&mut self.next_is_secret) {
            self.last_is_name = false;
            return REMOVED.to_owned();
        }
        let is_name = is_secret_name(plain) && !plain.contains(['/', '?', '.', '=', ':']);
        self.next_is_secret = is_name && (lower.ends_with([':', '=']) || lower.starts_with("--"));
        self.last_is_name = is_name && !self.next_is_secret;
        without_pieces(&without_named_values(&without_url_secrets(word)))
    }
}

/// Removes the user, the values of the query and the fragment of a URL: `https://…@host/path?name=…`.
fn without_url_secrets(word: &str) -> String {
    // In a path that was made from a URL the question mark is percent-encoded.
    let marks = ["?", "%3F", "%3f"];
    let first = marks.iter().filter_map(|mark| Some((word.find(mark)?, *mark))).min();
    let (address, mark, query) = match first {
        Some((at, mark)) => (&word[..at], mark, Some(&word[at + mark.len()..])),
        None => (word, "", None),
    };
    let mut out = match address.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            match authority.rsplit_once('@') {
                Some((_, host)) => format!("{scheme}://{REMOVED}@{host}{path}"),
                None => address.to_owned(),
            }
        }
        None => address.to_owned(),
    };
    if let Some((before, _)) = out.split_once('#').filter(|_| out.contains("://")) {
        out = format!("{before}#{REMOVED}");
    }
    let Some(query) = query.filter(|query| !query.is_empty()) else {
        return out + mark;
    };
    let value = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={REMOVED}"),
        None => REMOVED.to_owned(),
    };
    let values: Vec<String> = query.split('&').map(value).collect();
    out + mark + &values.join("&")
}

/// Removes the value after the name of a secret: `token=…`, `password:…`.
fn without_named_values(word: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-%.".contains(c);
    for (at, _) in word.match_indices(['=', ':']) {
        let start = at - word[..at].chars().rev().take_while(|c| is_name(*c)).count();
        let value = &word[at + 1..];
        if value.is_empty() || value.starts_with("//") || !is_secret_name(&word[start..at].to_ascii_lowercase()) {
            continue;
        }
        let rest = value.find('&').map_or("", |end| &value[end..]);
        return format!("{}{REMOVED}{}", &word[..=at], without_named_values(rest));
    }
    word.to_owned()
}

/// Removes access keys, tokens, and every long run of letters and digits that is neither a name nor the id of a job.
fn without_pieces(word: &str) -> String {
    let is_piece = |c: char| c.is_ascii_alphanumeric() || "+_=-".contains(c);
    if let Some(at) = word.find("eyJ").filter(|at| word[*at..].contains('.')) {
        let end = word[at..].find(|c: char| !is_piece(c) && c != '.').map_or(word.len(), |end| at + end);
        return format!("{}{REMOVED}{}", without_pieces(&word[..at]), without_pieces(&word[end..]));
    }
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let start = rest.find(is_piece).unwrap_or(rest.len());
        out.push_str(&rest[..start]);
        let end = start + rest[start..].find(|c| !is_piece(c)).unwrap_or(rest.len() - start);
        let piece = &rest[start..end];
        // The fingerprint of a node is public.
        let shown = if out.ends_with("SHA256:") { piece.to_owned() } else { redact_piece(piece) };
        out.push_str(&shown);
        rest = &rest[end..];
    }
    out
}

/// A run of letters and digits, without the secret that it may be. The start of a hash is kept.
fn redact_piece(piece: &str) -> String {
    if let Some(at) = piece.find(KEY_PREFIX) {
        return format!("{}{REMOVED}", &piece[..at]);
    }
    let has_digits = piece.contains(|c: char| c.is_ascii_digit());
    let has_letters = piece.contains(|c: char| c.is_ascii_alphabetic());
    if piece.len() < PIECE_CHARS_MIN || !has_digits || !has_letters || is_uuid(piece) {
        return piece.to_owned();
    }
    if piece.bytes().all(|b| b.is_ascii_hexdigit()) {
        format!("{}{REMOVED}", &piece[..HASH_CHARS])
    } else {
        REMOVED.to_owned()
    }
}

fn is_uuid(piece: &str) -> bool {
    let parts: Vec<&str> = piece.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        Redactor::default().redact(text).replace(REMOVED, "*")
    }

    #[test]
    fn text_that_looks_like_a_secret_is_removed() {
        for (text, left) in [
            ("https://me:pw@host/a?X-Sig=abc&authz=d#f", "https://*@host/a?X-Sig=*&authz=*"),
            ("lh://host/data/f?", "lh://host/data/f?"),
            ("https://host/a#access_token=x", "https://host/a#*"),
            ("GET /a?secret HTTP/1.1", "GET /a?* HTTP/1.1"),
            ("Authorization: Bearer abc.def next", "Authorization: Bearer * next"),
            ("authorization: xyz next", "authorization: * next"),
            ("{\"password\":\"abc\",\"user\":\"me\"}", "{\"password\":\"*\",\"user\":\"me\"}"),
            ("{\"client_secret\": \"abc\", \"n\": 1}", "{\"client_secret\": \"*\", \"n\": 1}"),
            ("prog --token abc --rate 5", "prog --token * --rate 5"),
            ("prog --token=abc --rate=5", "prog --token=* --rate=5"),
            ("AWS_SECRET_ACCESS_KEY=ab", "AWS_SECRET_ACCESS_KEY=*"),
            ("passphrase = abc", "passphrase = *"),
            ("a&token=x&b=y&secret=z", "a&token=*&b=y&secret=*"),
            ("lh://host/data/f%3Fa=b", "lh://host/data/f%3Fa=*"),
            ("a key lhk1_abc-DEF_ is", "a key * is"),
            ("x eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln y", "x * y"),
            ("hash 0123456789abcdef0123456789abcdef0123", "hash 01234567*"),
            ("mac MDAxY2xvY2F0aW9uIE9wdGlvbmFsLmVtcHR5Cg==", "mac *"),
            ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- z", "* z"),
            ("a -----BEGIN PRIVATE KEY-----\\nabc", "a *"),
        ] {
            assert_eq!(clean(text), left, "{text}");
        }
    }

    #[test]
    fn text_without_secrets_is_unchanged() {
        for text in [
            "job 0198f3a4-7e2b-7c11-9d3e-2f6b5a1c0d9e runs",
            "identity: SHA256:AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-abcde",
            "net.ipv4.tcp_slow_start_after_idle = 0",
            "certificate-key = \"/etc/longhaul/host.key\"",
            "lh://node.example:7411/data/run7 -> /srv/data/run7",
            "{\"id\":\"T01\",\"why\":\"A window is small.\"}",
            "tokens and secrets in prose, which a colon does not follow",
            "2026-11-23T02:08:08Z peer=[::1]:4711 who=\"site B\" bytes=7",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn a_known_secret_is_removed_in_every_encoding() {
        let mut redactor = Redactor::default();
        let secret = [0xfb, 0xef, 0x00, 0x10, 0x83, 0xff, 0x3f, 0xbe];
        redactor.add(&secret);
        redactor.add(b"swordfish");
        redactor.add(b"short");
        for text in ["fbef001083ff3fbe", "FBEF001083FF3FBE", "++8AEIP/P74", "--8AEIP_P74=", "swordfish", "c3dvcmRmaXNo"]
        {
            let left = redactor.redact(&format!("a{text}b"));
            assert!(left.contains(REMOVED) && !left.contains(text.trim_end_matches('=')), "{text}: {left}");
        }
        assert_eq!(redactor.redact("short"), "short");
    }
}
