//! A directory of a file system as a store.
//!
//! Every path is resolved by the kernel below the root (`openat2`, Linux 5.6 or later): `..`, absolute links, links
//! that leave the root and links swapped in during the walk are all refused by the kernel, not by string comparison here.
//! Files are written beside their final name, in the same directory, so that they inherit the properties of the directory
//! (group, default ACL, project quota, allocation group) and the final rename never crosses a file system.

mod attributes;
mod by_descriptor;
mod cache_choice;
mod confined;
mod file;
mod lineage;
mod list;
mod names;
mod notes;
mod put;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use model::entry::Attributes;
use model::name::{Name, RelPath};
use model::{Kind, Meta, Timestamp};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use self::confined::open_below;
use self::file::UnfinishedFile;
pub use self::names::{is_temporary_name, temporary_name};
use crate::error::{kind_phrase, shown};
use crate::{
    AttributeSelection, Capabilities, Entries, Error, Lineage, PathRules, Result, Sink, Source, Space, Stat, Store,
    WantedMetadata, Writes,
};

/// How symbolic links on the path to an entry are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Links that stay below the root are followed: for an operator's export.
    Inside,
    /// No link is followed: for a tree that a remote node fills.
    Refuse,
}

/// A directory and everything below it.
#[derive(Debug)]
pub struct Posix {
    root: OwnedFd,
    resolve: ResolveFlags,
    /// As `resolve`, for [`Store::following_links`].
    resolve_following: ResolveFlags,
    /// No link is followed, whatever `resolve` says: the root is the directory of an entry that a credential is for.
    holds_entry: bool,
    /// A link as the last component is followed too, so that an entry is what the link leads to.
    follows: bool,
    /// Set-user-id and set-group-id bits of files are dropped.
    drop_privilege_bits: bool,
    /// No path leads to an unfinished file, and no list shows one.
    hides_unfinished: bool,
}

/// The most nested directories: a path of 4,096 bytes has no more.
const DEPTH_MAX: usize = 2048;

/// The part of a mode that [`Posix::without_privilege_bits`] drops from files.
const PRIVILEGE_BITS: u32 = 0o6000;

impl Posix {
    /// Opens a file that was begun with this tag. None where there is none, or where another kind of entry has its name.
    fn unfinished(&self, path: &RelPath, tag: &str) -> Result<Option<UnfinishedFile>> {
        let (dir, name) = self.parent("resume", path)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&dir, &temporary_name(tag)[..], flags, Mode::empty()) {
            Ok(fd) => Ok(Some(UnfinishedFile { dir, name, fd })),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => Ok(None),
            Err(e) => Err(error("resume", path, e)),
        }
    }

    fn sink(&self, path: &RelPath, tag: &str, begun: UnfinishedFile) -> file::PosixSink {
        file::PosixSink::new(begun, path.clone(), temporary_name(tag), self.mode_mask())
    }

    /// Bits of modes that this store sets.
    fn mode_mask(&self) -> u32 {
        if self.drop_privilege_bits { !PRIVILEGE_BITS } else { u32::MAX }
    }

    fn masked<'a>(&self, facts: &WantedMetadata<'a>) -> WantedMetadata<'a> {
        WantedMetadata { mode: facts.mode & self.mode_mask(), ..*facts }
    }

    /// The store below a directory. The path to the directory may contain links, because the caller chose it.
    ///
    /// # Errors
    /// The directory cannot be opened, or the kernel has no `openat2`.
    pub fn open(root: &Path, links: Links) -> Result<Posix> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(root, flags, Mode::empty());
        let shown = || model::name::show_bytes(std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()));
        let cannot = |e: Errno| Error::Io { doing: "open the directory", path: shown(), source: e.into() };
        let root = opened.map_err(&cannot)?;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == Links::Refuse {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        let store = Posix {
            root,
            resolve,
            resolve_following: resolve,
            holds_entry: false,
            follows: false,
            drop_privilege_bits: false,
            hides_unfinished: false,
        };
        // Checked here, because without openat2 every file would fail with an error that does not name the cause.
        match store.open_at(&RelPath::root(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
            Err(Errno::NOSYS) => {
                let why = "the system call openat2 is missing: the kernel is older than 5.6, or a filter keeps it away, as \
                           RestrictSUIDSGID= of systemd does";
                let source = std::io::Error::new(std::io::ErrorKind::Unsupported, why);
                Err(Error::Io { doing: "open the directory", path: shown(), source })
            }
            _ => Ok(store),
        }
    }

    /// Drops set-user-id and set-group-id bits of files written here: clients of a node that runs as root must not be able to
    /// store programs that run as root.
    pub fn without_privilege_bits(mut self) -> Posix {
        self.drop_privilege_bits = true;
        self
    }

    /// Links that are followed ([`Store::following_links`]) may lead anywhere: the tree is the user's own.
    pub fn following_links_anywhere(mut self) -> Posix {
        self.resolve_following = ResolveFlags::NO_MAGICLINKS;
        self
    }

    /// Hides unfinished files from the clients of every protocol.
    pub fn hiding_unfinished(mut self) -> Posix {
        self.hides_unfinished = true;
        self
    }

    /// Whether a path is hidden: it leads to an unfinished file, or below a directory that has the name of one.
    fn is_hidden(&self, path: &RelPath) -> bool {
        self.hides_unfinished && path.as_bytes().split(|b| *b == b'/').any(is_temporary_name)
    }

    fn open_at(&self, path: &RelPath, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        if self.is_hidden(path) {
            return Err(Errno::NOENT);
        }
        let bytes = if path.is_root() { &b"."[..] } else { path.as_bytes() };
        let resolve = if self.holds_entry { self.resolve | ResolveFlags::NO_SYMLINKS } else { self.resolve };
        open_below(&self.root, bytes, flags, mode, resolve)
    }

    /// The directory that an entry is in, and its name there.
    fn parent(&self, doing: &'static str, path: &RelPath) -> Result<(OwnedFd, Name)> {
        let Some(name) = path.name() else {
            return Err(Error::Unsupported { what: doing, store: "the root itself" });
        };
        if self.is_hidden(path) {
            return Err(Error::Unfinished(shown(path)));
        }
        let dir = self.open_at(&path.parent(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        Ok((dir.map_err(|e| error(doing, path, e))?, name))
    }

    /// Opens an entry to examine it: a link itself, or what it leads to where `follows` is set.
    fn open_facts(&self, path: &RelPath) -> Result<OwnedFd> {
        let last = if self.follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.open_at(path, OFlags::PATH | last, Mode::empty()).map_err(|e| error("examine", path, e))
    }

    /// A store with the same settings and a duplicate of the descriptor.
    fn duplicate(&self) -> Result<Posix> {
        let root = self.root.try_clone().map_err(|source| Error::io("examine", &RelPath::root(), source))?;
        Ok(Posix { root, ..*self })
    }

    fn stat_kind(dir: &OwnedFd, name: &Name) -> Option<Kind> {
        rustix::fs::statat(dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW).ok().map(|s| facts(&s).meta.kind)
    }

    /// Changes the mode of a directory that its owner may not even list. The descriptor pins it, so that a link put
    /// in its place meanwhile is not followed.
    fn make_usable(&self, path: &RelPath, mode: u32) -> rustix::io::Result<()> {
        let fd = self.open_at(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), Mode::from_raw_mode(mode))
    }
}

/// The length of a file that this process may resume; `None` for another user's file, or one that has a second name.
fn own_size(fd: &OwnedFd, path: &RelPath) -> Result<Option<u64>> {
    let stat = rustix::fs::fstat(fd).map_err(|e| error("examine", path, e))?;
    let found = facts(&stat);
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && found.names == 1;
    Ok((found.meta.kind == Kind::File && is_own).then_some(found.meta.size))
}

/// An error of an operation below the root; paths that lead out of it become [`Error::Escapes`].
fn error(doing: &'static str, path: &RelPath, errno: Errno) -> Error {
    match errno {
        Errno::XDEV => Error::Escapes(shown(path)),
        Errno::LOOP if doing != "open" => Error::Escapes(shown(path)),
        other => Error::io(doing, path, other),
    }
}

/// An error of a final rename; where another entry has the name, the error says which kind it is.
fn conflict(dir: &OwnedFd, path: &RelPath, name: &Name, errno: Errno) -> Error {
    match errno {
        // Which of the three it is depends on whether the rename may replace; in each case a directory has the name.
        Errno::EXIST | Errno::ISDIR | Errno::NOTEMPTY if Posix::stat_kind(dir, name) == Some(Kind::Dir) => {
            Error::Kind { path: shown(path), found: "a directory", wanted: "a file" }
        }
        Errno::EXIST => Error::Exists(shown(path)),
        other => error("put in place", path, other),
    }
}

fn timespec(at: Timestamp) -> Timespec {
    Timespec { tv_sec: at.seconds, tv_nsec: at.nanos.into() }
}

fn times(mtime: Timestamp) -> Timestamps {
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: timespec(mtime) }
}

fn facts(stat: &rustix::fs::Stat) -> Stat {
    use rustix::fs::FileType;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    let mtime = Timestamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 };
    #[allow(clippy::unnecessary_cast, reason = "32 bits wide on 64-bit ARM")]
    let names = stat.st_nlink as u64;
    let size = if kind == Kind::File { stat.st_size as u64 } else { 0 };
    Stat {
        meta: Meta { kind, mode: stat.st_mode & 0o7777, size, mtime },
        identity: (stat.st_dev, stat.st_ino),
        names,
        allocated: stat.st_blocks as u64 * 512,
        changed: Some(Timestamp { seconds: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 }),
    }
}

impl Store for Posix {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::Anywhere,
            any_name: true,
            sized: true,
            times: true,
            posix: true,
            sparse: true,
            keeps: true,
            lists: true,
        }
    }

    fn confined(&self, dir: &RelPath, rules: PathRules) -> Result<Option<Arc<dyn Store>>> {
        Ok(Some(Arc::new(self.below(dir, rules)?)))
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        let fd = self.open_facts(path)?;
        Ok(facts(&rustix::fs::fstat(fd).map_err(|e| error("examine", path, e))?))
    }

    fn following_links(&self) -> Result<Option<Arc<dyn Store>>> {
        Ok(Some(Arc::new(Posix { follows: true, resolve: self.resolve_following, ..self.duplicate()? })))
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        self.open_at(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).is_ok()
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let fd = self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let mut entries = list::entries(fd.map_err(|e| error("list", path, e))?, path)?;
        if self.follows {
            let store = self.duplicate()?;
            let dir = path.clone();
            entries = entries.changed(move |name, stat| match stat {
                Ok(stat) if stat.meta.kind == Kind::Symlink => store.stat(&dir.join(name)),
                stat => stat,
            });
        }
        Ok(if self.hides_unfinished { entries.hiding(is_temporary_name) } else { entries })
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        let (dir, name) = self.parent("read the link", path)?;
        let target = rustix::fs::readlinkat(dir, name.as_bytes(), Vec::new());
        Ok(target.map_err(|e| error("read the link", path, e))?.into_bytes())
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        // Without O_NONBLOCK, opening a FIFO that took the file's place would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self.open_at(path, flags, Mode::empty()).map_err(|e| error("open", path, e))?;
        let source = file::PosixFile::new(fd, path.clone());
        match source.stat()?.meta.kind {
            Kind::File => Ok(Arc::new(source)),
            kind => Err(Error::Kind { path: shown(path), found: kind_phrase(kind), wanted: "a file" }),
        }
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        let (dir, name) = self.parent("create", path)?;
        let temporary = temporary_name(tag);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&dir, &temporary[..], flags, Mode::RUSR | Mode::WUSR);
        let fd = opened.map_err(|e| error("create", path, e))?;
        Ok(Arc::new(self.sink(path, tag, UnfinishedFile { dir, name, fd })))
    }

    fn resume(&self, path: &RelPath, tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        let Some(begun) = self.unfinished(path, tag)? else { return Ok(None) };
        if rustix::fs::flock(&begun.fd, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Ok(None);
        }
        let Some(size) = own_size(&begun.fd, path)? else { return Ok(None) };
        Ok(Some(Arc::new(self.sink(path, tag, begun).with_existing_bytes(size))))
    }

    fn join(&self, path: &RelPath, tag: &str, size: u64) -> Result<Option<Arc<dyn Sink>>> {
        let Some(begun) = self.unfinished(path, tag)? else { return Ok(None) };
        if own_size(&begun.fd, path)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Arc::new(self.sink(path, tag, begun).joined(size))))
    }

    fn forget(&self, path: &RelPath, tag: &str) -> Result<()> {
        let doing = "remove the unfinished";
        let (dir, _) = self.parent(doing, path)?;
        let temporary = temporary_name(tag);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // A process that is writing it holds its lock, on this host or another one.
        match rustix::fs::openat(&dir, &temporary[..], flags, Mode::empty()) {
            Ok(fd) if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) => {
                let busy = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
                return Err(Error::io(doing, path, busy));
            }
            _ => {}
        }
        match rustix::fs::unlinkat(&dir, &temporary[..], AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(error(doing, path, e)),
        }
    }

    fn attributes(&self, path: &RelPath, asked: AttributeSelection) -> Result<Attributes> {
        attributes::read(&self.open_facts(path)?, path, asked)
    }

    fn differs(&self, path: &RelPath, from: &WantedMetadata<'_>) -> Result<bool> {
        attributes::differs(&self.open_facts(path)?, path, &self.masked(from))
    }

    fn refresh(&self, path: &RelPath, to: &WantedMetadata<'_>) -> Result<bool> {
        attributes::refresh(&self.open_facts(path)?, path, &self.masked(to))
    }

    fn lineage(&self, path: &RelPath) -> Lineage {
        self.lineage_of(path)
    }

    fn note(&self, path: &RelPath, name: &str) -> Result<Option<Vec<u8>>> {
        notes::read(&self.open_facts(path)?, path, name)
    }

    fn set_note(&self, path: &RelPath, name: &str, note: &[u8]) -> Result<()> {
        notes::write(&self.open_facts(path)?, path, name, note)
    }

    fn space(&self, path: &RelPath) -> Result<Option<Space>> {
        let fd = self.open_at(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        let fd = fd.map_err(|e| error("examine", path, e))?;
        let found = rustix::fs::fstatvfs(&fd).map_err(|e| error("examine the space of", path, e))?;
        let device = rustix::fs::fstat(&fd).map_err(|e| error("examine", path, e))?.st_dev;
        let free_bytes = found.f_bavail.saturating_mul(found.f_frsize);
        // Some network file systems report no size: their bound is unknown.
        let total_bytes = found.f_blocks.saturating_mul(found.f_frsize);
        Ok((total_bytes > 0).then_some(Space { free_bytes, total_bytes, device }))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        let (dir, name) = self.parent("create the directory", path)?;
        match rustix::fs::mkdirat(&dir, name.as_bytes(), Mode::RWXU | Mode::from_raw_mode(0o055)) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(e) => return Err(error("create the directory", path, e)),
        }
        let stat = rustix::fs::statat(&dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
        let stat = facts(&stat.map_err(|e| error("examine", path, e))?).meta;
        match stat.kind {
            // Its owner must be able to write into it; `finish_dir` sets the final mode later.
            Kind::Dir if stat.mode & 0o700 != 0o700 => {
                self.make_usable(path, stat.mode | 0o700).map_err(|e| error("make writable", path, e))
            }
            Kind::Dir => Ok(()),
            kind => Err(Error::Kind { path: shown(path), found: kind_phrase(kind), wanted: "a directory" }),
        }
    }

    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()> {
        let (dir, name) = self.parent("create the link", path)?;
        let temporary = temporary_name(tag);
        let _ = rustix::fs::unlinkat(&dir, &temporary[..], AtFlags::empty());
        rustix::fs::symlinkat(target, &dir, &temporary[..]).map_err(|e| error("create the link", path, e))?;
        // Not every file system keeps times of links.
        let _ = rustix::fs::utimensat(&dir, &temporary[..], &times(mtime), AtFlags::SYMLINK_NOFOLLOW);
        Self::put_or_remove(&dir, &temporary, path, &name, replace)
    }

    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        let (from_dir, from_name) = self.parent("link", to)?;
        let (dir, name) = self.parent("link", path)?;
        let temporary = temporary_name(tag);
        let _ = rustix::fs::unlinkat(&dir, &temporary[..], AtFlags::empty());
        let linked = rustix::fs::linkat(&from_dir, from_name.as_bytes(), &dir, &temporary[..], AtFlags::empty());
        // Both directories are below the root here: EXDEV says that they are on two file systems, not that one leads out.
        linked.map_err(|e| Error::io("link", path, e))?;
        Self::put_or_remove(&dir, &temporary, path, &name, replace)?;
        // Where both names were one file already, rename leaves the temporary name behind (POSIX, rename).
        let _ = rustix::fs::unlinkat(&dir, &temporary[..], AtFlags::empty());
        Ok(())
    }

    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let fd = match self.open_at(path, flags, Mode::empty()) {
            // It was finished before with a mode that locks out its owner, who may still change the mode.
            Err(Errno::ACCESS) => self.make_usable(path, 0o700).and_then(|()| self.open_at(path, flags, Mode::empty())),
            other => other,
        };
        let fd = fd.map_err(|e| error("finish", path, e))?;
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode)).map_err(|e| error("set the mode of", path, e))?;
        rustix::fs::futimens(&fd, &times(mtime)).map_err(|e| error("set the time of", path, e))
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        let (dir, name) = self.parent("remove", path)?;
        let flags = match Self::stat_kind(&dir, &name) {
            Some(Kind::Dir) => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        rustix::fs::unlinkat(&dir, name.as_bytes(), flags).map_err(|e| error("remove", path, e))
    }

    fn remove_unfinished(&self, dir: &RelPath) -> Result<()> {
        let doing = "remove the unfinished files of";
        let fd = self.open_at(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let fd = fd.map_err(|e| error(doing, dir, e))?;
        let at = fd.try_clone().map_err(|e| Error::io(doing, dir, e))?;
        for entry in list::entries(fd, dir)? {
            let (name, _) = entry?;
            if is_temporary_name(name.as_bytes()) {
                match rustix::fs::unlinkat(&at, name.as_bytes(), AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
                    Err(e) => return Err(error(doing, dir, e)),
                }
            }
        }
        Ok(())
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let (from_dir, from_name) = self.parent("rename", from)?;
        let (to_dir, to_name) = self.parent("rename", to)?;
        let (old, new) = ((&from_dir, from_name.as_bytes()), (&to_dir, to_name.as_bytes()));
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let renamed = match rustix::fs::renameat_with(old.0, old.1, new.0, new.1, flags) {
            // As in `put`; or a directory would come to lie within itself, which fails below too.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if !replace => {
                match Self::stat_kind(&from_dir, &from_name) {
                    Some(Kind::Dir) => Self::rename_dir_after_check((&from_dir, &from_name), (&to_dir, &to_name)),
                    _ => Self::rename_by_link(old, new),
                }
            }
            other => other,
        };
        renamed.map_err(|e| match e {
            Errno::EXIST if !replace => Error::Exists(shown(to)),
            other => Error::io("rename", from, other),
        })
    }
}
