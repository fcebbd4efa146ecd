//! `Want-Repr-Digest` and `Repr-Digest` (RFC 9530): dictionaries of structured fields (RFC 9651). Preferences are numbers, and all values,
//! those of Adler-32 included, are bytes in base64 between colons.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Algorithm, Digest};

use super::{algorithm, members};

/// The name in these headers: the registry of RFC 9530 calls Adler-32 `adler`.
fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Adler32 => "adler",
        other => super::name(other),
    }
}

/// A member of a dictionary without its parameters.
fn member(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    Some((key.trim(), value.split(';').next().unwrap_or_default().trim()))
}

/// Chooses an algorithm for `Want-Repr-Digest`: the offered one with the highest preference; 0 means "not this one". `None` where none
/// is offered: unlike `Want-Digest`, this header is then ignored.
pub fn wanted<'a>(values: impl IntoIterator<Item = &'a str>, offered: &[Algorithm]) -> Option<Algorithm> {
    let mut best: Option<(u8, Algorithm)> = None;
    for (key, value) in members(values).filter_map(member) {
        let preference = value.parse::<u8>().ok().filter(|preference| (1..=10).contains(preference));
        let Some((preference, algorithm)) = preference.zip(algorithm(key)) else { continue };
        if offered.contains(&algorithm) && best.is_none_or(|(known, _)| preference > known) {
            best = Some((preference, algorithm));
        }
    }
    best.map(|(_, algorithm)| algorithm)
}

/// The value of `Want-Repr-Digest` that asks for these algorithms, the preferred one first.
pub fn want(algorithms: &[Algorithm]) -> String {
    let weighed = algorithms.iter().enumerate().map(|(at, a)| format!("{}={}", name(*a), 10 - at.min(9)));
    weighed.collect::<Vec<_>>().join(", ")
}

/// The value of `Repr-Digest`.
pub fn format(digest: &Digest) -> String {
    format!("{}=:{}:", name(digest.algorithm()), STANDARD.encode(digest.bytes()))
}

/// The first member with a known algorithm and a malformed value.
pub fn first_malformed<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut members = members(values);
    members.find(|text| member(text).is_some_and(|member| algorithm(member.0).is_some() && one(member).is_none()))
}

fn one((key, value): (&str, &str)) -> Option<Digest> {
    let encoded = value.strip_prefix(':')?.strip_suffix(':')?;
    Digest::new(algorithm(key)?, &STANDARD.decode(encoded).ok()?)
}

/// Parses all lines of a `Repr-Digest` (or `Content-Digest`) header; unknown and malformed members are left out.
pub fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Digest> {
    members(values).filter_map(member).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [Algorithm; 4] = [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha256];

    #[test]
    fn the_preferred_offered_algorithm_is_chosen() {
        for (value, answer) in [
            ("adler=1,md5=5", Some(Algorithm::Md5)),
            ("sha-256=10, md5=3", Some(Algorithm::Sha256)),
            ("sha-512=10, adler=3", Some(Algorithm::Adler32)),
            ("crc32c=4, md5=4", Some(Algorithm::Crc32c)),
            ("md5=0", None),
            ("md5=11, adler=-1, crc32c=x, md5", None),
            ("sha-512=3", None),
            ("md5=5;x=y", Some(Algorithm::Md5)),
        ] {
            assert_eq!(wanted([value], &OFFERED), answer, "{value}");
        }
        assert_eq!(want(&[Algorithm::Adler32, Algorithm::Sha256]), "adler=10, sha-256=9");
    }

    #[test]
    fn digests_are_written_and_parsed_in_base64() {
        let adler = Digest::new(Algorithm::Adler32, b"\x8f\x04\x0a\x5d").unwrap();
        assert_eq!(format(&adler), "adler=:jwQKXQ==:");
        assert_eq!(parse(["md5=:AAAA:, adler=:jwQKXQ==:, sha-512=:AAAA:"]), [adler]);
        for skipped in ["adler=jwQKXQ==", "adler=:jwQKXQ==", "adler=::", "adler=:", "adler", ":"] {
            assert_eq!(parse([skipped]), [], "{skipped}");
        }
    }
}
