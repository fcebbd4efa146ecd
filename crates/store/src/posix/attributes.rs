//! Owners and extended attributes: read where an option wants them, and set on new entries.
//!
//! Only attributes of users (`user.…`) and POSIX ACLs are copied. Others belong to the host that they were set on:
//! security labels and capabilities would give rights, `trusted.…` is the administrator's.

use std::collections::HashMap;
use std::os::fd::AsFd;

use model::entry::{Attributes, Owner, Xattr};
use model::name::RelPath;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Gid, Mode, Uid, XattrFlags};
use rustix::io::Errno;

use super::by_descriptor::by_descriptor;
use super::error;
use crate::{AttributeSelection, Error, Result, WantedMetadata};

/// The most bytes of names and values of one entry that are copied; ext4 keeps 4 KiB, XFS 64 KiB a value.
const XATTR_BYTES_MAX: usize = 256 << 10;

/// Whether an attribute is copied. The notes of this program belong to one entry and are not.
fn is_copied(name: &[u8]) -> bool {
    let is_of_a_user = name.starts_with(b"user.") && !name.starts_with(super::notes::NOTES.as_bytes());
    is_of_a_user || name == b"system.posix_acl_access" || name == b"system.posix_acl_default"
}

/// Names of users and groups: each is looked up once, because a name service may be far away.
#[derive(Default)]
struct NameCache {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
    user_ids: HashMap<String, Option<u32>>,
    group_ids: HashMap<String, Option<u32>>,
}

/// The most names in the cache.
const NAMES_MAX: usize = 4096;

static NAMES: Mutex<Option<NameCache>> = Mutex::new(None);

fn with_names<T>(look_up: impl FnOnce(&mut NameCache) -> T) -> T {
    let mut names = NAMES.lock();
    let names = names.get_or_insert_default();
    // A peer may send any number of names, so the cache has a bound.
    if names.users.len() + names.groups.len() + names.user_ids.len() + names.group_ids.len() > NAMES_MAX {
        *names = NameCache::default();
    }
    look_up(names)
}

fn owner(uid: u32, gid: u32) -> Owner {
    let text = |name: &std::ffi::OsStr| name.to_str().unwrap_or_default().to_owned();
    with_names(|names| {
        let user = names
            .users
            .entry(uid)
            .or_insert_with(|| uzers::get_user_by_uid(uid).map_or_else(String::new, |u| text(u.name())));
        let group = names
            .groups
            .entry(gid)
            .or_insert_with(|| uzers::get_group_by_gid(gid).map_or_else(String::new, |g| text(g.name())));
        Owner { uid, gid, user: user.clone(), group: group.clone() }
    })
}

/// The ids on this host of an owner at the source: by name where this host knows the name, otherwise the source's number.
fn ids(owner: &Owner) -> (u32, u32) {
    with_names(|names| {
        let by_user = |name: &String| uzers::get_user_by_name(name).map(|u| u.uid());
        let by_group = |name: &String| uzers::get_group_by_name(name).map(|g| g.gid());
        let uid = if owner.user.is_empty() {
            None
        } else {
            *names.user_ids.entry(owner.user.clone()).or_insert_with_key(by_user)
        };
        let gid = if owner.group.is_empty() {
            None
        } else {
            *names.group_ids.entry(owner.group.clone()).or_insert_with_key(by_group)
        };
        (uid.unwrap_or(owner.uid), gid.unwrap_or(owner.gid))
    })
}

/// Reads the selected attributes of an entry that is open with `O_PATH`.
pub(super) fn read(fd: &impl AsFd, path: &RelPath, asked: AttributeSelection) -> Result<Attributes> {
    let stat = rustix::fs::fstat(fd).map_err(|e| error("examine", path, e))?;
    let owner = asked.owner.then(|| owner(stat.st_uid, stat.st_gid));
    let is_link = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink;
    // Links have none of the attributes that are copied (xattr(7)).
    let xattrs = if asked.xattrs && !is_link { xattrs(&by_descriptor(fd), path)? } else { Vec::new() };
    Ok(Attributes { owner, xattrs, ..Attributes::default() })
}

fn xattrs(at: &str, path: &RelPath) -> Result<Vec<Xattr>> {
    let doing = "read the attributes of";
    let mut list = vec![0; XATTR_BYTES_MAX];
    let len = match rustix::fs::listxattr(at, &mut list[..]) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(e) => return Err(error(doing, path, e)),
    };
    let mut out = Vec::new();
    let mut total = 0;
    for name in list[..len].split(|b| *b == 0).filter(|name| is_copied(name)) {
        let mut value = vec![0; 64 << 10];
        let len = match rustix::fs::getxattr(at, name, &mut value[..]) {
            Ok(len) => len,
            // It was removed after it was listed.
            Err(Errno::NODATA) => continue,
            Err(e) => return Err(error(doing, path, e)),
        };
        value.truncate(len);
        total += name.len() + len;
        if total > XATTR_BYTES_MAX {
            return Err(Error::Unsupported {
                what: "more than 256 KiB of attributes on one entry",
                store: "this version",
            });
        }
        out.push(Xattr { name: name.to_vec(), value });
    }
    Ok(out)
}

/// Sets the attributes of a file that is open for writing.
pub(super) fn set_on_file(fd: &impl AsFd, path: &RelPath, to: &Attributes) -> Result<()> {
    if let Some(owner) = &to.owner {
        set_owner(fd, path, owner)?;
    }
    set_xattrs(fd, path, &to.xattrs)
}

fn set_owner(fd: &impl AsFd, path: &RelPath, owner: &Owner) -> Result<()> {
    let (uid, gid) = ids(owner);
    let stat = rustix::fs::fstat(fd).map_err(|e| error("examine", path, e))?;
    // An owner that is right already is not set, which would need privileges.
    let uid = (stat.st_uid != uid).then(|| Uid::from_raw(uid));
    let gid = (stat.st_gid != gid).then(|| Gid::from_raw(gid));
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(fd, c"", uid, gid, flags).map_err(|e| match e {
        Errno::PERM => Error::io("set the owner (which needs root) of", path, e),
        e => error("set the owner of", path, e),
    })
}

fn set_xattrs(fd: &impl AsFd, path: &RelPath, xattrs: &[Xattr]) -> Result<()> {
    let at = by_descriptor(fd);
    // A peer may send other attributes; they are ignored.
    for xattr in xattrs.iter().filter(|x| is_copied(&x.name)) {
        let set = rustix::fs::setxattr(&at[..], &xattr.name[..], &xattr.value, XattrFlags::empty());
        set.map_err(|e| match e {
            Errno::OPNOTSUPP => {
                Error::Unsupported { what: "keeping extended attributes", store: "the target's file system" }
            }
            e => Error::io("set the attributes of", path, e),
        })?;
    }
    Ok(())
}

/// The facts of an entry that differ from those that it should have.
struct Difference<'a> {
    owner: Option<&'a Owner>,
    missing: Vec<Xattr>,
    surplus: Vec<Vec<u8>>,
    mode: bool,
    time: bool,
}

impl Difference<'_> {
    fn is_none(&self) -> bool {
        self.owner.is_none() && self.missing.is_empty() && self.surplus.is_empty() && !self.mode && !self.time
    }
}

/// Compares an entry that is open with `O_PATH`. Links have neither modes nor attributes that are copied.
fn difference<'a>(fd: &impl AsFd, path: &RelPath, to: &WantedMetadata<'a>) -> Result<Difference<'a>> {
    let there = rustix::fs::fstat(fd).map_err(|e| error("examine", path, e))?;
    let is_link = rustix::fs::FileType::from_raw_mode(there.st_mode) == rustix::fs::FileType::Symlink;
    let owner = to.attributes.and_then(|to| to.owner.as_ref()).filter(|_| to.asked.owner);
    let mut missing = Vec::new();
    let mut surplus = Vec::new();
    if to.asked.xattrs && !is_link {
        let wanted = to.attributes.map_or(&[][..], |to| &to.xattrs);
        let has = xattrs(&by_descriptor(fd), path)?;
        missing.extend(wanted.iter().filter(|x| is_copied(&x.name) && !has.contains(x)).cloned());
        let is_wanted = |x: &Xattr| wanted.iter().any(|wanted| wanted.name == x.name);
        surplus.extend(has.into_iter().filter(|x| !is_wanted(x)).map(|x| x.name));
    }
    Ok(Difference {
        owner: owner.filter(|owner| ids(owner) != (there.st_uid, there.st_gid)),
        missing,
        surplus,
        mode: !is_link && there.st_mode & 0o7777 != to.mode & 0o7777,
        // Compared to the second: a file system may not be more exact.
        time: there.st_mtime != to.mtime.seconds,
    })
}

/// Whether an entry, open with `O_PATH`, has other facts than it should have.
pub(super) fn differs(fd: &impl AsFd, path: &RelPath, to: &WantedMetadata<'_>) -> Result<bool> {
    Ok(!difference(fd, path, to)?.is_none())
}

/// Gives an entry that is open with `O_PATH` the facts that it should have. Returns whether any were different.
pub(super) fn refresh(fd: &impl AsFd, path: &RelPath, to: &WantedMetadata<'_>) -> Result<bool> {
    let first = difference(fd, path, to)?;
    if let Some(owner) = first.owner {
        set_owner(fd, path, owner)?;
    }
    if !first.missing.is_empty() || !first.surplus.is_empty() {
        with_right_to_write(fd, path, || {
            set_xattrs(fd, path, &first.missing)?;
            remove_xattrs(fd, path, &first.surplus)
        })?;
    }
    // Mode and time are set last, because a change of owner clears mode bits and an ACL changes some.
    let last = difference(fd, path, &WantedMetadata { asked: AttributeSelection::default(), ..*to })?;
    let at = by_descriptor(fd);
    if last.mode {
        let mode = Mode::from_raw_mode(to.mode & 0o7777);
        rustix::fs::chmod(&at[..], mode).map_err(|e| error("set the mode of", path, e))?;
    }
    if last.time {
        rustix::fs::utimensat(rustix::fs::CWD, &at[..], &super::times(to.mtime), AtFlags::empty())
            .map_err(|e| error("set the time of", path, e))?;
    }
    Ok(!first.is_none() || !last.is_none())
}

/// Runs `act` with write permission for the owner: setting `user.…` attributes needs it (xattr(7)). If `act` fails, the mode is restored.
fn with_right_to_write(fd: &impl AsFd, path: &RelPath, act: impl Fn() -> Result<()>) -> Result<()> {
    match act() {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            let mode = rustix::fs::fstat(fd).map_err(|e| error("examine", path, e))?.st_mode & 0o7777;
            let set = |mode| rustix::fs::chmod(&by_descriptor(fd)[..], Mode::from_raw_mode(mode));
            set(mode | 0o200).map_err(|e| error("set the mode of", path, e))?;
            act().inspect_err(|_| {
                let _ = set(mode);
            })
        }
        done => done,
    }
}

fn remove_xattrs(fd: &impl AsFd, path: &RelPath, names: &[Vec<u8>]) -> Result<()> {
    let at = by_descriptor(fd);
    for name in names {
        match rustix::fs::removexattr(&at[..], &name[..]) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(e) => return Err(Error::io("remove an attribute of", path, e)),
        }
    }
    Ok(())
}
