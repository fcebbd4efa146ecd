//! Keys of issuers in files: those that the service stores in its state directory, and those that its operator provides.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::Jwks;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The most bytes of a file with keys.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Keys of an issuer, and when they were fetched.
#[derive(Clone)]
pub(super) struct StoredKeys {
    pub iss: String,
    pub jwks: Arc<Jwks>,
    /// The key set as the issuer wrote it.
    pub text: String,
    /// When they were fetched, seconds since 1970.
    pub fetched: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredFile {
    v: u32,
    issuer: String,
    fetched: i64,
    /// The key set as the issuer wrote it.
    jwks: String,
}

impl StoredKeys {
    /// Keys that were fetched at the time `now`.
    ///
    /// # Errors
    /// The text is not a usable key set; a sentence.
    pub fn new(iss: &str, text: &str, now: i64) -> Result<StoredKeys, String> {
        let jwks = Arc::new(Jwks::parse(text.as_bytes()).map_err(|error| error.to_string())?);
        Ok(StoredKeys { iss: iss.to_owned(), jwks, text: text.to_owned(), fetched: now })
    }

    /// Stores the keys atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let written = StoredFile { v: 1, issuer: self.iss.clone(), fetched: self.fetched, jwks: self.text.clone() };
        let path = path(dir, &self.iss);
        // Several nodes may share the directory.
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(&written).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    }
}

/// The file of an issuer. Its name is a hash, since the issuer's name is a URL.
fn path(dir: &Path, iss: &str) -> PathBuf {
    dir.join(format!("{}.json", auth::hex(&Sha256::digest(iss))))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is longer than 1 MiB"));
    }
    Ok(bytes)
}

/// The stored keys of an issuer; `None` where the file is missing or malformed: then they are fetched.
pub(super) fn read(dir: &Path, iss: &str) -> Option<StoredKeys> {
    let file: StoredFile = serde_json::from_slice(&read_bounded(&path(dir, iss)).ok()?).ok()?;
    if file.v != 1 || file.issuer != iss {
        return None;
    }
    StoredKeys::new(iss, &file.jwks, file.fetched).ok()
}

/// Time of the last change (seconds, nanoseconds), size in bytes, inode.
type Stamp = (i64, i64, u64, u64);

/// An operator's file with keys; read again when it has changed.
#[derive(Default)]
pub(super) struct LocalFile {
    read: Option<(Stamp, Result<Arc<Jwks>, String>)>,
}

impl LocalFile {
    /// The present keys in the file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a usable key set; a sentence.
    pub fn keys(&mut self, path: &Path) -> Result<Arc<Jwks>, String> {
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        let stamp = (metadata.mtime(), metadata.mtime_nsec(), metadata.size(), metadata.ino());
        if let Some((_, found)) = self.read.as_ref().filter(|(seen, _)| *seen == stamp) {
            return found.clone();
        }
        let bytes = read_bounded(path).map_err(|error| error.to_string())?;
        let found = Jwks::parse(&bytes).map(Arc::new).map_err(|error| error.to_string());
        self.read = Some((stamp, found.clone()));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = r#"{"keys":[{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"}]}"#;

    #[test]
    fn stored_keys_are_those_of_one_issuer() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("issuers");
        StoredKeys::new("https://i/", SET, 7).unwrap().write(&dir).unwrap();
        let back = read(&dir, "https://i/").unwrap();
        assert_eq!((back.fetched, back.jwks.has_key("r")), (7, true));
        assert!(read(&dir, "https://i").is_none());
        fs::rename(path(&dir, "https://i/"), path(&dir, "https://other/")).unwrap();
        assert!(read(&dir, "https://other/").is_none(), "keys of one are not keys of another");
    }

    #[test]
    fn a_file_is_read_again_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut file) = (dir.path().join("k"), LocalFile::default());
        assert!(file.keys(&path).is_err());
        fs::write(&path, SET).unwrap();
        assert!(file.keys(&path).unwrap().has_key("r"));
        fs::write(&path, SET.replace("\"r\"", "\"other\"")).unwrap();
        assert!(file.keys(&path).unwrap().has_key("other"));
        fs::write(&path, "{}").unwrap();
        assert!(file.keys(&path).is_err());
    }
}
