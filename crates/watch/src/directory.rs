//! The directory of a domain: the nodes that other domains may test. It is signed, so that a copy can be trusted like the answer of the watch: a compact JWS
//! (RFC 7515) with Ed25519 (RFC 8037), valid for a day.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use model::v1::watch::{Directory, DirectoryPlace};
use serde_json::{Value, json};

use crate::config::{Config, PlaceKind};
use crate::lookup::FoundService;
use crate::time;

/// How long a directory is valid, milliseconds.
const VALID_MS: i64 = 86_400_000;
/// The largest difference between the clocks of two domains, milliseconds.
const CLOCK_SKEW_MS_MAX: i64 = 300_000;
/// The prefix of a public key.
const KEY_PREFIX: &str = "ed25519:";
/// The type in the header: a JWS of another type is refused (RFC 7515, section 4.1.9).
const KIND: &str = "longhaul-directory+jws";

/// Why a directory is not accepted, or cannot be signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The file of the key cannot be read or written.
    #[error("{file}: {source}")]
    File {
        /// Its path.
        file: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file has no key.
    #[error(
        "{0} has no key of Ed25519 (PKCS #8): restore it from a copy, or remove it so that a new one is made, and publish its public key"
    )]
    NoKey(String),
    /// A text that is not a public key.
    #[error(
        "{0:?} is not a public key: write it as ed25519:… (43 characters), as `longhaul watch directory` prints it"
    )]
    PublicKey(String),
    /// A text that is not a signed directory.
    #[error("it is not a signed directory: {0}")]
    Malformed(&'static str),
    /// The signature is not one of this key.
    #[error("it is not signed with {0}: it was changed on its way, or its domain has a new key")]
    Signature(String),
    /// It is too old, or not yet valid.
    #[error("it is valid from {issued} to {expires}, and now it is {now}")]
    Time {
        /// The time from which it is valid.
        issued: String,
        /// The time until which it is valid.
        expires: String,
        /// The present time.
        now: String,
    },
}

/// The key that a watch signs its directory with.
pub struct DirectoryKey(Ed25519KeyPair);

impl DirectoryKey {
    /// Reads the key from a file, or makes it where there is none.
    ///
    /// # Errors
    /// The file cannot be read or written, or has no key.
    pub fn open(file: &Path) -> Result<DirectoryKey, DirectoryError> {
        let failed = |source| DirectoryError::File { file: file.display().to_string(), source };
        let bytes = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let made = Ed25519KeyPair::generate().and_then(|key| key.to_pkcs8().map(|key| key.as_ref().to_vec()));
                let made = made.map_err(|_| failed(std::io::Error::other("no key can be made")))?;
                let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
                new.write_all(&made).and_then(|()| new.sync_all()).map_err(failed)?;
                made
            }
            Err(error) => return Err(failed(error)),
        };
        let key = Ed25519KeyPair::from_pkcs8(&bytes);
        key.map(DirectoryKey).map_err(|_| DirectoryError::NoKey(file.display().to_string()))
    }

    /// The public key, as it is published.
    pub fn public(&self) -> String {
        format!("{KEY_PREFIX}{}", BASE64.encode(self.0.public_key()))
    }

    /// Signs a directory.
    pub fn sign(&self, directory: &Directory) -> String {
        let header = json!({"alg": "EdDSA", "typ": KIND}).to_string();
        let payload = serde_json::to_string(directory).unwrap_or_default();
        let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(payload));
        let signature = BASE64.encode(self.0.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

/// The directory of a configuration, with the nodes for which `is_shown` is true.
pub fn directory(config: &Config, is_shown: impl Fn(&str) -> bool) -> Directory {
    let now = time::now();
    let place = |(name, place): (&String, &crate::config::WatchedPlace)| {
        let PlaceKind::Node { address, .. } = &place.kind else { return None };
        Some(DirectoryPlace {
            name: name.clone(),
            url: format!("lh://{address}"),
            site: place.site.clone(),
            location: place.location.map(|(latitude, longitude)| [latitude, longitude]),
        })
    };
    Directory {
        v: 1,
        domain: config.domain.clone(),
        issued: time::show(now),
        expires: time::show(now + VALID_MS),
        places: config.places.iter().filter(|(name, _)| is_shown(name)).filter_map(place).collect(),
    }
}

/// Verifies a directory by the key of its domain, and reads it.
///
/// # Errors
/// It is malformed, is not signed with the key, or is not valid now.
pub fn verify(text: &str, key: &str) -> Result<Directory, DirectoryError> {
    let bad_key = || DirectoryError::PublicKey(key.to_owned());
    let public = key.strip_prefix(KEY_PREFIX).and_then(|text| BASE64.decode(text).ok()).ok_or_else(bad_key)?;
    if public.len() != 32 {
        return Err(bad_key());
    }
    let text = text.trim();
    const PARTS: DirectoryError = DirectoryError::Malformed("it does not have three parts separated by dots");
    let (message, signature) = text.rsplit_once('.').ok_or(PARTS)?;
    let (header, payload) = message.split_once('.').ok_or(PARTS)?;
    let decoded =
        |part: &str| BASE64.decode(part).map_err(|_| DirectoryError::Malformed("its parts are not base64url"));
    let of_json = |part: &str| {
        serde_json::from_slice::<Value>(&decoded(part)?)
            .map_err(|_| DirectoryError::Malformed("its header is not JSON"))
    };
    let header = of_json(header)?;
    if header["alg"] != "EdDSA" || header["typ"] != KIND || !header["crit"].is_null() {
        return Err(DirectoryError::Malformed("its header names another algorithm, or another kind of document"));
    }
    let is_genuine = UnparsedPublicKey::new(&ED25519, &public).verify(message.as_bytes(), &decoded(signature)?).is_ok();
    if !is_genuine {
        return Err(DirectoryError::Signature(key.to_owned()));
    }
    let directory: Directory = serde_json::from_slice(&decoded(payload)?)
        .map_err(|_| DirectoryError::Malformed("its payload is not a directory"))?;
    let now = time::now();
    let at = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    let is_valid = at(&directory.issued).is_some_and(|issued| issued <= now + CLOCK_SKEW_MS_MAX)
        && at(&directory.expires).is_some_and(|expires| expires > now);
    if is_valid {
        Ok(directory)
    } else {
        Err(DirectoryError::Time { issued: directory.issued, expires: directory.expires, now: time::show(now) })
    }
}

/// The nodes of another domain's directory, as targets.
pub fn found(directory: &Directory) -> Vec<FoundService> {
    let domain = Some(directory.domain.clone()).filter(|domain| !domain.is_empty());
    let places = directory.places.iter().filter_map(|place| {
        let host = crate::lookup::host_of(&place.url)?;
        let authority = place.url.strip_prefix("lh://")?;
        let is_host_and_port =
            authority == host || authority.strip_prefix(&host)?.strip_prefix(':')?.parse::<u16>().is_ok();
        is_host_and_port.then(|| FoundService {
            url: place.url.clone(),
            host,
            site: Some(place.site.clone()).filter(|site| !site.is_empty()),
            location: place.location.map(|[latitude, longitude]| (latitude, longitude)),
            domain: domain.clone(),
        })
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "domain = \"janet\"\n[node.jbo]\naddress = \"dtn.example:7411\"\nsite = \"jodrell\"\nlocation = [53.2, -2.3]\n\
                          [node.inner]\naddress = \"10.0.0.1\"\n[target.far]\nurl = \"stamp://far\"\n";

    fn key(dir: &tempfile::TempDir) -> DirectoryKey {
        DirectoryKey::open(&dir.path().join("key")).unwrap()
    }

    #[test]
    fn a_signed_directory_is_verified_with_its_key() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let config = Config::parse(CONFIG).unwrap();
        let signed = key(&dir).sign(&directory(&config, |name| name != "inner"));
        let again = key(&dir).public();
        let verified = verify(&signed, &again).unwrap();
        assert_eq!((verified.domain.as_str(), verified.places.len()), ("janet", 1));
        let targets = crate::lookup::targets(&found(&verified));
        let read = Config::parse(&targets).unwrap();
        assert!(targets.contains("lh://dtn.example:7411") && read.places["dtn.example"].domain == "janet", "{targets}");
        assert!(matches!(verify(&signed, &key(&other).public()), Err(DirectoryError::Signature(_))));
        for wrong in ["", "ed25519:", "ed25519:AAAA", "rsa:x"] {
            assert!(matches!(verify(&signed, wrong), Err(DirectoryError::PublicKey(_))), "{wrong}");
        }
    }

    #[test]
    fn a_changed_expired_or_unsigned_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let key = key(&dir);
        let now = directory(&Config::parse(CONFIG).unwrap(), |_| true);
        let public = key.public();
        let signed = key.sign(&now);
        let parts: Vec<&str> = signed.split('.').collect();
        let forged = serde_json::to_string(&Directory { domain: "evil".into(), ..now.clone() }).unwrap();
        let forged = format!("{}.{}.{}", parts[0], BASE64.encode(forged), parts[2]);
        assert!(matches!(verify(&forged, &public), Err(DirectoryError::Signature(_))));
        let unsigned = format!("{}.{}.", BASE64.encode(json!({"alg": "none"}).to_string()), parts[1]);
        assert!(matches!(verify(&unsigned, &public), Err(DirectoryError::Malformed(_))));
        let old = Directory { expires: "2026-01-01T00:00:00Z".into(), ..now.clone() };
        let early = Directory { issued: "2126-01-01T00:00:00Z".into(), expires: "2127-01-01T00:00:00Z".into(), ..now };
        for wrong in [old, early] {
            assert!(matches!(verify(&key.sign(&wrong), &public), Err(DirectoryError::Time { .. })));
        }
        assert!(verify("a page", &public).is_err());
    }

    #[test]
    fn the_key_file_is_private_and_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let first = key(&dir).public();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(key(&dir).public(), first);
        std::fs::write(&file, "rubbish").unwrap();
        assert!(matches!(DirectoryKey::open(&file), Err(DirectoryError::NoKey(_))));
    }
}
