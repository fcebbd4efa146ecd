//! Who may do what where: what is expected, written down once for both protocols.
//!
//! A row has one letter for each verb, in the order of [`VERBS`]: `y` it is done, `.` the credential is not good for it, `-` there
//! is nothing of that name for this credential, `x` a rename that would leave what one permit opens, whoever asks.

/// What somebody may want.
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

/// All of them, as the letters of a row stand for them.
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

/// Where, seen from a credential for `data/a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// `data/a`.
    Inside,
    /// `data/b`.
    Beside,
    /// `data` itself: what lies at its top.
    Above,
    /// Another export that may be written.
    OtherExport,
    /// An export that nobody may write.
    ReadOnly,
}

impl Where {
    /// Export, the directory of what is asked for, and the one that a rename leads across to.
    pub fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Where::Inside => ("data", "a", "b"),
            Where::Beside => ("data", "b", "a"),
            Where::Above => ("data", "", "a"),
            Where::OtherExport => ("other", "a", "b"),
            Where::ReadOnly => ("fixed", "a", "b"),
        }
    }
}

/// What is shown to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Nothing, to a node that lets nobody in without a key.
    Nothing,
    /// Nothing, to a node of `--anonymous ro`.
    GuestReads,
    /// Nothing, to a node of `--anonymous rw`.
    GuestWrites,
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
    /// For the export that is read-only.
    WriteFixed,
    /// Made from a key for `data/a`; reads and lists.
    Macaroon,
    Expired,
    Revoked,
}

/// A row: credential, place, and what is expected of each verb.
pub type Row = (Credential, Where, &'static str);

const NO: &str = "...........";
const GONE: &str = "-----------";
const READS: &str = "yyyy.......";
const WRITES: &str = "yyyyyyyyyyy";
const CREATES: &str = "....y.y....";
/// All but to lead out of its directory.
const WRITES_HERE: &str = "yyyyyyyyyyx";

/// The table.
pub const TABLE: &[Row] = &[
    (Credential::Nothing, Where::Inside, NO),
    (Credential::Nothing, Where::OtherExport, NO),
    (Credential::Nothing, Where::ReadOnly, NO),
    (Credential::GuestReads, Where::Inside, READS),
    (Credential::GuestReads, Where::Above, READS),
    (Credential::GuestReads, Where::OtherExport, READS),
    (Credential::GuestReads, Where::ReadOnly, READS),
    (Credential::GuestWrites, Where::Inside, WRITES),
    (Credential::GuestWrites, Where::Above, WRITES),
    (Credential::GuestWrites, Where::OtherExport, WRITES),
    (Credential::GuestWrites, Where::ReadOnly, READS),
    (Credential::ReadAll, Where::Inside, READS),
    (Credential::ReadAll, Where::Above, READS),
    (Credential::ReadAll, Where::OtherExport, GONE),
    (Credential::ReadAll, Where::ReadOnly, GONE),
    (Credential::CreateAll, Where::Inside, CREATES),
    (Credential::CreateAll, Where::Above, CREATES),
    (Credential::CreateAll, Where::OtherExport, GONE),
    (Credential::WriteAll, Where::Inside, WRITES),
    (Credential::WriteAll, Where::Beside, WRITES),
    (Credential::WriteAll, Where::Above, WRITES),
    (Credential::WriteAll, Where::OtherExport, GONE),
    (Credential::WriteAll, Where::ReadOnly, GONE),
    (Credential::ReadDir, Where::Inside, READS),
    (Credential::ReadDir, Where::Beside, NO),
    (Credential::ReadDir, Where::Above, NO),
    (Credential::ReadDir, Where::OtherExport, GONE),
    (Credential::CreateDir, Where::Inside, CREATES),
    (Credential::CreateDir, Where::Beside, NO),
    (Credential::CreateDir, Where::Above, NO),
    // Across: the target is not the credential's at all.
    (Credential::WriteDir, Where::Inside, "yyyyyyyyyy."),
    (Credential::WriteDir, Where::Beside, NO),
    (Credential::WriteDir, Where::Above, NO),
    (Credential::WriteDir, Where::OtherExport, GONE),
    (Credential::WriteFile, Where::Inside, "y.yy.y.y..."),
    (Credential::WriteFile, Where::Beside, NO),
    (Credential::WriteFile, Where::Above, NO),
    (Credential::WriteTwoDirs, Where::Inside, WRITES_HERE),
    (Credential::WriteTwoDirs, Where::Beside, WRITES_HERE),
    (Credential::WriteTwoDirs, Where::Above, NO),
    (Credential::WriteTwoDirs, Where::OtherExport, GONE),
    (Credential::WriteFixed, Where::ReadOnly, READS),
    (Credential::WriteFixed, Where::Inside, GONE),
    (Credential::Macaroon, Where::Inside, READS),
    (Credential::Macaroon, Where::Beside, NO),
    (Credential::Macaroon, Where::Above, NO),
    (Credential::Expired, Where::Inside, NO),
    (Credential::Expired, Where::OtherExport, NO),
    (Credential::Revoked, Where::Inside, NO),
    (Credential::Revoked, Where::OtherExport, NO),
];

/// Where the two protocols differ on purpose, and why.
pub fn native_differs(credential: Credential) -> Option<&'static str> {
    (credential == Credential::Macaroon)
        .then_some("a macaroon is no key of the native protocol, which has no field for one")
}
