//! Entries of a tree: their kinds, and the metadata that is sent with them.

/// A point in time as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanos: u32,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device: never copied, always counted and named.
    Special,
}

impl Kind {
    /// One letter, as `ls -l` shows it.
    pub fn letter(self) -> char {
        match self {
            Kind::File => '-',
            Kind::Dir => 'd',
            Kind::Symlink => 'l',
            Kind::Special => 's',
        }
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Dir => "dir",
            Kind::Symlink => "symlink",
            Kind::Special => "special",
        }
    }
}

/// The metadata that is always sent with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, 0 to 0o7777.
    pub mode: u32,
    /// Length in bytes; 0 for what is not a regular file.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Timestamp,
}

/// Metadata that is sent only where an option wants it, or where it differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Who owns it (`--owner`).
    pub owner: Option<Owner>,
    /// Extended attributes, POSIX ACLs among them (`--xattrs`).
    pub xattrs: Vec<Xattr>,
    /// A file with holes, which takes less space than its length: space for its full length must not be reserved.
    pub sparse: bool,
    /// A directory that is made only because entries lie below it: an existing one keeps its metadata.
    pub implied: bool,
}

impl Attributes {
    /// Whether all of them have their defaults.
    pub fn is_plain(&self) -> bool {
        *self == Attributes::default()
    }
}

/// Who owns an entry: names where the source knows them, since numbers differ from site to site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// User id at the source.
    pub uid: u32,
    /// Group id at the source.
    pub gid: u32,
    /// User name at the source; empty where it has none.
    pub user: String,
    /// Group name at the source; empty where it has none.
    pub group: String,
}

/// One extended attribute (xattr(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Its name, namespace included: `user.…` or `system.posix_acl_…`.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}
