//! The state directory: identity, grants, and what a node remembers. Several nodes and `longhaul grant` may use one at once.
//!
//! Every file is written under a temporary name and renamed into place, under a lock, so that a reader never sees half of it.
//! Only the owner can read the files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use auth::{Fingerprint, Grants};
use engine::NodeIdentity;
use rustix::fs::OFlags;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A state directory.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A file of the state directory cannot be used.
    #[error("cannot {doing} {path} (the state directory is chosen by --state or LONGHAUL_STATE)")]
    File {
        /// What was being done.
        doing: &'static str,
        /// Its path.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be parsed.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// The directory had an identity, and its key is missing.
    #[error(
        "{missing} is missing, and the state directory has {found}: this node had an identity. The keys that it issued, and the clients \
         that know it, rely on that identity. Put the file back from a backup; or, to begin with a new identity, remove {found} there, \
         issue new keys, and have clients forget the node (known_nodes)"
    )]
    Lost {
        /// The missing file.
        missing: String,
        /// The files that show that there was an identity.
        found: String,
    },
    /// The identity could not be made.
    #[error("cannot make an identity: {0}")]
    Identity(String),
}

type Result<T> = std::result::Result<T, StateError>;

/// A file that reserves room for the grants, so that a key can be revoked on a full disk.
const RESERVE: &str = "reserve";
const RESERVE_BYTES: u64 = 1 << 20;

const IDENTITY_KEY: &str = "identity.key.der";
const IDENTITY_CERTIFICATE: &str = "identity.cert.der";
const GRANTS: &str = "grants.toml";
const TRANSFER_GRANTS: &str = "errand-grants.toml";
const MACAROON_KEY: &str = "macaroon.key";
const ADDRESS: &str = "address";
/// The WebDAV locks.
const LOCKS: &str = "locks.json";
/// The names of the exports that the last node served.
const EXPORTS: &str = "exports";

impl StateDir {
    /// Opens a state directory, and creates it if it is missing.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn open(path: &Path) -> Result<StateDir> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        let state = StateDir { path: path.to_owned() };
        made.map_err(|source| state.error("create", path, source))?;
        Ok(state)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, doing: &'static str, path: &Path, source: io::Error) -> StateError {
        StateError::File { doing, path: path.display().to_string(), source }
    }

    /// Takes the directory's lock, which is held until the file is dropped.
    fn lock(&self) -> Result<File> {
        let path = self.path.join("lock");
        let open = match OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path)
            }
            made => made.and_then(|file| self.give_to_owner(&file).map(|()| file)),
        };
        let file = open.map_err(|e| self.error("open", &path, e))?;
        file.lock().map_err(|e| self.error("lock", &path, e))?;
        Ok(file)
    }

    /// Gives a file that root has just created to the owner of the directory: `longhaul grant` may run as root, and the node must
    /// be able to read the result. Only for new files: the owner of the directory could have replaced an existing one by a link
    /// to another user's file.
    fn give_to_owner(&self, made: &File) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let owner = fs::metadata(&self.path)?;
        if owner.uid() == 0 { Ok(()) } else { fchown(made, Some(owner.uid()), Some(owner.gid())) }
    }

    /// Writes a file whole or not at all. Call with the lock held.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!("{name}.new"));
        let write = || -> io::Result<()> {
            let _ = fs::remove_file(&temporary);
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
            self.give_to_owner(&file)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|e| self.error("write", &path, e))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.error("read", &path, e)),
        }
    }

    /// The node's identity, created on first use. Its certificate names no host: clients know the node by its key.
    ///
    /// # Errors
    /// It cannot be read or created, or the directory has lost the identity that it had.
    pub fn identity(&self) -> Result<NodeIdentity> {
        let _lock = self.lock()?;
        let certificate = self.read(IDENTITY_CERTIFICATE)?.map(CertificateDer::from);
        let (key, certificate) = match (self.read(IDENTITY_KEY)?, certificate) {
            (Some(key), Some(certificate)) => (key, certificate),
            // The identity is the key: a new certificate of the same key is the same identity.
            (Some(key), None) => {
                let pair = rcgen::KeyPair::try_from(key.as_slice());
                let pair = pair.map_err(|e| self.damaged(IDENTITY_KEY, e.to_string()))?;
                (key, self.write_certificate(&pair)?)
            }
            (None, _) => {
                self.refuse_another_identity()?;
                let pair = rcgen::KeyPair::generate().map_err(|e| StateError::Identity(e.to_string()))?;
                // The key first: a certificate without its key would be taken for a lost identity.
                self.write(IDENTITY_KEY, &pair.serialize_der())?;
                (pair.serialize_der(), self.write_certificate(&pair)?)
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        Ok(NodeIdentity { chain: vec![certificate], key })
    }

    fn write_certificate(&self, pair: &rcgen::KeyPair) -> Result<CertificateDer<'static>> {
        let params = rcgen::CertificateParams::new(vec!["longhaul-node".to_owned()]);
        let made = params.and_then(|params| params.self_signed(pair));
        let made = made.map_err(|e| StateError::Identity(e.to_string()))?;
        self.write(IDENTITY_CERTIFICATE, made.der())?;
        Ok(made.der().clone())
    }

    /// Fails where other files show that there was an identity, which is lost. A new identity would make all keys void, and clients
    /// that know the node would take it for an impostor.
    fn refuse_another_identity(&self) -> Result<()> {
        let traces = [IDENTITY_CERTIFICATE, GRANTS, TRANSFER_GRANTS];
        let found: Vec<&str> = traces.into_iter().filter(|name| self.path.join(name).exists()).collect();
        if found.is_empty() {
            return Ok(());
        }
        Err(StateError::Lost { missing: self.path.join(IDENTITY_KEY).display().to_string(), found: found.join(", ") })
    }

    /// The fingerprint of the node's identity, which is created on first use.
    ///
    /// # Errors
    /// As for [`StateDir::identity`].
    pub fn fingerprint(&self) -> Result<Fingerprint> {
        let identity = self.identity()?;
        let shown = identity.chain.first().and_then(engine::identity::fingerprint);
        let damaged = || self.damaged(IDENTITY_CERTIFICATE, "it is not a certificate".into());
        shown.ok_or_else(damaged)
    }

    /// The secret key of this node's macaroons, created on first use. Without the file all earlier macaroons are void.
    ///
    /// # Errors
    /// It cannot be read or created, or is damaged.
    pub fn macaroon_key(&self) -> Result<[u8; 32]> {
        let parse = |bytes: Vec<u8>| {
            let wrong_length = |_| {
                self.damaged(MACAROON_KEY, "it does not have 32 bytes; remove it, and request new macaroons".into())
            };
            bytes.try_into().map_err(wrong_length)
        };
        if let Some(bytes) = self.read(MACAROON_KEY)? {
            return parse(bytes);
        }
        let _lock = self.lock()?;
        if let Some(bytes) = self.read(MACAROON_KEY)? {
            return parse(bytes);
        }
        let made: [u8; 32] = engine::identity::random().map_err(|e| StateError::Identity(e.to_string()))?;
        self.write(MACAROON_KEY, &made)?;
        Ok(made)
    }

    /// Stores the address that the node listens on, for links to it.
    ///
    /// # Errors
    /// The state directory cannot be read, written or locked.
    pub fn store_address(&self, address: SocketAddr) -> Result<()> {
        let _lock = self.lock()?;
        self.write(ADDRESS, format!("{address}\n").as_bytes())
    }

    /// Stores the names of the node's exports, for `longhaul grant`.
    ///
    /// # Errors
    /// The state directory cannot be read, written or locked.
    pub fn store_exports(&self, names: &[String]) -> Result<()> {
        let _lock = self.lock()?;
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        self.write(EXPORTS, lines.as_bytes())
    }

    /// The names of the exports of the node that was started last with this state.
    pub fn last_exports(&self) -> Option<Vec<String>> {
        let bytes = self.read(EXPORTS).ok()??;
        Some(String::from_utf8(bytes).ok()?.lines().map(str::to_owned).collect())
    }

    /// The address of the node that was started last with this state.
    pub fn last_address(&self) -> Option<SocketAddr> {
        let bytes = self.read(ADDRESS).ok()??;
        std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
    }

    /// The stored WebDAV locks, if there ever were any.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn locks(&self) -> Result<Option<Vec<u8>>> {
        self.read(LOCKS)
    }

    /// Stores the WebDAV locks.
    ///
    /// # Errors
    /// The state directory cannot be read, written or locked.
    pub fn store_locks(&self, bytes: &[u8]) -> Result<()> {
        let _lock = self.lock()?;
        self.write(LOCKS, bytes)
    }

    fn damaged(&self, name: &str, why: String) -> StateError {
        StateError::Damaged { path: self.path.join(name).display().to_string(), why }
    }

    /// The grants as they are now.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn grants(&self) -> Result<Grants> {
        self.read_grants(GRANTS)
    }

    /// The grants for single delegated transfers, which nodes create by themselves.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn transfer_grants(&self) -> Result<Grants> {
        self.read_grants(TRANSFER_GRANTS)
    }

    fn read_grants(&self, name: &str) -> Result<Grants> {
        let Some(bytes) = self.read(name)? else { return Ok(Grants::default()) };
        let text = String::from_utf8(bytes).map_err(|_| self.damaged(name, "it is not text".into()))?;
        toml::from_str(&text).map_err(|e| self.damaged(name, e.message().to_owned()))
    }

    /// Changes the grants under the lock, so that no concurrent change is lost.
    ///
    /// # Errors
    /// The file cannot be read or written, or is damaged; then nothing has changed.
    pub fn change_grants<T>(&self, change: impl FnOnce(&mut Grants) -> T) -> Result<T> {
        self.change(GRANTS, change)
    }

    /// Changes the grants for single delegated transfers under the lock.
    ///
    /// # Errors
    /// As for [`StateDir::change_grants`].
    pub fn change_transfer_grants<T>(&self, change: impl FnOnce(&mut Grants) -> T) -> Result<T> {
        self.change(TRANSFER_GRANTS, change)
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut Grants) -> T) -> Result<T> {
        let _lock = self.lock()?;
        let mut grants = self.read_grants(name)?;
        let out = change(&mut grants);
        let text = toml::to_string(&grants).map_err(|e| self.damaged(name, e.to_string()))?;
        self.write_grants(name, text.as_bytes())?;
        Ok(out)
    }

    /// On a full disk the operator's grants use the reserved room; grants for single transfers do not.
    fn write_grants(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let reserve = self.path.join(RESERVE);
        match self.write(name, bytes) {
            Err(StateError::File { source, .. }) if name == GRANTS && is_full(&source) => {
                let _ = fs::remove_file(self.path.join(format!("{name}.new")));
                let _ = fs::remove_file(&reserve);
                let written = self.write(name, bytes);
                self.reserve_room();
                written
            }
            other => {
                if name == GRANTS {
                    self.reserve_room();
                }
                other
            }
        }
    }

    /// Reserves room for the grants if there are any. A failure is ignored: it harms only when the disk is full later.
    pub fn reserve_room(&self) {
        if !self.path.join(GRANTS).exists() {
            return;
        }
        let path = self.path.join(RESERVE);
        if fs::metadata(&path).is_ok_and(|meta| meta.len() == RESERVE_BYTES) {
            return;
        }
        let made = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&path);
        let reserved = made.and_then(|file| {
            self.give_to_owner(&file)?;
            Ok(rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES)?)
        });
        if reserved.is_err() {
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::{Grant, Rights};
    use model::RelPath;

    #[test]
    fn an_identity_is_created_once() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("deep/er")).unwrap();
        let first = state.fingerprint().unwrap();
        assert_eq!(StateDir::open(state.path()).unwrap().fingerprint().unwrap(), first);
        let other = StateDir::open(&dir.path().join("other")).unwrap();
        assert_ne!(other.fingerprint().unwrap(), first);
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(state.path().join("identity.key.der")).unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn concurrent_changes_of_grants_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        std::thread::scope(|scope| {
            for n in 0..8u8 {
                let state = &state;
                scope.spawn(move || {
                    let grant = Grant::new([n; 8], &[n; 32], "e".into(), &RelPath::root(), Rights::Read, 0);
                    state.change_grants(|grants| grants.list.push(grant)).unwrap();
                });
            }
        });
        assert_eq!(state.grants().unwrap().list.len(), 8);
    }

    #[test]
    fn a_file_that_root_writes_belongs_to_the_owner_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(dir.path(), Some(65_534), Some(65_534)).unwrap();
        }
        let state = StateDir::open(dir.path()).unwrap();
        state.change_grants(|grants| grants.list.clear()).unwrap();
        let owner = |path: &Path| fs::metadata(path).map(|of| (of.uid(), of.gid())).unwrap();
        for name in ["lock", GRANTS] {
            assert_eq!(owner(&dir.path().join(name)), owner(dir.path()), "{name}");
        }
        // A link in place of the lock is not followed.
        fs::write(dir.path().join("else"), b"").unwrap();
        fs::remove_file(dir.path().join("lock")).unwrap();
        std::os::unix::fs::symlink("else", dir.path().join("lock")).unwrap();
        assert!(state.change_grants(|grants| grants.list.clear()).is_err());
    }

    #[test]
    fn the_macaroon_key_is_created_once() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| state.macaroon_key().unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0] && *key != [0; 32]));
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(dir.path().join(MACAROON_KEY)).unwrap());
        assert_eq!(mode & 0o777, 0o600);
        fs::write(dir.path().join(MACAROON_KEY), b"short").unwrap();
        assert!(state.macaroon_key().unwrap_err().to_string().contains(MACAROON_KEY));
    }

    #[test]
    fn a_lost_identity_is_not_replaced_silently() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let first = state.fingerprint().unwrap();
        let key = fs::read(dir.path().join("identity.key.der")).unwrap();
        fs::remove_file(dir.path().join("identity.key.der")).unwrap();
        let error = state.identity().map(drop).unwrap_err().to_string();
        assert!(error.contains("identity.key.der") && error.contains("identity.cert.der"), "{error}");
        fs::write(dir.path().join("identity.key.der"), key).unwrap();
        assert_eq!(state.fingerprint().unwrap(), first, "put back");
        // A missing certificate is made again from the key.
        fs::remove_file(dir.path().join("identity.cert.der")).unwrap();
        assert_eq!(state.fingerprint().unwrap(), first);
        // Grants alone show that there was an identity.
        state.change_grants(|grants| grants.list.clear()).unwrap();
        ["identity.cert.der", "identity.key.der"]
            .iter()
            .for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
        assert!(matches!(state.identity(), Err(StateError::Lost { .. })));
        fs::remove_file(dir.path().join(GRANTS)).unwrap();
        assert!(state.identity().is_ok(), "without any trace of an identity a new one is made");
    }

    #[test]
    fn room_for_grants_is_reserved() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let reserve = || fs::metadata(dir.path().join(RESERVE)).map(|meta| (meta.len(), meta.blocks() * 512)).ok();
        state.change_transfer_grants(|grants| grants.list.clear()).unwrap();
        assert_eq!(reserve(), None);
        state.change_grants(|grants| grants.list.clear()).unwrap();
        let (length, taken) = reserve().unwrap();
        assert!(length == RESERVE_BYTES && taken >= RESERVE_BYTES, "{taken}");
    }

    #[test]
    fn the_error_of_a_damaged_file_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        fs::write(dir.path().join("grants.toml"), "what is this").unwrap();
        let error = state.grants().unwrap_err().to_string();
        assert!(error.contains("grants.toml is damaged"), "{error}");
    }
}
