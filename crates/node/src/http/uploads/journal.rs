//! The journal of uploads: a file for each in the node's state directory, so that uploads outlive a restart.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::http::refused::{Outcome, refuse};

/// An upload without a new part for this time is removed.
const IDLE_MAX: Duration = Duration::from_secs(7 * 86_400);
/// The most uploads that are unfinished at once.
const WAITING_MAX: usize = 10_000;
const ID_BYTES: usize = 16;

/// The id of an upload: random, so that it cannot be guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadId(String);

impl UploadId {
    /// A new random id.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new() -> Outcome<UploadId> {
        let bytes: [u8; ID_BYTES] =
            engine::identity::random().map_err(|_| refuse(500, "the system gives no random numbers"))?;
        Ok(UploadId(model::hex::encode(&bytes)))
    }

    /// The id that a client names; none if the text is not an id.
    pub fn parse(text: &str) -> Option<UploadId> {
        let is_one =
            text.len() == 2 * ID_BYTES && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        is_one.then(|| UploadId(text.to_owned()))
    }

    /// The tag in the temporary name of the file.
    pub fn tag(&self) -> String {
        format!("upload-{}", self.0)
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Upload {
    pub export: String,
    /// The file's final path on this host.
    pub path: PathBuf,
    /// The directory of the unfinished file.
    pub folder: PathBuf,
    /// The length of the file, bytes.
    pub bytes: u64,
    /// Bytes that are on stable storage.
    pub offset: u64,
    /// CRC-32C of those bytes.
    pub crc32c: u32,
    /// Adler-32 of those bytes.
    pub adler32: Option<u32>,
}

/// The uploads of a node.
pub(crate) struct Uploads {
    dir: PathBuf,
}

impl Uploads {
    /// The uploads in a state directory. Idle ones are removed.
    pub fn new(state: &Path) -> Uploads {
        let uploads = Uploads { dir: state.join("uploads") };
        uploads.sweep(SystemTime::now());
        uploads
    }

    fn file(&self, id: &UploadId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// An upload, if it is known.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub fn read(&self, id: &UploadId) -> Outcome<Option<Upload>> {
        match fs::read(self.file(id)) {
            // A damaged entry counts as unknown: the client begins anew.
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(storage_failure(&error)),
        }
    }

    /// Stores the state of an upload.
    ///
    /// # Errors
    /// The upload is new and too many are unfinished, or the state directory cannot be written.
    pub fn write(&self, id: &UploadId, upload: &Upload) -> Outcome<()> {
        let file = self.file(id);
        if !file.exists() {
            self.sweep(SystemTime::now());
            let waiting = fs::read_dir(&self.dir).map_or(0, Iterator::count);
            if waiting >= WAITING_MAX {
                return Err(refuse(
                    503,
                    format!("{waiting} uploads are unfinished on this node: end some, or try again later"),
                ));
            }
        }
        let not_text = |_| refuse(400, "a name that is not UTF-8 cannot be sent in parts: send the file in one piece");
        let text = serde_json::to_vec(upload).map_err(not_text)?;
        let written = fs::create_dir_all(&self.dir).and_then(|()| {
            let new = file.with_extension("new");
            fs::write(&new, text)?;
            fs::File::open(&new)?.sync_data()?;
            fs::rename(&new, &file)
        });
        written.map_err(|error| storage_failure(&error))
    }

    /// Removes the entry of an upload.
    pub fn remove(&self, id: &UploadId) {
        let _ = fs::remove_file(self.file(id));
    }

    /// Removes idle uploads and their partial files.
    fn sweep(&self, now: SystemTime) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_old = entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .is_ok_and(|changed| now.duration_since(changed).is_ok_and(|idle| idle > IDLE_MAX));
            if !is_old {
                continue;
            }
            let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(UploadId::parse);
            let upload = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Upload>(&text).ok());
            if let Some((id, upload)) = id.zip(upload) {
                let _ = fs::remove_file(upload.folder.join(format!(".longhaul-{}.part", id.tag())));
            }
            let _ = fs::remove_file(&path);
        }
    }
}

fn storage_failure(error: &io::Error) -> crate::http::refused::RequestFailure {
    tracing::error!(%error, "uploads cannot be recorded in the state directory");
    refuse(500, "the node cannot record the state of uploads; its operator must look at its log")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(folder: &Path) -> Upload {
        Upload {
            export: "data".to_owned(),
            path: folder.join("f"),
            folder: folder.to_owned(),
            bytes: 10,
            offset: 3,
            crc32c: 7,
            adler32: Some(9),
        }
    }

    #[test]
    fn an_upload_outlives_a_restart_and_is_removed_after_a_week() {
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let Ok(id) = UploadId::new() else { panic!("no random numbers") };
        let uploads = Uploads::new(state.path());
        assert!(uploads.write(&id, &upload(data.path())).is_ok());
        let part = data.path().join(format!(".longhaul-{}.part", id.tag()));
        fs::write(&part, "abc").unwrap();
        let again = Uploads::new(state.path());
        assert!(matches!(again.read(&id), Ok(Some(known)) if known == upload(data.path())));
        again.sweep(SystemTime::now() + IDLE_MAX + Duration::from_secs(60));
        assert!(matches!(again.read(&id), Ok(None)) && !part.exists());
    }

    #[test]
    fn an_id_of_another_form_is_refused() {
        assert!(UploadId::parse(&"0a".repeat(16)).is_some());
        for text in ["", "../../etc/passwd", &"0A".repeat(16), &"0".repeat(31), &"g".repeat(32)] {
            assert!(UploadId::parse(text).is_none(), "{text}");
        }
    }
}
