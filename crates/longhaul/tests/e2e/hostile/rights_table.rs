//! The table of rights: the expected outcome of each verb, written down once for both protocols.
//!
//! A row has one letter for each verb, in the order of [`VERBS`]: `y` the verb is carried out, `.` the credential does not permit
//! it, `-` the name does not exist for this credential, `x` a rename out of the path of one grant, which no credential permits.

/// A verb that a client may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Stat,
    Digest,
    PutNew,
    Overwrite,
    MakeDir,
    Remove,
    RemoveAll,
    RenameWithin,
    RenameAcross,
}

/// All verbs, in the order of the letters of a row.
pub const VERBS: [Verb; 11] = [
    Verb::Get,
    Verb::List,
    Verb::Stat,
    Verb::Digest,
    Verb::PutNew,
    Verb::Overwrite,
    Verb::MakeDir,
    Verb::Remove,
    Verb::RemoveAll,
    Verb::RenameWithin,
    Verb::RenameAcross,
];

/// The place of a path relative to a credential for `data/a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRelation {
    /// `data/a`.
    Inside,
    /// `data/b`.
    Beside,
    /// `data` itself: the entries at its top.
    Above,
    /// Another export that may be written.
    OtherExport,
    /// An export that no client may write.
    ReadOnly,
}

impl PathRelation {
    /// The export, the directory of the path, and the directory that a rename leads to.
    pub fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            PathRelation::Inside => ("data", "a", "b"),
            PathRelation::Beside => ("data", "b", "a"),
            PathRelation::Above => ("data", "", "a"),
            PathRelation::OtherExport => ("other", "a", "b"),
            PathRelation::ReadOnly => ("fixed", "a", "b"),
        }
    }
}

/// The credential that is shown to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// None, to a node that admits no client without a key.
    Nothing,
    /// None, to a node with `--anonymous ro`.
    AnonymousReads,
    /// None, to a node with `--anonymous rw`.
    AnonymousWrites,
    ReadAll,
    CreateAll,
    WriteAll,
    ReadDir,
    CreateDir,
    WriteDir,
    /// For the file `data/a/f`.
    WriteFile,
    /// For the directories `data/a`, by the key, and `data/b`, by a rule that names the key.
    WriteTwoDirs,
    /// For the read-only export.
    WriteFixed,
    /// Made from a key for `data/a`; reads and lists.
    Macaroon,
    Expired,
    Revoked,
}

/// A row: the credential, the place, and the expected outcome of each verb.
pub type Row = (Credential, PathRelation, &'static str);

const REFUSED: &str = "...........";
const MISSING: &str = "-----------";
const READS: &str = "yyyy.......";
const WRITES: &str = "yyyyyyyyyyy";
const CREATES: &str = "....y.y....";
/// All verbs but a rename out of its directory.
const WRITES_HERE: &str = "yyyyyyyyyyx";

/// The table.
pub const TABLE: &[Row] = &[
    (Credential::Nothing, PathRelation::Inside, REFUSED),
    (Credential::Nothing, PathRelation::OtherExport, REFUSED),
    (Credential::Nothing, PathRelation::ReadOnly, REFUSED),
    (Credential::AnonymousReads, PathRelation::Inside, READS),
    (Credential::AnonymousReads, PathRelation::Above, READS),
    (Credential::AnonymousReads, PathRelation::OtherExport, READS),
    (Credential::AnonymousReads, PathRelation::ReadOnly, READS),
    (Credential::AnonymousWrites, PathRelation::Inside, WRITES),
    (Credential::AnonymousWrites, PathRelation::Above, WRITES),
    (Credential::AnonymousWrites, PathRelation::OtherExport, WRITES),
    (Credential::AnonymousWrites, PathRelation::ReadOnly, READS),
    (Credential::ReadAll, PathRelation::Inside, READS),
    (Credential::ReadAll, PathRelation::Above, READS),
    (Credential::ReadAll, PathRelation::OtherExport, MISSING),
    (Credential::ReadAll, PathRelation::ReadOnly, MISSING),
    (Credential::CreateAll, PathRelation::Inside, CREATES),
    (Credential::CreateAll, PathRelation::Above, CREATES),
    (Credential::CreateAll, PathRelation::OtherExport, MISSING),
    (Credential::WriteAll, PathRelation::Inside, WRITES),
    (Credential::WriteAll, PathRelation::Beside, WRITES),
    (Credential::WriteAll, PathRelation::Above, WRITES),
    (Credential::WriteAll, PathRelation::OtherExport, MISSING),
    (Credential::WriteAll, PathRelation::ReadOnly, MISSING),
    (Credential::ReadDir, PathRelation::Inside, READS),
    (Credential::ReadDir, PathRelation::Beside, REFUSED),
    (Credential::ReadDir, PathRelation::Above, REFUSED),
    (Credential::ReadDir, PathRelation::OtherExport, MISSING),
    (Credential::CreateDir, PathRelation::Inside, CREATES),
    (Credential::CreateDir, PathRelation::Beside, REFUSED),
    (Credential::CreateDir, PathRelation::Above, REFUSED),
    // Across: the credential does not cover the target at all.
    (Credential::WriteDir, PathRelation::Inside, "yyyyyyyyyy."),
    (Credential::WriteDir, PathRelation::Beside, REFUSED),
    (Credential::WriteDir, PathRelation::Above, REFUSED),
    (Credential::WriteDir, PathRelation::OtherExport, MISSING),
    (Credential::WriteFile, PathRelation::Inside, "y.yy.y.y..."),
    (Credential::WriteFile, PathRelation::Beside, REFUSED),
    (Credential::WriteFile, PathRelation::Above, REFUSED),
    (Credential::WriteTwoDirs, PathRelation::Inside, WRITES_HERE),
    (Credential::WriteTwoDirs, PathRelation::Beside, WRITES_HERE),
    (Credential::WriteTwoDirs, PathRelation::Above, REFUSED),
    (Credential::WriteTwoDirs, PathRelation::OtherExport, MISSING),
    (Credential::WriteFixed, PathRelation::ReadOnly, READS),
    (Credential::WriteFixed, PathRelation::Inside, MISSING),
    (Credential::Macaroon, PathRelation::Inside, READS),
    (Credential::Macaroon, PathRelation::Beside, REFUSED),
    (Credential::Macaroon, PathRelation::Above, REFUSED),
    (Credential::Expired, PathRelation::Inside, REFUSED),
    (Credential::Expired, PathRelation::OtherExport, REFUSED),
    (Credential::Revoked, PathRelation::Inside, REFUSED),
    (Credential::Revoked, PathRelation::OtherExport, REFUSED),
];

/// Where the two protocols differ on purpose, and why.
pub fn native_differs(credential: Credential) -> Option<&'static str> {
    (credential == Credential::Macaroon)
        .then_some("a macaroon is no key of the native protocol, which has no field for one")
}
