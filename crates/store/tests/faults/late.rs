//! A file system that accepts every write and reports an exceeded quota only when the file is closed, as a network file
//! system may (close(2)): one directory of files in memory, over FUSE.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use parking_lot::{Mutex, MutexGuard};

/// How long the kernel may cache an entry.
const NO_CACHE: Duration = Duration::ZERO;
const FIRST_INODE: u64 = 2;

struct Entry {
    name: Option<OsString>,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Late(Mutex<Vec<Entry>>);

/// Mounts the file system, until the result is dropped.
pub fn mount(at: &Path) -> std::io::Result<BackgroundSession> {
    fuser::spawn_mount(Late::default(), at, &Config::default())
}

fn attributes(ino: INodeNo, kind: FileType, size: u64) -> FileAttr {
    let time = UNIX_EPOCH;
    let perm = if kind == FileType::Directory { 0o755 } else { 0o644 };
    FileAttr {
        ino,
        size,
        blocks: size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Late {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock()
    }
}

fn number(at: usize) -> INodeNo {
    INodeNo(at as u64 + FIRST_INODE)
}

fn facts(entries: &[Entry], ino: INodeNo) -> Option<FileAttr> {
    if ino == INodeNo::ROOT {
        return Some(attributes(ino, FileType::Directory, 0));
    }
    let entry = entries.get(u64::from(ino).checked_sub(FIRST_INODE)? as usize)?;
    Some(attributes(ino, FileType::RegularFile, entry.bytes.len() as u64))
}

fn find(entries: &[Entry], name: &OsStr) -> Option<usize> {
    entries.iter().position(|entry| entry.name.as_deref() == Some(name))
}

impl Filesystem for Late {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let entries = self.entries();
        match find(&entries, name).and_then(|at| facts(&entries, number(at))) {
            Some(found) => reply.entry(&NO_CACHE, &found, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match facts(&self.entries(), ino) {
            Some(found) => reply.attr(&NO_CACHE, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let Some(size) = size {
            self.entries()[(u64::from(ino) - FIRST_INODE) as usize].bytes.resize(size as usize, 0);
        }
        self.getattr(request, ino, handle, reply);
    }

    fn create(&self, _: &Request, _: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut entries = self.entries();
        entries.push(Entry { name: Some(name.to_owned()), bytes: Vec::new() });
        let made = attributes(number(entries.len() - 1), FileType::RegularFile, 0);
        reply.created(&NO_CACHE, &made, Generation(0), FileHandle(0), FopenFlags::empty());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = &mut self.entries()[(u64::from(ino) - FIRST_INODE) as usize].bytes;
        let end = offset as usize + data.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[offset as usize..end].copy_from_slice(data);
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::EDQUOT);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::EDQUOT);
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut entries = self.entries();
        match find(&entries, name) {
            Some(at) => {
                entries[at].name = None;
                reply.ok();
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn rename(&self, _: &Request, _: INodeNo, name: &OsStr, _: INodeNo, to: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        let mut entries = self.entries();
        if let Some(there) = find(&entries, to) {
            entries[there].name = None;
        }
        match find(&entries, name) {
            Some(at) => {
                entries[at].name = Some(to.to_owned());
                reply.ok();
            }
            None => reply.error(Errno::ENOENT),
        }
    }
}
