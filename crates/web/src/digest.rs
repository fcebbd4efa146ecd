//! Digests in headers: `Want-Digest` and `Digest` as grids use them (RFC 3230), `Content-MD5`, and the checksums of ownCloud; those of
//! RFC 9530 are in [`repr`].
//!
//! Digests are written in the forms that clients compare: Adler-32 and CRC-32C as eight hexadecimal digits, the others in base64. They
//! are read in every form that servers are known to send, and malformed ones are skipped: a malformed digest of a peer must not fail a
//! transfer whose bytes are good.

pub mod repr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Algorithm, Digest};

/// The most members of a list that are read.
const MEMBERS_MAX: usize = 32;

/// The algorithm of a name in `Want-Digest` and `Digest`, without regard to case. `None` for algorithms that are not supported here,
/// registered (`UNIXsum`, `UNIXcksum`) or not.
pub fn algorithm(name: &str) -> Option<Algorithm> {
    match name.trim().to_ascii_lowercase().as_str() {
        "adler32" | "adler" => Some(Algorithm::Adler32),
        "crc32c" => Some(Algorithm::Crc32c),
        "md5" => Some(Algorithm::Md5),
        "sha" | "sha-1" | "sha1" => Some(Algorithm::Sha1),
        "sha-256" | "sha256" => Some(Algorithm::Sha256),
        "sha-512" | "sha512" => Some(Algorithm::Sha512),
        "blake3" => Some(Algorithm::Blake3),
        _ => None,
    }
}

/// The name in `Want-Digest` and `Digest`. No registry has a name for BLAKE3.
pub fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Adler32 => "adler32",
        Algorithm::Crc32c => "crc32c",
        Algorithm::Md5 => "md5",
        Algorithm::Sha1 => "sha",
        Algorithm::Sha256 => "sha-256",
        Algorithm::Sha512 => "sha-512",
        Algorithm::Blake3 => "blake3",
    }
}

/// Members of a comma-separated list, over all lines of a header.
fn members<'a>(values: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    values.into_iter().flat_map(|value| value.split(',')).map(str::trim).filter(|m| !m.is_empty()).take(MEMBERS_MAX)
}

/// A weight (RFC 9110, section 12.4.2) in thousandths; `None` where it is malformed.
fn weight(parameter: Option<&str>) -> Option<u32> {
    let Some(parameter) = parameter else { return Some(1000) };
    let (key, value) = parameter.split_once('=')?;
    let q: f32 = value.trim().parse().ok()?;
    (key.trim().eq_ignore_ascii_case("q") && (0.0..=1.0).contains(&q)).then_some((q * 1000.0) as u32)
}

/// Chooses an algorithm for `Want-Digest` (RFC 3230, section 4.3.1): the offered one with the highest weight. If none of the named
/// algorithms is offered, it is the first offered one, as with the reference server; a client that cannot use it ignores it. `None`
/// only where nothing is offered or nothing is wanted.
pub fn wanted<'a>(values: impl IntoIterator<Item = &'a str>, offered: &[Algorithm]) -> Option<Algorithm> {
    let mut named = 0;
    let mut best: Option<(u32, Algorithm)> = None;
    for member in members(values) {
        let mut words = member.split(';');
        let name = words.next().unwrap_or_default();
        let Some(weight) = weight(words.next()).filter(|weight| *weight > 0) else { continue };
        named += 1;
        let Some(algorithm) = algorithm(name).filter(|a| offered.contains(a)) else { continue };
        if best.is_none_or(|(known, _)| weight > known) {
            best = Some((weight, algorithm));
        }
    }
    best.map(|(_, algorithm)| algorithm).or_else(|| offered.first().copied().filter(|_| named > 0))
}

/// The value of `Want-Digest` that asks for these algorithms, the preferred one first.
pub fn want(algorithms: &[Algorithm]) -> String {
    let weighed = |(at, algorithm): (usize, &Algorithm)| match at {
        0 => name(*algorithm).to_owned(),
        // Nine steps are more than there are algorithms.
        _ => format!("{};q=0.{}", name(*algorithm), 10 - at.min(9)),
    };
    algorithms.iter().enumerate().map(weighed).collect::<Vec<_>>().join(", ")
}

/// The value of `Digest` (RFC 3230, section 4.3.2).
pub fn format(digest: &Digest) -> String {
    let value = match digest.algorithm() {
        Algorithm::Adler32 | Algorithm::Crc32c => digest.hex(),
        Algorithm::Md5 | Algorithm::Sha1 | Algorithm::Sha256 | Algorithm::Sha512 | Algorithm::Blake3 => {
            STANDARD.encode(digest.bytes())
        }
    };
    format!("{}={value}", name(digest.algorithm()))
}

/// Parses all lines of a `Digest` header; unknown and malformed members are left out.
pub fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Digest> {
    members(values).filter_map(|member| one(member.split_once('=')?)).collect()
}

/// The first member of a `Digest` header with a known algorithm and a malformed value. The sender expects that the bytes are compared
/// with it.
pub fn first_malformed<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    members(values).find(|member| is_damaged(member.split_once('=')))
}

/// As [`first_malformed`], for a value in the form of ownCloud.
pub fn first_malformed_oc(value: &str) -> Option<&str> {
    value.split_whitespace().take(MEMBERS_MAX).find(|word| is_damaged(word.split_once(':')))
}

fn is_damaged(member: Option<(&str, &str)>) -> bool {
    member.is_some_and(|member| algorithm(member.0).is_some() && one(member).is_none())
}

/// Parses a digest from its name and its value, in hexadecimal or base64.
fn one((name, value): (&str, &str)) -> Option<Digest> {
    let algorithm = algorithm(name)?;
    let value = value.trim().trim_matches('"');
    let bytes = hex(value, algorithm.value_bytes()).or_else(|| STANDARD.decode(value).ok())?;
    Digest::new(algorithm, &bytes)
}

/// Bytes from hexadecimal digits. Some servers write sums of four bytes as numbers: leading zeros may be missing.
fn hex(digits: &str, bytes: usize) -> Option<Vec<u8>> {
    let short = bytes == 4 && (1..8).contains(&digits.len());
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !plain || (digits.len() != 2 * bytes && !short) {
        return None;
    }
    let padded = format!("{digits:0>width$}", width = 2 * bytes);
    let pairs = padded.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Parses `Content-MD5` (RFC 1864).
pub fn parse_content_md5(value: &str) -> Option<Digest> {
    Digest::new(Algorithm::Md5, &STANDARD.decode(value.trim()).ok()?)
}

/// A digest in the form of ownCloud, for `OC-Checksum` and the property `oc:checksums`: `ADLER32:…`, in hexadecimal digits.
pub fn format_oc(digest: &Digest) -> String {
    format!("{}:{}", name(digest.algorithm()).replace('-', "").to_ascii_uppercase(), digest.hex())
}

/// Parses digests in the form of ownCloud, separated by spaces.
pub fn parse_oc(value: &str) -> Vec<Digest> {
    value.split_whitespace().take(MEMBERS_MAX).filter_map(|word| one(word.split_once(':')?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OFFERED: [Algorithm; 4] = [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha256];

    fn adler(value: u32) -> Digest {
        Digest::new(Algorithm::Adler32, &value.to_be_bytes()).unwrap()
    }

    #[test]
    fn a_malformed_digest_is_reported_and_an_unknown_one_is_not() {
        for (value, malformed) in [
            ("sha-256=AAAA, adler32=8f040a5d", Some("sha-256=AAAA")),
            ("adler32=zz", Some("adler32=zz")),
            ("unixcksum=7, adler32=8f040a5d", None),
            ("nonsense", None),
        ] {
            assert_eq!(first_malformed([value]), malformed, "{value}");
        }
        assert_eq!(first_malformed_oc("ADLER32:8f040a5d SHA1:0"), Some("SHA1:0"));
        assert_eq!(repr::first_malformed(["sha-256=:AAAA:, x=:AA:"]), Some("sha-256=:AAAA:"));
        assert_eq!(repr::first_malformed(["adler=:jwQKXQ==:"]), None);
    }

    #[test]
    fn the_preferred_offered_algorithm_is_chosen() {
        for (value, answer) in [
            ("ADLER32", Some(Algorithm::Adler32)),
            ("adler", Some(Algorithm::Adler32)),
            ("MD5", Some(Algorithm::Md5)),
            ("adler32;q=1, md5;q=0.8", Some(Algorithm::Adler32)),
            ("adler32;q=0.3, md5;q=1", Some(Algorithm::Md5)),
            ("SHA;q=1.0, sha-256;q=0.5, crc32c; q=0.7", Some(Algorithm::Crc32c)),
            ("sha-512", Some(Algorithm::Adler32)),
            ("UNIXcksum, rot13", Some(Algorithm::Adler32)),
            ("adler32;q=0, md5;q=0.1", Some(Algorithm::Md5)),
            ("adler32;q=0", None),
            ("md5;q=x", None),
            ("", None),
        ] {
            assert_eq!(wanted([value], &OFFERED), answer, "{value}");
        }
        assert_eq!(wanted(["sha", "md5"], &OFFERED), Some(Algorithm::Md5));
        assert_eq!(wanted(["md5"], &[Algorithm::Crc32c]), Some(Algorithm::Crc32c));
        assert_eq!(wanted(["md5"], &[]), None);
        assert_eq!(want(&OFFERED), "adler32, crc32c;q=0.9, md5;q=0.8, sha-256;q=0.7");
    }

    #[test]
    fn digests_are_written_in_the_forms_that_clients_compare() {
        let md5 = Digest::new(Algorithm::Md5, b"\x99\x1c\xa4\xa4\x2b\x51\x57\xae\x8d\x72\xc4\xb7\xa6\x66\x2b\xa1");
        assert_eq!(format(&adler(0x2e23_0e22)), "adler32=2e230e22");
        assert_eq!(format(&adler(0x0000_0e22)), "adler32=00000e22");
        assert_eq!(format(&Digest::crc32c(0x35f6_90d4)), "crc32c=35f690d4");
        assert_eq!(format(&md5.unwrap()), "md5=mRykpCtRV66NcsS3pmYroQ==");
        assert_eq!(format_oc(&adler(0xbe)), "ADLER32:000000be");
    }

    #[test]
    fn every_form_that_servers_send_is_read() {
        let crc = Digest::crc32c(0x35f6_90d4);
        assert_eq!(parse(["adler32=2e230e22"]), [adler(0x2e23_0e22)]);
        assert_eq!(parse(["ADLER32=e22", "adler=8f040a5d"]), [adler(0xe22), adler(0x8f04_0a5d)]);
        assert_eq!(parse(["crc32c=NfaQ1A==", "crc32c=35F690D4"]), [crc, crc]);
        // A server is known to write a colon for the equals sign; this must not fail the transfer.
        assert_eq!(parse(["Adler32:be2d0a01, adler32=00000001"]), [adler(1)]);
        for skipped in ["", "adler32=", "adler32=xyz", "adler32=123456789", "md5=AAAA", "sha=AAAA", "md5", "=", ",,"] {
            assert_eq!(parse([skipped]), [], "{skipped}");
        }
        let hex = parse(["md5=991ca4a42b5157ae8d72c4b7a6662ba1"]);
        assert_eq!(hex, parse(["md5=mRykpCtRV66NcsS3pmYroQ=="]));
        assert_eq!(parse_content_md5("mRykpCtRV66NcsS3pmYroQ=="), hex.first().copied());
        assert_eq!(parse_content_md5("mRyk"), None);
        assert_eq!(parse_oc("SHA1:00 MD5:991ca4a42b5157ae8d72c4b7a6662ba1 ADLER32:be"), [hex[0], adler(0xbe)]);
    }

    proptest! {
        #[test]
        fn a_written_digest_is_parsed_unchanged(bytes in any::<[u8; 32]>(), which in 0usize..5) {
            let algorithm = Algorithm::ALL[which];
            let digest = Digest::new(algorithm, &bytes[..algorithm.value_bytes()]).unwrap();
            prop_assert_eq!(parse([format(&digest).as_str()]), [digest]);
            prop_assert_eq!(parse_oc(&format_oc(&digest)), [digest]);
            prop_assert_eq!(repr::parse([repr::format(&digest).as_str()]), [digest]);
        }

        #[test]
        fn any_header_is_parsed_without_a_panic(text in any::<String>()) {
            crate::fuzzing::digest(text.as_bytes());
        }

        #[test]
        fn likely_headers_are_parsed_without_a_panic(text in "((adler32?|md5|sha-256|crc32c)[=;:]{1,2}[0-9a-f]{0,9}[:,]{0,2}){1,4}") {
            crate::fuzzing::digest(text.as_bytes());
        }
    }
}
